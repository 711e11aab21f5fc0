// The inputs of every verification rule: one round's draft tree with the distributions of both
// models, and uniform random numbers ("coins"); and its result.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "common/base/types.h"
#include "common/math/accept.h"
#include "common/math/coins.h"
#include "common/rules/lanes.h"
#include "common/rules/rule_scratch.h"
#include "common/spec/draft.h"
#include "common/spec/draft_tree.h"

namespace outrider {

// A round's draft as a tree (draft_tree.h defines the order of nodes and draft tokens) and the
// distributions at its nodes. target(u) is the target distribution of the token after node u;
// draft(u) is the one from which the draft tokens after u were sampled; both are the ones actually
// sampled from, after temperature, truncation and rounding. draft(u) has no entry of probability 0.
// A rule asks for the draft tokens and then the distributions of the nodes that it reaches, so they
// may be computed on demand. Real: float in production, double in `simulate` and tests.
// Production: BatchedRound (round_batch.h). Exact distributions: EnumeratedRound (enumerate.h).
template <class R>
concept DraftRound = requires(R& round, int node) {
  typename R::Real;
  { round.vocab() } -> std::convertible_to<int>;
  { round.max_depth() } -> std::convertible_to<int>;
  { round.max_entries() } -> std::convertible_to<int>;  // of draft(), of any node
  { round.draws(node).size() } -> std::convertible_to<size_t>;
  { round.draws(node)[0] } -> std::convertible_to<int>;  // the child node
  { round.token(node) } -> std::same_as<TokenId>;
  { round.depth(node) } -> std::convertible_to<int>;
  { round.draft(node).Probability(0) } -> std::same_as<double>;
  { round.target(node) } -> std::convertible_to<const typename R::Real*>;
};

// The random numbers of a round, keyed by depth (accepted tokens before a decision), purpose and
// trial. Each is used at most once and is independent of all others.
// Production: PhiloxCoins (philox_coins.h). Exact distributions: EnumeratingCoins (enumerate.h).
template <class C>
concept RoundCoins = requires(C& coins, const ResidualRow<double>& distribution) {
  // True with the given probability: never at 0, always at 1.
  { coins.Flip(Purpose::kAccept, 0, 0, 0.5) } -> std::same_as<bool>;
  // The recovered or bonus token after `depth` accepted ones.
  { coins.Next(0, distribution) } -> std::same_as<TokenId>;
};

// The end of a round: the path to `node` is accepted, and the next token is sampled from max(scale
// P - Q, 0), where P is the target distribution at `node` and Q is `minus`.
struct Stop {
  int node;
  double scale;
  SparseRow<double> minus;
};

// Ends a round at a leaf: the whole path is accepted, and the bonus token is sampled from the
// target distribution.
OUTRIDER_LANES inline Stop StopAtLeaf(int node) { return {node, 1, {nullptr, nullptr, 0, 1}}; }

// A round as a group of lanes sees it. All lanes make every call together.
template <class Round, class Lanes>
class RuleView {
 public:
  OUTRIDER_LANES RuleView(Round& round, const RuleScratch& memory, const Lanes& group)
      : scratch(memory), lanes(group), round_(round) {}

  const RuleScratch scratch;
  const Lanes lanes;

  OUTRIDER_LANES int draws(int node) const { return static_cast<int>(round_.draws(node).size()); }
  OUTRIDER_LANES int draw(int node, int i) const {
    return static_cast<int>(round_.draws(node)[static_cast<size_t>(i)]);
  }
  OUTRIDER_LANES TokenId token(int node) const { return round_.token(node); }
  OUTRIDER_LANES int depth(int node) const { return static_cast<int>(round_.depth(node)); }

  // The draft distribution at `node`, copied to `slot` of the scratch memory.
  OUTRIDER_LANES SparseRow<double> Draft(int node, int slot) const {
    const auto draft = round_.draft(node);
    return Store(
        slot, draft.size, [&](int i) { return draft.ids[i]; },
        [&](int i) { return draft.Probability(i); });
  }
  // A distribution over the tokens of `entries`, with probabilities of(i), in `slot`.
  template <class Of>
  OUTRIDER_LANES SparseRow<double> Over(const RatioEntry* entries, int n, int slot, Of of) const {
    return Store(
        slot, n, [&](int i) { return entries[i].id; }, of);
  }
  // The distribution in `slot`, over the tokens of the one at `node`.
  OUTRIDER_LANES SparseRow<double> Stored(int slot, int node) const {
    return {scratch.ids + slot * scratch.max_entries, scratch.weights + slot * scratch.max_entries,
            round_.draft(node).size, 1};
  }

  // AcceptedMass and ResidualMass of accept.h.
  OUTRIDER_LANES double Accepted(double p, int node, const SparseRow<double>& draft,
                                 TokenId token) const {
    const int index = lanes.First(draft.size, [&](int i) { return draft.ids[i] == token; });
    return index < 0 ? 0 : AcceptedMass(p, Target(node, token), draft.Probability(index));
  }
  OUTRIDER_LANES double Residual(double p, int node, const SparseRow<double>& draft) const {
    const double overlap = OverlapMass(p, round_.target(node), draft, lanes.lane(), lanes.count());
    return ResidualMass(p, lanes.Sum(overlap));
  }

  // The entries of a draft distribution at `node`, with the target's probabilities, in the order of
  // RanksBefore. Valid until the next call.
  OUTRIDER_LANES const RatioEntry* Rank(int node, const SparseRow<double>& draft) const {
    lanes.Sync();
    for (int i = lanes.lane(); i < draft.size; i += lanes.count()) {
      scratch.entries[i] = {draft.ids[i], Target(node, draft.ids[i]), draft.Probability(i)};
    }
    lanes.Sync();
    lanes.Rank(scratch.entries, draft.size, scratch.ranked);
    lanes.Sync();
    return scratch.ranked;
  }
  // The index of a token's entry; -1 if the distribution cannot have produced it.
  OUTRIDER_LANES int Find(const RatioEntry* entries, int n, TokenId token) const {
    return lanes.First(n, [&](int i) { return entries[i].id == token; });
  }

 private:
  OUTRIDER_LANES double Target(int node, TokenId token) const {
    return static_cast<double>(round_.target(node)[token]);
  }
  template <class Id, class Of>
  OUTRIDER_LANES SparseRow<double> Store(int slot, int n, Id id, Of of) const {
    lanes.Sync();  // others may still read the previous contents
    TokenId* ids = scratch.ids + slot * scratch.max_entries;
    double* weights = scratch.weights + slot * scratch.max_entries;
    for (int i = lanes.lane(); i < n; i += lanes.count()) {
      ids[i] = id(i);
      weights[i] = of(i);
    }
    lanes.Sync();
    return {ids, weights, n, 1};
  }

  Round& round_;
};

// The verdict of a round that a rule has stopped. For the host; on a GPU the lanes sample together.
template <DraftRound Round, RoundCoins Coins>
Verdict EndRound(Round& round, const Stop& stop, Coins& coins) {
  const int depth = round.depth(stop.node);
  const ResidualRow<typename Round::Real> next{stop.scale, round.target(stop.node), round.vocab(),
                                               stop.minus};
  return {.node = stop.node, .accepted = depth, .next = coins.Next(depth, next)};
}

}  // namespace outrider
