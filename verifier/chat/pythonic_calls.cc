#include "verifier/chat/pythonic_calls.h"

#include <algorithm>
#include <optional>

#include "verifier/chat/python_arguments.h"

namespace outrider {
CallParser::Byte PythonicCalls::NoCall() {
  state_ = State::kText;
  return Byte::kContent;
}

CallParser::Byte PythonicCalls::Read(char c, AnswerEvents& out) {
  switch (state_) {
    case State::kStart:
      if (IsSpace(c)) return Byte::kContent;
      if (c != '[') return NoCall();
      state_ = State::kName;
      return Byte::kHeld;
    case State::kName: return ReadName(c);
    case State::kArguments: return ReadArguments(c, out);
    case State::kBetween:
      if (IsSpace(c)) return Byte::kContent;
      if (c == ',') {
        state_ = State::kName;
        return Byte::kHeld;
      }
      state_ = State::kText;
      return c == ']' ? Byte::kCall : Byte::kContent;
    case State::kText: break;
  }
  return Byte::kContent;
}

CallParser::Byte PythonicCalls::ReadName(char c) {
  if (IsSpace(c) && name_.empty()) return Byte::kHeld;
  if (IsNameByte(c)) {
    name_ += c;
    return Byte::kHeld;
  }
  const bool is_tool = std::find(tools_.begin(), tools_.end(), name_) != tools_.end();
  if (c != '(' || !is_tool) return NoCall();
  arguments_.clear();
  depth_ = 0;
  state_ = State::kArguments;
  return Byte::kHeld;
}

CallParser::Byte PythonicCalls::ReadArguments(char c, AnswerEvents& out) {
  if (quote_ != '\0') {
    if (c == quote_ && !is_escaped_) quote_ = '\0';
    is_escaped_ = c == '\\' && !is_escaped_;
  } else if (c == '"' || c == '\'') {
    quote_ = c;
  } else if (c == '(' || c == '[' || c == '{') {
    ++depth_;
  } else if ((c == ')' || c == ']' || c == '}') && depth_-- == 0) {
    const std::optional<std::string> json = JsonOfPythonArguments(arguments_);
    if (c != ')' || !json.has_value()) return NoCall();
    out.BeginCall(name_);
    out.AddArguments(*json);
    name_.clear();
    state_ = State::kBetween;
    return Byte::kCall;
  }
  arguments_ += c;
  return Byte::kHeld;
}

}  // namespace outrider
