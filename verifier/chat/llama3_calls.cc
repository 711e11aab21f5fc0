#include "verifier/chat/llama3_calls.h"

#include <algorithm>

#include "verifier/chat/markers.h"

namespace outrider {

void Llama3Calls::BeginObject() {
  state_ = State::kObject;
  object_ = CallObject(
      [this](std::string_view name) {
        return std::find(tools_.begin(), tools_.end(), name) != tools_.end();
      },
      /*needs_arguments=*/true);
}

CallParser::Byte Llama3Calls::Read(char c, AnswerEvents& out) {
  switch (state_) {
    case State::kStart:
      if (IsSpace(c)) return Byte::kContent;
      if (c != '{') {
        state_ = State::kText;
        return ReadText(c);
      }
      BeginObject();
      return ReadObject(c, out);
    case State::kText: return ReadText(c);
    case State::kObject: return ReadObject(c, out);
    case State::kBetween: return ReadBetween(c, out);
  }
  return Byte::kContent;
}

CallParser::Byte Llama3Calls::ReadText(char c) {
  const int found = marker_.Read(c, {markers::kLlama3});
  if (found == MarkerMatch::kNone) return Byte::kContent;
  if (found == 0) BeginObject();
  return Byte::kHeld;
}

CallParser::Byte Llama3Calls::ReadObject(char c, AnswerEvents& out) {
  switch (object_.Read(c, out)) {
    case CallObject::Progress::kNoCall: state_ = State::kText; return Byte::kContent;
    case CallObject::Progress::kMore: return object_.has_begun() ? Byte::kCall : Byte::kHeld;
    case CallObject::Progress::kDone: state_ = State::kBetween; return Byte::kCall;
    case CallObject::Progress::kOver: state_ = State::kBetween; return ReadBetween(c, out);
  }
  return Byte::kContent;
}

CallParser::Byte Llama3Calls::ReadBetween(char c, AnswerEvents& out) {
  if (IsSpace(c)) return Byte::kContent;
  if (c == ';') {
    BeginObject();  // white space may come before it
    return Byte::kHeld;
  }
  if (c == '{') {
    BeginObject();
    return ReadObject(c, out);
  }
  state_ = State::kText;
  return ReadText(c);
}

}  // namespace outrider
