// Parses a template as Jinja 3.1 does with the extensions of transformers: loop controls and
// `generation` blocks. Template inheritance, imports and includes are refused.
//
// Thread: any.
#pragma once

#include <string_view>

#include "common/base/status.h"
#include "common/text/jinja/ast.h"

namespace outrider::jinja {

// Nesting limit of statements, brackets, and operators in an expression, for which the parser and
// the evaluator recurse.
inline constexpr int kMaxNesting = 64;
inline constexpr int kMaxExpressionDepth = 200;

// REQUIRES: well-formed UTF-8. Time: linear. kInvalidArgument "line <n>: ...".
Result<Program> ParseTemplate(std::string_view source);

}  // namespace outrider::jinja
