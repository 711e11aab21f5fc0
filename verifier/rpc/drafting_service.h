// Serves outrider.v1.Drafting over a pool, with one reactor per drafter's stream. Messages are
// translated here and handled on the engine thread.
//
// Thread: gRPC's callback threads; nothing here blocks.
#pragma once

#include <atomic>
#include <cstdint>

#include "common/rpc/incoming.h"
#include "outrider/v1/drafting.grpc.pb.h"
#include "verifier/engine/engine_thread.h"
#include "verifier/pool/drafter_pool.h"
#include "verifier/rpc/authorization.h"

namespace outrider {

// The largest message of a drafter has an entry for each draft and for each distribution: about a
// thousand drafts with 64 distributions each.
inline constexpr MessageLimits kDrafterMessage{.bytes = 16 << 20, .entries = 1 << 18};

class DraftingService final : public v1::Drafting::CallbackService {
 public:
  // All must outlive the service. The pool is only used on the engine thread.
  DraftingService(const DrafterAuthorization* authorization, VerifierMetrics* metrics,
                  DrafterPool* pool, EngineThread* thread);

 private:
  // The method Attach. Its messages are parsed here, so that a malformed one ends the drafter's
  // stream with an explanation.
  grpc::ServerBidiReactor<Incoming<v1::FromDrafter>, grpc::ByteBuffer>* Open(
      grpc::CallbackServerContext* context);

  const DrafterAuthorization* authorization_;
  VerifierMetrics* metrics_;
  DrafterPool* pool_;
  EngineThread* thread_;
  // The target's, as it is sent: megabytes that drafters share and the engine thread does not copy.
  const grpc::ByteBuffer vocabulary_;
  std::atomic<uint64_t> next_id_{1};
};

}  // namespace outrider
