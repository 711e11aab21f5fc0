// Finds the calls of tools in the text of an answer as it comes. What it gives out depends on the
// text alone and not on how it is cut into pieces, because a format sees one byte after the other.
//
// Text that may yet become a call is held back until it is known to be one: its tool is named, and
// its arguments have begun. Text that turns out to be none is content, every byte of it. After a
// call has begun its arguments are passed on as the model writes them, which may be no valid JSON;
// a text that ends within them leaves the call with what has come.
//
// White space right before a call, and after the last one, is no content.
//
// Owner: one for each answer. Thread: not synchronised. Time: linear in the text.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "verifier/chat/answer_events.h"
#include "verifier/chat/tool_format.h"

namespace outrider {

class CallParser {
 public:
  // nullptr for kNone. `tools`: their names. Formats without markers (kLlama3Json, kPythonic) find
  // calls of these alone, since any text could look like another one's.
  static std::unique_ptr<CallParser> Create(ToolFormat format, std::vector<std::string> tools);

  CallParser() = default;
  CallParser(const CallParser&) = delete;
  CallParser& operator=(const CallParser&) = delete;
  virtual ~CallParser() = default;

  void Push(std::string_view text, AnswerEvents& out);
  // The text is over. `keeps_held`: what may yet have become a call is content; else it is dropped.
  // Call once, last.
  void Finish(bool keeps_held, AnswerEvents& out);

 protected:
  // What a byte is, given all bytes before it.
  enum class Byte {
    kContent,  // no part of a call; what was held is none either
    kHeld,     // part of what may become a call
    kCall,     // part of a call, as is what was held; `out` has what it says
  };
  // Reads the next byte. After kContent for a byte after others that were held, the same byte comes
  // again: those before it are content, and it may begin a call itself.
  virtual Byte Read(char c, AnswerEvents& out) = 0;

 private:
  void AddContent(std::string_view text, AnswerEvents& out);

  std::string held_;
  std::string space_;  // white space after content or a call
  bool after_call_ = false;
};

inline bool IsSpace(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

// Of a tool's name.
inline bool IsNameByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.';
}

}  // namespace outrider
