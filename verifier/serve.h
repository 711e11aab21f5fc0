// The verifier as a service: builds the objects, serves until a signal, drains.
//
// Thread: main.
#pragma once

#include <functional>
#include <memory>

#include "common/base/clock.h"
#include "common/base/signals.h"
#include "common/base/status.h"
#include "common/text/tokenizer.h"
#include "verifier/engine/engine_thread.h"
#include "verifier/options.h"
#include "verifier/pool/drafter_pool.h"

namespace outrider {

// What a drafter in the verifier's own process attaches to.
struct AttachPoint {
  const Tokenizer* tokenizer;
  const Clock* clock;
  DrafterPool* pool;  // engine thread only
  EngineThread* thread;
};
// Called once, before the first request. What it returns is kept until the engine thread has
// stopped, and goes before pool and thread do.
using AttachFn = std::function<Result<std::shared_ptr<void>>(const AttachPoint&)>;

// Blocks until a signal has come and what was running has ended.
Status Serve(const VerifierOptions& options, const StopOnSignal& signals,
             const AttachFn& attach = nullptr);

}  // namespace outrider
