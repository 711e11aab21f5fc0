// The verification rules by name, and what a rule decides.
#pragma once

#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/math/host_device.h"

namespace outrider {

// What each accepts and who published it: the rule's header in common/rules.
enum class Rule {
  kToken,
  kBlock,
  kSpecTr,
  kMultiRound,
  kMultiPathBlock,
  kGumbel,
};

inline constexpr Rule kAllRules[] = {Rule::kToken,      Rule::kBlock,          Rule::kSpecTr,
                                     Rule::kMultiRound, Rule::kMultiPathBlock, Rule::kGumbel};

// "token", "block", "spectr", "multiround", "multipath-block", "gumbel".
std::string_view RuleName(Rule rule);
// kInvalidArgument lists the names.
Result<Rule> ParseRule(std::string_view name);

// Whether the rule verifies more than one sequence.
bool TakesManyPaths(Rule rule);
// How draft tokens come about; which one a request needs follows from its rule and temperature.
enum class DraftKind {
  kSampled,  // drawn from distributions that travel with them
  kArgmax,   // the most likely ones, distinct (temperature 0)
  kRace,     // the winners of the race, distinct (kGumbel)
};
OUTRIDER_HD inline DraftKind DraftKindOf(Rule rule, bool greedy) {
  if (greedy) return DraftKind::kArgmax;
  return rule == Rule::kGumbel ? DraftKind::kRace : DraftKind::kSampled;
}

// How a rule decided a round: the path to `node` of the draft's tree is accepted (the root: no
// token is), then `next` follows, the recovered or bonus token.
struct Verdict {
  int node = 0;
  int accepted = 0;  // its depth: accepted draft tokens
  TokenId next = -1;
};

}  // namespace outrider
