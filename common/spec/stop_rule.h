// Decides where paths of a draft end before their full length. Every rule uses what the drafter
// knows before it samples a token (its logits row, the hidden states so far) to decide whether that
// token is the last of its path. The token is sampled and sent either way, so that its membership
// in the draft never depends on its own value.
//
// The pass that computed the row is already paid for, so its token only costs a row of verification
// (SpecDec++, Algorithm 2, keeps it likewise).
#pragma once

#include <string_view>

#include "common/base/status.h"
#include "common/spec/draft_distribution.h"

namespace outrider {

struct StopRule {
  enum class Kind {
    kLength,      // only the plan's length
    kConfidence,  // the row's largest probability is below the threshold
    kEntropy,     // the row's entropy, in nats, is above the threshold
    // The acceptance head predicts with a probability above the threshold that some token before is
    // rejected: 1 - prod P_i > h (Huang et al. 2024, SpecDec++). Without a head: kLength.
    kHead,
  };
  Kind kind = Kind::kLength;
  // For kHead, 0 leaves it to the drafter, which knows its own speed.
  float threshold = 0.f;
  friend bool operator==(const StopRule&, const StopRule&) = default;
};

inline constexpr StopRule::Kind kAllStopKinds[] = {StopRule::Kind::kLength,
                                                   StopRule::Kind::kConfidence,
                                                   StopRule::Kind::kEntropy, StopRule::Kind::kHead};

// "length", "confidence", "entropy", "head".
std::string_view StopRuleName(StopRule::Kind kind);
// kInvalidArgument lists the names.
Result<StopRule::Kind> ParseStopRule(std::string_view name);
// kHead's threshold until something has been observed.
inline constexpr float kFirstHeadThreshold = 0.35f;
// For requests that only name a rule.
float DefaultThreshold(StopRule::Kind kind);

// kHead's threshold beyond which continuing does not pay. One more depth costs `seconds`, in which
// the session would have got R * seconds tokens, and yields one if the path, the draft token that
// the head has not read yet and the next one are all accepted (one-step look-ahead on SpecDec++'s
// rule, which scores all tokens but the newest two):
//   h = 1 - R seconds / a^2
// R: tokens per second, a: the mean acceptance of a token. In [0.05, 0.95].
double PayingThreshold(double tokens_per_second, double seconds, double acceptance);

// The largest entropy threshold; above the entropy of any vocabulary.
inline constexpr float kMaxEntropyThreshold = 32.f;
// kInvalidArgument: a threshold that is NaN, negative, or above 1 (entropy: above
// kMaxEntropyThreshold; length: other than 0).
Status Validate(const StopRule& rule);

// Whether kConfidence or kEntropy ends the path with a token sampled from this distribution, as it
// is sent; false for other rules.
bool Stops(const StopRule& rule, const DraftDistribution& distribution);
// The same for a known largest probability (kConfidence) or entropy of the row.
bool StopsAtMeasure(const StopRule& rule, float measure);

}  // namespace outrider
