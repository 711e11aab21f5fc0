#include "verifier/chat/reasoning.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/utf8_bytes.h"
#include "verifier/chat/call_parser.h"
#include "verifier/chat/format_names.h"
#include "verifier/chat/markers.h"

namespace outrider {
namespace {

constexpr NamedFormat<ReasoningFormat> kReasoningFormats[] = {
    {"none", ReasoningFormat::kNone},
    {"qwen3", ReasoningFormat::kQwen3},
    {"deepseek_r1", ReasoningFormat::kDeepSeekR1},
    {"mistral", ReasoningFormat::kMistral},
    {"openai_gptoss", ReasoningFormat::kHarmony}};

bool IsAllSpace(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return IsSpace(c); });
}

}  // namespace

std::string_view NameOf(ReasoningFormat format) { return NameIn(kReasoningFormats, format); }

ReasoningFormat ReasoningFormatOf(std::string_view name) {
  return FormatIn(kReasoningFormats, name);
}

std::vector<std::string> ReasoningFormatNames() { return NamesIn(kReasoningFormats); }

// A template that drops the reasoning of earlier turns may contain the end marker alone. Whether a
// prompt opens the reasoning is read from the prompt, so no template needs kDeepSeekR1.
ReasoningFormat DetectReasoningFormat(std::string_view chat_template) {
  if (markers::ShowsHarmony(chat_template)) return ReasoningFormat::kHarmony;
  for (const ReasoningFormat format : {ReasoningFormat::kQwen3, ReasoningFormat::kMistral}) {
    if (chat_template.find(MarkersOf(format).end) != chat_template.npos) return format;
  }
  return ReasoningFormat::kNone;
}

ReasoningMarkers MarkersOf(ReasoningFormat format) {
  OUTRIDER_CHECK(format != ReasoningFormat::kNone);
  if (format == ReasoningFormat::kMistral) return {"[THINK]", "[/THINK]"};
  if (format == ReasoningFormat::kHarmony) {
    return {"<|channel|>analysis<|message|>", markers::kHarmonyEnd};
  }
  return {"<think>", "</think>"};
}

bool OpensReasoning(ReasoningFormat format, std::string_view tail) {
  const ReasoningMarkers markers = MarkersOf(format);
  const size_t begin = tail.rfind(markers.begin);
  if (begin == tail.npos) return false;
  return tail.find(markers.end, begin) == tail.npos;
}

ReasoningParser::ReasoningParser(ReasoningFormat format, bool is_open)
    : markers_(MarkersOf(format)),
      state_(is_open || format == ReasoningFormat::kDeepSeekR1 ? State::kOpened : State::kStart) {}

void ReasoningParser::Push(std::string_view text, AnswerEvents& out, std::string& content) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (state_ == State::kContent) {
      content += text.substr(i);
      return;
    }
    if (!IsContinuationByte(text[i])) ++characters_;  // a character begins
    Read(text[i], out, content);
  }
}

void ReasoningParser::Read(char c, AnswerEvents& out, std::string& content) {
  switch (state_) {
    case State::kStart: ReadStart(c, content); break;
    case State::kOpened: ReadOpened(c, out); break;
    case State::kThinking: ReadThinking(c, out); break;
    case State::kEnded:
      if (IsSpace(c)) break;
      state_ = State::kContent;
      content_begin_ = characters_ - 1;
      content += c;
      break;
    case State::kContent: content += c; break;
  }
}

void ReasoningParser::ReadStart(char c, std::string& content) {
  held_ += c;
  if (IsSpace(c) && !marker_.has_begun()) return;
  const int found = marker_.Read(c, {markers_.begin});
  if (found == MarkerMatch::kPart) return;
  state_ = found == 0 ? State::kThinking : State::kContent;
  if (found == MarkerMatch::kNone) {
    content += held_;
    content_begin_ = 0;
  }
  held_.clear();
}

void ReasoningParser::ReadOpened(char c, AnswerEvents& out) {
  if (IsSpace(c) && !marker_.has_begun()) return;
  const int found = marker_.Read(c, {markers_.begin, markers_.end});
  if (found == MarkerMatch::kPart) {
    held_ += c;
    return;
  }
  state_ = found == 1 ? State::kEnded : State::kThinking;
  if (found != MarkerMatch::kNone) {
    held_.clear();
    return;
  }
  AddReasoning(std::exchange(held_, {}), out);
  ReadThinking(c, out);
}

void ReasoningParser::ReadThinking(char c, AnswerEvents& out) {
  if (IsSpace(c) && !marker_.has_begun()) {
    held_ += c;
    return;
  }
  const bool had_begun = marker_.has_begun();
  const int found = marker_.Read(c, {markers_.end});
  if (found == MarkerMatch::kPart) {
    held_ += c;
  } else if (found == 0) {
    held_.clear();
    state_ = State::kEnded;
  } else {
    AddReasoning(std::exchange(held_, {}), out);
    if (had_begun) return ReadThinking(c, out);  // this byte may begin the marker
    AddReasoning({&c, 1}, out);
  }
}

void ReasoningParser::AddReasoning(std::string_view text, AnswerEvents& out) {
  if (!has_text_) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
    has_text_ = !text.empty();
  }
  out.AddReasoning(text);
}

void ReasoningParser::Finish(AnswerEvents& out, std::string& content) {
  const std::string held = std::exchange(held_, {});
  if (state_ == State::kStart) {
    content += held;
    content_begin_ = 0;
  }
  const bool thinks = state_ == State::kThinking || state_ == State::kOpened;
  if (thinks && !IsAllSpace(held)) AddReasoning(held, out);
}

}  // namespace outrider
