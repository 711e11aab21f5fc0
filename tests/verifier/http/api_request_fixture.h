// Parses completions and chats for a small model.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/support/plain_chat.h"
#include "tests/support/tiny_tokenizer.h"
#include "verifier/http/api_request.h"

namespace outrider {

// A model of letters, for which requests are parsed: "a" is token 0.
class ApiModelTest : public ::testing::Test {
 protected:
  explicit ApiModelTest(const std::string& tokenizer_json = testing::AsciiTokenizerJson())
      : tokenizer_(Tokenizer::FromJson(tokenizer_json).value()) {
    model_ = {.name = "m",
              .tokenizer = tokenizer_.get(),
              .chat_template = testing::PlainChatTemplate(),
              .limits = {.vocab_size = tokenizer_->vocab_size(),
                         .max_context = 64,
                         .kv_tokens = 64,
                         .max_draft_length = 8,
                         .max_paths = 4,
                         .max_draft_tokens = 24}};
    SetEndTokens({kEndToken});
  }

  void SetEndTokens(const std::vector<TokenId>& ends) {
    grammars_ = grammar::GrammarCache::Create(*tokenizer_, ends, tokenizer_->vocab_size()).value();
    model_.grammars = grammars_.get();
  }

  static constexpr TokenId kEndToken = 95;  // a newline, which no text of these tests needs

  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<grammar::GrammarCache> grammars_;
  ApiModel model_;
};

// Parses completions and chats that have `fields` besides the prompt.
class ApiRequestTest : public ApiModelTest {
 protected:
  Result<ApiRequest> Completion(const std::string& fields) const {
    return ParseCompletion(R"({"prompt": "abc")" + (fields.empty() ? "" : ", " + fields) + "}",
                           model_);
  }
  Result<ApiRequest> Chat(const std::string& fields) const {
    return ParseChat(R"({"messages": [{"role": "user", "content": "abc"}])" +
                         (fields.empty() ? "" : ", " + fields) + "}",
                     model_);
  }
  GenerationRequest One(const std::string& fields) const {
    const auto parsed = Completion(fields);
    EXPECT_TRUE(parsed.ok()) << fields << ": " << parsed.status().ToString();
    return parsed.ok() ? parsed->prompts.at(0) : GenerationRequest{};
  }
};

// The fields of a request that is refused, and a part of the error's message.
struct BadField {
  const char* fields;
  const char* named;
};

}  // namespace outrider
