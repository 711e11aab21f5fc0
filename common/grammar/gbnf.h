// Parses grammars in llama.cpp's GBNF: `name ::= alternatives`, strings, character classes, `.`,
// groups, the quantifiers * + ? {m} {m,} {m,n}, and comments. The text matches the rule `root`.
//
// Thread: any.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/grammar/rule_set.h"

namespace outrider::grammar {

// Rules by name.
using GbnfRules = std::map<std::string, RuleId>;

// Adds the rules to `rules` and returns the id of `root`. `defined`: rules that the text may use
// and must not define. kInvalidArgument "line <n>: ..." for a syntax error, an undefined rule or
// one defined twice, and for tokens (<...>), which are not supported. REQUIRES: well-formed UTF-8.
Result<RuleId> ParseGbnf(std::string_view grammar, RuleSet& rules, GbnfRules defined = {});

}  // namespace outrider::grammar
