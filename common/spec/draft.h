// The names of the verification rules, and their verdict.
#pragma once

#include <string_view>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/math/host_device.h"

namespace outrider {

// The header of each rule in common/rules describes it and names its source. The values are the
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

// How draft tokens are chosen. A request's rule and temperature determine it.
enum class DraftKind {
  kSampled,  // sampled from distributions that travel with them
  kArgmax,   // the most likely tokens, distinct (temperature 0)
  kRace,     // the winners of the race, distinct (kGumbel)
};
OUTRIDER_HD inline DraftKind DraftKindOf(Rule rule, bool greedy) {
  if (greedy) return DraftKind::kArgmax;
  return rule == Rule::kGumbel ? DraftKind::kRace : DraftKind::kSampled;
}

// A rule's decision on a round: the path to `node` of the draft tree is accepted (the root: no
// token is), and `next` follows, the recovered or bonus token.
struct Verdict {
  int node = 0;
  int accepted = 0;  // its depth: accepted draft tokens
  TokenId next = -1;
};

}  // namespace outrider
