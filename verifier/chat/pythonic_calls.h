// Calls as a list in Python, instead of an answer, as Llama 4 and others write them:
//   [f(a=1, b='x'), g()]
// A call is emitted as a whole at its ), since its arguments are converted to JSON.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "verifier/chat/call_parser.h"

namespace outrider {

class PythonicCalls final : public CallParser {
 public:
  explicit PythonicCalls(std::vector<std::string> tools) : tools_(std::move(tools)) {}

 protected:
  Byte Read(char c, AnswerEvents& out) override;

 private:
  enum class State : uint8_t { kStart, kName, kArguments, kBetween, kText };
  Byte ReadName(char c);
  Byte ReadArguments(char c, AnswerEvents& out);
  Byte NoCall();

  const std::vector<std::string> tools_;
  State state_ = State::kStart;
  std::string name_;
  std::string arguments_;  // text between ( and )
  int depth_ = 0;          // bracket depth within the arguments
  char quote_ = '\0';      // quote of the string being read; '\0' outside strings
  bool is_escaped_ = false;
};

}  // namespace outrider
