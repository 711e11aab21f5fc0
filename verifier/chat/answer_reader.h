// Takes the text of an answer apart: reasoning, content and calls of tools, as it comes.
//
// Owner: one for each answer. Thread: not synchronised. Time: linear in the text.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "verifier/chat/answer_events.h"
#include "verifier/chat/call_parser.h"
#include "verifier/chat/reasoning.h"
#include "verifier/chat/tool_format.h"

namespace outrider {

// Calls of an answer at most; later ones are left out.
inline constexpr int kMaxAnswerCalls = 128;

// What a server reads in its model's answers.
struct AnswerFormat {
  ToolFormat tools = ToolFormat::kNone;
  ReasoningFormat reasoning = ReasoningFormat::kNone;
};

// What one request's answers are read for.
struct AnswerReading {
  AnswerFormat format;             // without tools, kNone
  std::vector<std::string> tools;  // names
  int max_calls = kMaxAnswerCalls;
  // A grammar makes the answer call a tool: after reasoning it has no content, and what a text that
  // is cut off ends with is a part of a call.
  bool must_call = false;
  bool opens_reasoning = false;   // the prompt ends within the reasoning
  bool include_reasoning = true;  // it is told
};

class AnswerReader {
 public:
  explicit AnswerReader(const AnswerReading& reading);

  // What the next piece of the text says; what is not certain yet is held back.
  std::vector<AnswerEvent> Push(std::string_view text);
  // The rest. Call once, last.
  std::vector<AnswerEvent> Finish();
  // Characters of the text before what follows its reasoning; nullopt: nothing has followed yet.
  std::optional<int64_t> content_begin() const {
    return reasoning_.has_value() ? reasoning_->content_begin() : 0;
  }

 private:
  // Without what the request does not want to have.
  std::vector<AnswerEvent> Wanted(AnswerEvents events);

  std::optional<ReasoningParser> reasoning_;
  std::unique_ptr<CallParser> calls_;
  const bool include_reasoning_;
  const bool must_call_;
  const int max_calls_;
  int num_calls_ = 0;
};

}  // namespace outrider
