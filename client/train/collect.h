// Makes a running pair produce examples for an acceptance head: requests texts from the verifier
// until the file that its drafter writes holds enough.
//
// Thread: main.
#pragma once

#include <cstdint>

#include "client/console.h"
#include "client/options.h"
#include "common/base/status.h"
#include "common/training/head_data.h"

namespace outrider {

// What examples must have in common with the draft model that they are for.
struct DraftModel {
  int width = 0;  // hidden size
  uint64_t fingerprint = 0;
};

// The file must be for the draft model and for the options' sampling. kNotFound: it does not exist.
// kFailedPrecondition: it is for another model or sampling, no drafter is attached, or it does not
// grow although texts were drafted. Otherwise the error of the first failed request.
Status CollectHeadData(const TrainHeadOptions& options, const DraftModel& model,
                       const Console& console);

// Checks that `header` is for the model.
Status CheckModel(const TrainHeadOptions& options, const HeadDataHeader& header,
                  const DraftModel& model);

}  // namespace outrider
