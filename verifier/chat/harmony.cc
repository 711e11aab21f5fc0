#include "verifier/chat/harmony.h"

#include <algorithm>
#include <utility>

#include "common/base/utf8_bytes.h"
#include "verifier/chat/call_parser.h"
#include "verifier/chat/markers.h"

namespace outrider {
namespace {

constexpr size_t kMaxHeaderBytes = 512;
constexpr std::string_view kRecipient = "to=", kFunctions = "functions.";

// Indices in markers::kHarmony.
enum HarmonyMarker { kStartMarker, kChannelMarker, kConstrainMarker, kMessageMarker, kEndMarker };

std::string_view WithoutSpaceBefore(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  return text;
}

std::string_view FirstWord(std::string_view text) {
  text = WithoutSpaceBefore(text);
  return text.substr(0, text.find_first_of(" \t\r\n"));
}

// The word after "to=" in a part of a header; "" if there is none.
std::string_view RecipientIn(std::string_view header) {
  for (header = WithoutSpaceBefore(header); !header.empty(); header = WithoutSpaceBefore(header)) {
    const std::string_view word = FirstWord(header);
    if (word.starts_with(kRecipient)) return word.substr(kRecipient.size());
    header.remove_prefix(word.size());
  }
  return "";
}

// Whether the text may be white space before a header, or a header's recipient.
bool MayComeBeforeMarker(std::string_view text) {
  if (text.size() > kMaxHeaderBytes) return false;
  text = WithoutSpaceBefore(text);
  if (kRecipient.starts_with(text)) return true;
  return text.starts_with(kRecipient) &&
         std::all_of(text.begin() + kRecipient.size(), text.end(),
                     [](char c) { return IsNameByte(c) || IsSpace(c); });
}

}  // namespace

HarmonyParser::HarmonyParser(ReasoningFormat reasoning, ToolFormat tools, bool opens_reasoning)
    : analysis_kind_(reasoning == ReasoningFormat::kNone ? AnswerEvent::Kind::kContent
                                                         : AnswerEvent::Kind::kReasoning),
      reads_calls_(tools != ToolFormat::kNone),
      state_(opens_reasoning ? State::kBody : State::kBetween),
      kind_(analysis_kind_) {}

void HarmonyParser::Push(std::string_view text, AnswerEvents& out) {
  for (const char c : text) {
    if (!IsContinuationByte(c)) ++characters_;  // a character begins
    Read(c, out);
  }
}

void HarmonyParser::Read(char c, AnswerEvents& out) {
  if (state_ == State::kArguments) {  // their strings may contain markers
    if (!arguments_.Read(c, out)) return;
    state_ = State::kBetween;
    message_begin_ = characters_;
    return;
  }
  const int found = marker_.Read(c, markers::kHarmony);
  if (found == MarkerMatch::kPart) {
    partial_ += c;
    return;
  }
  const std::string partial = std::exchange(partial_, {});
  if (found != MarkerMatch::kNone) return ReadMarker(found, out);
  if (partial.empty()) return ReadByte(c, out);
  for (const char before : partial) ReadByte(before, out);
  Read(c, out);  // this byte may begin a marker
}

void HarmonyParser::ReadByte(char c, AnswerEvents& out) {
  switch (state_) {
    case State::kBetween: ReadBetween(c, out); break;
    case State::kHeader:
      (in_channel_ ? channel_ : role_) += c;
      if (role_.size() + channel_.size() <= kMaxHeaderBytes) break;
      held_ = role_ + channel_;
      message_begin_ = characters_;
      BeginContent(out);
      break;
    case State::kBody: AddText({&c, 1}, out); break;
    case State::kCall: ReadCall(c, out); break;
    case State::kArguments: break;  // see Read
  }
}

void HarmonyParser::ReadBetween(char c, AnswerEvents& out) {
  held_ += c;
  if (!MayComeBeforeMarker(held_)) BeginContent(out);
}

void HarmonyParser::ReadCall(char c, AnswerEvents& out) {
  if (c == '{') {
    NoteContent();
    held_.clear();
    arguments_.Begin(name_, c, out);
    state_ = State::kArguments;
    return;
  }
  held_ += c;
  if (!IsSpace(c)) BeginContent(out);
}

void HarmonyParser::ReadMarker(int marker, AnswerEvents& out) {
  if (marker == kStartMarker || marker >= kEndMarker) {
    if (state_ == State::kBetween && !WithoutSpaceBefore(held_).empty()) BeginContent(out);
    state_ = marker == kStartMarker ? State::kHeader : State::kBetween;
    held_.clear();
    role_.clear();
    channel_.clear();
    in_channel_ = false;
    message_begin_ = characters_;
    return;
  }
  const bool in_message = state_ == State::kBody || state_ == State::kCall;
  if (in_message && marker != kChannelMarker) return;  // it has no meaning there
  if (state_ != State::kHeader) {
    role_ = in_message ? "" : std::exchange(held_, {});
    channel_.clear();
    in_channel_ = false;
    state_ = State::kHeader;
  }
  if (marker == kMessageMarker) return BeginMessage();
  if (marker == kConstrainMarker) {
    (in_channel_ ? channel_ : role_) += ' ';  // it ends the word before it
  } else {
    channel_.clear();
    in_channel_ = true;
  }
}

void HarmonyParser::BeginMessage() {
  std::string_view recipient = RecipientIn(channel_);
  if (recipient.empty()) recipient = RecipientIn(role_);
  const bool is_analysis = recipient.empty() && FirstWord(channel_) == "analysis";
  kind_ = is_analysis ? analysis_kind_ : AnswerEvent::Kind::kContent;
  name_.clear();
  if (reads_calls_ && recipient.starts_with(kFunctions)) {
    name_ = recipient.substr(kFunctions.size());
  }
  if (!std::all_of(name_.begin(), name_.end(), IsNameByte)) name_.clear();
  state_ = name_.empty() ? State::kBody : State::kCall;
  held_.clear();
  is_joined_ = false;
  message_begin_ = characters_;
}

void HarmonyParser::BeginContent(AnswerEvents& out) {
  kind_ = AnswerEvent::Kind::kContent;
  is_joined_ = false;
  state_ = State::kBody;
  AddText(std::exchange(held_, {}), out);
}

void HarmonyParser::AddText(std::string_view text, AnswerEvents& out) {
  const bool is_content = kind_ == AnswerEvent::Kind::kContent;
  bool& has_text = is_content ? has_content_ : has_reasoning_;
  const std::string_view newline = !is_joined_ && has_text ? "\n" : "";
  is_joined_ = true;
  has_text = true;
  if (!is_content) {
    out.AddReasoning(newline);
    out.AddReasoning(text);
    return;
  }
  NoteContent();
  out.AddContent(newline);
  out.AddContent(text);
}

void HarmonyParser::Finish(AnswerEvents& out) {
  for (const char c : std::exchange(partial_, {})) ReadByte(c, out);
  // White space between messages is not content, but an answer may be nothing else.
  const bool is_all = message_begin_ == 0;
  if (state_ != State::kBetween) return;
  if (!held_.empty() && (is_all || !WithoutSpaceBefore(held_).empty())) BeginContent(out);
}

}  // namespace outrider
