// Enumerates every outcome of one round of `outrider simulate` with its probability: all draft
// tokens and random numbers are run through the production rules.
//
// Thread: any; no state.
#pragma once

#include <functional>
#include <span>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/rules/greedy_block.h"
#include "simulate/figures.h"

namespace outrider {

// What the next round depends on from the ones before.
struct RoundStart {
  TokenId last = -1;  // -1: none
  GreedyCarry carry;  // greedy-block; empty for all other rules
};

// The tokens that a round emits, of which all but the last are accepted draft tokens, the
// probability, and the state that the round carries over.
using EmitFn = std::function<void(std::span<const TokenId> tokens, int accepted, double probability,
                                  const GreedyCarry& carry)>;

// Calls `emit` once or several times for each outcome. A round of one token with too many drafts to
// enumerate is computed from the closed forms of common/math/kseq.h instead.
// REQUIRES: CheckRoundCost(simulation) was ok.
void EnumerateRound(const Simulation& simulation, const RoundStart& start, const EmitFn& emit);

// Upper bound of the cost of a round: calls of `emit` plus a run of the rule for each combination
// of draft tokens and random numbers.
double RoundCost(const Simulation& simulation);

inline constexpr double kMaxExactCost = 1 << 21;  // over all rounds; about ten seconds

// kInvalidArgument if even the first round costs more than kMaxExactCost.
Status CheckRoundCost(const Simulation& simulation);

}  // namespace outrider
