// Multi-round rejection: Miao et al. 2023 ("SpecInfer"), also EAGLE's and Sequoia's rule with
// independent draws. Each draw behind the accepted prefix is tried against what the draws before it
// have left of the target. The baseline that people know; k-SEQ and the multi-path block rule
// accept more.
#pragma once

#include "common/rules/candidates.h"
#include "common/rules/rule.h"

namespace outrider {

template <DraftRound Round, RoundCoins Coins>
Verdict VerifyMultiRound(Round& round, Coins& coins) {
  int node = DraftTree::kRoot;
  while (!round.draws(node).empty()) {
    const std::vector<RatioEntry> entries = RankEntries(round.target(node), round.draft(node));
    const std::span<const int32_t> draws = round.draws(node);
    RecursiveRest rest;
    int chosen = -1;
    for (size_t i = 0; i < draws.size() && chosen < 0; ++i) {
      const RatioEntry* entry = FindEntry(entries, round.token(draws[i]));
      const double accept = entry == nullptr ? 0 : rest.Trial(entry->p, entry->q);
      if (coins.Flip(Purpose::kTrial, round.depth(node), static_cast<int>(i), accept)) {
        chosen = draws[i];
      } else {
        rest.Reject(entries.data(), static_cast<int>(entries.size()));
      }
    }
    if (chosen < 0) {
      OwnedRow taken = RowOver(entries);
      for (size_t i = 0; i < entries.size(); ++i) taken.weights[i] = rest.d * entries[i].q;
      return StopAt(round, node, 1, taken.row(), coins);
    }
    node = chosen;
  }
  return StopAtLeaf(round, node, coins);
}

}  // namespace outrider
