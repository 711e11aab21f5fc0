// Computes which bytes a rule can start with, and which can follow it. With the latter, a token
// mask can skip tokens that end a rule and continue with a byte that never follows it.
//
// Thread: any.
#pragma once

#include <vector>

#include "common/base/status.h"
#include "common/grammar/automaton.h"
#include "common/grammar/limits.h"

namespace outrider::grammar {

// Fills in `first` and `follow` of `rules`, which are those of `automaton`. Time: linear in its
// edges, plus what is charged to `budget` for spreading `follow`; stops early once that is spent.
// kInvalidArgument names a left-recursive rule: one that calls itself, perhaps through others,
// before it has read a byte.
Status FillFirstAndFollow(const Automaton& automaton, std::vector<Automaton::RuleInfo>& rules,
                          StepBudget& budget);

}  // namespace outrider::grammar
