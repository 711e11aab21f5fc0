// One round's proposal and verdict: the words that drafter, verifier and wire share.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/spec/draft_law.h"

namespace outrider {

// One draft sequence: tokens[i] was drawn from laws[i]. laws is empty for a greedy draft (every row
// a point mass), else as long as tokens.
struct DraftPath {
  std::vector<TokenId> tokens;
  std::vector<DraftLaw> laws;
};

enum class Rule { kToken, kBlock };
// "token", "block".
Result<Rule> ParseRule(std::string_view name);
std::string_view RuleName(Rule rule);

// What became of a round: the first `accepted` draft tokens stand, then `next` (the correction or
// the bonus token).
struct Verdict {
  int accepted = 0;
  TokenId next = -1;
};

}  // namespace outrider
