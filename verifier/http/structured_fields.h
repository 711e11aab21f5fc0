// The constraint on the output, in OpenAI's format (response_format) and in vLLM's
// (structured_outputs, and the older guided_json and its like).
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
  std::string field;  // the field that asks for it, for errors about the source
};

// nullopt: `body` asks for no constraint. kInvalidArgument names the field: it has a wrong type,
// contradicts another, or is not served.
Result<std::optional<StructuredOutput>> StructuredOutputOf(const JsonValue& body);

}  // namespace outrider
