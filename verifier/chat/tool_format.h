// The ways in which models write calls of tools.
//
// Thread: any.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace outrider {

enum class ToolFormat {
  kNone,        // calls are not looked for
  kHermes,      // <tool_call>{"name": .., "arguments": {..}}</tool_call>
  kLlama3Json,  // {"name": .., "parameters": {..}}, maybe after <|python_tag|>
  kPythonic,    // [f(a=1), g()]
  kMistral,     // [TOOL_CALLS][{"name": .., "arguments": {..}}], or [TOOL_CALLS]f[ARGS]{..}
  kDeepSeekV3,  // <｜tool▁call▁begin｜>function<｜tool▁sep｜>f and its arguments in a block of
                // ```json
  kDeepSeekV31,  // <｜tool▁call▁begin｜>f<｜tool▁sep｜>{..}<｜tool▁call▁end｜>
};

// Names as of vLLM's --tool-call-parser; "none" for kNone.
std::string_view NameOf(ToolFormat format);
// The format of a name of ToolFormatNames(). REQUIRES: it is one.
ToolFormat ToolFormatOf(std::string_view name);
// All names, "none" among them.
std::vector<std::string> ToolFormatNames();

// The format that a chat template's text shows; kNone where it shows none that is known.
ToolFormat DetectToolFormat(std::string_view chat_template);

// Texts that mark calls, each of which may be a special token of a tokenizer.
std::vector<std::string_view> MarkersOf(ToolFormat format);

}  // namespace outrider
