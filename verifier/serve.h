// The verifier as a service: builds the objects, serves until a signal, and drains.
//
// Thread: main.
#pragma once

#include "common/base/signals.h"
#include "common/base/status.h"
#include "common/service/served_model.h"
#include "verifier/options.h"

namespace outrider {

// Blocks until a signal has come and running requests have ended. `load_model`: of the target.
Status Serve(const VerifierOptions& options, const StopOnSignal& signals,
             const ModelLoader& load_model = LoadServedModel);

}  // namespace outrider
