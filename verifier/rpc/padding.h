// Responses of rounded sizes, so that the size on the wire does not tell how many tokens of a draft
// were accepted.
#pragma once

#include "outrider/v1/generation.pb.h"

namespace outrider {

// Fills `padding` so that the serialized message is a multiple of `multiple` bytes; 0: as it is.
void Pad(int multiple, v1::GenerateResponse* response);

}  // namespace outrider
