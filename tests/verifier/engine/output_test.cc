#include "verifier/engine/output.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/tiny_tokenizer.h"

namespace outrider {
namespace {

using testing::kMarkToken;

class Output : public ::testing::Test {
 protected:
  void SetUp() override {
    auto tokenizer = Tokenizer::FromJson(testing::TinyTokenizerJson(26));
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
    tokenizer_ = std::move(tokenizer).value();
  }
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(Output, EndsByLengthWithAllText) {
  OutputStream output(*tokenizer_, {.max_tokens = 2});
  std::string text;
  EXPECT_EQ(output.Push(0, &text), std::nullopt);
  EXPECT_EQ(output.Push(1, &text), FinishReason::kLength);
  EXPECT_EQ(text, "ab");
  EXPECT_EQ(output.tokens(), 2);
}

TEST_F(Output, CutCharacterDependsOnGrammar) {
  // "a" and the first two bytes of a character of four, in the byte alphabet
  const auto tokenizer =
      Tokenizer::FromJson(testing::TokenizerJsonOf({"a", "\u00f0", "\u0141"})).value();
  for (const bool follows_grammar : {false, true}) {
    OutputStream output(*tokenizer, {.max_tokens = 3, .follows_grammar = follows_grammar});
    std::string text;
    EXPECT_EQ(output.Push(0, &text), std::nullopt);
    EXPECT_EQ(output.Push(1, &text), std::nullopt);
    EXPECT_EQ(output.Push(2, &text), FinishReason::kLength);
    EXPECT_EQ(text, follows_grammar ? "a" : "a\uFFFD");
  }
}

TEST_F(Output, StopTokenCountsWithoutText) {
  OutputStream output(*tokenizer_, {.stop_tokens = {2}, .max_tokens = 10});
  std::string text;
  EXPECT_EQ(output.Push(0, &text), std::nullopt);
  EXPECT_EQ(output.Push(2, &text), FinishReason::kStop);
  EXPECT_EQ(text, "a");
  EXPECT_EQ(output.tokens(), 2);
}

TEST_F(Output, FindsStopStringAcrossTokens) {
  OutputStream output(*tokenizer_, {.stop_strings = {"bc"}, .max_tokens = 10});
  std::string text;
  EXPECT_EQ(output.Push(0, &text), std::nullopt);
  EXPECT_EQ(text, "a");
  EXPECT_EQ(output.Push(1, &text), std::nullopt);
  EXPECT_EQ(text, "a") << "b may begin the stop string";
  EXPECT_EQ(output.Push(2, &text), FinishReason::kStop);
  EXPECT_EQ(text, "a");
}

TEST_F(Output, SendsHeldBackTextAtEnd) {
  OutputStream output(*tokenizer_, {.stop_strings = {"bcd"}, .stop_tokens = {25}, .max_tokens = 4});
  std::string text;
  for (const TokenId t : {0, 1}) EXPECT_EQ(output.Push(t, &text), std::nullopt);
  EXPECT_EQ(output.Push(25, &text), FinishReason::kStop);
  EXPECT_EQ(text, "ab");
}

TEST_F(Output, StopStringInLastTokenStops) {
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

// With "<s>", which is kBosToken, and "<x>", kMarkToken.
class OutputOfSpecialTokens : public ::testing::Test {
 protected:
  // The text of these tokens, and whether they ended it.
  std::pair<std::string, bool> Run(OutputOptions options, const std::vector<TokenId>& tokens) {
    options.max_tokens = 100;
    OutputStream output(*tokenizer_, options);
    std::string text;
    for (const TokenId token : tokens) {
      if (output.Push(token, &text).has_value()) return {text, true};
    }
    return {text, false};
  }
  using Text = std::pair<std::string, bool>;

  std::unique_ptr<Tokenizer> tokenizer_ =
      Tokenizer::FromJson(testing::SpecialTokenizerJson()).value();
};

TEST_F(OutputOfSpecialTokens, ShowsThemWhereAsked) {
  EXPECT_EQ(Run({}, {0, kMarkToken, 1}), Text("ab", false));
  EXPECT_EQ(Run({.skip_special = false}, {0, kMarkToken, 1}), Text("a<x>b", false));
}

TEST_F(OutputOfSpecialTokens, ShowsThoseThatAreNamed) {
  const OutputOptions options{.shown_special = {kMarkToken}};
  EXPECT_EQ(Run(options, {0, kMarkToken, testing::kBosToken, 1}), Text("a<x>b", false));
  const OutputOptions matching{
      .stop_strings = {"<s>b"}, .shown_special = {kMarkToken}, .match_special = true};
  EXPECT_EQ(Run(matching, {0, kMarkToken, testing::kBosToken, 1}), Text("a<x>", true));
}

TEST_F(OutputOfSpecialTokens, StopStringsMatchHiddenSpecialTokens) {
  for (const bool skip : {false, true}) {
    OutputOptions options{
        .stop_strings = {"<x>b", "x>c"}, .skip_special = skip, .match_special = true};
    const std::string mark = skip ? "" : "<x>";
    EXPECT_EQ(Run(options, {0, kMarkToken, 1}), Text("a", true));
    EXPECT_EQ(Run(options, {0, kMarkToken, 0}), Text("a" + mark + "a", false));
    EXPECT_EQ(Run(options, {0, kMarkToken, kMarkToken, 1}), Text("a" + mark, true));
    EXPECT_EQ(Run(options, {kMarkToken, kMarkToken, 0, kMarkToken, 0}),
              Text(mark + mark + "a" + mark + "a", false));
    EXPECT_EQ(Run(options, {0, kMarkToken, 2}), Text(skip ? "a" : "a<", true))
        << "a stop string may begin within one";
  }
  EXPECT_EQ(Run({.stop_strings = {"ab"}}, {0, kMarkToken, 1}), Text("", true))
      << "without special tokens in stop strings, hidden ones are not there";
}

TEST_F(OutputOfSpecialTokens, ShowsStopsWhereAsked) {
  EXPECT_EQ(Run({.stop_strings = {"bc"}, .include_stop = true}, {0, 1, 2}), Text("abc", true));
  EXPECT_EQ(Run({.stop_tokens = {1}, .include_stop = true}, {0, 1}), Text("ab", true));
  EXPECT_EQ(Run({.stop_tokens = {kMarkToken}, .include_stop = true}, {0, kMarkToken}),
            Text("a", true));
  EXPECT_EQ(Run({.stop_tokens = {kMarkToken}, .skip_special = false, .include_stop = true},
                {0, kMarkToken}),
            Text("a<x>", true));
  EXPECT_EQ(
      Run({.stop_strings = {"<x>"}, .include_stop = true, .match_special = true}, {0, kMarkToken}),
      Text("a", true));
  EXPECT_EQ(Run({.stop_strings = {"<x>b"}, .include_stop = true, .match_special = true},
                {0, kMarkToken, 1}),
            Text("ab", true));
}

}  // namespace
}  // namespace outrider
