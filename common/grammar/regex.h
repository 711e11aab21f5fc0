// Parses regular expressions: the common syntax of ECMAScript, Python and PCRE without non-regular
// features. Characters are Unicode's; \d and \w are ASCII, \s and \S are what ECMAScript and Python
// agree on, and `.` is anything but a line end.
//
// Thread: any.
#pragma once

#include <functional>
#include <string_view>

#include "common/base/status.h"
#include "common/grammar/rule_set.h"

namespace outrider::grammar {

struct RegexOptions {
  // Whether the text may have more before and after a match, except where `^` and `$` forbid it, as
  // in JSON Schema's `pattern`.
  bool may_lie_inside = false;
  // How a text spells one character of a set, if not as its UTF-8: for example, within a JSON
  // string.
  std::function<ExprId(RuleSet&, const CodePointSet&)> write_character;
};

// Adds the parts of `regex` to `rules`. Groups only group, and lazy quantifiers are like others.
// kInvalidArgument "at character <n>: ..." for a syntax error and for unsupported parts: back
// references, look-around, \b, \p, atomic groups, possessive quantifiers, flags, and anchors except
// at the ends of an alternative. REQUIRES: well-formed UTF-8.
Result<ExprId> ParseRegex(std::string_view regex, RuleSet& rules, const RegexOptions& options = {});

}  // namespace outrider::grammar
