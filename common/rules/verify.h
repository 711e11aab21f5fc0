// The engine's entry to the rules: one session's round in, its verdict out. Pure: the same
// arguments give the same verdict.
//
// Thread: any. Cost: the target rows that the rule comes by, O(vocab) for the one row that the next
// token is drawn from, O(entries of a draft law) for every other row.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "common/base/check.h"
#include "common/base/types.h"
#include "common/rules/block.h"
#include "common/rules/match.h"
#include "common/rules/multipath_block.h"
#include "common/rules/multiround.h"
#include "common/rules/spectr.h"
#include "common/rules/token.h"
#include "common/spec/draft.h"
#include "common/spec/draft_tree.h"

namespace outrider {

// The rules that need nothing but a round and coins. Not greedy-block (it carries a state from
// round to round: greedy_block.h) and not gumbel (it has no coins: match.h).
template <DraftRound Round, RoundCoins Coins>
Verdict Verify(Rule rule, Round& round, Coins& coins) {
  switch (rule) {
    case Rule::kToken: return VerifyToken(round, coins);
    case Rule::kBlock: return VerifyBlock(round, coins);
    case Rule::kSpecTr: return VerifySpecTr(round, coins);
    case Rule::kMultiRound: return VerifyMultiRound(round, coins);
    case Rule::kMultiPathBlock: return VerifyMultiPathBlock(round, coins);
    case Rule::kGreedyBlock:
    case Rule::kGumbel: break;
  }
  OUTRIDER_CHECK(false);
  return {};
}

// The warped target row behind a node of the tree, [vocab] probabilities as Warper makes them.
// Asked once or more for each node that the rule comes by; the row stays valid until VerifyRound
// returns.
using TargetRowFn = std::function<std::span<const float>(int node)>;

// A round of any rule but greedy-block. `position`: the place of the first token of the round in
// the session, prompt included (gumbel keys its noise by it). Coins: (seed, round, depth). A node
// with draws but without a law holds point masses. REQUIRES: Validate(tree, its shape, ..) was ok.
Verdict VerifyRound(Rule rule, const DraftTree& tree, const TargetRowFn& target_row, int vocab,
                    uint64_t seed, uint32_t round, uint32_t position);

// How much the first token of a round can be accepted: by k-SEQ over the draws behind the root, and
// at most, by any rule that picks one of them or another token (SpecTr's alpha_k). Both 1 - d_TV
// for one draw. O(M log M) for a law of M entries.
struct FirstTokenAcceptance {
  double kseq = 0;
  double optimum = 0;
};
FirstTokenAcceptance AcceptanceOfFirstToken(const DraftTree& tree,
                                            std::span<const float> target_row);

}  // namespace outrider
