// Calls as Hermes and Qwen models write them:
//   <tool_call>
//   {"name": "f", "arguments": {"a": 1}}
//   </tool_call>
#pragma once

#include <cstdint>

#include "verifier/chat/call_object.h"
#include "verifier/chat/call_parser.h"
#include "verifier/chat/marker_match.h"

namespace outrider {

class HermesCalls final : public CallParser {
 protected:
  Byte Read(char c, AnswerEvents& out) override;

 private:
  enum class State : uint8_t { kText, kObject, kEnd };
  Byte ReadEnd(char c);

  State state_ = State::kText;
  CallObject object_;
  MarkerMatch marker_;
};

}  // namespace outrider
