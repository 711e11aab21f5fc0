// The distribution from which a draft token is sampled, exactly as it is sent. The drafter
// truncates its model's distribution to the top entries, rounds it to integer weights that sum to
// kDraftWeightTotal and samples from those integers; the verifier rebuilds the same distribution.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/math/softmax.h"
#include "common/math/weight_rounding.h"

namespace outrider {

// Entries in the drafter's descending order of weight; every weight >= 1, ids distinct. Empty: a
// point mass on the draft token (greedy drafts have no distributions).
struct DraftDistribution {
  std::vector<TokenId> ids;
  std::vector<uint32_t> weights;  // sum: kDraftWeightTotal
};

struct DraftDistributionLimits {
  float mass = 0.9995f;  // stop once the entries have this much
  int max_entries = 64;  // M
  friend bool operator==(const DraftDistributionLimits&, const DraftDistributionLimits&) = default;
};

// The top entries of `probs` [vocab] within the limits, rounded by largest remainders.
// Deterministic; ties go to the lower id.
DraftDistribution MakeDraftDistribution(std::span<const float> probs,
                                        const DraftDistributionLimits& limits);
// The same from the limits.max_entries largest entries, in any order.
DraftDistribution MakeDraftDistribution(std::vector<RowEntry> entries,
                                        const DraftDistributionLimits& limits);

// The token at `coin`, a uniform random number in [0, 1), of the cumulative weights.
TokenId SampleDraftDistribution(const DraftDistribution& q, double coin);

// Checks a distribution from a peer: sizes equal, not empty, ids distinct and in [0, vocab_size),
// weights >= 1 that sum to kDraftWeightTotal, and each of `tokens` among the ids.
Status Validate(const DraftDistribution& q, std::span<const TokenId> tokens, int vocab_size);

// q(token); 0 outside the support.
double Probability(const DraftDistribution& q, TokenId token);

}  // namespace outrider
