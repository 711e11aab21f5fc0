// The drafter as a service: builds the objects, drafts until a signal, and closes its streams.
//
// Thread: main.
#pragma once

#include "common/base/signals.h"
#include "common/base/status.h"
#include "common/service/served_model.h"
#include "drafter/options.h"

namespace outrider {

// Blocks until a signal has come and everything is closed. Returns the exit code: 3 if a verifier's
// refusal ended the process (--exit-on-refusal). `load_model`: of the draft model.
Result<int> Serve(const DrafterOptions& options, const StopOnSignal& signals,
                  const ModelLoader& load_model = LoadServedModel);

}  // namespace outrider
