#include "verifier/http/api_answer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "common/base/fnv_hash.h"
#include "verifier/http/answer_logprobs.h"
#include "verifier/http/json_text.h"

namespace outrider {
namespace {

const char* ReasonName(FinishReason reason, bool has_calls) {
  if (reason == FinishReason::kLength) return "length";
  return has_calls ? "tool_calls" : "stop";
}

Json SpeculationOf(const Summary& s) {
  Json arms = Json::object();
  for (const auto& [name, rounds] : s.arm_rounds) arms[name] = rounds;
  return {{"rounds", s.rounds},
          {"drafted_rounds", s.drafted_rounds},
          {"drafted", s.drafted_tokens},
          {"accepted", s.accepted_tokens},
          {"accepted_per_position", s.accepted_per_position},
          {"forced", s.forced_tokens},
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
      prompt_logprobs_(request.prompt_logprobs),
      echo_(!request.echoes.empty()),
      echo_only_(request.echo_only),
      skip_special_(request.prompts.front().skip_special),
      generated_(static_cast<size_t>(request.choices)),
      kept_(static_cast<size_t>(request.kept)),
      id_((request.chat ? "chatcmpl-" : "cmpl-") + std::to_string(created) + "-" +
          std::to_string(id)),
      created_(created),
      model_(model.name),
      tokenizer_(model.tokenizer),
      open_(static_cast<int>(request.prompts.size()) * request.choices),
      choices_(static_cast<size_t>(open_)) {
  for (size_t i = 0; i < request.prompts.size(); ++i) {
    const GenerationRequest& prompt = request.prompts[i];
    prompt_tokens_ += static_cast<int>(prompt.prompt.size());
    Prompt& own = prompts_.emplace_back();
    if (!request.echoes.empty()) own.echo = request.echoes[i];
    if (prompt.prompt_logprobs.has_value()) own.tokens = prompt.prompt;
  }
  for (size_t i = 0; chat_ && i < choices_.size(); ++i) {
    FnvHash seed;
    seed.Add(id_);
    seed.Add(i);
    choices_[i].message.emplace(request.reading, seed.value());
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
  int cached = 0;  // a prompt counts once, with its first choice
  for (size_t i = 0; i < choices_.size(); i += generated_) {
    cached += choices_[i].summary.cached_tokens;
  }
  return {{"prompt_tokens", prompt_tokens_},
          {"completion_tokens", completion},
          {"total_tokens", prompt_tokens_ + completion},
          {"prompt_tokens_details", {{"cached_tokens", cached}}},
          {"completion_tokens_details",
           {{"accepted_prediction_tokens", accepted},
            {"rejected_prediction_tokens", drafted - accepted}}}};
}

Json ApiAnswer::TakeLogprobs(Choice& choice) const {
  if (!logprobs_.has_value()) return nullptr;
  const std::vector<AnswerToken> tokens = std::exchange(choice.logprobs, {});
  if (chat_) return ChatLogprobs(*tokenizer_, tokens);
  return CompletionLogprobs(*tokenizer_, tokens, *logprobs_, skip_special_, &choice.offset);
}

std::vector<AnswerToken> ApiAnswer::TokensOf(const Prompt& prompt) {
  std::vector<AnswerToken> tokens;
  for (const TokenId id : prompt.tokens) {
    const size_t i = tokens.size();
    tokens.push_back({.id = id, .logprobs = std::nullopt});
    if (i > 0 && i <= prompt.logprobs.size()) tokens.back().logprobs = prompt.logprobs[i - 1];
  }
  return tokens;
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

void ApiAnswer::Take(Choice& choice, const Prompt& prompt, bool first, Chunk& chunk) {
  if (echo_only_) {
    chunk.text.clear();
    chunk.tokens.clear();
    chunk.logprobs.clear();
  }
  if (first && echo_) {
    chunk.text.insert(0, prompt.echo);
    if (logprobs_.has_value()) choice.logprobs = TokensOf(prompt);
  }
  choice.tokens += static_cast<int>(chunk.tokens.size());
  for (size_t i = 0; i < chunk.logprobs.size(); ++i) {
    choice.logprob_sum += static_cast<double>(FiniteLogprob(chunk.logprobs[i].logprob));
    if (!logprobs_.has_value()) continue;
    choice.logprobs.push_back({.id = chunk.tokens[i], .logprobs = std::move(chunk.logprobs[i])});
  }
}

std::vector<std::string> ApiAnswer::Add(int index, Chunk chunk) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  Prompt& prompt = prompts_[static_cast<size_t>(index) / generated_];
  if (!chunk.prompt_logprobs.empty()) prompt.logprobs = std::move(chunk.prompt_logprobs);
  const bool first = !std::exchange(choice.begun, true);
  Take(choice, prompt, first, chunk);
  if (chat_) choice.message->Add(chunk.text);
  if (!stream_) {
    if (!chat_) choice.text += chunk.text;
    return {};
  }
  std::vector<std::string> events;
  if (chat_ && first) {
    events.push_back(Event({{"index", index},
                            {"delta", {{"role", "assistant"}, {"content", ""}}},
                            {"logprobs", nullptr},
                            {"finish_reason", nullptr}}));
  }
  if (chat_) {
    AddDeltas(index, events);
    return events;
  }
  if (chunk.text.empty() && choice.logprobs.empty()) return events;
  events.push_back(Event({{"index", index},
                          {"text", chunk.text},
                          {"logprobs", TakeLogprobs(choice)},
                          {"finish_reason", nullptr}}));
  return events;
}

void ApiAnswer::AddDeltas(int index, std::vector<std::string>& events) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  std::vector<Json> deltas = choice.message->TakeDeltas();
  // Tokens whose text is held back, or that have none, are told with no text.
  if (deltas.empty() && !choice.logprobs.empty()) deltas.push_back({{"content", ""}});
  for (Json& delta : deltas) {
    const bool is_first = &delta == &deltas.front();
    events.push_back(Event({{"index", index},
                            {"delta", std::move(delta)},
                            {"logprobs", is_first ? TakeLogprobs(choice) : Json()},
                            {"finish_reason", nullptr}}));
  }
}

std::vector<std::string> ApiAnswer::Finish(int index, const Summary& summary) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  choice.summary = summary;
  choice.tokens = echo_only_ ? 0 : summary.completion_tokens;
  --open_;
  if (chat_) choice.message->Finish();
  if (!stream_) return {};
  std::vector<std::string> events;
  if (chat_) AddDeltas(index, events);
  Json json = {{"index", index}};
  if (chat_) {
    json["delta"] = Json::object();
  } else {
    json["text"] = "";
  }
  json["logprobs"] = nullptr;
  json["finish_reason"] = ReasonName(summary.reason, HasCalls(choice));
  json["speculation"] = SpeculationOf(summary);
  events.push_back(Event(std::move(json)));
  return events;
}

bool ApiAnswer::HasCalls(const Choice& choice) {
  return choice.message.has_value() && choice.message->has_calls();
}

Json ApiAnswer::PromptOf(size_t choice) const {
  return PromptLogprobs(*tokenizer_, TokensOf(prompts_[choice / generated_]), *prompt_logprobs_);
}

std::string ApiAnswer::Body() {
  Json body = Head(chat_ ? "chat.completion" : "text_completion");
  Json choices = Json::array();
  for (const size_t i : Kept()) {
    Choice& choice = choices_[i];
    Json json = {{"index", choices.size()}};
    if (chat_) {
      json["message"] = choice.message->Message();
    } else {
      json["text"] = choice.text;
    }
    json["logprobs"] = TakeLogprobs(choice);
    json["finish_reason"] = ReasonName(choice.summary.reason, HasCalls(choice));
    json["speculation"] = SpeculationOf(choice.summary);
    if (!chat_ && prompt_logprobs_.has_value()) json["prompt_logprobs"] = PromptOf(i);
    choices.push_back(std::move(json));
  }
  body["choices"] = std::move(choices);
  if (chat_ && prompt_logprobs_.has_value()) body["prompt_logprobs"] = PromptOf(0);
  body["usage"] = Usage();
  AddMetrics(body);
  return Dump(body);
}

std::string ApiAnswer::UsageEvent() const {
  Json event = Head(chat_ ? "chat.completion.chunk" : "text_completion");
  event["choices"] = Json::array();
  event["usage"] = Usage();
  AddMetrics(event);
  return Dump(event);
}

void ApiAnswer::AddMetrics(Json& body) const {
  int steps = 0, drafted = 0, accepted = 0;
  std::vector<int> at_least;  // by i: steps in which more than i draft tokens were accepted
  for (const Choice& choice : choices_) {
    const Summary& s = choice.summary;
    steps += s.drafted_rounds;
    drafted += s.drafted_tokens;
    accepted += s.accepted_tokens;
    at_least.resize(std::max(at_least.size(), s.accepted_per_position.size()));
    for (size_t i = 0; i < s.accepted_per_position.size(); ++i) {
      at_least[i] += s.accepted_per_position[i];
    }
  }
  if (steps == 0) return;
  Json histogram = Json::array();
  int before = steps;
  for (const int count : at_least) histogram.push_back(std::exchange(before, count) - count);
  histogram.push_back(before);
  body["metrics"] = {{"speculative_decoding",
                      {{"mean_acceptance_length", 1 + static_cast<double>(accepted) / steps},
                       {"draft_acceptance_rate", static_cast<double>(accepted) / drafted},
                       {"acceptance_histogram", std::move(histogram)},
                       {"num_spec_steps", steps},
                       {"num_accepted_draft_tokens", accepted},
                       {"num_draft_tokens", drafted},
                       {"num_spec_tokens", at_least.size()}}}};
}

}  // namespace outrider
