// A drafter in the verifier's process: a drafting loop on its own thread, attached to the pool
// without a network. It serves a single machine, and is the baseline for a remote drafter.
//
// Owner: main. Thread: main.
#pragma once

#include <memory>
#include <stop_token>
#include <thread>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/service/service_options.h"
#include "verifier/engine/engine_thread.h"
#include "verifier/pool/drafter_pool.h"

namespace outrider {

struct EmbeddedDrafterOptions {
  ServiceOptions service;  // of its model: directory, device, threads
  int ahead_tokens = 0;    // as DraftLoopOptions
  bool prefix_cache = true;
};

class EmbeddedDrafter {
 public:
  // Loads the model, beside `promised_bytes` of the target's (see ModelOptions), and attaches it.
  // `pool`, `thread` and `clock` must outlive it. `stop` ends the process while the model loads, as
  // in LoadServedModel. kFailedPrecondition: its vocabulary shares too little with the target's.
  static Result<std::unique_ptr<EmbeddedDrafter>> Start(const EmbeddedDrafterOptions& options,
                                                        int64_t promised_bytes, DrafterPool* pool,
                                                        EngineThread* thread, const Clock* clock,
                                                        const std::stop_token& stop);
  // Stops drafting. The pool may still send; nobody reads it.
  ~EmbeddedDrafter();
  EmbeddedDrafter(const EmbeddedDrafter&) = delete;
  EmbeddedDrafter& operator=(const EmbeddedDrafter&) = delete;

 private:
  struct Loop;
  explicit EmbeddedDrafter(std::shared_ptr<Loop> loop);

  const std::shared_ptr<Loop> loop_;  // with the pool's link to it
  std::thread thread_;
};

}  // namespace outrider
