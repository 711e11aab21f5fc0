// Parts of the rules as separate calls on the host, from which tests build other rules.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "common/rules/candidates.h"
#include "common/rules/match.h"
#include "common/rules/verify.h"
#include "tests/support/rule_math.h"

namespace outrider::testing {

template <class Round, class Coins>
Verdict StopAt(Round& round, int node, double scale, const SparseRow<double>& minus, Coins& coins) {
  return EndRound(round, Stop{node, scale, minus}, coins);
}
template <class Round, class Coins>
Verdict StopAtLeaf(Round& round, int node, Coins& coins) {
  return EndRound(round, outrider::StopAtLeaf(node), coins);
}

// Calls part(view) for a part of a rule, on the host. References from the view are valid until
// `part` returns.
template <class Round, class Part>
auto OnView(Round& round, Part part) {
  HostScratch memory;
  return part(RuleView(round, memory.For(round.max_depth(), round.max_entries()), OneLane()));
}

template <class Round, class Coins>
Verdict VerifyPath(Round& round, std::span<const int> nodes,
                   std::span<const SparseRow<double>> distributions, Coins& coins) {
  const Stop stop = OnView(round, [&](const auto& view) {
    std::copy(nodes.begin(), nodes.end(), view.scratch.nodes);
    const auto draft_at = [&](int i) { return distributions[static_cast<size_t>(i)]; };
    return outrider::VerifyPath(view, static_cast<int>(distributions.size()), draft_at, coins);
  });
  return EndRound(round, stop, coins);
}

template <class Round, class Coins>
int TryCandidates(Round& round, int node, const KSeq& kseq, const std::vector<RatioEntry>& entries,
                  Coins& coins) {
  return OnView(round, [&](const auto& view) {
    return outrider::TryCandidates(view, node, kseq, entries.data(),
                                   static_cast<int>(entries.size()), coins);
  });
}

// outrider::PathChoice with the distribution of the draft token that it accepts.
struct PathChoice {
  KSeq kseq;
  double kseq_share = 1;
  OwnedRow distribution;
};

inline PathChoice ChooseMix(const std::vector<RatioEntry>& entries, int k) {
  const auto n = static_cast<int>(entries.size());
  HostScratch memory;
  const RuleScratch scratch = memory.For(1, n);
  const outrider::PathChoice mix = outrider::ChooseMix(scratch, OneLane(), entries.data(), n, k);
  PathChoice choice{
      .kseq = mix.kseq, .kseq_share = mix.kseq_share, .distribution = RowOver(entries)};
  for (size_t i = 0; i < entries.size(); ++i) {
    choice.distribution.weights[i] = mix.Mixed(scratch, static_cast<int64_t>(i));
  }
  return choice;
}

template <class Round, class Coins>
int ChooseDraw(Round& round, int node, const PathChoice& choice,
               const std::vector<RatioEntry>& entries, Coins& coins) {
  outrider::PathChoice mix;
  mix.kseq = choice.kseq;
  mix.kseq_share = choice.kseq_share;
  return OnView(round, [&](const auto& view) {
    return outrider::ChooseDraw(view, node, mix, entries.data(), static_cast<int>(entries.size()),
                                coins);
  });
}

template <class TokenAfter>
Verdict VerifyMatch(const DraftTree& tree, TokenAfter token_after) {
  TokenId next = -1;
  const int node = MatchingPath(
      tree, [&](int tree_node) { return next = token_after(tree_node); }, OneLane());
  return {.node = node, .accepted = tree.depth(node), .next = next};
}

// The entry of a token; nullptr if the distribution cannot have produced it.
inline const RatioEntry* FindEntry(const std::vector<RatioEntry>& entries, TokenId id) {
  for (const RatioEntry& e : entries) {
    if (e.id == id) return &e;
  }
  return nullptr;
}

}  // namespace outrider::testing
