// Verification by equality: a draft token is accepted if it is the token that the target itself
// chooses there. Temperature 0 (the argmax), and sample-and-match (the winner of the race keyed by
// seed and position, common/spec/race.h; Daliri et al. 2024). The output is a function of the
// target alone: a draft, honest or not, changes only how fast it comes.
#pragma once

#include "common/rules/lanes.h"
#include "common/spec/draft.h"
#include "common/spec/draft_tree.h"

namespace outrider {

// The node at which the round ends: the end of the path of draft tokens that equal
// token_after(node), the target's own token after `node`, which is asked for along that path and
// follows its end.
template <class Round, class TokenAfter, class Lanes>
OUTRIDER_LANES int MatchingPath(const Round& round, TokenAfter token_after, const Lanes& lanes) {
  int node = DraftTree::kRoot;
  for (;;) {
    const TokenId next = token_after(node);
    const auto draws = round.draws(node);
    const int at = lanes.First(static_cast<int>(draws.size()), [&](int i) {
      return round.token(draws[static_cast<size_t>(i)]) == next;
    });
    if (at < 0) return node;
    node = static_cast<int>(draws[static_cast<size_t>(at)]);
  }
}

}  // namespace outrider
