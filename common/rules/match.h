// Verification by equality: a draft token stands where it is the token that the target itself puts
// there. Temperature 0 (the argmax), and sample-and-match (the winner of the race keyed by seed and
// position, common/spec/race.h; Daliri et al. 2024). The output is a function of the target alone:
// a draft, honest or not, changes only how fast it comes.
#pragma once

#include "common/spec/draft.h"
#include "common/spec/draft_tree.h"

namespace outrider {

// token_behind(node): the target's own token behind a node's prefix; asked along the accepted path.
template <class TokenBehind>
Verdict VerifyMatch(const DraftTree& tree, TokenBehind&& token_behind) {
  int node = DraftTree::kRoot;
  for (;;) {
    const TokenId next = token_behind(node);
    const int child = tree.Child(node, next);
    if (child < 0) return {.node = node, .accepted = tree.depth(node), .next = next};
    node = child;
  }
}

}  // namespace outrider
