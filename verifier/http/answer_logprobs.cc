#include "verifier/http/answer_logprobs.h"

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

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

int64_t Characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; });
}

Json ChatEntry(const Tokenizer& tokenizer, TokenId id, float logprob) {
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

Json ChatLogprobs(const Tokenizer& tokenizer, std::span<const AnswerToken> tokens) {
  Json content = Json::array();
  for (const auto& [id, logprobs] : tokens) {
    if (!logprobs.has_value()) continue;
    Json entry = ChatEntry(tokenizer, id, logprobs->logprob);
    Json top = Json::array();
    bool has_own = logprobs->top.empty();
    for (const auto& [other, logprob] : logprobs->top) {
      top.push_back(ChatEntry(tokenizer, other, logprob));
      has_own = has_own || other == id;
    }
    if (!has_own) top.push_back(entry);
    entry["top_logprobs"] = std::move(top);
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

Json CompletionLogprobs(const Tokenizer& tokenizer, std::span<const AnswerToken> tokens,
                        int alternatives, bool skip_special, int64_t* offset) {
  Json texts = Json::array(), own = Json::array(), tops = Json::array(), offsets = Json::array();
  for (const auto& [id, logprobs] : tokens) {
    const std::string text = TextOf(tokenizer, id);
    texts.push_back(text);
    offsets.push_back(*offset);
    if (!skip_special || !tokenizer.IsSpecial(id)) *offset += Characters(text);
    if (!logprobs.has_value()) {
      own.push_back(nullptr);
      tops.push_back(nullptr);
      continue;
    }
    Json top = Json::object();
    for (const auto& [other, logprob] : First(*logprobs, alternatives)) {
      // Tokens that are parts of characters look alike: the likeliest stands for them.
      top.emplace(TextOf(tokenizer, other), FiniteLogprob(logprob));
    }
    // As in OpenAI's API there may be one more than was asked for.
    top.emplace(text, FiniteLogprob(logprobs->logprob));
    own.push_back(FiniteLogprob(logprobs->logprob));
    tops.push_back(std::move(top));
  }
  return {{"tokens", std::move(texts)},
          {"token_logprobs", std::move(own)},
          {"top_logprobs", std::move(tops)},
          {"text_offset", std::move(offsets)}};
}

Json PromptLogprobs(const Tokenizer& tokenizer, std::span<const AnswerToken> tokens,
                    int alternatives) {
  Json list = Json::array();
  for (const auto& [id, logprobs] : tokens) {
    if (!logprobs.has_value()) {
      list.push_back(nullptr);
      continue;
    }
    Json entries = Json::object();
    const auto add = [&](TokenId token, float logprob, int rank) {
      entries.emplace(std::to_string(token), Json{{"logprob", FiniteLogprob(logprob)},
                                                  {"rank", rank},
                                                  {"decoded_token", TextOf(tokenizer, token)}});
    };
    add(id, logprobs->logprob, logprobs->rank);
    int rank = 0;
    for (const auto& [other, logprob] : First(*logprobs, alternatives)) {
      add(other, logprob, ++rank);
    }
    list.push_back(std::move(entries));
  }
  return list;
}

}  // namespace outrider
