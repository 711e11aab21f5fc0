// Splits the text of an answer, as it arrives, into reasoning, content and tool calls.
//
// Owner: one per answer. Thread: not synchronised. Time: linear in the text.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "verifier/chat/answer_events.h"
#include "verifier/chat/call_parser.h"
#include "verifier/chat/harmony.h"
#include "verifier/chat/json_span.h"
#include "verifier/chat/reasoning.h"
#include "verifier/chat/tool_format.h"

namespace outrider {

// The most calls that an answer may have; later ones are dropped.
inline constexpr int kMaxAnswerCalls = 128;

// The formats that a server parses in its model's answers.
struct AnswerFormat {
  ToolFormat tools = ToolFormat::kNone;
  ReasoningFormat reasoning = ReasoningFormat::kNone;

  // Whether answers are in harmony, which marks reasoning and calls alike: if one of the formats is
  // kHarmony, the other only says whether its part is separated from the content.
  bool is_harmony() const {
    return tools == ToolFormat::kHarmony || reasoning == ReasoningFormat::kHarmony;
  }
};

// The texts that mark the parts of an answer. A tokenizer may have each as a special token.
std::vector<std::string_view> MarkersOf(const AnswerFormat& format);

// What to parse in the answer to one request.
struct AnswerReading {
  AnswerFormat format;             // without tools, kNone
  std::vector<std::string> tools;  // names
  int max_calls = kMaxAnswerCalls;
  // A grammar makes the answer call a tool. After its reasoning it then has no content, and a
  // truncated answer ends within a call.
  bool must_call = false;
  bool opens_reasoning = false;   // the prompt ends within the reasoning
  bool include_reasoning = true;  // send the reasoning to the client
};

class AnswerReader {
 public:
  explicit AnswerReader(const AnswerReading& reading);

  // Returns the events of the next piece of text, and holds back what is still ambiguous.
  std::vector<AnswerEvent> Push(std::string_view text);
  // Returns the remaining events. Call once, last.
  std::vector<AnswerEvent> Finish();
  // Whether the text so far ends within a call's arguments, or before the call that is required.
  bool is_cut() const { return within_call_ || (must_call_ && num_calls_ == 0); }
  // Characters of the text before what follows the reasoning (in harmony, what first follows it);
  // nullopt if nothing has followed yet.
  std::optional<int64_t> content_begin() const {
    if (harmony_.has_value()) return harmony_->content_begin();
    return reasoning_.has_value() ? reasoning_->content_begin() : 0;
  }

 private:
  // Drops the events that the request does not ask for.
  std::vector<AnswerEvent> Wanted(AnswerEvents events);

  std::optional<HarmonyParser> harmony_;  // instead of the next two
  std::optional<ReasoningParser> reasoning_;
  std::unique_ptr<CallParser> calls_;
  const bool include_reasoning_;
  const bool must_call_;
  const int max_calls_;
  int num_calls_ = 0;
  bool within_call_ = false;
  JsonSpan arguments_;  // of the last call
};

}  // namespace outrider
