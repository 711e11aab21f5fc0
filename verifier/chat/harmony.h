// Reads answers in harmony, gpt-oss's format. An answer is a list of messages, whose headers name a
// channel and, for calls, a recipient, which may come in either part of the header:
//   <|channel|>analysis<|message|>Why.<|end|><|start|>assistant<|channel|>final<|message|>Hi
//   <|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": 1}
//    to=functions.f<|channel|>commentary json<|message|>{"a": 1}
// The prompt ends with <|start|>assistant, so that an answer begins within a header.
//
// Messages to functions.NAME whose text begins with { are calls. Of the others, those on the
// channel analysis without a recipient are reasoning. All the rest is content: unknown channels,
// the model's built-in tools, and text outside of messages, too. Messages of one kind are joined by
// a newline. Headers and markers are never content, but a header of more than 512 bytes is.
//
// Text is read byte by byte, so that events do not depend on how it is split.
//
// Owner: one per answer. Thread: not synchronised. Time: linear in the text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "verifier/chat/answer_events.h"
#include "verifier/chat/marker_match.h"
#include "verifier/chat/raw_arguments.h"
#include "verifier/chat/reasoning.h"
#include "verifier/chat/tool_format.h"

namespace outrider {

class HarmonyParser {
 public:
  // If `reasoning` or `tools` is kNone, that part of an answer is content. `opens_reasoning`: the
  // answer begins within a message of its reasoning.
  HarmonyParser(ReasoningFormat reasoning, ToolFormat tools, bool opens_reasoning);

  void Push(std::string_view text, AnswerEvents& out);
  // Ends the text. Call once, last.
  void Finish(AnswerEvents& out);
  // Characters of the text before the first message with content or a call; nullopt if there has
  // been none yet.
  std::optional<int64_t> content_begin() const { return content_begin_; }

 private:
  enum class State : uint8_t {
    kBetween,  // outside of messages, or within a header that the prompt has begun
    kHeader,   // after <|start|> or <|channel|>
    kBody,     // after <|message|>, or content outside of messages
    kCall,     // the same, of a call, before its arguments
    kArguments,
  };
  void Read(char c, AnswerEvents& out);
  void ReadByte(char c, AnswerEvents& out);
  // `marker`: an index of the markers in Read.
  void ReadMarker(int marker, AnswerEvents& out);
  void ReadBetween(char c, AnswerEvents& out);
  void ReadCall(char c, AnswerEvents& out);
  void BeginMessage();
  // Begins a message of content with what is held back.
  void BeginContent(AnswerEvents& out);
  void AddText(std::string_view text, AnswerEvents& out);
  void NoteContent() {
    if (!content_begin_.has_value()) content_begin_ = message_begin_;
  }

  const AnswerEvent::Kind analysis_kind_;
  const bool reads_calls_;
  State state_;
  AnswerEvent::Kind kind_;  // of the text of the message
  MarkerMatch marker_;
  std::string partial_;  // a possible start of a marker
  // Text that becomes content if it proves to be no part of a header, nor space before one.
  std::string held_;
  std::string role_, channel_;  // the parts of a header, before and after <|channel|>
  bool in_channel_ = false;
  std::string name_;  // of a call
  RawArguments arguments_;
  bool is_joined_ = true;  // the text of the message needs no newline before it
  bool has_reasoning_ = false, has_content_ = false;
  int64_t characters_ = 0;  // read so far
  int64_t message_begin_ = 0;
  std::optional<int64_t> content_begin_;
};

}  // namespace outrider
