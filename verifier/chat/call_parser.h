// Finds tool calls in the text of an answer as it arrives. The events do not depend on how the text
// is split into pieces, because a format reads one byte at a time.
//
// Text that may become a call is held back until its tool is named and its arguments have begun. If
// it turns out not to be a call, every byte of it is content. Once a call has begun, its arguments
// are passed on as the model writes them, even if they are not valid JSON; if the text ends within
// them, the call keeps what has arrived.
//
// White space right before a call, and after the last one, is not content.
//
// Owner: one per answer. Thread: not synchronised. Time: linear in the text.
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
  // Returns nullptr for kNone, and for kHarmony, which HarmonyParser reads. `tools` are their
  // names: formats without markers (kLlama3Json, kPythonic) only recognise calls of these, since
  // any text could look like a call of another.
  static std::unique_ptr<CallParser> Create(ToolFormat format, std::vector<std::string> tools);

  CallParser() = default;
  CallParser(const CallParser&) = delete;
  CallParser& operator=(const CallParser&) = delete;
  virtual ~CallParser() = default;

  void Push(std::string_view text, AnswerEvents& out);
  // Ends the text: what is held back becomes content. Call once, last.
  void Finish(AnswerEvents& out);

 protected:
  // What a byte is, given all bytes before it.
  enum class Byte {
    kContent,  // not part of a call, and neither is the text held back
    kHeld,     // part of what may become a call
    kCall,     // part of a call, as is the text held back; `out` has its events
  };
  // Reads the next byte. If it returns kContent while bytes are held back, those are content and it
  // is called again with the same byte, which may begin a call itself.
  virtual Byte Read(char c, AnswerEvents& out) = 0;

 private:
  void AddContent(std::string_view text, AnswerEvents& out);

  std::string held_;
  std::string space_;  // white space after content or a call
  bool after_call_ = false;
};

inline bool IsSpace(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

// Whether a tool's name may contain this byte.
inline bool IsNameByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.';
}

}  // namespace outrider
