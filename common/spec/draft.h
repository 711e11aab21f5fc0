// The verification rules by name, and what a rule decides.
#pragma once

#include <string_view>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/math/host_device.h"

namespace outrider {

// What each accepts and who published it: the rule's header in common/rules. The values are the
// wire's (proto/outrider/v1/generation.proto); 3 was greedy-block's.
enum class Rule {
  kToken = 1,
  kBlock = 2,
  kSpecTr = 4,
  kMultiRound = 5,
  kMultiPathBlock = 6,
  kGumbel = 7,
};

struct RuleTraits {
  Rule rule;
  std::string_view name;
  bool takes_many_paths;  // whether it verifies more than one sequence
};
inline constexpr RuleTraits kRuleTraits[] = {
    {Rule::kToken, "token", false},
    {Rule::kBlock, "block", false},
    {Rule::kSpecTr, "spectr", true},
    {Rule::kMultiRound, "multiround", true},
    {Rule::kMultiPathBlock, "multipath-block", true},
    {Rule::kGumbel, "gumbel", true},
};
std::string_view RuleName(Rule rule);
bool TakesManyPaths(Rule rule);
// kInvalidArgument lists the names.
Result<Rule> ParseRule(std::string_view name);

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
