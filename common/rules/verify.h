// Calls the rule of a name, for a group of lanes that decides a round over target distributions.
//
// Cost: the target distributions that the rule needs, and O(entries of the draft distribution) for
// each of them.
#pragma once

#include "common/rules/block.h"
#include "common/rules/multipath_block.h"
#include "common/rules/multiround.h"
#include "common/rules/round_batch.h"
#include "common/rules/rule.h"
#include "common/rules/spectr.h"
#include "common/rules/token.h"

namespace outrider {

// For rules that only need a round and random numbers; greedy-block, which carries a state from
// round to round, is in greedy_block.h. Any other rule ignores the draft: the next token is the
// target's.
template <class View, class Coins>
OUTRIDER_LANES Stop Decide(Rule rule, const View& round, Coins& coins) {
  switch (rule) {
    case Rule::kToken: return VerifyToken(round, coins);
    case Rule::kBlock: return VerifyBlock(round, coins);
    case Rule::kSpecTr: return VerifySpecTr(round, coins);
    case Rule::kMultiRound: return VerifyMultiRound(round, coins);
    case Rule::kMultiPathBlock: return VerifyMultiPathBlock(round, coins);
    case Rule::kGumbel: break;  // needs no random numbers: match.h
  }
  return StopAtLeaf(DraftTree::kRoot);
}

// FirstTokenAcceptance of a round with draft tokens at its root.
template <class View>
OUTRIDER_LANES FirstTokenAcceptance WeighFirstToken(const View& round) {
  const int k = round.draws(DraftTree::kRoot);
  const SparseRow<double> draft = round.Draft(DraftTree::kRoot, 0);
  const RatioEntry* entries = round.Rank(DraftTree::kRoot, draft);
  const KSeq kseq = SolveKSeq(entries, draft.size, k);
  return {kseq.gain * kseq.beta, OptimalAcceptance(entries, draft.size, k)};
}

// Decides a whole round on the host.
template <DraftRound Round, RoundCoins Coins>
Verdict Verify(Rule rule, Round& round, Coins& coins, HostScratch& scratch) {
  const RuleView view(round, scratch.For(round.max_depth(), round.max_entries()), OneLane());
  return EndRound(round, Decide(rule, view, coins), coins);
}
template <DraftRound Round, RoundCoins Coins>
Verdict Verify(Rule rule, Round& round, Coins& coins) {
  HostScratch scratch;
  return Verify(rule, round, coins, scratch);
}

}  // namespace outrider
