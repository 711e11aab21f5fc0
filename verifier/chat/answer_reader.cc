#include "verifier/chat/answer_reader.h"

#include <utility>

namespace outrider {

std::vector<std::string_view> MarkersOf(const AnswerFormat& format) {
  if (format.is_harmony()) return MarkersOf(ToolFormat::kHarmony);
  std::vector<std::string_view> markers = MarkersOf(format.tools);
  if (format.reasoning != ReasoningFormat::kNone) {
    const ReasoningMarkers reasoning = MarkersOf(format.reasoning);
    markers.insert(markers.end(), {reasoning.begin, reasoning.end});
  }
  return markers;
}

AnswerReader::AnswerReader(const AnswerReading& reading)
    : calls_(reading.format.is_harmony() ? nullptr
                                         : CallParser::Create(reading.format.tools, reading.tools)),
      include_reasoning_(reading.include_reasoning),
      must_call_(reading.must_call),
      max_calls_(reading.max_calls) {
  if (reading.format.is_harmony()) {
    harmony_.emplace(reading.format.reasoning, reading.format.tools, reading.opens_reasoning);
  } else if (reading.format.reasoning != ReasoningFormat::kNone) {
    reasoning_.emplace(reading.format.reasoning, reading.opens_reasoning);
  }
}

std::vector<AnswerEvent> AnswerReader::Push(std::string_view text) {
  AnswerEvents out;
  if (harmony_.has_value()) {
    harmony_->Push(text, out);
    return Wanted(std::move(out));
  }
  std::string content;
  if (reasoning_.has_value()) {
    reasoning_->Push(text, out, content);
    text = content;
  }
  if (calls_ != nullptr) {
    calls_->Push(text, out);
  } else {
    out.AddContent(text);
  }
  return Wanted(std::move(out));
}

std::vector<AnswerEvent> AnswerReader::Finish() {
  AnswerEvents out;
  if (harmony_.has_value()) {
    harmony_->Finish(out);
    return Wanted(std::move(out));
  }
  std::string content;
  if (reasoning_.has_value()) reasoning_->Finish(out, content);
  if (calls_ != nullptr) {
    calls_->Push(content, out);
    calls_->Finish(out);
  } else {
    out.AddContent(content);
  }
  return Wanted(std::move(out));
}

std::vector<AnswerEvent> AnswerReader::Wanted(AnswerEvents events) {
  std::vector<AnswerEvent> wanted;
  for (AnswerEvent& event : events.Take()) {
    if (event.kind == AnswerEvent::Kind::kCall) ++num_calls_;
    const bool is_of_call =
        event.kind == AnswerEvent::Kind::kCall || event.kind == AnswerEvent::Kind::kArguments;
    const bool is_dropped = (is_of_call && num_calls_ > max_calls_) ||
                            (event.kind == AnswerEvent::Kind::kContent && must_call_) ||
                            (event.kind == AnswerEvent::Kind::kReasoning && !include_reasoning_);
    if (is_dropped) continue;
    if (event.kind == AnswerEvent::Kind::kCall) {
      within_call_ = true;
      arguments_ = JsonSpan();
    } else if (event.kind == AnswerEvent::Kind::kArguments) {
      for (const char c : event.text) within_call_ = !arguments_.Ends(c);
    }
    wanted.push_back(std::move(event));
  }
  return wanted;
}

}  // namespace outrider
