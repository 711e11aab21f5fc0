// Verification by equality: a draft token is accepted if the target itself chooses it. At
// temperature 0 that is the argmax; in sample-and-match it is the winner of the race keyed by seed
// and position (common/spec/race.h; Daliri et al. 2024). The output is a function of the target
// alone: a draft, honest or not, only affects the speed.
#pragma once

#include "common/rules/lanes.h"
#include "common/spec/draft.h"
#include "common/spec/draft_tree.h"

namespace outrider {

// The node at which the round ends: the end of the path of draft tokens that equal
// token_after(node), the target's own token after `node`. It is called along that path and once at
// its end.
template <class Round, class TokenAfter, class Lanes>
OUTRIDER_LANES int MatchingPath(const Round& round, TokenAfter token_after, const Lanes& lanes) {
  int node = DraftTree::kRoot;
  for (;;) {
    const TokenId next = token_after(node);
    const auto draws = round.draws(node);
    const int index = lanes.First(static_cast<int>(draws.size()), [&](int i) {
      return round.token(draws[static_cast<size_t>(i)]) == next;
    });
    if (index < 0) return node;
    node = static_cast<int>(draws[static_cast<size_t>(index)]);
  }
}

}  // namespace outrider
