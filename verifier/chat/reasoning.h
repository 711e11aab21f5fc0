// Separates an answer's reasoning, <think>..</think>, from the rest.
//
// Thread: any for the formats; a parser has one owner.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "verifier/chat/answer_events.h"
#include "verifier/chat/marker_match.h"

namespace outrider {

enum class ReasoningFormat {
  kNone,        // not parsed
  kQwen3,       // <think>..</think> at the start of an answer
  kDeepSeekR1,  // the same, but every answer begins within it, with or without <think>
  kMistral,     // [THINK]..[/THINK] at the start of an answer
  kHarmony,     // messages on the channel analysis; HarmonyParser parses them
};

// Names as in vLLM's --reasoning-parser; "none" for kNone.
std::string_view NameOf(ReasoningFormat format);
// REQUIRES: one of ReasoningFormatNames().
ReasoningFormat ReasoningFormatOf(std::string_view name);
// All names, including "none".
std::vector<std::string> ReasoningFormatNames();

// The format that a chat template's text reveals; kNone if it reveals no known one.
ReasoningFormat DetectReasoningFormat(std::string_view chat_template);

// The start and end markers, for kHarmony of a message. REQUIRES: not kNone.
struct ReasoningMarkers {
  std::string_view begin, end;
};
ReasoningMarkers MarkersOf(ReasoningFormat format);

// Whether the prompt opens the reasoning, so that the answer begins within it. `tail`: the end of
// the rendered prompt.
bool OpensReasoning(ReasoningFormat format, std::string_view tail);

// Reads an answer's text byte by byte, so that its events do not depend on how the text is split.
// White space around the markers belongs to neither part.
class ReasoningParser {
 public:
  // `is_open`: the answer begins within its reasoning. A start marker may follow all the same.
  // REQUIRES: neither kNone nor kHarmony.
  ReasoningParser(ReasoningFormat format, bool is_open);

  // Appends the reasoning to `out` and the rest to `content`.
  void Push(std::string_view text, AnswerEvents& out, std::string& content);
  // Ends the text. Call once, last.
  void Finish(AnswerEvents& out, std::string& content);
  // Characters of the text before its content; nullopt if there has been no content yet.
  std::optional<int64_t> content_begin() const { return content_begin_; }

 private:
  enum class State : uint8_t { kStart, kOpened, kThinking, kEnded, kContent };
  void Read(char c, AnswerEvents& out, std::string& content);
  void ReadStart(char c, std::string& content);
  void ReadOpened(char c, AnswerEvents& out);
  void ReadThinking(char c, AnswerEvents& out);
  void AddReasoning(std::string_view text, AnswerEvents& out);

  ReasoningMarkers markers_;
  State state_;
  int64_t characters_ = 0;  // read so far
  std::optional<int64_t> content_begin_;
  bool has_text_ = false;  // some of the reasoning has been emitted
  MarkerMatch marker_;
  std::string held_;  // a possible start of a marker, and white space that may be dropped
};

}  // namespace outrider
