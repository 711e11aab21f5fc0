// Splits a template into tokens, as Jinja 2.11 to 3.1 with trim_blocks and lstrip_blocks do.
//
// Thread: any.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace outrider::jinja {

struct Token {
  enum class Kind {
    kText,        // text
    kPrintBegin,  // {{
    kPrintEnd,    // }}
    kBlockBegin,  // {%
    kBlockEnd,    // %}
    kName,        // text
    kString,      // text, with escapes replaced
    kInteger,     // integer
    kFloat,       // real
    kOperator,    // text
    kEnd,         // of the template
  };
  Kind kind = Kind::kEnd;
  int line = 0;  // from 1
  std::string text;
  int64_t integer = 0;
  double real = 0;
};

// Names are compared and copied while a template is rendered, each at the cost of a step.
inline constexpr size_t kMaxNameBytes = 128;

// The last token is a kEnd. Time: linear. REQUIRES: well-formed UTF-8. kInvalidArgument "line <n>:
// ...".
Result<std::vector<Token>> Tokenize(std::string_view source);

}  // namespace outrider::jinja
