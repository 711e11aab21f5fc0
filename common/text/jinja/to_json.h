// The filter `tojson` as transformers defines it: Python's json.dumps, with its options.
//
// Thread: that of the rendering.
#pragma once

#include <optional>
#include <string>

#include "common/base/status.h"
#include "common/text/jinja/runtime.h"
#include "common/text/jinja/value.h"

namespace outrider::jinja {

struct JsonStyle {
  bool ascii = false;                 // other characters as \uXXXX
  std::optional<std::string> indent;  // a line for every item, with this before it for each level
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};

// What strings of `value` hold keeps its marks. kInvalidArgument for what JSON does not have.
Result<MarkedText> ToJson(Runtime& runtime, const Value& value, const JsonStyle& style);

}  // namespace outrider::jinja
