// What the output must follow, in OpenAI's words (response_format) and in vLLM's
// (structured_outputs, and guided_json and its like, the names before it).
//
// Thread: any.
#pragma once

#include <optional>
#include <string>

#include "common/base/status.h"
#include "common/json/json.h"
#include "common/spec/grammar_source.h"

namespace outrider {

struct StructuredOutput {
  GrammarSource source;
  std::string field;  // that asks for it, for errors about the source
};

// No value: `body` asks for nothing of the kind. kInvalidArgument names the field: one of a wrong
// type, two that ask for different things, or one that is not served.
Result<std::optional<StructuredOutput>> StructuredOutputOf(const JsonValue& body);

}  // namespace outrider
