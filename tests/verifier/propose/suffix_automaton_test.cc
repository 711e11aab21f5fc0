#include "verifier/propose/suffix_automaton.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "tests/verifier/propose/texts.h"

namespace outrider::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int kLarge = 1 << 24;

SuffixAutomaton AutomatonOf(const Text& text, int max_tokens = kLarge) {
  SuffixAutomaton automaton(max_tokens);
  for (const TokenId token : text) automaton.Append(token);
  return automaton;
}

SuffixMatch Read(const SuffixAutomaton& automaton, const Text& text) {
  SuffixMatch match;
  for (const TokenId token : text) match = automaton.Step(match, token);
  return match;
}

Text Continuation(const SuffixAutomaton& automaton, SuffixMatch match,
                  const ContinuationLimits& limits) {
  Text out;
  automaton.Continue(match, limits, &out);
  return out;
}

// What followed `context` in `text`: how often, and where last.
std::map<TokenId, std::pair<int, size_t>> Followers(std::span<const TokenId> text,
                                                    std::span<const TokenId> context) {
  std::map<TokenId, std::pair<int, size_t>> followers;
  for (size_t end = context.size(); end < text.size(); ++end) {
    if (CommonEnd(text.first(end), context) < static_cast<int>(context.size())) continue;
    auto& [count, last] = followers[text[end]];
    ++count;
    last = end;
  }
  return followers;
}

// The greedy walk by scanning; `score` as in SuffixAutomaton::Continue.
Text ScanContinuation(std::span<const TokenId> text, Text context, const ContinuationLimits& limits,
                      double* score) {
  Text out;
  double probability = 1;
  *score = 0;
  while (static_cast<int>(out.size()) < limits.max_length) {
    auto followers = Followers(text, context);
    while (!context.empty() && followers.empty()) {
      context.erase(context.begin());
      followers = Followers(text, context);
    }
    if (static_cast<int>(context.size()) < std::max(1, limits.min_match)) break;
    int total = 0;
    auto best = followers.begin();
    for (auto it = followers.begin(); it != followers.end(); ++it) {
      total += it->second.first;
      if (it->second > best->second) best = it;
    }
    probability *= static_cast<double>(best->second.first) / total;
    if (probability < limits.min_probability) break;
    out.push_back(best->first);
    *score += probability;
    context.push_back(best->first);
  }
  return out;
}

TEST(SuffixAutomaton, OwnMatchIsLongestRepeatedSuffix) {
  std::mt19937_64 rng(1);
  for (int i = 0; i < 3000; ++i) {
    const Text text = RandomText(rng, 60, 1 + static_cast<int>(rng() % 5), i % 2 == 0);
    SuffixAutomaton automaton(kLarge);
    for (size_t n = 0; n < text.size(); ++n) {
      automaton.Append(text[n]);
      ASSERT_EQ(automaton.OwnMatch().length, LongestRepeatedSuffix(std::span(text).first(n + 1)))
          << "text " << i << " token " << n;
    }
  }
}

TEST(SuffixAutomaton, StepKeepsLongestForeignSuffix) {
  std::mt19937_64 rng(2);
  for (int i = 0; i < 1000; ++i) {
    const int alphabet = 2 + static_cast<int>(rng() % 4);
    const Text corpus = RandomText(rng, 40, alphabet), text = RandomText(rng, 40, alphabet + 1);
    const SuffixAutomaton automaton = AutomatonOf(corpus);
    SuffixMatch match;
    for (size_t n = 0; n < text.size(); ++n) {
      match = automaton.Step(match, text[n]);
      ASSERT_EQ(match.length, LongestSuffixIn(corpus, std::span(text).first(n + 1)));
    }
  }
}

TEST(SuffixAutomaton, PrefersMostFrequentThenLatest) {
  std::mt19937_64 rng(3);
  int tokens = 0;
  for (int i = 0; i < 3000; ++i) {
    const Text text = RandomText(rng, 40, 1 + static_cast<int>(rng() % 4), i % 2 == 0);
    const ContinuationLimits limits{.max_length = 6,
                                    .min_match = 1 + static_cast<int>(rng() % 3),
                                    .min_probability = i % 3 == 0 ? 0.2 : 0.0};
    const SuffixAutomaton automaton = AutomatonOf(text);
    const SuffixMatch match = automaton.OwnMatch();
    double want_score = 0;
    const Text want =
        ScanContinuation(text, Text(text.end() - match.length, text.end()), limits, &want_score);
    Text got;
    EXPECT_NEAR(automaton.Continue(match, limits, &got), want_score, 1e-12);
    ASSERT_EQ(got, want) << "text " << i;
    tokens += static_cast<int>(got.size());
  }
  EXPECT_GT(tokens, 8000);
}

TEST(SuffixAutomaton, TinyTextsHaveNoMatch) {
  SuffixAutomaton automaton(4);
  EXPECT_EQ(automaton.OwnMatch().length, 0);
  EXPECT_EQ(automaton.Step({}, 5).length, 0);
  EXPECT_THAT(Continuation(automaton, {}, {.max_length = 3}), IsEmpty());
  automaton.Append(5);
  EXPECT_EQ(automaton.OwnMatch().length, 0);
  EXPECT_THAT(Continuation(automaton, automaton.OwnMatch(), {.max_length = 3}), IsEmpty());
}

TEST(SuffixAutomaton, GoesOnWithARepetition) {
  const SuffixAutomaton same = AutomatonOf(Text(6, 8));
  EXPECT_EQ(same.OwnMatch().length, 5);
  EXPECT_THAT(Continuation(same, same.OwnMatch(), {.max_length = 4}), ElementsAre(8, 8, 8, 8));
  const SuffixAutomaton three = AutomatonOf({1, 2, 3, 1, 2, 3, 1});
  EXPECT_EQ(three.OwnMatch().length, 4);
  EXPECT_THAT(Continuation(three, three.OwnMatch(), {.max_length = 5}), ElementsAre(2, 3, 1, 2, 3));
}

TEST(SuffixAutomaton, TakesTheLargestIds) {
  constexpr TokenId kLast = std::numeric_limits<TokenId>::max();
  const SuffixAutomaton automaton = AutomatonOf({kLast, kLast - 1, 0, kLast, kLast - 1});
  EXPECT_THAT(Continuation(automaton, automaton.OwnMatch(), {.max_length = 1}), ElementsAre(0));
}

TEST(SuffixAutomaton, NothingContinuesOverABreak) {
  const SuffixAutomaton automaton =
      AutomatonOf({1, 2, 3, SuffixAutomaton::kBreak, 4, 5, SuffixAutomaton::kBreak});
  EXPECT_THAT(Continuation(automaton, Read(automaton, {1, 2}), {.max_length = 5}), ElementsAre(3));
  EXPECT_EQ(Read(automaton, {3, 4, 5}).length, 2);
  EXPECT_THAT(Continuation(automaton, Read(automaton, {2, 3}), {.max_length = 4}), IsEmpty());
}

TEST(SuffixAutomaton, KeepsLaterHalfWhenFull) {
  std::mt19937_64 rng(5);
  const Text text = RandomText(rng, 400, 3);
  SuffixAutomaton automaton(16);
  Text held;
  for (const TokenId token : text) {
    if (held.size() == 16) held.erase(held.begin(), held.begin() + 8);
    held.push_back(token);
    automaton.Append(token);
    ASSERT_EQ(automaton.size(), static_cast<int>(held.size()));
    ASSERT_EQ(automaton.OwnMatch().length, LongestRepeatedSuffix(held));
  }
  EXPECT_EQ(automaton.version(), 400);
}

// The bounds of Blumer et al. 1985, reached by the texts that are known to reach them.
TEST(SuffixAutomaton, SizeIsLinearInTokens) {
  const int n = 5000;
  EXPECT_EQ(AutomatonOf(ManyStates(n)).states(), 2 * n - 1);
  EXPECT_EQ(AutomatonOf(ManyTransitions(n)).transitions(), 3 * n - 4);
  std::mt19937_64 rng(6);
  for (const int alphabet : {1, 2, 50, 1 << 20}) {
    const SuffixAutomaton automaton = AutomatonOf(RandomText(rng, n, alphabet, true));
    EXPECT_LE(automaton.states(), 2 * n - 1);
    EXPECT_LE(automaton.transitions(), 3 * n - 4);
  }
}

// Ten times the text takes ten times the steps, apart from the load of the hash table.
TEST(SuffixAutomaton, TakesLinearlyManySteps) {
  for (const int kind : {0, 1, 2, 3, 4}) {
    double per_token[2];
    for (const int i : {0, 1}) {
      const int n = i == 0 ? 3000 : 30000;
      std::mt19937_64 rng(7);
      const Text text = kind == 0   ? RandomText(rng, n, 2)
                        : kind == 1 ? RandomText(rng, n, 50000, true)
                        : kind == 2 ? Text(static_cast<size_t>(n), 1)
                        : kind == 3 ? ManyStates(n)
                                    : ManyTransitions(n);
      per_token[i] = static_cast<double>(AutomatonOf(text).steps()) / n;
    }
    EXPECT_LT(per_token[1], 1.5 * per_token[0]) << "text " << kind;
    EXPECT_LT(per_token[1], 2.0 * SuffixAutomaton::kCountedSuffixes) << "text " << kind;
  }
}

TEST(SuffixAutomaton, TakesLinearlyManyStepsWhenFull) {
  std::mt19937_64 rng(8);
  const int n = 100000;
  const Text text = RandomText(rng, n, 1000, true);
  const auto free = static_cast<double>(AutomatonOf(text).steps());
  EXPECT_LT(static_cast<double>(AutomatonOf(text, 1000).steps()), 2.5 * free);
}

TEST(SuffixAutomaton, MemoryStaysWithinBound) {
  std::mt19937_64 rng(9);
  const int max_tokens = 1 << 12;
  // Capacity for twice the text, 2n states of 28 bytes and n edges of 16; slots a third full.
  const size_t bound = static_cast<size_t>(max_tokens) * (2 * (4 + 2 * 28 + 16) + 24) + 1024;
  for (const int alphabet : {1, 2, 50, 1 << 20}) {
    SuffixAutomaton automaton(max_tokens);
    for (const TokenId token : RandomText(rng, 1 << 16, alphabet, true)) automaton.Append(token);
    EXPECT_LE(automaton.size(), max_tokens);
    EXPECT_LE(automaton.bytes(), bound) << alphabet;
  }
  EXPECT_LE(AutomatonOf(ManyTransitions(max_tokens), max_tokens).bytes(), bound);
}

}  // namespace
}  // namespace outrider::testing
