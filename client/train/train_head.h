// outrider train-head: makes the acceptance head of a draft model from the examples that its
// drafter has written, or writes while a verifier is asked for texts.
//
// Thread: main.
#pragma once

#include "client/console.h"
#include "client/options.h"
#include "common/base/status.h"

namespace outrider {

// Every tenth prompt is kept from training and measured. The state is saved to OUT.state behind
// each epoch; a run that is started again with the same options goes on from there if the file
// still holds the examples that it began with. It is removed at the end.
Status RunTrainHead(const TrainHeadOptions& options, const Console& console);

}  // namespace outrider
