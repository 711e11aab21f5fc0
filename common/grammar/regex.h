// Reads regular expressions: the usual syntax of ECMAScript, Python and PCRE without what is not
// regular. Characters are Unicode's; \d and \w are ASCII, \s and \S what both ECMAScript and Python
// take for them, and `.` is anything but an end of line.
//
// Thread: any.
#pragma once

#include <functional>
#include <string_view>

#include "common/base/status.h"
#include "common/grammar/rule_set.h"

namespace outrider::grammar {

struct RegexOptions {
  // Whether the text may hold more before and after a match, but where `^` and `$` say otherwise,
  // as for JSON Schema's `pattern`.
  bool may_lie_inside = false;
  // How a text writes one character of a set, if not as its UTF-8: inside a string of JSON, say.
  std::function<ExprId(RuleSet&, const CodePointSet&)> write_character;
};

// Adds the parts of `regex` to `rules`. Groups count as groups alone, lazy quantifiers as the
// others. kInvalidArgument "at character <n>: ..." for a syntax error and for what is not
// supported: back- references, look-around, \b, \p, atomic groups, possessive quantifiers, flags,
// and anchors but at the ends of an alternative. REQUIRES: well-formed UTF-8.
Result<ExprId> ParseRegex(std::string_view regex, RuleSet& rules, const RegexOptions& options = {});

}  // namespace outrider::grammar
