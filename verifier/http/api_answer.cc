#include "verifier/http/api_answer.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string_view>
#include <utility>

#include "common/base/fnv_hash.h"
#include "common/base/utf8_bytes.h"
#include "verifier/http/answer_logprobs.h"
#include "verifier/http/json_text.h"

namespace outrider {
namespace {

// The most log probabilities in one event about a prompt, which bounds its cost to the thread.
constexpr size_t kEchoLogprobs = 1024;
constexpr size_t kEchoBytes = 32 << 10;

// The byte at which the character begins that is `count` after the one at `byte`.
size_t SkipCharacters(std::string_view text, size_t byte, int64_t count) {
  for (; byte < text.size(); ++byte) {
    if (!IsContinuationByte(text[byte]) && count-- == 0) break;
  }
  return byte;
}

// An object's JSON without its closing bracket.
std::string OpenObject(const Json& object) {
  std::string text = Dump(object);
  text.pop_back();
  return text;
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
      include_reasoning_(request.reading.include_reasoning),
      logprobs_(request.logprobs),
      prompt_logprobs_(request.prompt_logprobs),
      echo_(!request.echoes.empty()),
      echo_only_(request.echo_only),
      skip_special_(request.prompts.front().skip_special),
      shown_special_(request.prompts.front().shown_special),
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
  for (size_t i = 0; i < choices_.size(); ++i) {
    Choice& choice = choices_[i];
    choice.offsets = OffsetsAfter(PromptOf(i));
    choice.has_echo = echo_ && stream_;
    if (!chat_) continue;
    choice.has_content = include_reasoning_;
    FnvHash seed;
    seed.Add(id_);
    seed.Add(i);
    choice.message.emplace(request.reading, seed.value());
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

bool ApiAnswer::IsText(TokenId id) const {
  return !skip_special_ || !tokenizer_->IsSpecial(id) ||
         std::find(shown_special_.begin(), shown_special_.end(), id) != shown_special_.end();
}

bool ApiAnswer::IsEchoed(const Prompt& prompt, size_t token) const {
  return token >= prompt.echo.prefix &&
         !(prompt.echo.skip_special && tokenizer_->IsSpecial(prompt.tokens[token]));
}

TextOffsets ApiAnswer::OffsetsAfter(const Prompt& prompt) const {
  return {*tokenizer_, /*starts_text=*/false,
          static_cast<int64_t>(CountCharacters(prompt.echo.text))};
}

Json ApiAnswer::TakeLogprobs(Choice& choice) {
  if (!logprobs_.has_value()) return nullptr;
  const std::vector<TokenId> ids = std::exchange(choice.ids, {});
  const std::vector<TokenLogprobs> logprobs = std::exchange(choice.logprobs, {});
  std::vector<AnswerToken> tokens;
  std::vector<int64_t> offsets;
  for (size_t i = 0; i < ids.size(); ++i) {
    tokens.push_back({ids[i], &logprobs[i]});
    if (!chat_) offsets.push_back(choice.offsets->Push(ids[i], IsText(ids[i])));
  }
  if (chat_) return ChatLogprobs(*tokenizer_, tokens);
  return CompletionLogprobs(*tokenizer_, tokens, offsets, *logprobs_);
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

void ApiAnswer::Append(Choice& choice, Chunk& chunk) {
  if (echo_only_) {
    chunk.text.clear();
    chunk.tokens.clear();
    chunk.logprobs.clear();
  }
  choice.tokens += static_cast<int>(chunk.tokens.size());
  for (size_t i = 0; i < chunk.logprobs.size(); ++i) {
    choice.logprob_sum += static_cast<double>(FiniteLogprob(chunk.logprobs[i].logprob));
    if (!logprobs_.has_value()) continue;
    const TokenId id = chunk.tokens[i];
    choice.ids.push_back(id);
    choice.logprobs.push_back(std::move(chunk.logprobs[i]));
    if (choice.has_content) continue;
    choice.offsets->Push(id, IsText(id));
    choice.ends.push_back(choice.offsets->begun());
  }
}

void ApiAnswer::LeaveOutReasoning(Choice& choice) const {
  const std::optional<int64_t> begin = choice.message->content_begin();
  if (choice.has_content || !begin.has_value()) return;
  choice.has_content = true;
  // A token with the end of the reasoning and some of the content counts as content.
  const auto first = std::upper_bound(choice.ends.begin(), choice.ends.end(), *begin);
  // Without reasoning, tokens without text are content as well.
  const auto count = *begin == 0 ? 0 : first - choice.ends.begin();
  choice.ids.erase(choice.ids.begin(), choice.ids.begin() + count);
  choice.logprobs.erase(choice.logprobs.begin(), choice.logprobs.begin() + count);
  choice.ends.clear();
}

std::vector<std::string> ApiAnswer::Add(int index, Chunk chunk) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  Prompt& prompt = prompts_[static_cast<size_t>(index) / generated_];
  if (!chunk.prompt_logprobs.empty()) prompt.logprobs = std::move(chunk.prompt_logprobs);
  const bool first = !std::exchange(choice.begun, true);
  Append(choice, chunk);
  if (chat_) {
    choice.message->Add(chunk.text);
    LeaveOutReasoning(choice);
  }
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

struct ApiAnswer::EchoPart {
  size_t byte = 0;   // of the text
  size_t token = 0;  // of the prompt
  TextOffsets offsets;
};

ApiAnswer::EventSource ApiAnswer::TakeEcho(int index) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  if (!std::exchange(choice.has_echo, false)) return nullptr;
  const auto part = std::make_shared<EchoPart>(
      EchoPart{.offsets = TextOffsets(*tokenizer_, /*starts_text=*/true, 0)});
  return [this, index, part] { return NextEcho(index, *part); };
}

std::string ApiAnswer::NextEcho(int index, EchoPart& part) const {
  const Prompt& prompt = PromptOf(static_cast<size_t>(index));
  const std::string& text = prompt.echo.text;
  const size_t begin = part.byte;
  Json logprobs;
  if (logprobs_.has_value()) {
    if (part.token == prompt.tokens.size()) return "";
    const int64_t before = part.offsets.complete();
    std::vector<AnswerToken> tokens;
    std::vector<int64_t> offsets;
    const size_t most = kEchoLogprobs / (1 + static_cast<size_t>(*logprobs_));
    for (; part.token < prompt.tokens.size() && tokens.size() < most; ++part.token) {
      tokens.push_back(prompt.at(part.token));
      offsets.push_back(part.offsets.Push(tokens.back().id, IsEchoed(prompt, part.token)));
    }
    const bool is_last = part.token == prompt.tokens.size();
    part.byte =
        is_last ? text.size() : SkipCharacters(text, part.byte, part.offsets.complete() - before);
    logprobs = CompletionLogprobs(*tokenizer_, tokens, offsets, *logprobs_);
  } else {
    if (part.byte == text.size()) return "";
    part.byte = std::min(text.size(), begin + kEchoBytes);
    while (part.byte < text.size() && IsContinuationByte(text[part.byte])) ++part.byte;
  }
  return Event({{"index", index},
                {"text", text.substr(begin, part.byte - begin)},
                {"logprobs", std::move(logprobs)},
                {"finish_reason", nullptr}});
}

void ApiAnswer::AddDeltas(int index, std::vector<std::string>& events) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  std::vector<Json> deltas = choice.message->TakeDeltas();
  const bool tells = choice.has_content && !choice.logprobs.empty();
  // Tokens whose text is held back, or that have none, are reported without text.
  if (deltas.empty() && tells) deltas.push_back({{"content", ""}});
  for (Json& delta : deltas) {
    const bool is_first = &delta == &deltas.front();
    events.push_back(Event({{"index", index},
                            {"delta", std::move(delta)},
                            {"logprobs", is_first && tells ? TakeLogprobs(choice) : Json()},
                            {"finish_reason", nullptr}}));
  }
}

std::vector<std::string> ApiAnswer::Finish(int index, const Summary& summary) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  choice.summary = summary;
  choice.tokens = echo_only_ ? 0 : summary.completion_tokens;
  --open_;
  if (chat_) {
    choice.message->Finish();
    LeaveOutReasoning(choice);
    if (!choice.has_content) {  // all of it was reasoning
      choice.ids.clear();
      choice.logprobs.clear();
    }
  }
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
  json["finish_reason"] = ReasonName(choice);
  json["speculation"] = SpeculationOf(summary);
  events.push_back(Event(std::move(json)));
  return events;
}

const char* ApiAnswer::ReasonName(const Choice& choice) {
  const std::optional<ChatMessageWriter>& message = choice.message;
  const bool is_cut = message.has_value() && message->is_cut();
  if (is_cut || choice.summary.reason == FinishReason::kLength) return "length";
  return message.has_value() && message->has_calls() ? "tool_calls" : "stop";
}

JsonPieces ApiAnswer::Body() {
  JsonPieces body;
  body.Add(OpenObject(Head(chat_ ? "chat.completion" : "text_completion")) + R"(,"choices":[)");
  size_t index = 0;
  for (const size_t choice : Kept()) AddChoice(index++, choice, body);
  body.Add("]");
  if (chat_ && prompt_logprobs_.has_value()) AddPromptLogprobs(prompts_.front(), body);
  body.Add([this] {
    Json rest = {{"usage", Usage()}};
    AddMetrics(rest);
    return "," + Dump(rest).substr(1);
  });
  return body;
}

void ApiAnswer::AddChoice(size_t index, size_t choice, JsonPieces& body) {
  body.Add([this, index, choice] {
    const Choice& told = choices_[choice];
    Json json = {{"index", index}};
    if (chat_) {
      json["message"] = told.message->Message();
    } else if (echo_) {
      json["text"] = PromptOf(choice).echo.text + told.text;
    } else {
      json["text"] = told.text;
    }
    return (index > 0 ? "," : "") + OpenObject(json) + R"(,"logprobs":)";
  });
  AddLogprobs(choice, body);
  body.Add([this, choice] {
    const Choice& told = choices_[choice];
    return "," + OpenObject({{"finish_reason", ReasonName(told)},
                             {"speculation", SpeculationOf(told.summary)}})
                     .substr(1);
  });
  if (!chat_ && prompt_logprobs_.has_value()) AddPromptLogprobs(PromptOf(choice), body);
  body.Add("}");
}

void ApiAnswer::AddLogprobs(size_t choice, JsonPieces& body) {
  if (!logprobs_.has_value()) return body.Add("null");
  Choice& told = choices_[choice];
  const Prompt& prompt = PromptOf(choice);
  const size_t echoed = echo_ ? prompt.tokens.size() : 0;
  const auto token = [&told, &prompt, echoed](size_t i) {
    if (i < echoed) return prompt.at(i);
    return AnswerToken{told.ids[i - echoed], &told.logprobs[i - echoed]};
  };
  const size_t count = echoed + told.ids.size();
  if (chat_) {
    body.Add(R"({"content":[)");
    body.AddEntries(count,
                    [this, token](size_t i) { return Dump(ChatEntry(*tokenizer_, token(i))); });
    return body.Add(R"(],"refusal":null})");
  }
  body.Add(R"({"tokens":[)");
  body.AddEntries(count,
                  [this, token](size_t i) { return Dump(TextEntry(*tokenizer_, token(i))); });
  body.Add(R"(],"token_logprobs":[)");
  body.AddEntries(count, [token](size_t i) { return Dump(LogprobEntry(token(i))); });
  body.Add(R"(],"top_logprobs":[)");
  body.AddEntries(
      count, [this, token](size_t i) { return Dump(TopEntry(*tokenizer_, token(i), *logprobs_)); });
  body.Add(R"(],"text_offset":[)");
  const auto prompt_offsets = std::make_shared<TextOffsets>(*tokenizer_, /*starts_text=*/true, 0);
  body.AddEntries(count, [this, &told, &prompt, echoed, prompt_offsets](size_t i) {
    if (i < echoed) {
      return std::to_string(prompt_offsets->Push(prompt.tokens[i], IsEchoed(prompt, i)));
    }
    const TokenId id = told.ids[i - echoed];
    return std::to_string(told.offsets->Push(id, IsText(id)));
  });
  body.Add("]}");
}

void ApiAnswer::AddPromptLogprobs(const Prompt& prompt, JsonPieces& body) const {
  body.Add(R"(,"prompt_logprobs":[)");
  body.AddEntries(prompt.tokens.size(), [this, &prompt](size_t i) {
    return Dump(PromptEntry(*tokenizer_, prompt.at(i), *prompt_logprobs_));
  });
  body.Add("]");
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
