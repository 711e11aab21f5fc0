// The grammar that makes an answer call tools: what tool_choice "required", or a named function,
// constrains sampling to; or the one that lets it say anything, but makes its calls those of the
// tools: what strict tools ask for under "auto". CallParser reads an answer that follows it as
// calls, with arguments that are valid for the tools' schemas.
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
  // Arguments must be valid for `parameters` wherever the tool is called, and not only where calls
  // must come.
  bool strict = false;
};

struct ToolGrammarOptions {
  ToolFormat format = ToolFormat::kHermes;
  bool several = false;  // more calls may follow the first
  // Content may come instead of calls, before them and, if there may be several, after each. Only
  // the arguments of strict tools follow their schemas then.
  bool free_text = false;
  // What may come before the calls: reasoning, which the prompt may have opened.
  ReasoningFormat reasoning = ReasoningFormat::kNone;
  bool opens_reasoning = false;
};

// Whether calls of this format can be told from text by what they begin with, so that there is a
// grammar with `free_text`.
bool CanFollowFreeText(ToolFormat format);

// A grammar of whole answers, from their first byte on. `tools`: those that may be called.
// kInvalidArgument: no tool, no format, and for kPythonic parameters that are more than a list of
// properties whose names are Python's. What of a schema is not supported Grammar::Compile says.
// REQUIRES: `free_text` only where CanFollowFreeText.
Result<GrammarSource> ToolGrammar(std::span<const ToolDescription> tools,
                                  const ToolGrammarOptions& options);

}  // namespace outrider
