// outrider.v1.Drafting over a pool: one reactor a drafter's stream; messages are translated here
// and handled on the engine thread.
//
// Thread: gRPC's callback threads; nothing here waits.
#pragma once

#include <atomic>
#include <cstdint>

#include "outrider/v1/drafting.grpc.pb.h"
#include "verifier/engine/engine_thread.h"
#include "verifier/pool/drafter_pool.h"

namespace outrider {

class DraftingService final : public v1::Drafting::CallbackService {
 public:
  // Both must outlive the service. The pool is touched on the engine thread only.
  DraftingService(DrafterPool* pool, EngineThread* thread) : pool_(pool), thread_(thread) {}

  grpc::ServerBidiReactor<v1::FromDrafter, v1::FromVerifier>* Attach(
      grpc::CallbackServerContext* context) override;

 private:
  DrafterPool* pool_;
  EngineThread* thread_;
  std::atomic<uint64_t> next_id_{1};
};

}  // namespace outrider
