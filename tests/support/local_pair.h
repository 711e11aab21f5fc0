// A verifier's engine and a drafter's loop in one process and one thread: the same code as the two
// services, with messages passed directly instead of over the wire. For measuring the rules (and
// the cost of the split) without processes and sockets.
//
// Thread: one owner.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/clock.h"
#include "common/model/model.h"
#include "common/text/tokenizer.h"
#include "drafter/propose/draft_loop.h"
#include "verifier/engine/engine.h"
#include "verifier/pool/drafter_pool.h"

namespace outrider::testing {

struct LocalPairOptions {
  EngineOptions engine;
  DraftLoopOptions drafter;
  DraftDistributionLimits distribution_limits;
  // Early drafts are delivered after the verdict that they preceded; otherwise before it.
  bool drafts_cross_verdicts = false;
  const Tokenizer* draft_tokenizer = nullptr;  // nullptr: the target's
};

class LocalPair {
 public:
  // All must outlive the pair.
  LocalPair(const LocalPairOptions& options, Model* target, Model* drafter,
            const Tokenizer* tokenizer, const Clock* clock);
  ~LocalPair();

  Engine& engine() { return *engine_; }
  // Delivers messages and runs both sides until nothing is left to do.
  void Run();

  // Sizes of the drafts so far, as protobuf messages.
  int64_t draft_bytes() const { return draft_bytes_; }
  int64_t draft_messages() const { return draft_messages_; }

 private:
  class ToVerifier;

  void HandOver(std::vector<DraftPart> batch);

  const bool drafts_cross_verdicts_;
  std::unique_ptr<DrafterPool> pool_;
  std::unique_ptr<Engine> engine_;
  std::shared_ptr<DraftLoop> loop_;
  std::shared_ptr<ToVerifier> to_verifier_;
  int64_t draft_bytes_ = 0;
  int64_t draft_messages_ = 0;
};

}  // namespace outrider::testing
