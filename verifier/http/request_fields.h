// Which members the JSON objects of a request may have, and what becomes of each: served, ignored
// because it cannot change the answer's text, or refused unless its value asks for nothing. A
// member in no table is refused, so that no wish is passed over in silence. docs/http.md shows the
// tables.
#pragma once

#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/json/json.h"

namespace outrider {

enum class FieldsOf {
  kCompletion,
  kChat,
  kTokenize,
  kTokenizeChat,
  kDetokenize,
  kStreamOptions,
  kMessage,
  kPart,
  kSpeculation,
  kStopRule,
  kTool,
  kToolFunction,
  kToolChoice,
  kToolChoiceFunction,
  kToolCall,  // of an assistant's message
  kToolCallFunction,
};

// Checks names only, and the values of what is not served. `ignore_unknown`: lets members pass that
// no table has, and those of vLLM that are not served (--http-ignore-unknown). kInvalidArgument
// "<path> is ..", also for what is no object.
Status CheckFields(FieldsOf kind, const JsonValue& object, bool ignore_unknown);

// What a number may be, or each number of an array or object; both ends are included. What depends
// on the model or on other fields is not here.
struct FieldRange {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool excludes_low = false;
};

struct ServedField {
  std::string_view name;
  std::string_view type;  // JSON's types, with | between several
  FieldRange range = {};
  std::string_view items = {};           // the type of an array's items, or an object's values
  std::optional<FieldsOf> members = {};  // of the object, or of those in the array
  std::string_view words = {};           // a string that is one of these, with | between
  bool is_required = false;              // and not empty, if it is an array of objects
};
std::vector<ServedField> ServedFields(FieldsOf kind);

enum class FieldUse {
  kServed,
  kIgnored,    // it cannot change the text
  kRefused,    // OpenAI's and not served; passes with a value that asks for nothing
  kNotServed,  // the same of vLLM's and others', and passes with --http-ignore-unknown
};
std::vector<std::string_view> FieldNames(FieldsOf kind, FieldUse use);

}  // namespace outrider
