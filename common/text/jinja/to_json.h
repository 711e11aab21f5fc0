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
  bool ascii = false;                 // write other characters as \uXXXX
  std::optional<std::string> indent;  // one line per item, indented by this for each level
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};

// Strings in `value` keep their marks. kInvalidArgument: JSON cannot represent it.
Result<MarkedText> ToJson(Runtime& runtime, const Value& value, const JsonStyle& style);

}  // namespace outrider::jinja
