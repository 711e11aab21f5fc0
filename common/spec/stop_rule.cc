#include "common/spec/stop_rule.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/short_number.h"

namespace outrider {
std::string_view StopRuleName(StopRule::Kind kind) {
  switch (kind) {
    case StopRule::Kind::kLength: return "length";
    case StopRule::Kind::kConfidence: return "confidence";
    case StopRule::Kind::kEntropy: return "entropy";
    case StopRule::Kind::kHead: return "head";
  }
  return "";
}

Result<StopRule::Kind> ParseStopRule(std::string_view name) {
  std::string names;
  for (const StopRule::Kind kind : kAllStopKinds) {
    if (name == StopRuleName(kind)) return kind;
    names += (names.empty() ? "" : ", ") + std::string(StopRuleName(kind));
  }
  return InvalidArgument("stop rule \"" + std::string(name) + "\" is none of " + names);
}

float DefaultThreshold(StopRule::Kind kind) {
  switch (kind) {
    case StopRule::Kind::kConfidence: return 0.3f;
    case StopRule::Kind::kEntropy: return 2.f;
    case StopRule::Kind::kLength:
    case StopRule::Kind::kHead: break;
  }
  return 0.f;
}

double PayingThreshold(double tokens_per_second, double seconds, double acceptance) {
  const double a = std::max(acceptance, 1e-3);
  return std::clamp(1 - tokens_per_second * seconds / (a * a), 0.05, 0.95);
}

Status Validate(const StopRule& rule) {
  if (rule.kind == StopRule::Kind::kLength) {
    if (rule.threshold == 0.f) return Status();
    return InvalidArgument("stop rule length: threshold " + ShortNumber(rule.threshold) +
                           ", but it takes none; choose confidence, entropy or head");
  }
  const float most = rule.kind == StopRule::Kind::kEntropy ? kMaxEntropyThreshold : 1.f;
  if (rule.threshold >= 0.f && rule.threshold <= most) return Status();  // false for NaN
  return InvalidArgument("stop rule " + std::string(StopRuleName(rule.kind)) + ": threshold " +
                         ShortNumber(rule.threshold) + ", from 0 to " + ShortNumber(most));
}

bool Stops(const StopRule& rule, const DraftDistribution& distribution) {
  constexpr auto kTotal = static_cast<double>(kDraftWeightTotal);
  const std::vector<uint32_t>& weights = distribution.weights;
  if (rule.kind == StopRule::Kind::kConfidence) {
    const auto largest = std::ranges::max_element(weights);
    // An empty distribution is a point mass, which is certain.
    return largest == weights.end() || *largest < static_cast<double>(rule.threshold) * kTotal;
  }
  if (rule.kind != StopRule::Kind::kEntropy) return false;
  double entropy = 0;
  for (const uint32_t weight : weights) {
    const double p = weight / kTotal;
    if (p > 0) entropy -= p * std::log(p);
  }
  return entropy > static_cast<double>(rule.threshold);
}

bool StopsAtMeasure(const StopRule& rule, float measure) {
  if (rule.kind == StopRule::Kind::kConfidence) return measure < rule.threshold;
  return rule.kind == StopRule::Kind::kEntropy && measure > rule.threshold;
}

}  // namespace outrider
