// The exponential race (Gumbel-max by another name): token x arrives at time E_x / p(x), E_x ~
// Exp(1) independent; the first to arrive has distribution p exactly. The noise E is a function of
// (seed, position, token) alone, so that any process that holds a distribution close to p, at any
// time, most likely sees the same winner: two distributions p, q agree with probability at least
// (1 - d) / (1 + d), d their total variation distance (Daliri et al. 2024, "Coupling without
// Communication and Drafter-Invariant Speculative Decoding").
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/types.h"

namespace outrider {

// The first `count` arrivals in order (fewer if fewer have a positive probability); ties by the
// lower id. `position`: the token's place in the session, prompt included. Rows of different width
// see the same noise.
// Cost: one scan of the row for the largest entry of each tile of 256 tokens, and noise for those
// tiles alone whose first arrival could still win.
std::vector<TokenId> RaceWinners(std::span<const float> probs, int count, uint64_t seed,
                                 uint32_t position);

// The winner; -1 if all probabilities are 0.
TokenId RaceWinner(std::span<const float> probs, uint64_t seed, uint32_t position);

// The same race of p proportional to exp(logits / temperature), which it need not form: no pass of
// exponentials, no normaliser. NaN and -infinity never run. Empty without any finite logit, or with
// one of +infinity. temperature > 0.
std::vector<TokenId> RaceWinnersOfLogits(std::span<const float> logits, float temperature,
                                         int count, uint64_t seed, uint32_t position);

// When `token`, of probability `p` > 0, arrives in the race of (seed, position).
double ArrivalTime(TokenId token, double p, uint64_t seed, uint32_t position);

}  // namespace outrider
