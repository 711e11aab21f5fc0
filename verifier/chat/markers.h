// The texts by which models mark tool calls, and in harmony all parts of an answer. The first byte
// of each occurs in it only once; CallParser and HarmonyParser rely on this.
#pragma once

#include <initializer_list>
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
inline constexpr std::string_view kHarmonyStart = "<|start|>", kHarmonyChannel = "<|channel|>",
                                  kHarmonyConstrain = "<|constrain|>",
                                  kHarmonyMessage = "<|message|>", kHarmonyEnd = "<|end|>",
                                  kHarmonyCall = "<|call|>", kHarmonyReturn = "<|return|>";
// All of harmony's. Those from kHarmonyEnd on end a message.
inline constexpr std::initializer_list<std::string_view> kHarmony = {
    kHarmonyStart, kHarmonyChannel, kHarmonyConstrain, kHarmonyMessage,
    kHarmonyEnd,   kHarmonyCall,    kHarmonyReturn};

// Whether a chat template writes harmony.
inline bool ShowsHarmony(std::string_view chat_template) {
  return chat_template.find(kHarmonyChannel) != chat_template.npos &&
         chat_template.find(kHarmonyMessage) != chat_template.npos;
}

}  // namespace outrider::markers
