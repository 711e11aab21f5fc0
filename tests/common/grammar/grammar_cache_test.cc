#include "common/grammar/grammar_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "common/text/tokenizer.h"
#include "tests/common/grammar/grammar_testing.h"
#include "tests/support/tiny_tokenizer.h"

namespace outrider::grammar {
namespace {

GrammarSource Regex(const std::string& text) {
  return {.kind = Kind::kRegex, .text = text, .choices = {}};
}

TEST(GrammarCache, CompilesASourceOnce) {
  GrammarCache cache(TokensOf({"ab"}, 2), {});
  const auto first = cache.Get(Regex("a+")).value();
  EXPECT_EQ(cache.Get(Regex("a+")).value(), first);
  EXPECT_NE(cache.Get(Regex("a*")).value(), first);
  // The same text as another kind of source is another grammar.
  const auto choice = cache.Get({.kind = Kind::kChoice, .text = "", .choices = {"a+"}}).value();
  EXPECT_TRUE(Accepts(choice->grammar(), "a+"));
  EXPECT_EQ(cache.size(), 3u);
}

// As in google/gemma-3-1b-it, whose tokenizer adds an image token with the id 262144 to 262,144
// logits.
TEST(GrammarCache, LeavesOutTokensWithoutLogits) {
  const std::string json = testing::TokenizerJsonOf({"a", "b"}, {"<end>", "<image>"});
  const auto tokenizer = Tokenizer::FromJson(json).value();
  ASSERT_EQ(tokenizer->vocab_size(), 4);
  const auto cache = GrammarCache::Create(*tokenizer, std::vector<TokenId>{2, 3}, 3);
  ASSERT_TRUE(cache.ok()) << cache.status().ToString();
  const TokenTable& tokens = (*cache)->tokens();
  EXPECT_EQ(tokens.vocab(), 3);
  EXPECT_EQ(tokens.Bytes(1), "b");
  EXPECT_EQ(tokens.Bytes(3), "");
  ASSERT_EQ(tokens.end_tokens().size(), 1u);
  EXPECT_EQ(tokens.end_tokens()[0], 2);
}

TEST(GrammarCache, TellsSchemasOfRulesApart) {
  GrammarCache cache(TokensOf({"ab"}, 2), {});
  GrammarSource schema{.kind = Kind::kGbnf, .text = "root ::= a", .choices = {}};
  schema.schemas = {{"a", R"({"properties": {"x": {"type": "integer"}}})"}};
  GrammarSource part = schema;
  part.schemas[0].path = {"properties", "x"};
  EXPECT_NE(cache.Get(schema).value(), cache.Get(part).value());
  EXPECT_EQ(cache.size(), 2u);
}

size_t BytesOfOne(const std::shared_ptr<const TokenTable>& tokens) {
  GrammarCache cache(tokens, {});
  EXPECT_TRUE(cache.Get(Regex("a")).ok());
  return cache.bytes();
}

// The current size of grammars and masks, not their possible size.
TEST(GrammarCache, ChargesTheBytesInUse) {
  GrammarCache cache(TokensOf({"ab"}, 2), {});
  for (int length = 1; length <= 52; ++length) {
    EXPECT_TRUE(cache.Get(Regex(std::string(static_cast<size_t>(length), 'a'))).ok());
  }
  EXPECT_EQ(cache.size(), 52u);
}

TEST(GrammarCache, EvictsLeastRecentlyUsed) {
  const auto tokens = TokensOf({"ab"}, 2);
  const size_t limit = 5 * BytesOfOne(tokens) / 2;
  GrammarCache cache(tokens, {.bytes = limit});
  ASSERT_TRUE(cache.Get(Regex("a")).ok());
  ASSERT_TRUE(cache.Get(Regex("b")).ok());
  ASSERT_TRUE(cache.Get(Regex("a")).ok());
  ASSERT_TRUE(cache.Get(Regex("c")).ok());
  EXPECT_EQ(cache.size(), 2u);
  EXPECT_LE(cache.bytes(), limit);
  EXPECT_NE(cache.Find(Regex("a")), nullptr);
  EXPECT_EQ(cache.Find(Regex("b")), nullptr);
}

// Evicting a grammar that a request uses would free nothing.
TEST(GrammarCache, KeepsWhatRequestsHold) {
  const auto tokens = TokensOf({"ab"}, 2);
  GrammarCache cache(tokens, {.bytes = 3 * BytesOfOne(tokens) / 2});
  const auto held = cache.Get(Regex("a")).value();
  ASSERT_TRUE(cache.Get(Regex("b")).ok());
  ASSERT_TRUE(cache.Get(Regex("c")).ok());
  EXPECT_EQ(cache.Find(Regex("a")), held);
  EXPECT_EQ(cache.Find(Regex("b")), nullptr);
}

TEST(GrammarCache, RefusesMoreThanRequestsMayHold) {
  const auto tokens = TokensOf({"ab"}, 2);
  const size_t one = BytesOfOne(tokens);
  GrammarCache cache(tokens, {.bytes = one, .most_bytes = 5 * one / 2});
  const auto a = cache.Get(Regex("a")).value();
  {
    const auto b = cache.Get(Regex("b")).value();
    EXPECT_EQ(cache.Get(Regex("c")).status().code(), Code::kResourceExhausted);
    EXPECT_EQ(cache.Get(Regex("a")).value(), a);
  }
  EXPECT_TRUE(cache.Get(Regex("c")).ok());
}

TEST(GrammarCache, KeepsNoErrors) {
  GrammarCache cache(TokensOf({"ab"}, 2), {});
  EXPECT_EQ(cache.Get(Regex("(")).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(cache.size(), 0u);
}

TEST(GrammarCache, ServesManyThreads) {
  const auto tokens = TokensOf({R"({"ab":1})"}, 3);
  const GrammarMasks::Limits masks{.cache_bytes = 5'000};
  GrammarCache cache(tokens, {.bytes = 20'000, .grammar = {}, .masks = masks});
  std::atomic<int> failures = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      MaskScratch scratch;
      std::vector<MaskWord> mask(tokens->mask_words());
      for (int i = 0; i < 200; ++i) {
        const char letter = static_cast<char>('a' + (i + thread) % 5);
        const auto got = cache.Get(Regex(std::string(3, letter)));
        GrammarState state((*got)->grammar());
        const bool fits = state.Advance(std::string(2, letter), scratch.stepper) &&
                          (*got)->Fill(state, scratch, mask).value() == 1;
        failures += fits ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
}

}  // namespace
}  // namespace outrider::grammar
