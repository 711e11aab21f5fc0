// What every verification rule takes: one round's draws with the rows of both models, and coins.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "common/base/types.h"
#include "common/math/accept.h"
#include "common/math/coins.h"
#include "common/spec/draft.h"
#include "common/spec/draft_tree.h"

namespace outrider {

// A round's draws as a tree (draft_tree.h says how nodes are numbered and draws ordered) and the
// laws behind its nodes. target(u) is the law of the token behind node u, draft(u) the law that the
// draws behind u came from; both are the final sampling laws, after warping and rounding. A rule
// asks for draws, then rows, of the nodes that it comes by, so that rows may be made when asked.
// Real: float in the engine, double in `simulate` and tests.
// Production: verify.cc. Exact laws: EnumeratedRound (enumerate.h).
template <class R>
concept DraftRound = requires(R& round, int node) {
  typename R::Real;
  typename R::Weight;
  { round.vocab() } -> std::convertible_to<int>;
  { round.draws(node) } -> std::convertible_to<std::span<const int32_t>>;
  { round.token(node) } -> std::same_as<TokenId>;
  { round.depth(node) } -> std::convertible_to<int>;
  { round.draft(node) } -> std::same_as<SparseRow<typename R::Weight>>;
  { round.target(node) } -> std::same_as<const typename R::Real*>;
};

// The randomness of a round, keyed by depth (accepted tokens in front of a decision), purpose and
// trial; each coin is asked for at most once and is independent of all others.
// Production: PhiloxCoins (philox_coins.h). Exact laws: EnumeratingCoins (enumerate.h).
template <class C>
concept RoundCoins = requires(C& coins, const ResidualRow<double, double>& law) {
  // True with the given probability; never at 0, always at 1.
  { coins.Flip(Purpose::kAccept, 0, 0, 0.5) } -> std::same_as<bool>;
  // The correction or bonus token behind `depth` accepted ones.
  { coins.Next(0, law) } -> std::same_as<TokenId>;
};

// Ends a round at `node` with a token drawn from max(scale P - Q, 0), or from P itself (scale 1, no
// entries).
template <DraftRound Round, class Weight, RoundCoins Coins>
Verdict StopAt(Round& round, int node, double scale, const SparseRow<Weight>& minus, Coins& coins) {
  const int depth = round.depth(node);
  const ResidualRow<typename Round::Real, Weight> law{scale, round.target(node), round.vocab(),
                                                      minus};
  return {.node = node, .accepted = depth, .next = coins.Next(depth, law)};
}

// A leaf: everything drafted on the way stands, the bonus token is the target's.
template <DraftRound Round, RoundCoins Coins>
Verdict StopAtLeaf(Round& round, int node, Coins& coins) {
  return StopAt(round, node, 1, SparseRow<typename Round::Weight>{}, coins);
}

}  // namespace outrider
