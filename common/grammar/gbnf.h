// Reads grammars in llama.cpp's GBNF: `name ::= alternatives`, strings, character classes, `.`,
// groups, the quantifiers * + ? {m} {m,} {m,n}, and comments. The text matches the rule `root`.
//
// Thread: any.
#pragma once

#include <string_view>

#include "common/base/status.h"
#include "common/grammar/rule_set.h"

namespace outrider::grammar {

// Adds the rules to `rules`; the id of `root`. kInvalidArgument "line <n>: ..." for a syntax error,
// a rule that is not there or there twice, and for tokens (<...>), which are not supported.
// REQUIRES: well-formed UTF-8.
Result<RuleId> ParseGbnf(std::string_view grammar, RuleSet& rules);

}  // namespace outrider::grammar
