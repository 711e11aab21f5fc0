#include "verifier/propose/prompt_lookup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "tests/verifier/propose/texts.h"

namespace outrider::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

void AppendAll(const Text& text, PromptLookup* lookup) {
  for (const TokenId token : text) lookup->Append(token);
}

Text Continuation(const PromptLookup& lookup, int length) {
  Text out;
  lookup.Continue(length, &out);
  return out;
}

struct Expected {
  int match_length = 0;
  Text continuation;
};

// Scans from the end, for each n from the longest down.
Expected Scan(std::span<const TokenId> text, const PromptLookupOptions& options, int length) {
  for (int n = options.max_n; n >= options.min_n; --n) {
    for (int end = static_cast<int>(text.size()) - 1; end >= n; --end) {
      if (CommonEnd(text.first(static_cast<size_t>(end)), text) < n) continue;
      Text copy(text.begin(), text.end());
      for (int i = 0; i < length; ++i) copy.push_back(copy[static_cast<size_t>(end + i)]);
      return {n, Text(copy.end() - length, copy.end())};
    }
  }
  return {};
}

TEST(PromptLookup, MatchesScanAfterEachToken) {
  std::mt19937_64 rng(1);
  int matches = 0;
  for (int i = 0; i < 2000; ++i) {
    PromptLookupOptions options;
    options.min_n = 1 + static_cast<int>(rng() % 3);
    options.max_n = options.min_n + static_cast<int>(rng() % 4);
    const Text text = RandomText(rng, 60, 1 + static_cast<int>(rng() % 6), i % 2 == 0);
    PromptLookup lookup(options);
    for (size_t n = 0; n < text.size(); ++n) {
      lookup.Append(text[n]);
      const Expected want = Scan(std::span(text).first(n + 1), options, 5);
      ASSERT_EQ(lookup.match_length(), want.match_length) << "text " << i << " token " << n;
      ASSERT_EQ(Continuation(lookup, 5), want.continuation) << "text " << i << " token " << n;
      matches += want.match_length > 0;
    }
  }
  EXPECT_GT(matches, 50000);
}

TEST(PromptLookup, HasNothingAfterNothing) {
  PromptLookup lookup({.min_n = 1, .max_n = 3});
  EXPECT_EQ(lookup.match_length(), 0);
  EXPECT_THAT(Continuation(lookup, 4), IsEmpty());
  lookup.Append(7);
  EXPECT_EQ(lookup.match_length(), 0);
  EXPECT_THAT(Continuation(lookup, 4), IsEmpty());
}

TEST(PromptLookup, ContinuesRepetitionOfAnyPeriod) {
  PromptLookup same({.min_n = 1, .max_n = 3});
  AppendAll({5, 5}, &same);
  EXPECT_THAT(Continuation(same, 4), ElementsAre(5, 5, 5, 5));
  PromptLookup three({.min_n = 2, .max_n = 4});
  AppendAll({1, 2, 3, 1, 2, 3, 1}, &three);
  EXPECT_EQ(three.match_length(), 4);
  EXPECT_THAT(Continuation(three, 7), ElementsAre(2, 3, 1, 2, 3, 1, 2));
}

TEST(PromptLookup, PrefersTheLatestOfTheLongest) {
  PromptLookup lookup({.min_n = 1, .max_n = 2});
  AppendAll({1, 2, 10, 1, 2, 20, 9, 2, 30, 1, 2}, &lookup);
  EXPECT_EQ(lookup.match_length(), 2);
  EXPECT_THAT(Continuation(lookup, 1), ElementsAre(20));
}

TEST(PromptLookup, TakesTheLargestIds) {
  constexpr TokenId kLast = std::numeric_limits<TokenId>::max();
  PromptLookup lookup({.min_n = 2, .max_n = 3});
  AppendAll({kLast, kLast - 1, 0, kLast, kLast - 1}, &lookup);
  EXPECT_THAT(Continuation(lookup, 1), ElementsAre(0));
}

TEST(PromptLookup, AppendsToWhatIsThere) {
  PromptLookup lookup({.min_n = 1, .max_n = 1});
  AppendAll({4, 4}, &lookup);
  Text out = {9};
  lookup.Continue(2, &out);
  lookup.Continue(0, &out);
  lookup.Continue(-1, &out);
  EXPECT_THAT(out, ElementsAre(9, 4, 4));
}

TEST(PromptLookup, ForgetsTheOlderHalfWhenFull) {
  const PromptLookupOptions options{.min_n = 2, .max_n = 4, .max_tokens = 16};
  std::mt19937_64 rng(2);
  const Text text = RandomText(rng, 500, 3);
  PromptLookup lookup(options);
  Text held;
  for (const TokenId token : text) {
    if (held.size() == 16) held.erase(held.begin(), held.begin() + 8);
    held.push_back(token);
    lookup.Append(token);
    ASSERT_EQ(lookup.size(), static_cast<int>(held.size()));
    const Expected want = Scan(held, options, 6);
    ASSERT_EQ(lookup.match_length(), want.match_length);
    ASSERT_EQ(Continuation(lookup, 6), want.continuation);
  }
}

// A token costs a few slots for each n, however long the text and whatever its contents.
TEST(PromptLookup, CostsTheSameForEachToken) {
  std::mt19937_64 rng(3);
  const int n = 1 << 16;
  const Text texts[] = {RandomText(rng, n, 2), RandomText(rng, n, 100000), Text(n, 1),
                        ManyTransitions(n)};
  for (const int max_tokens : {1 << 20, 1 << 12}) {
    for (const Text& text : texts) {
      PromptLookup lookup({.min_n = 2, .max_n = 4, .max_tokens = max_tokens});
      AppendAll(text, &lookup);
      // At two thirds full, 2 probes on average find a key, 5 an empty slot; growing adds 3.
      EXPECT_LT(lookup.probes(), int64_t{n} * 3 * 8 * 2);
    }
  }
}

TEST(PromptLookup, MemoryStaysWithinBound) {
  std::mt19937_64 rng(4);
  const int max_tokens = 1 << 12;
  PromptLookup lookup({.min_n = 2, .max_n = 4, .max_tokens = max_tokens});
  AppendAll(RandomText(rng, max_tokens, 1 << 20), &lookup);
  const size_t full = lookup.bytes();
  EXPECT_LE(full, static_cast<size_t>(max_tokens) * (8 + 3 * 24));
  AppendAll(RandomText(rng, 1 << 16, 1 << 20), &lookup);
  EXPECT_EQ(lookup.bytes(), full);
  EXPECT_LE(lookup.size(), max_tokens);
}

}  // namespace
}  // namespace outrider::testing
