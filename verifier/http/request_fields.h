// Which members the JSON objects of a request may have, and what happens to each: it is served,
// ignored because it cannot change the answer's text, or refused unless its value has no effect. A
// member in no table is refused, so that nothing a client asks for is silently dropped.
// docs/http.md shows the tables.
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

// Checks names, and the values of fields that are not served. `ignore_unknown`: accepts members
// that are in no table, and vLLM's that are not served (--http-ignore-unknown). kInvalidArgument
// "<path> is ..", also if it is not an object.
Status CheckFields(FieldsOf kind, const JsonValue& object, bool ignore_unknown);

// The range of a number, or of each number of an array or object, inclusive. Limits that depend on
// the model or on other fields are not here.
struct FieldRange {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool excludes_low = false;
};

struct ServedField {
  std::string_view name;
  std::string_view type;  // JSON's types, separated by \|
  FieldRange range = {};
  std::string_view items = {};           // the type of an array's items, or an object's values
  std::optional<FieldsOf> members = {};  // of the object, or of those in the array
  std::string_view words = {};           // the values of a string, separated by \|
  bool is_required = false;              // and not empty, if it is an array of objects
};
std::vector<ServedField> ServedFields(FieldsOf kind);

enum class FieldUse {
  kServed,
  kIgnored,    // cannot change the text
  kRefused,    // OpenAI's and not served; accepted with a value that has no effect
  kNotServed,  // the same of vLLM's and others', and accepted with --http-ignore-unknown
};
std::vector<std::string_view> FieldNames(FieldsOf kind, FieldUse use);

}  // namespace outrider
