#include "verifier/engine/output.h"

#include <gtest/gtest.h>

#include "tests/support/tiny_tokenizer.h"

namespace outrider {
namespace {

class Output : public ::testing::Test {
 protected:
  void SetUp() override {
    auto tokenizer = Tokenizer::FromJson(testing::TinyTokenizerJson(26));
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
    tokenizer_ = std::move(tokenizer).value();
  }
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(Output, EndsByLengthWithAllOfItsText) {
  OutputStream output(*tokenizer_, {.max_tokens = 2});
  std::string text;
  EXPECT_EQ(output.Push(0, &text), std::nullopt);
  EXPECT_EQ(output.Push(1, &text), FinishReason::kLength);
  EXPECT_EQ(text, "ab");
  EXPECT_EQ(output.tokens(), 2);
}

TEST_F(Output, StopTokenCountsButIsNoText) {
  OutputStream output(*tokenizer_, {.stop_tokens = {2}, .max_tokens = 10});
  std::string text;
  EXPECT_EQ(output.Push(0, &text), std::nullopt);
  EXPECT_EQ(output.Push(2, &text), FinishReason::kStop);
  EXPECT_EQ(text, "a");
  EXPECT_EQ(output.tokens(), 2);
}

TEST_F(Output, StopStringOverTokensEndsBeforeItself) {
  OutputStream output(*tokenizer_, {.stop_strings = {"bc"}, .max_tokens = 10});
  std::string text;
  EXPECT_EQ(output.Push(0, &text), std::nullopt);
  EXPECT_EQ(text, "a");
  EXPECT_EQ(output.Push(1, &text), std::nullopt);
  EXPECT_EQ(text, "a") << "b may begin the stop string";
  EXPECT_EQ(output.Push(2, &text), FinishReason::kStop);
  EXPECT_EQ(text, "a");
}

TEST_F(Output, HeldBackTextComesWithTheEnd) {
  OutputStream output(*tokenizer_, {.stop_strings = {"bcd"}, .stop_tokens = {25}, .max_tokens = 4});
  std::string text;
  for (const TokenId t : {0, 1}) EXPECT_EQ(output.Push(t, &text), std::nullopt);
  EXPECT_EQ(output.Push(25, &text), FinishReason::kStop);
  EXPECT_EQ(text, "ab");
}

TEST_F(Output, StopStringAtTheLastTokenIsAStop) {
  OutputStream output(*tokenizer_, {.stop_strings = {"b"}, .max_tokens = 2});
  std::string text;
  EXPECT_EQ(output.Push(0, &text), std::nullopt);
  EXPECT_EQ(output.Push(1, &text), FinishReason::kStop);
  EXPECT_EQ(text, "a");
}

TEST_F(Output, NothingEndsItBeforeMinTokens) {
  OutputStream output(
      *tokenizer_,
      {.stop_strings = {"ab", "bcd"}, .stop_tokens = {25}, .max_tokens = 10, .min_tokens = 3});
  std::string text;
  for (const TokenId t : {25, 0, 1}) EXPECT_EQ(output.Push(t, &text), std::nullopt);
  EXPECT_EQ(output.Push(2, &text), std::nullopt);
  EXPECT_EQ(text, "a") << "bc may begin a stop string that ends after min_tokens";
  EXPECT_EQ(output.Push(3, &text), FinishReason::kStop);
  EXPECT_EQ(text, "a");
}

}  // namespace
}  // namespace outrider
