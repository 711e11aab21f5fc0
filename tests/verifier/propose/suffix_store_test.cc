#include "verifier/propose/suffix_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/verifier/propose/texts.h"

namespace outrider::testing {
namespace {

using ::testing::ElementsAre;

// The match of a sequence that has just started with `text`.
int MatchOf(SuffixStore* store, const std::string& client, const Text& text) {
  SuffixStore::Cursor cursor;
  return store->Find(client, text, static_cast<int64_t>(text.size()), 1, &cursor).match.length;
}

// `size` tokens that occur in no other text.
Text Unique(int size) {
  static TokenId next = 1000;
  Text text;
  for (int i = 0; i < size; ++i) text.push_back(next++);
  return text;
}

TEST(SuffixStore, FindsTextsOfSameClient) {
  SuffixStore store({.max_tokens = 800});
  store.Add("ann", Text{1, 2, 3, 4, 5});
  SuffixStore::Cursor cursor;
  const SuffixStore::Found found = store.Find("ann", Text{9, 2, 3}, 3, 2, &cursor);
  ASSERT_NE(found.automaton, nullptr);
  EXPECT_EQ(found.match.length, 2);
  Text out;
  found.automaton->Continue(found.match, {.max_length = 9}, &out);
  EXPECT_THAT(out, ElementsAre(4, 5));
}

TEST(SuffixStore, ShowsNoClientAnothersText) {
  SuffixStore store({.max_tokens = 800});
  store.Add("ann", Text{1, 2, 3, 4, 5});
  store.Add("", Text{6, 7, 8});
  for (const std::string client : {"bob", "", "an", "anna"}) {
    EXPECT_EQ(MatchOf(&store, client, {1, 2, 3}), 0) << client;
  }
  EXPECT_EQ(MatchOf(&store, "ann", {6, 7}), 0);
  EXPECT_EQ(MatchOf(&store, "", {6, 7}), 2);
}

TEST(SuffixStore, ShowsAllToAllWhereShared) {
  SuffixStore store({.max_tokens = 800, .shared = true});
  store.Add("ann", Text{1, 2, 3, 4, 5});
  EXPECT_EQ(MatchOf(&store, "bob", {1, 2, 3}), 3);
}

TEST(SuffixStore, IsOffWithoutRoom) {
  SuffixStore store({.max_tokens = 0});
  EXPECT_FALSE(store.on());
  store.Add("ann", Text{1, 2, 3});
  EXPECT_EQ(store.tokens(), 0);
  EXPECT_EQ(store.bytes(), 0u);
  EXPECT_EQ(MatchOf(&store, "ann", {1, 2}), 0);
}

TEST(SuffixStore, NothingMatchesOverTwoTexts) {
  SuffixStore store({.max_tokens = 800});
  store.Add("ann", Text{1, 2});
  store.Add("ann", Text{3, 4});
  EXPECT_EQ(MatchOf(&store, "ann", {1, 2, 3, 4}), 2);
}

TEST(SuffixStore, IgnoresTooShortMatch) {
  SuffixStore store({.max_tokens = 800});
  store.Add("ann", Text{1, 2, 3});
  SuffixStore::Cursor cursor;
  EXPECT_EQ(store.Find("ann", Text{1, 2}, 2, 3, &cursor).automaton, nullptr);
  EXPECT_NE(store.Find("ann", Text{1, 2, 3}, 3, 3, &cursor).automaton, nullptr);
}

TEST(SuffixStore, KeepsEndOfTooLongText) {
  SuffixStore store({.max_tokens = 80});
  const Text text = Unique(50);
  store.Add("ann", text);
  EXPECT_EQ(store.tokens(), 10);
  EXPECT_EQ(MatchOf(&store, "ann", text), 9);
}

TEST(SuffixStore, LetsTheLeastRecentlyUsedGo) {
  SuffixStore store({.max_tokens = 80});  // eight segments of ten
  std::vector<Text> texts;
  for (int i = 0; i < 8; ++i) {
    texts.push_back(Unique(9));
    store.Add(std::to_string(i), texts.back());
  }
  EXPECT_EQ(store.tokens(), 80);
  EXPECT_EQ(MatchOf(&store, "0", texts[0]), 9);  // used now
  store.Add("8", Unique(4));
  EXPECT_EQ(MatchOf(&store, "0", texts[0]), 9);
  EXPECT_EQ(MatchOf(&store, "1", texts[1]), 0);
  for (size_t i = 2; i < 8; ++i) EXPECT_EQ(MatchOf(&store, std::to_string(i), texts[i]), 9);
  EXPECT_EQ(store.tokens(), 75);
}

TEST(SuffixStore, StaysWithinBoundsUnderAnyTraffic) {
  std::mt19937_64 rng(1);
  const int max_tokens = 4000;
  SuffixStore store({.max_tokens = max_tokens});
  size_t most_bytes = 0;
  for (int i = 0; i < 4000; ++i) {
    // Some clients appear once, one appears all the time.
    const std::string client = rng() % 2 == 0 ? "busy" : std::to_string(rng());
    const Text text = RandomText(rng, static_cast<int>(rng() % 700), 500, true);
    store.Add(client, text);
    ASSERT_LE(store.tokens(), max_tokens);
    most_bytes = std::max(most_bytes, store.bytes());
  }
  EXPECT_GT(store.tokens(), max_tokens - 500) << "one segment makes room";
  EXPECT_LE(most_bytes, size_t{max_tokens} * 180 + 1024 * 100);
}

// A cursor that is advanced finds the same as a new one, whatever happens in between.
TEST(SuffixStore, CursorsKeepUpWithTheStore) {
  std::mt19937_64 rng(2);
  for (int i = 0; i < 100; ++i) {
    SuffixStore store({.max_tokens = 800});
    SuffixStore::Cursor cursor;
    Text session;
    for (int round = 0; round < 60; ++round) {
      if (rng() % 3 == 0) {
        // With equal sizes every text fills a segment, so that one replaces another.
        const int size = i % 2 == 0 ? 99 : static_cast<int>(rng() % 60);
        store.Add(rng() % 3 == 0 ? "bob" : "ann", RandomText(rng, size, 3, true));
      }
      const int more = static_cast<int>(rng() % 90 == 0 ? 100 : rng() % 6);
      for (const TokenId t : RandomText(rng, more, 3)) session.push_back(t);
      const auto observed = static_cast<int64_t>(session.size());
      const SuffixStore::Found found = store.Find("ann", session, observed, 1, &cursor);
      ASSERT_EQ(found.match.length, MatchOf(&store, "ann", session)) << i << " " << round;
    }
  }
}

TEST(SuffixStore, FindsLongestSuffixOfAllTexts) {
  std::mt19937_64 rng(3);
  for (int i = 0; i < 300; ++i) {
    SuffixStore store({.max_tokens = 800});  // more than all texts
    std::vector<Text> texts;
    for (int t = 0; t < 10; ++t) {
      texts.push_back(RandomText(rng, 1 + static_cast<int>(rng() % 60), 3));
      store.Add("ann", texts.back());
    }
    const Text session = RandomText(rng, 50, 3);
    int longest = 0;
    for (const Text& text : texts) longest = std::max(longest, LongestSuffixIn(text, session));
    ASSERT_EQ(MatchOf(&store, "ann", session), longest);
  }
}

}  // namespace
}  // namespace outrider::testing
