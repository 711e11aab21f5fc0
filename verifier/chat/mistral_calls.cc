#include "verifier/chat/mistral_calls.h"

#include "verifier/chat/markers.h"

namespace outrider {
CallParser::Byte MistralCalls::NoCall() {
  state_ = State::kText;
  return Byte::kContent;
}

CallParser::Byte MistralCalls::Read(char c, AnswerEvents& out) {
  switch (state_) {
    case State::kText: return ReadText(c);
    case State::kBody: return ReadBody(c);
    case State::kObject: return ReadObject(c, out);
    case State::kBetween: return ReadBetween(c);
    case State::kName:
    case State::kId: return ReadName(c, out);
    case State::kBeforeArguments: return BeginArguments(c, out);
    case State::kArguments:
      if (arguments_.Read(c, out)) state_ = State::kText;
      return Byte::kCall;
  }
  return Byte::kContent;
}

CallParser::Byte MistralCalls::ReadText(char c) {
  const int found = marker_.Read(c, {markers::kMistral});
  if (found == MarkerMatch::kNone) return Byte::kContent;
  if (found == 0) state_ = State::kBody;
  return Byte::kHeld;
}

CallParser::Byte MistralCalls::ReadBody(char c) {
  if (IsSpace(c)) return Byte::kHeld;
  if (c == '[') {
    object_ = CallObject();
    state_ = State::kObject;
    return Byte::kHeld;
  }
  if (!IsNameByte(c)) return NoCall();
  name_ = c;
  state_ = State::kName;
  return Byte::kHeld;
}

CallParser::Byte MistralCalls::ReadObject(char c, AnswerEvents& out) {
  switch (object_.Read(c, out)) {
    case CallObject::Progress::kNoCall: return NoCall();
    case CallObject::Progress::kMore: return object_.has_begun() ? Byte::kCall : Byte::kHeld;
    case CallObject::Progress::kDone: state_ = State::kBetween; return Byte::kCall;
    case CallObject::Progress::kOver: state_ = State::kBetween; return ReadBetween(c);
  }
  return Byte::kContent;
}

CallParser::Byte MistralCalls::ReadBetween(char c) {
  if (IsSpace(c)) return Byte::kContent;
  if (c == ',') {
    object_ = CallObject();
    state_ = State::kObject;
    return Byte::kHeld;
  }
  state_ = State::kText;
  return c == ']' ? Byte::kCall : ReadText(c);
}

// A name, and perhaps the call's id, up to the arguments.
CallParser::Byte MistralCalls::ReadName(char c, AnswerEvents& out) {
  if (c == '[' || marker_.has_begun()) {
    const int found = marker_.Read(c, {markers::kMistralArguments, markers::kMistralId});
    if (found == MarkerMatch::kNone) return NoCall();
    if (found == 0) state_ = State::kBeforeArguments;
    if (found == 1) state_ = State::kId;
    return Byte::kHeld;
  }
  if (!IsNameByte(c)) return BeginArguments(c, out);
  if (state_ == State::kName) name_ += c;
  return Byte::kHeld;
}

CallParser::Byte MistralCalls::BeginArguments(char c, AnswerEvents& out) {
  state_ = State::kBeforeArguments;
  if (IsSpace(c)) return Byte::kHeld;
  if (c != '{') return NoCall();
  arguments_.Begin(name_, c, out);
  state_ = State::kArguments;
  return Byte::kCall;
}

}  // namespace outrider
