// Grammars for tool calls. One forces the answer to call tools: tool_choice "required" or a named
// function. The other allows any text, but requires calls to be valid calls of the tools: strict
// tools under "auto". CallParser parses an answer that follows either as calls whose arguments are
// valid for the tools' schemas.
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
  std::string name;        // characters of [a-zA-Z0-9_-]
  std::string parameters;  // a JSON Schema of an object; "": the tool takes no arguments
  // Arguments must be valid for `parameters` wherever the tool is called, not only where a call is
  // forced.
  bool strict = false;
};

struct ToolGrammarOptions {
  ToolFormat format = ToolFormat::kHermes;
  bool several = false;  // more calls may follow the first
  // Content may come instead of calls, before them and, if `several`, after each. Then only the
  // arguments of strict tools follow their schemas.
  bool free_text = false;
  // Reasoning that may precede the calls; the prompt may have opened it.
  ReasoningFormat reasoning = ReasoningFormat::kNone;
  bool opens_reasoning = false;
};

// Whether the first bytes of this format tell a call from text, so that a grammar with `free_text`
// exists.
bool CanFollowFreeText(ToolFormat format);

// A grammar of whole answers, from their first byte on. `tools` are those that may be called.
// kInvalidArgument: there is no tool or no format, or, for kPythonic, the parameters are more than
// a list of properties with Python names. Grammar::Compile reports unsupported parts of schemas.
// REQUIRES: CanFollowFreeText, if `free_text`.
Result<GrammarSource> ToolGrammar(std::span<const ToolDescription> tools,
                                  const ToolGrammarOptions& options);

}  // namespace outrider
