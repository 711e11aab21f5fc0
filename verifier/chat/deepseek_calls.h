// Calls as DeepSeek's models write them, V3 and R1 with a kind and a block, V3.1 without:
//   <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f
//   ```json
//   {"a": 1}
//   ```<｜tool▁call▁end｜><｜tool▁calls▁end｜>
//
//   <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{"a":
//   1}<｜tool▁call▁end｜><｜tool▁calls▁end｜>
#pragma once

#include <cstdint>
#include <string>

#include "verifier/chat/call_parser.h"
#include "verifier/chat/marker_match.h"
#include "verifier/chat/raw_arguments.h"

namespace outrider {

class DeepSeekCalls final : public CallParser {
 protected:
  Byte Read(char c, AnswerEvents& out) override;

 private:
  enum class State : uint8_t {
    kText,
    kCalls,  // before a call
    kHead,   // what comes before the separator: a kind, or the name
    kName,   // what comes after it: the name, or the arguments
    kFence,
    kArguments,
    kAfter,
  };
  Byte ReadText(char c);
  Byte ReadCalls(char c);
  Byte ReadHead(char c);
  Byte ReadName(char c, AnswerEvents& out);
  Byte ReadAfter(char c);
  Byte Begin(const std::string& name, char c, AnswerEvents& out);
  void BeginHead();
  Byte NoCall();

  State state_ = State::kText;
  MarkerMatch marker_;
  std::string head_, name_;
  bool has_fence_ = false;
  RawArguments arguments_;
};

}  // namespace outrider
