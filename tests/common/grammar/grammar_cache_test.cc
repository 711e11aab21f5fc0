#include "common/grammar/grammar_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/common/grammar/grammar_testing.h"

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

TEST(GrammarCache, TellsSchemasOfRulesApart) {
  GrammarCache cache(TokensOf({"ab"}, 2), {});
  GrammarSource schema{.kind = Kind::kGbnf, .text = "root ::= a", .choices = {}};
  schema.schemas = {{"a", R"({"properties": {"x": {"type": "integer"}}})"}};
  GrammarSource part = schema;
  part.schemas[0].path = {"properties", "x"};
  EXPECT_NE(cache.Get(schema).value(), cache.Get(part).value());
  EXPECT_EQ(cache.size(), 2u);
}

TEST(GrammarCache, ForgetsWhatWasAskedForLongestAgo) {
  const GrammarMasks::Limits masks{.cache_bytes = 10'000};
  GrammarCache cache(TokensOf({"ab"}, 2), {.bytes = 26'000, .grammar = {}, .masks = masks});
  const auto a = cache.Get(Regex("a")).value();
  const auto b = cache.Get(Regex("b")).value();
  ASSERT_EQ(cache.size(), 2u);
  EXPECT_EQ(cache.Get(Regex("a")).value(), a);
  const auto c = cache.Get(Regex("c")).value();
  EXPECT_EQ(cache.size(), 2u);
  EXPECT_LE(cache.bytes(), 26'000u);
  EXPECT_EQ(cache.Get(Regex("a")).value(), a);
  EXPECT_NE(cache.Get(Regex("b")).value(), b);
  EXPECT_TRUE(Accepts(b->grammar(), "b"));  // who holds one keeps it
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
