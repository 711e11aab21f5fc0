// The texts by which models mark calls of tools. The first byte of each comes in it only once,
// which is what CallParser rests on.
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
