// Which bytes a rule can start with, and which can come after it. The second lets a token mask
// forget the tokens that end a rule and go on with a byte that comes nowhere after it.
//
// Thread: any.
#pragma once

#include <vector>

#include "common/base/status.h"
#include "common/grammar/automaton.h"
#include "common/grammar/limits.h"

namespace outrider::grammar {

// Fills `first` and `follow` of `rules`, which are those of `automaton`. Time: linear in its edges,
// and for spreading `follow` what is charged to `budget`; stops early once that is spent.
// kInvalidArgument names a rule that is left-recursive: one that calls itself, maybe by way of
// others, before it has read a byte.
Status FillFirstAndFollow(const Automaton& automaton, std::vector<Automaton::RuleInfo>& rules,
                          StepBudget& budget);

}  // namespace outrider::grammar
