#include "verifier/engine/proposer_shares.h"

#include <numeric>

#include "verifier/engine/session.h"

namespace outrider {

void ProposerShares::OnRound(const Session& session, const Chunk& chunk, Time /*now*/) {
  // Decay of weights per round: the last 500 rounds have 63 % of the total.
  constexpr double kKept = 1 - 1.0 / 500;
  Proposer::Kind kind = Proposer::Kind::kNone;
  if (chunk.forced > 0) {
    kind = Proposer::Kind::kGrammar;
  } else if (chunk.drafted > 0) {
    kind = session.drafting.is_local() ? session.planner->proposer() : Proposer::Kind::kModel;
  }
  for (double& weight : weights_) weight *= kKept;
  weights_[static_cast<size_t>(kind)] += 1;
}

std::array<double, kProposerKinds> ProposerShares::Get() const {
  std::array<double, kProposerKinds> shares = weights_;
  const double rounds = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share = rounds > 0 ? share / rounds : 0;
  return shares;
}

}  // namespace outrider
