// What every verification rule takes: one round's draft with the rows of both models, and coins.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>

#include "common/base/types.h"
#include "common/math/accept.h"

namespace outrider {

// The draft X_1..X_g, g = tokens.size() (the length that it really has, not the one planned).
// Target row i is the law of the token behind i draft tokens; X_{i+1} was drawn from draft row i.
// All rows are the final sampling laws, after warping and rounding.
// Real: float in the engine, double in `simulate` and tests. Weight: uint32_t of a DraftLaw, or
// double.
template <class Real, class Weight>
struct Round {
  std::span<const TokenId> tokens;                // [g]
  std::span<const SparseRow<Weight>> draft_rows;  // [g]
  std::span<const Real> target_rows;              // [g + 1, vocab]
  int vocab = 0;

  int length() const { return static_cast<int>(tokens.size()); }
  TokenId token(int i) const { return tokens[static_cast<size_t>(i)]; }
  const SparseRow<Weight>& draft(int i) const { return draft_rows[static_cast<size_t>(i)]; }
  const Real* target(int i) const {
    return target_rows.data() + static_cast<size_t>(i) * static_cast<size_t>(vocab);
  }

  // What the token behind i accepted ones is drawn from: max(scale * P - Q, 0), or P behind the
  // last one.
  ResidualRow<Real, Weight> Next(int i, double scale) const {
    if (i == length()) return {1, target(i), vocab, {}};
    return {scale, target(i), vocab, draft(i)};
  }
};

// The randomness of a round. Rows count the accepted tokens in front of a decision, so draft token
// i + 1 asks for row i; each row's coin is asked for at most once and is independent of all others.
// Production: PhiloxCoins (verify.cc). Exact laws: EnumeratingCoins (enumerate.h).
template <class C>
concept RoundCoins = requires(C& coins, const ResidualRow<double, double>& law) {
  // True with the given probability; never at 0, always at 1.
  { coins.Accept(0, 0.5) } -> std::same_as<bool>;
  { coins.Next(0, law) } -> std::same_as<TokenId>;
};

}  // namespace outrider
