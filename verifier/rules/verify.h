// The engine's entry to the rules: one session's round in, its verdict out. Pure: the same
// arguments give the same verdict.
//
// Thread: any. Cost: O(vocab) for the one row that the next token is drawn from, O(entries of a
// draft law) for every other row.
#pragma once

#include <cstdint>
#include <span>

#include "common/base/types.h"
#include "common/spec/draft.h"
#include "common/spec/draft_law.h"
#include "verifier/rules/block.h"
#include "verifier/rules/token.h"

namespace outrider {

template <class Real, class Weight, RoundCoins Coins>
Verdict Verify(Rule rule, const Round<Real, Weight>& round, Coins& coins) {
  return rule == Rule::kToken ? VerifyToken(round, coins) : VerifyBlock(round, coins);
}

// tokens: the draft, of any length, 0 included. laws: one a token, tokens[i] drawn from laws[i];
// an empty law, or no laws at all, is a point mass (greedy and lookup drafts). target_rows:
// [(tokens.size() + 1) x vocab] probabilities as Warper makes them, row i behind i draft tokens.
// Coins: (seed, round, depth) with purposes kAccept and kNextToken.
// REQUIRES: Validate(laws[i], tokens[i], vocab) was ok.
Verdict VerifyRound(Rule rule, std::span<const TokenId> tokens, std::span<const DraftLaw> laws,
                    std::span<const float> target_rows, int vocab, uint64_t seed, uint32_t round);

// Temperature 0, without rows of probabilities: argmax_rows[i] is what greedy decoding emits behind
// i draft tokens, [tokens.size() + 1]. Draft tokens stand while they equal it.
Verdict VerifyGreedy(std::span<const TokenId> tokens, std::span<const TokenId> argmax_rows);

}  // namespace outrider
