// The texts by which models mark tool calls. The first byte of each occurs in it only once;
// CallParser relies on this.
#pragma once

#include <string_view>

namespace outrider::markers {

inline constexpr std::string_view kHermes = "<tool_call>", kHermesEnd = "</tool_call>";
inline constexpr std::string_view kLlama3 = "<|python_tag|>";
inline constexpr std::string_view kMistral = "[TOOL_CALLS]", kMistralArguments = "[ARGS]",
                                  kMistralId = "[CALL_ID]";
inline constexpr std::string_view kDeepSeekCalls = "<｜tool▁calls▁begin｜>",
                                  kDeepSeekCallsEnd = "<｜tool▁calls▁end｜>",
                                  kDeepSeekCall = "<｜tool▁call▁begin｜>",
                                  kDeepSeekCallEnd = "<｜tool▁call▁end｜>",
                                  kDeepSeekName = "<｜tool▁sep｜>";  // comes before the name

}  // namespace outrider::markers
