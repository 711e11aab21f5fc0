// Has a running pair make examples for an acceptance head: asks the verifier for texts until the
// file that its drafter writes holds enough.
//
// Thread: main.
#pragma once

#include <cstdint>

#include "client/console.h"
#include "client/options.h"
#include "common/base/status.h"
#include "common/training/head_data.h"

namespace outrider {

// The file must be that of the draft model `model` (a ModelFingerprint) and of the options'
// sampling. kNotFound without it, kFailedPrecondition when it is another's, when no drafter is
// attached or when the file does not grow though texts were drafted; else the first failed
// request's.
Status CollectHeadData(const TrainHeadOptions& options, uint64_t model, const Console& console);

// That `header` is of the model.
Status CheckModel(const TrainHeadOptions& options, const HeadDataHeader& header, uint64_t model);

}  // namespace outrider
