// Every way in which one round of `outrider simulate` can go, with its probability: draws and coins
// are enumerated and run through the production rules.
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

// What the next round can know of the ones before.
struct RoundStart {
  TokenId last = -1;  // -1: none
  GreedyCarry carry;  // greedy-block; empty for all other rules
};

// The tokens that a round emits, how many of them are draft tokens that stand (all but the last),
// the probability, and what the round carries over.
using EmitFn = std::function<void(std::span<const TokenId> tokens, int accepted, double probability,
                                  const GreedyCarry& carry)>;

// Calls emit one or several times for each emission. A round of one token whose draws are too many
// to enumerate is computed from the closed forms of common/math/kseq.h instead.
// REQUIRES: CheckRoundCost(simulation) was ok.
void EnumerateRound(const Simulation& simulation, const RoundStart& start, const EmitFn& emit);

// Upper bound of what a round costs: calls of emit and a run of the rule for each way in which
// draws and coins can fall.
double RoundCost(const Simulation& simulation);

inline constexpr double kMaxExactCost = 1 << 21;  // over all rounds; ten seconds or so

// kInvalidArgument if even the first round costs more than kMaxExactCost.
Status CheckRoundCost(const Simulation& simulation);

}  // namespace outrider
