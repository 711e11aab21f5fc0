#include "verifier/chat/hermes_calls.h"

#include "verifier/chat/markers.h"

namespace outrider {

CallParser::Byte HermesCalls::Read(char c, AnswerEvents& out) {
  switch (state_) {
    case State::kText: {
      const int found = marker_.Read(c, {markers::kHermes});
      if (found == MarkerMatch::kNone) return Byte::kContent;
      if (found == 0) {
        object_ = CallObject();
        state_ = State::kObject;
      }
      return Byte::kHeld;
    }
    case State::kObject:
      switch (object_.Read(c, out)) {
        case CallObject::Progress::kNoCall: state_ = State::kText; return Byte::kContent;
        case CallObject::Progress::kMore: return object_.has_begun() ? Byte::kCall : Byte::kHeld;
        case CallObject::Progress::kDone: state_ = State::kEnd; return Byte::kCall;
        case CallObject::Progress::kOver: state_ = State::kEnd; return ReadEnd(c);
      }
      break;
    case State::kEnd: return ReadEnd(c);
  }
  return Byte::kContent;
}

// Models sometimes omit the end marker and go on with the next call or with text.
CallParser::Byte HermesCalls::ReadEnd(char c) {
  if (IsSpace(c) && !marker_.has_begun()) return Byte::kContent;
  const int found = marker_.Read(c, {markers::kHermesEnd, markers::kHermes});
  if (found == MarkerMatch::kPart) return Byte::kHeld;
  state_ = State::kText;
  if (found == MarkerMatch::kNone) return Byte::kContent;
  if (found == 0) return Byte::kCall;
  object_ = CallObject();
  state_ = State::kObject;
  return Byte::kHeld;
}

}  // namespace outrider
