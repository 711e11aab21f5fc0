#include "verifier/http/chat_message.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/base/fnv_hash.h"
#include "verifier/http/json_text.h"

namespace outrider {
ChatMessageWriter::ChatMessageWriter(const AnswerReading& reading, uint64_t id_seed)
    : reader_(reading), id_seed_(id_seed) {}

void ChatMessageWriter::Keep(std::vector<AnswerEvent> events) {
  for (AnswerEvent& event : events) {
    if (event.kind == AnswerEvent::Kind::kCall) ++num_calls_;
    if (!events_.empty() && event.kind != AnswerEvent::Kind::kCall &&
        events_.back().kind == event.kind) {
      events_.back().text += event.text;
    } else {
      events_.push_back(std::move(event));
    }
  }
}

std::string ChatMessageWriter::CallId(size_t call) const {
  constexpr std::string_view kDigits =
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  constexpr int kLength = 9;
  FnvHash hash;
  hash.Add(id_seed_);
  hash.Add(call);
  std::string id;
  uint64_t rest = hash.value();
  for (int i = 0; i < kLength; ++i) {
    id += kDigits[rest % kDigits.size()];
    rest /= kDigits.size();
  }
  return id;
}

std::vector<Json> ChatMessageWriter::TakeDeltas() {
  std::vector<Json> deltas;
  for (const AnswerEvent& event : std::exchange(events_, {})) {
    switch (event.kind) {
      case AnswerEvent::Kind::kContent: deltas.push_back({{"content", event.text}}); break;
      case AnswerEvent::Kind::kReasoning:
        deltas.push_back({{"reasoning_content", event.text}, {"reasoning", event.text}});
        break;
      case AnswerEvent::Kind::kCall: {
        Json call = {{"index", told_calls_},
                     {"id", CallId(told_calls_)},
                     {"type", "function"},
                     {"function", {{"name", event.text}, {"arguments", ""}}}};
        ++told_calls_;
        deltas.push_back({{"tool_calls", Json::array({std::move(call)})}});
        break;
      }
      case AnswerEvent::Kind::kArguments: {
        Json more = {{"index", told_calls_ - 1}, {"function", {{"arguments", event.text}}}};
        deltas.push_back({{"tool_calls", Json::array({std::move(more)})}});
        break;
      }
    }
  }
  return deltas;
}

Json ChatMessageWriter::Message() const {
  std::string content, reasoning;
  Json calls = Json::array();
  for (const AnswerEvent& event : events_) {
    switch (event.kind) {
      case AnswerEvent::Kind::kContent: content += event.text; break;
      case AnswerEvent::Kind::kReasoning: reasoning += event.text; break;
      case AnswerEvent::Kind::kCall:
        calls.push_back({{"id", CallId(calls.size())},
                         {"type", "function"},
                         {"function", {{"name", event.text}, {"arguments", ""}}}});
        break;
      case AnswerEvent::Kind::kArguments: {
        auto& arguments = calls.back()["function"]["arguments"].get_ref<std::string&>();
        arguments += event.text;
        break;
      }
    }
  }
  // A message with something else needs no content.
  const bool is_null = content.empty() && (!calls.empty() || !reasoning.empty());
  Json message = {{"role", "assistant"},
                  {"content", is_null ? Json() : Json(std::move(content))},
                  {"refusal", nullptr}};
  if (!reasoning.empty()) {
    message["reasoning_content"] = reasoning;
    message["reasoning"] = std::move(reasoning);
  }
  if (!calls.empty()) message["tool_calls"] = std::move(calls);
  return message;
}

}  // namespace outrider
