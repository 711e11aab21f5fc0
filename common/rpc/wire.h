// Messages of the contract as our plain structs and back, with every bound checked: protobuf types
// stop here.
#pragma once

#include "common/base/status.h"
#include "common/spec/draft.h"
#include "common/spec/sampling_params.h"
#include "outrider/v1/drafting.pb.h"
#include "outrider/v1/generation.pb.h"

namespace outrider {

void ToWire(const SamplingParams& params, v1::SamplingParams* wire);
// Values are not judged here (Validate of sampling_params.h does), only types.
SamplingParams FromWire(const v1::SamplingParams& wire);

void ToWire(const DraftPath& path, v1::DraftPath* wire);
// kInvalidArgument when rows and tokens differ in number or a row's arrays in length, or an id does
// not fit. The laws' sums are judged by Validate(DraftLaw).
Result<DraftPath> FromWire(const v1::DraftPath& wire);

}  // namespace outrider
