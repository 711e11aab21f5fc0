// Rounds up the sizes of responses, so that the size on the wire does not reveal how many draft
// tokens were accepted.
#pragma once

#include "outrider/v1/generation.pb.h"

namespace outrider {

// Fills `padding` so that the serialized message is a multiple of `multiple` bytes; 0: no padding.
void Pad(int multiple, v1::GenerateResponse* response);

}  // namespace outrider
