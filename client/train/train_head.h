// outrider train-head: trains the acceptance head of a draft model on examples that its drafter has
// written, or writes while this command requests texts from a verifier.
//
// Thread: main.
#pragma once

#include "client/console.h"
#include "client/options.h"
#include "common/base/status.h"

namespace outrider {

// Every tenth prompt is held out and measured. The state is saved to OUT.state after each epoch. A
// run with the same options continues from there if the file still holds the examples that it began
// with. The state is removed at the end.
Status RunTrainHead(const TrainHeadOptions& options, const Console& console);

}  // namespace outrider
