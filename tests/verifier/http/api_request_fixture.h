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

// Completions and chats of letters: "a" is token 0.
class ApiRequestTest : public ::testing::Test {
 protected:
  ApiRequestTest() : tokenizer_(Tokenizer::FromJson(testing::AsciiTokenizerJson()).value()) {
    model_ = {.name = "m",
              .tokenizer = tokenizer_.get(),
              .chat_template = testing::PlainChatTemplate(),
              .limits = {.vocab_size = testing::kAsciiTokens,
                         .max_context = 64,
                         .kv_tokens = 64,
                         .max_draft_length = 8,
                         .max_paths = 4,
                         .max_draft_tokens = 24}};
    grammars_ =
        grammar::GrammarCache::Create(*tokenizer_, std::vector<TokenId>{95}, testing::kAsciiTokens)
            .value();
    model_.grammars = grammars_.get();
  }

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

  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<grammar::GrammarCache> grammars_;
  ApiModel model_;
};

// The fields of a request that is refused, and a part of the error's message.
struct BadField {
  const char* fields;
  const char* named;
};

}  // namespace outrider
