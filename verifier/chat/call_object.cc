#include "verifier/chat/call_object.h"

#include <optional>

#include "common/json/json.h"
#include "verifier/chat/call_parser.h"

namespace outrider {

namespace {

// The value of a JSON string, given with its quotes; nullopt if it is not one.
std::optional<std::string> TextOfString(const std::string& quoted) {
  const auto json = ParseJsonObject("{\"text\":" + quoted + "}", "a string");
  if (!json.ok()) return std::nullopt;
  return (*json)["text"].text();
}

}  // namespace

CallObject::Progress CallObject::Read(char c, AnswerEvents& out) {
  switch (state_) {
    case State::kStart:
      if (IsSpace(c)) return Progress::kMore;
      if (c != '{') return Progress::kNoCall;
      state_ = State::kKey;
      return Progress::kMore;
    case State::kKey:
      if (IsSpace(c)) return Progress::kMore;
      if (c == '}') return ReadAfter(c, out);
      if (c != '"') return NoCall();
      text_ = c;
      state_ = State::kInKey;
      return Progress::kMore;
    case State::kInKey:
      text_ += c;
      if (c != '"') return Progress::kMore;
      member_ = text_ == "\"name\""                                     ? Member::kName
                : text_ == "\"arguments\"" || text_ == "\"parameters\"" ? Member::kArguments
                                                                        : Member::kOther;
      // The first of repeated members counts.
      if (member_ == Member::kName && !name_.empty()) member_ = Member::kOther;
      if (member_ == Member::kArguments && has_arguments_) member_ = Member::kOther;
      state_ = State::kColon;
      return Progress::kMore;
    case State::kColon:
      if (c == ':') state_ = State::kValue;
      return c == ':' || IsSpace(c) ? Progress::kMore : NoCall();
    case State::kValue: return ReadValueStart(c, out);
    case State::kInValue: {
      const bool ends = span_.Ends(c);
      if (is_string_) {
        text_ += c;
      } else if (member_ == Member::kArguments) {
        AddArguments({&c, 1}, out);
      }
      if (!ends) return Progress::kMore;
      state_ = State::kAfter;
      return EndValue(out) ? Progress::kMore : NoCall();
    }
    case State::kInScalar: return ReadScalar(c, out);
    case State::kAfter: return ReadAfter(c, out);
  }
  return Progress::kNoCall;
}

CallObject::Progress CallObject::ReadValueStart(char c, AnswerEvents& out) {
  if (IsSpace(c)) return Progress::kMore;
  is_string_ = c == '"';
  const bool is_object = c == '{';
  if (member_ == Member::kName && !is_string_) return NoCall();
  text_ = c;
  if (!is_string_ && !is_object && c != '[') {
    if (c == ',' || c == '}' || c == ']') return NoCall();
    state_ = State::kInScalar;
    return Progress::kMore;
  }
  if (member_ == Member::kArguments && c == '[') return NoCall();
  state_ = State::kInValue;
  span_ = JsonSpan();
  span_.Ends(c);
  if (member_ == Member::kArguments && is_object) {
    has_arguments_ = true;
    AddArguments({&c, 1}, out);
    BeginIfKnown(out);
  }
  return Progress::kMore;
}

// A number, true, false or null ends where something else begins.
CallObject::Progress CallObject::ReadScalar(char c, AnswerEvents& out) {
  if (c != ',' && c != '}' && !IsSpace(c)) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    const bool is_other = c == '.' || c == '-' || c == '+' || c == 'E';
    if (!is_letter && !is_other) return NoCall();
    text_ += c;
    return Progress::kMore;
  }
  state_ = State::kAfter;
  if (member_ == Member::kArguments) {
    if (text_ != "null") return NoCall();
    has_arguments_ = true;
    AddArguments("{}", out);
    BeginIfKnown(out);
  }
  return ReadAfter(c, out);
}

CallObject::Progress CallObject::ReadAfter(char c, AnswerEvents& out) {
  if (IsSpace(c)) return Progress::kMore;
  if (c == ',') {
    state_ = State::kKey;
    return Progress::kMore;
  }
  if (c != '}') return NoCall();
  if (!has_begun_) {
    if (name_.empty() || needs_arguments_) return Progress::kNoCall;
    has_arguments_ = true;
    arguments_ = "{}";
    BeginIfKnown(out);
  }
  return Progress::kDone;
}

bool CallObject::EndValue(AnswerEvents& out) {
  if (member_ == Member::kName) {
    name_ = TextOfString(text_).value_or("");
    if (name_.empty() || (is_tool_ && !is_tool_(name_))) return false;
    BeginIfKnown(out);
  } else if (member_ == Member::kArguments && is_string_) {
    const std::optional<std::string> arguments = TextOfString(text_);
    if (!arguments.has_value()) return false;
    has_arguments_ = true;
    AddArguments(arguments->empty() ? "{}" : *arguments, out);
    BeginIfKnown(out);
  }
  return true;
}

void CallObject::AddArguments(std::string_view text, AnswerEvents& out) {
  if (has_begun_) {
    out.AddArguments(text);
  } else {
    arguments_ += text;
  }
}

void CallObject::BeginIfKnown(AnswerEvents& out) {
  if (has_begun_ || name_.empty() || !has_arguments_) return;
  has_begun_ = true;
  out.BeginCall(name_);
  out.AddArguments(arguments_);
  arguments_.clear();
}

}  // namespace outrider
