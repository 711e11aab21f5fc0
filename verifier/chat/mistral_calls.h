// Calls as Mistral's models write them, older ones as a list, newer ones one by one:
//   [TOOL_CALLS][{"name": "f", "arguments": {"a": 1}}, {"name": "g", "arguments": {}}]
//   [TOOL_CALLS]f{"a": 1}[TOOL_CALLS]g[CALL_ID]abc[ARGS]{}
#pragma once

#include <cstdint>
#include <string>

#include "verifier/chat/call_object.h"
#include "verifier/chat/call_parser.h"
#include "verifier/chat/marker_match.h"
#include "verifier/chat/raw_arguments.h"

namespace outrider {

class MistralCalls final : public CallParser {
 protected:
  Byte Read(char c, AnswerEvents& out) override;

 private:
  enum class State : uint8_t {
    kText,
    kBody,    // after the marker
    kObject,  // of a list
    kBetween,
    kName,
    kId,
    kBeforeArguments,
    kArguments,
  };
  Byte ReadText(char c);
  Byte ReadBody(char c);
  Byte ReadObject(char c, AnswerEvents& out);
  Byte ReadBetween(char c);
  Byte ReadName(char c, AnswerEvents& out);
  Byte BeginArguments(char c, AnswerEvents& out);
  Byte NoCall();

  State state_ = State::kText;
  CallObject object_;
  MarkerMatch marker_;
  std::string name_;
  RawArguments arguments_;
};

}  // namespace outrider
