#include "verifier/chat/deepseek_calls.h"

#include "verifier/chat/markers.h"

namespace outrider {
namespace {

constexpr size_t kMaxNameBytes = 256;  // a longer one is not a name, and is no longer held back

}  // namespace

CallParser::Byte DeepSeekCalls::NoCall() {
  state_ = State::kText;
  return Byte::kContent;
}

void DeepSeekCalls::BeginHead() {
  head_.clear();
  name_.clear();
  has_fence_ = false;
  state_ = State::kHead;
}

CallParser::Byte DeepSeekCalls::Read(char c, AnswerEvents& out) {
  switch (state_) {
    case State::kText: return ReadText(c);
    case State::kCalls: return ReadCalls(c);
    case State::kHead: return ReadHead(c);
    case State::kName: return ReadName(c, out);
    case State::kFence:
      if (c == '{') return Begin(name_, c, out);
      has_fence_ = has_fence_ || c == '`';
      return IsSpace(c) || std::string_view("`json").find(c) != std::string_view::npos ? Byte::kHeld
                                                                                       : NoCall();
    case State::kArguments:
      if (arguments_.Read(c, out)) state_ = State::kAfter;
      return Byte::kCall;
    case State::kAfter: return ReadAfter(c);
  }
  return Byte::kContent;
}

CallParser::Byte DeepSeekCalls::ReadText(char c) {
  const int found = marker_.Read(c, {markers::kDeepSeekCalls, markers::kDeepSeekCall});
  if (found == MarkerMatch::kNone) return Byte::kContent;
  if (found == 0) state_ = State::kCalls;
  if (found == 1) BeginHead();
  return Byte::kHeld;
}

CallParser::Byte DeepSeekCalls::ReadCalls(char c) {
  if (IsSpace(c) && !marker_.has_begun()) return Byte::kHeld;
  const int found = marker_.Read(c, {markers::kDeepSeekCall});
  if (found == MarkerMatch::kNone) return NoCall();
  if (found == 0) BeginHead();
  return Byte::kHeld;
}

CallParser::Byte DeepSeekCalls::ReadHead(char c) {
  const bool had_begun = marker_.has_begun();
  const int found = marker_.Read(c, {markers::kDeepSeekName});
  if (found == MarkerMatch::kNone) {
    if (had_begun || head_.size() == kMaxNameBytes) return NoCall();
    head_ += c;
  }
  if (found == 0) state_ = State::kName;
  return Byte::kHeld;
}

CallParser::Byte DeepSeekCalls::ReadName(char c, AnswerEvents& out) {
  if (c == '{' && name_.empty()) return Begin(head_, c, out);
  if (c == '\n' && !name_.empty()) {
    state_ = State::kFence;
  } else if (!IsSpace(c)) {
    if (name_.size() == kMaxNameBytes) return NoCall();
    name_ += c;
  }
  return Byte::kHeld;
}

CallParser::Byte DeepSeekCalls::Begin(const std::string& name, char c, AnswerEvents& out) {
  if (name.empty()) return NoCall();
  arguments_.Begin(name, c, out);
  state_ = State::kArguments;
  return Byte::kCall;
}

CallParser::Byte DeepSeekCalls::ReadAfter(char c) {
  if (IsSpace(c) && !marker_.has_begun()) return Byte::kContent;
  if (c == '`' && has_fence_ && !marker_.has_begun()) return Byte::kCall;
  const bool had_begun = marker_.has_begun();
  const int found = marker_.Read(
      c, {markers::kDeepSeekCallEnd, markers::kDeepSeekCallsEnd, markers::kDeepSeekCall});
  switch (found) {
    case MarkerMatch::kPart: return Byte::kHeld;
    case 0: return Byte::kCall;
    case 1: state_ = State::kText; return Byte::kCall;
    case 2: BeginHead(); return Byte::kHeld;
    default: break;
  }
  state_ = State::kText;
  return had_begun ? Byte::kContent : ReadText(c);
}

}  // namespace outrider
