// Counts who drafted recent rounds.
//
// Owner: the engine. Thread: the engine thread.
#pragma once

#include <array>

#include "verifier/engine/engine_observer.h"
#include "verifier/engine/planner.h"

namespace outrider {

class ProposerShares final : public EngineObserver {
 public:
  void OnRound(const Session& session, const Chunk& chunk, Time now) override;

  // Shares of the last 500 rounds or so, by Proposer::Kind; kNone: plain rounds. All 0 before the
  // first round.
  std::array<double, kProposerKinds> Get() const;

 private:
  std::array<double, kProposerKinds> weights_{};  // older rounds weigh less
};

}  // namespace outrider
