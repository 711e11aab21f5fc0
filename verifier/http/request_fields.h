// Which members the JSON objects of a request may have, and what becomes of each: served, ignored
// because it cannot change the answer's text, or refused unless its value asks for nothing. A
// member in no table is refused, so that no wish is passed over in silence. docs/http.md shows the
// tables.
#pragma once

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

struct ServedField {
  std::string_view name;
  std::string_view type;  // JSON's types, with | between several
};
std::vector<ServedField> ServedFields(FieldsOf kind);

}  // namespace outrider
