// The formats in which models write tool calls.
//
// Thread: any.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace outrider {

enum class ToolFormat {
  kNone,        // calls are not parsed
  kHermes,      // <tool_call>{"name": .., "arguments": {..}}</tool_call>
  kLlama3Json,  // {"name": .., "parameters": {..}}, maybe after <|python_tag|>
  kPythonic,    // [f(a=1), g()]
  kMistral,     // [TOOL_CALLS][{"name": .., "arguments": {..}}], or [TOOL_CALLS]f[ARGS]{..}
  kDeepSeekV3,  // <｜tool▁call▁begin｜>function<｜tool▁sep｜>f and its arguments in a block of
                // ```json
  kDeepSeekV31,  // <｜tool▁call▁begin｜>f<｜tool▁sep｜>{..}<｜tool▁call▁end｜>
  kHarmony,      // <|channel|>commentary to=functions.f<|message|>{..}, see harmony.h
};

// Names as in vLLM's --tool-call-parser; "none" for kNone.
std::string_view NameOf(ToolFormat format);
// REQUIRES: one of ToolFormatNames().
ToolFormat ToolFormatOf(std::string_view name);
// All names, including "none".
std::vector<std::string> ToolFormatNames();

// The format that a chat template's text reveals; kNone if it reveals no known one.
ToolFormat DetectToolFormat(std::string_view chat_template);

// The texts that mark calls, for kHarmony all parts of an answer. A tokenizer may have each as a
// special token.
std::vector<std::string_view> MarkersOf(ToolFormat format);

}  // namespace outrider
