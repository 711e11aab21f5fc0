// Answers for tests of their parsers: each format's parsed content, on one line.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "verifier/chat/answer_reader.h"

namespace outrider::testing {

// "content|f{"a": 1}|thought: why": contents unchanged, calls as their names and arguments.
inline std::string Shown(const std::vector<AnswerEvent>& events) {
  std::string shown;
  const AnswerEvent* previous = nullptr;
  for (const AnswerEvent& event : events) {
    const bool goes_on = previous != nullptr && (event.kind == previous->kind ||
                                                 event.kind == AnswerEvent::Kind::kArguments);
    const bool is_call = event.kind == AnswerEvent::Kind::kCall;
    if (previous != nullptr && (!goes_on || is_call)) shown += "|";
    if (event.kind == AnswerEvent::Kind::kReasoning && !goes_on) shown += "thought: ";
    shown += event.text;
    previous = &event;
  }
  return shown;
}

// Parses the answer, split into `pieces`.
inline std::string Read(const AnswerReading& reading, const std::vector<std::string_view>& pieces) {
  AnswerReader reader(reading);
  std::vector<AnswerEvent> events;
  const auto add = [&](const std::vector<AnswerEvent>& more) {
    events.insert(events.end(), more.begin(), more.end());
  };
  for (const std::string_view piece : pieces) add(reader.Push(piece));
  add(reader.Finish());
  return Shown(events);
}

inline AnswerReading Reading(ToolFormat tools, ReasoningFormat reasoning = ReasoningFormat::kNone) {
  return {.format = {.tools = tools, .reasoning = reasoning}, .tools = {"f", "g", "get_weather"}};
}

struct Sample {
  AnswerReading reading;
  std::string text;
  std::string shown;
};

// Samples of every format: calls with text around them, nested JSON, strings that contain markers,
// escapes, empty arguments, several calls, malformed ones, and truncated ones.
std::vector<Sample> Samples();

}  // namespace outrider::testing
