#include "verifier/http/answer_logprobs.h"

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/text/utf8.h"
#include "verifier/http/json_text.h"

namespace outrider {
namespace {

std::string WellFormed(std::string_view bytes) {
  std::string text;
  Utf8Stream stream;
  stream.Push(bytes, text);
  stream.Finish(text);
  return text;
}

std::string TextOf(const Tokenizer& tokenizer, TokenId id) {
  return WellFormed(tokenizer.TokenBytes(id));
}

Json ChatToken(const Tokenizer& tokenizer, TokenId id, float logprob) {
  const std::string_view bytes = tokenizer.TokenBytes(id);
  Json codes = Json::array();
  for (const char byte : bytes) codes.push_back(static_cast<uint8_t>(byte));
  return {{"token", WellFormed(bytes)},
          {"logprob", FiniteLogprob(logprob)},
          {"bytes", std::move(codes)}};
}

std::span<const std::pair<TokenId, float>> First(const TokenLogprobs& logprobs, int alternatives) {
  const size_t count = std::min(logprobs.top.size(), static_cast<size_t>(alternatives));
  return std::span(logprobs.top).first(count);
}

}  // namespace

float FiniteLogprob(float logprob) {
  constexpr float kNever = -9999.f;
  return std::max(logprob, kNever);
}

Json ChatEntry(const Tokenizer& tokenizer, const AnswerToken& token) {
  const auto& [id, logprobs] = token;
  Json entry = ChatToken(tokenizer, id, logprobs->logprob);
  Json top = Json::array();
  for (const auto& [other, logprob] : logprobs->top) {
    top.push_back(ChatToken(tokenizer, other, logprob));
  }
  entry["top_logprobs"] = std::move(top);
  return entry;
}

Json TextEntry(const Tokenizer& tokenizer, const AnswerToken& token) {
  return TextOf(tokenizer, token.id);
}

Json LogprobEntry(const AnswerToken& token) {
  return token.logprobs == nullptr ? Json() : Json(FiniteLogprob(token.logprobs->logprob));
}

Json TopEntry(const Tokenizer& tokenizer, const AnswerToken& token, int alternatives) {
  if (token.logprobs == nullptr) return nullptr;
  Json top = Json::object();
  for (const auto& [other, logprob] : First(*token.logprobs, alternatives)) {
    // Tokens that are parts of characters may have the same text; the most likely one is kept.
    top.emplace(TextOf(tokenizer, other), FiniteLogprob(logprob));
  }
  // As in OpenAI's API there may be one more than requested.
  top.emplace(TextOf(tokenizer, token.id), FiniteLogprob(token.logprobs->logprob));
  return top;
}

Json PromptEntry(const Tokenizer& tokenizer, const AnswerToken& token, int alternatives) {
  if (token.logprobs == nullptr) return nullptr;
  Json entries = Json::object();
  const auto add = [&](TokenId id, float logprob, int rank) {
    entries.emplace(std::to_string(id), Json{{"logprob", FiniteLogprob(logprob)},
                                             {"rank", rank},
                                             {"decoded_token", TextOf(tokenizer, id)}});
  };
  add(token.id, token.logprobs->logprob, token.logprobs->rank);
  int rank = 0;
  for (const auto& [other, logprob] : First(*token.logprobs, alternatives)) {
    add(other, logprob, ++rank);
  }
  return entries;
}

Json ChatLogprobs(const Tokenizer& tokenizer, std::span<const AnswerToken> tokens) {
  Json content = Json::array();
  for (const AnswerToken& token : tokens) content.push_back(ChatEntry(tokenizer, token));
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

Json CompletionLogprobs(const Tokenizer& tokenizer, std::span<const AnswerToken> tokens,
                        std::span<const int64_t> offsets, int alternatives) {
  Json texts = Json::array(), own = Json::array(), tops = Json::array();
  for (const AnswerToken& token : tokens) {
    texts.push_back(TextEntry(tokenizer, token));
    own.push_back(LogprobEntry(token));
    tops.push_back(TopEntry(tokenizer, token, alternatives));
  }
  return {{"tokens", std::move(texts)},
          {"token_logprobs", std::move(own)},
          {"top_logprobs", std::move(tops)},
          {"text_offset", Json(std::vector<int64_t>(offsets.begin(), offsets.end()))}};
}

}  // namespace outrider
