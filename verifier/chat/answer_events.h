// Events parsed from the text of an answer: content, reasoning and tool calls.
//
// Thread: one owner.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace outrider {

struct AnswerEvent {
  enum class Kind {
    kContent,    // more of the content
    kReasoning,  // more of the reasoning
    kCall,       // a call begins; `text` is the tool's name
    kArguments,  // more of that call's arguments, which are JSON
  };
  Kind kind = Kind::kContent;
  std::string text;

  bool operator==(const AnswerEvent&) const = default;
};

// Events in order. Adjacent events of the same kind are merged.
class AnswerEvents {
 public:
  void AddContent(std::string_view text) { Append(AnswerEvent::Kind::kContent, text); }
  void AddReasoning(std::string_view text) { Append(AnswerEvent::Kind::kReasoning, text); }
  void AddArguments(std::string_view text) { Append(AnswerEvent::Kind::kArguments, text); }
  void BeginCall(std::string_view name) {
    events_.push_back({AnswerEvent::Kind::kCall, std::string(name)});
  }

  const std::vector<AnswerEvent>& events() const { return events_; }
  // Returns the events and leaves the list empty.
  std::vector<AnswerEvent> Take() { return std::exchange(events_, {}); }

 private:
  void Append(AnswerEvent::Kind kind, std::string_view text) {
    if (text.empty()) return;
    if (events_.empty() || events_.back().kind != kind) events_.push_back({kind, ""});
    events_.back().text += text;
  }

  std::vector<AnswerEvent> events_;
};

}  // namespace outrider
