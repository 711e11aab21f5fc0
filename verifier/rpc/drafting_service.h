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
#include "verifier/rpc/authorization.h"

namespace outrider {

class DraftingService final : public v1::Drafting::CallbackService {
 public:
  // All must outlive the service. The pool is touched on the engine thread only.
  DraftingService(const DrafterAuthorization* authorization, VerifierMetrics* metrics,
                  DrafterPool* pool, EngineThread* thread)
      : authorization_(authorization), metrics_(metrics), pool_(pool), thread_(thread) {}

  grpc::ServerBidiReactor<v1::FromDrafter, v1::FromVerifier>* Attach(
      grpc::CallbackServerContext* context) override;

 private:
  const DrafterAuthorization* authorization_;
  VerifierMetrics* metrics_;
  DrafterPool* pool_;
  EngineThread* thread_;
  std::atomic<uint64_t> next_id_{1};
};

}  // namespace outrider
