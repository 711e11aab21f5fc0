// The part of an answer that its model thinks in, <think>..</think>, apart from the rest.
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
  kNone,        // not looked for
  kQwen3,       // <think>..</think> at the start of an answer
  kDeepSeekR1,  // the same, but every answer begins within it, whether <think> comes or not
  kMistral,     // [THINK]..[/THINK] at the start of an answer
};

// Names as of vLLM's --reasoning-parser; "none" for kNone.
std::string_view NameOf(ReasoningFormat format);
// REQUIRES: one of ReasoningFormatNames().
ReasoningFormat ReasoningFormatOf(std::string_view name);
// All names, "none" among them.
std::vector<std::string> ReasoningFormatNames();

// The format that a chat template's text shows; kNone where it shows none that is known.
ReasoningFormat DetectReasoningFormat(std::string_view chat_template);

// The markers of beginning and end. REQUIRES: not kNone.
struct ReasoningMarkers {
  std::string_view begin, end;
};
ReasoningMarkers MarkersOf(ReasoningFormat format);

// Whether an answer begins within its reasoning because the prompt opens it. `tail`: the end of the
// prompt as the chat template wrote it.
bool OpensReasoning(ReasoningFormat format, std::string_view tail);

// Takes an answer's text byte by byte, so that what it gives out does not depend on how the text is
// cut. White space beside the markers belongs to neither part.
class ReasoningParser {
 public:
  // `is_open`: the answer begins within its reasoning; a first marker may come all the same.
  ReasoningParser(ReasoningFormat format, bool is_open);

  // Adds the reasoning to `out`, and what is none to `content`.
  void Push(std::string_view text, AnswerEvents& out, std::string& content);
  // The text is over. Call once, last.
  void Finish(AnswerEvents& out, std::string& content);
  // Characters of the text before its content; nullopt: there has been no content yet.
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
  bool has_text_ = false;  // some of the reasoning has been told
  MarkerMatch marker_;
  std::string held_;  // what may be a marker's beginning, and white space that may go
};

}  // namespace outrider
