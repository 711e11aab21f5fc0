#include "verifier/http/api_answer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string_view>

#include "common/text/utf8.h"

namespace outrider {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no infinity; vLLM's number for it.
constexpr float kNeverLogprob = -9999.f;

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

float Finite(float logprob) { return std::max(logprob, kNeverLogprob); }

std::string WellFormed(std::string_view bytes) {
  std::string text;
  Utf8Stream stream;
  stream.Push(bytes, text);
  stream.Finish(text);
  return text;
}

int64_t Characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; });
}

Json ChatLogprob(const Tokenizer& tokenizer, TokenId id, float logprob) {
  const std::string_view bytes = tokenizer.TokenBytes(id);
  Json codes = Json::array();
  for (const char byte : bytes) codes.push_back(static_cast<uint8_t>(byte));
  return {{"token", WellFormed(bytes)}, {"logprob", Finite(logprob)}, {"bytes", std::move(codes)}};
}

const char* ReasonName(FinishReason reason) {
  return reason == FinishReason::kStop ? "stop" : "length";
}

Json SpeculationOf(const Summary& s) {
  Json arms = Json::object();
  for (const auto& [name, rounds] : s.arm_rounds) arms[name] = rounds;
  return {{"rounds", s.rounds},
          {"drafted_rounds", s.drafted_rounds},
          {"drafted", s.drafted_tokens},
          {"accepted", s.accepted_tokens},
          {"accepted_per_position", s.accepted_per_position},
          {"drafter", s.drafter.empty() ? Json() : Json(s.drafter)},
          {"arms", std::move(arms)},
          {"arm_switches", s.arm_switches},
          {"seed", s.seed}};
}

}  // namespace

ApiAnswer::ApiAnswer(const ApiRequest& request, const ApiModel& model, uint64_t id, int64_t created)
    : chat_(request.chat),
      stream_(request.stream),
      include_usage_(request.include_usage),
      continuous_usage_(request.continuous_usage),
      logprobs_(request.logprobs),
      generated_(static_cast<size_t>(request.choices)),
      kept_(static_cast<size_t>(request.kept)),
      id_((request.chat ? "chatcmpl-" : "cmpl-") + std::to_string(created) + "-" +
          std::to_string(id)),
      created_(created),
      model_(model.name),
      tokenizer_(model.tokenizer),
      open_(static_cast<int>(request.prompts.size()) * request.choices),
      choices_(static_cast<size_t>(open_)) {
  for (const GenerationRequest& prompt : request.prompts) {
    prompt_tokens_ += static_cast<int>(prompt.prompt.size());
  }
}

std::vector<size_t> ApiAnswer::Kept() const {
  std::vector<size_t> kept;
  const auto mean = [&](size_t i) {
    return choices_[i].logprob_sum / std::max(choices_[i].tokens, 1);
  };
  for (size_t begin = 0; begin < choices_.size(); begin += generated_) {
    std::vector<size_t> ranked(generated_);
    std::iota(ranked.begin(), ranked.end(), begin);
    if (kept_ < generated_) {
      std::stable_sort(ranked.begin(), ranked.end(),
                       [&](size_t a, size_t b) { return mean(a) > mean(b); });
    }
    kept.insert(kept.end(), ranked.begin(), ranked.begin() + static_cast<std::ptrdiff_t>(kept_));
  }
  return kept;
}

Json ApiAnswer::Head(const char* object) const {
  return {{"id", id_}, {"object", object}, {"created", created_}, {"model", model_}};
}

Json ApiAnswer::Usage() const {
  int completion = 0, accepted = 0, drafted = 0;
  for (const Choice& choice : choices_) {
    completion += choice.tokens;
    accepted += choice.summary.accepted_tokens;
    drafted += choice.summary.drafted_tokens;
  }
  return {{"prompt_tokens", prompt_tokens_},
          {"completion_tokens", completion},
          {"total_tokens", prompt_tokens_ + completion},
          {"completion_tokens_details",
           {{"accepted_prediction_tokens", accepted},
            {"rejected_prediction_tokens", drafted - accepted}}}};
}

Json ApiAnswer::TakeLogprobs(Choice& choice) const {
  if (!logprobs_) return nullptr;
  const auto tokens = std::exchange(choice.logprobs, {});
  if (chat_) {
    Json content = Json::array();
    for (const auto& [id, logprobs] : tokens) {
      Json entry = ChatLogprob(*tokenizer_, id, logprobs.logprob);
      entry["top_logprobs"] = Json::array();
      for (const auto& [other, logprob] : logprobs.top) {
        entry["top_logprobs"].push_back(ChatLogprob(*tokenizer_, other, logprob));
      }
      content.push_back(std::move(entry));
    }
    return {{"content", std::move(content)}, {"refusal", nullptr}};
  }
  Json out = {{"tokens", Json::array()},
              {"token_logprobs", Json::array()},
              {"top_logprobs", Json::array()},
              {"text_offset", Json::array()}};
  for (const auto& [id, logprobs] : tokens) {
    const std::string text = WellFormed(tokenizer_->TokenBytes(id));
    Json top = Json::object();
    for (const auto& [other, logprob] : logprobs.top) {
      // Tokens that are parts of characters look alike: the likeliest stands for them.
      top.emplace(WellFormed(tokenizer_->TokenBytes(other)), Finite(logprob));
    }
    // The sampled token is always among them, as in OpenAI's API: there may be one more than was
    // asked for.
    top.emplace(text, Finite(logprobs.logprob));
    out["tokens"].push_back(text);
    out["token_logprobs"].push_back(Finite(logprobs.logprob));
    out["top_logprobs"].push_back(std::move(top));
    out["text_offset"].push_back(choice.offset);
    choice.offset += Characters(text);
  }
  return out;
}

std::string ApiAnswer::Event(Json choice) const {
  Json event = Head(chat_ ? "chat.completion.chunk" : "text_completion");
  event["choices"] = Json::array({std::move(choice)});
  if (continuous_usage_) {
    event["usage"] = Usage();
  } else if (include_usage_) {
    event["usage"] = nullptr;
  }
  return Dump(event);
}

std::vector<std::string> ApiAnswer::Add(int index, Chunk chunk) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  choice.tokens += static_cast<int>(chunk.tokens.size());
  for (size_t i = 0; i < chunk.logprobs.size(); ++i) {
    choice.logprob_sum += static_cast<double>(Finite(chunk.logprobs[i].logprob));
    if (!logprobs_) continue;
    choice.logprobs.emplace_back(chunk.tokens[i], std::move(chunk.logprobs[i]));
  }
  if (!stream_) {
    choice.text += chunk.text;
    return {};
  }
  std::vector<std::string> events;
  if (chat_ && !std::exchange(choice.begun, true)) {
    events.push_back(Event({{"index", index},
                            {"delta", {{"role", "assistant"}, {"content", ""}}},
                            {"logprobs", nullptr},
                            {"finish_reason", nullptr}}));
  }
  if (chunk.text.empty() && choice.logprobs.empty()) return events;
  Json json = {{"index", index}};
  if (chat_) {
    json["delta"] = {{"content", chunk.text}};
  } else {
    json["text"] = chunk.text;
  }
  json["logprobs"] = TakeLogprobs(choice);
  json["finish_reason"] = nullptr;
  events.push_back(Event(std::move(json)));
  return events;
}

std::vector<std::string> ApiAnswer::Finish(int index, const Summary& summary) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  choice.summary = summary;
  choice.tokens = summary.completion_tokens;
  --open_;
  if (!stream_) return {};
  Json json = {{"index", index}};
  if (chat_) {
    json["delta"] = Json::object();
  } else {
    json["text"] = "";
  }
  json["logprobs"] = nullptr;
  json["finish_reason"] = ReasonName(summary.reason);
  json["speculation"] = SpeculationOf(summary);
  return {Event(std::move(json))};
}

std::string ApiAnswer::Body() {
  Json body = Head(chat_ ? "chat.completion" : "text_completion");
  Json choices = Json::array();
  for (const size_t i : Kept()) {
    Choice& choice = choices_[i];
    Json json = {{"index", choices.size()}};
    if (chat_) {
      json["message"] = {{"role", "assistant"}, {"content", choice.text}, {"refusal", nullptr}};
    } else {
      json["text"] = choice.text;
    }
    json["logprobs"] = TakeLogprobs(choice);
    json["finish_reason"] = ReasonName(choice.summary.reason);
    json["speculation"] = SpeculationOf(choice.summary);
    choices.push_back(std::move(json));
  }
  body["choices"] = std::move(choices);
  body["usage"] = Usage();
  return Dump(body);
}

std::string ApiAnswer::UsageEvent() const {
  Json event = Head(chat_ ? "chat.completion.chunk" : "text_completion");
  event["choices"] = Json::array();
  event["usage"] = Usage();
  return Dump(event);
}

}  // namespace outrider
