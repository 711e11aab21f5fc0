// The exponential race (equivalent to Gumbel-max): token x arrives at time E_x / p(x), with
// independent E_x ~ Exp(1); the first to arrive has distribution p exactly. The noise E is a
// function of (seed, position, token) alone, so any process with a similar distribution most likely
// gets the same winner, at any time: two distributions p, q agree with probability at least (1 - d)
// / (1 + d), where d is their total variation distance (Daliri et al. 2024, "Coupling without
// Communication and Drafter-Invariant Speculative Decoding").
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/types.h"

namespace outrider {

// The first `count` arrivals in order (fewer if fewer have a positive probability); ties go to the
// lower id. `position`: the token's index in the session, including the prompt. Rows of different
// length see the same noise.
// Cost: one scan of the row for the largest entry of each tile of 256 tokens, and noise only for
// tiles whose first arrival could still win.
std::vector<TokenId> RaceWinners(std::span<const float> probs, int count, uint64_t seed,
                                 uint32_t position);

// The winner; -1 if all probabilities are 0.
TokenId RaceWinner(std::span<const float> probs, uint64_t seed, uint32_t position);

// The race of p proportional to exp(logits / temperature), without computing p: it needs no
// exponentials and no normaliser. NaN and -infinity never run. Empty if no logit is finite, or one
// is +infinity. temperature > 0.
std::vector<TokenId> RaceWinnersOfLogits(std::span<const float> logits, float temperature,
                                         int count, uint64_t seed, uint32_t position);

// When `token`, of probability `p` > 0, arrives in the race of (seed, position).
double ArrivalTime(TokenId token, double p, uint64_t seed, uint32_t position);

}  // namespace outrider
