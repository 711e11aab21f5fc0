// The grammar that makes an answer call tools: what tool_choice "required", or a named function,
// constrains sampling to. An answer that follows it is read as calls by CallParser, with arguments
// that are valid for the tools' schemas.
//
// Thread: any.
#pragma once

#include <span>
#include <string>

#include "common/base/status.h"
#include "common/grammar/grammar.h"
#include "verifier/chat/reasoning.h"
#include "verifier/chat/tool_format.h"

namespace outrider {

struct ToolDescription {
  std::string name;        // of [a-zA-Z0-9_-]
  std::string parameters;  // a JSON Schema, an object; "": the tool takes none
};

struct ToolGrammarOptions {
  ToolFormat format = ToolFormat::kHermes;
  bool several = false;  // more calls may follow the first
  // What may come before the calls: reasoning, which the prompt may have opened.
  ReasoningFormat reasoning = ReasoningFormat::kNone;
  bool opens_reasoning = false;
};

// A grammar of whole answers, from their first byte on. `tools`: those that may be called.
// kInvalidArgument: no tool, no format, and for kPythonic parameters that are more than a list of
// properties whose names are Python's. What of a schema is not supported Grammar::Compile says.
Result<GrammarSource> ToolGrammar(std::span<const ToolDescription> tools,
                                  const ToolGrammarOptions& options);

}  // namespace outrider
