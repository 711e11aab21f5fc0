// Where the paths of a draft end before their full length. Every rule decides from what the drafter
// knows in front of a draw (its row of logits, the hidden states so far) whether the draw is the
// last of its path; the draw itself is made and sent either way, so that whether a token belongs to
// the draft never depends on its own value.
//
// The pass that made the row is paid for by then: its draw is a candidate that costs a row of
// verification alone (SpecDec++, Algorithm 2, keeps it likewise).
#pragma once

#include <string_view>

#include "common/base/status.h"
#include "common/spec/draft_distribution.h"

namespace outrider {

struct StopRule {
  enum class Kind {
    kLength,      // the plan's length alone
    kConfidence,  // the row's largest probability is below the threshold
    kEntropy,     // the row's entropy, in nats, is above the threshold
    // The acceptance head thinks it likelier than the threshold that some token in front is
    // rejected: 1 - prod P_i > h (Huang et al. 2024, SpecDec++). Without a head: kLength.
    kHead,
  };
  Kind kind = Kind::kLength;
  // kHead: 0 leaves it to the drafter, which knows its own speed.
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
// kHead's where nothing is known yet.
inline constexpr float kFirstHeadThreshold = 0.35f;
// For requests that name a rule alone.
float DefaultThreshold(StopRule::Kind kind);

// kHead's threshold at which going on stops to pay: one more depth costs `seconds`, in which the
// session would have got R * seconds tokens, and brings one if the path, the draft token that the
// head has not read yet and the next one are all accepted (one-step look-ahead on SpecDec++'s rule,
// which scores all tokens but the newest two):
//   h = 1 - R seconds / a^2
// R: tokens a second, a: the mean acceptance of a token. In [0.05, 0.95].
double PayingThreshold(double tokens_per_second, double seconds, double acceptance);

// Of entropies; above that of any vocabulary.
inline constexpr float kMaxEntropyThreshold = 32.f;
// kInvalidArgument: a threshold that is no number, negative, or above 1 (entropy: above
// kMaxEntropyThreshold; length: other than 0).
Status Validate(const StopRule& rule);

// Whether a token drawn from this distribution, as it is sent, is the last of its path, by
// kConfidence or kEntropy; false for other rules.
bool Stops(const StopRule& rule, const DraftDistribution& distribution);
// The same where the row's largest probability (kConfidence) or its entropy is known.
bool StopsAtMeasure(const StopRule& rule, float measure);

}  // namespace outrider
