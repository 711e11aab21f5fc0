// Compiles rules to the automaton: reads every rule that the root reaches, makes it deterministic
// where that is cheap, drops what cannot be finished, and works out which bytes can follow a rule.
//
// Thread: any.
#pragma once

#include "common/base/status.h"
#include "common/grammar/automaton.h"
#include "common/grammar/limits.h"
#include "common/grammar/rule_set.h"

namespace outrider::grammar {

// Rules that repetitions need are added to `rules`. REQUIRES: rules.status() is OK, rule ids and
// bodies are set.
// kInvalidArgument: a limit is reached, a rule is left-recursive (named), or no text matches.
Result<Automaton> BuildAutomaton(RuleSet& rules, RuleId root);

}  // namespace outrider::grammar
