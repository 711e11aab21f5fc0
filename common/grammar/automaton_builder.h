// Compiles rules to the automaton: reads every rule that is reachable from the root, makes it
// deterministic where that is cheap, drops what cannot be completed, and computes which bytes can
// follow a rule.
//
// Thread: any.
#pragma once

#include "common/base/status.h"
#include "common/grammar/automaton.h"
#include "common/grammar/limits.h"
#include "common/grammar/rule_set.h"

namespace outrider::grammar {

// Adds rules that repetitions need to `rules`. REQUIRES: rules.status() is OK, rule ids and bodies
// are set.
// kInvalidArgument: a limit is reached, a rule is left-recursive (named), or no text matches.
Result<Automaton> BuildAutomaton(RuleSet& rules, RuleId root);

}  // namespace outrider::grammar
