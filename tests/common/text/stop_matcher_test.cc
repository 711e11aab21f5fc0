#include "common/text/stop_matcher.h"

#include <gtest/gtest.h>

#include <random>

namespace outrider {
namespace {

struct Outcome {
  std::string text;
  bool stopped = false;
  bool operator==(const Outcome&) const = default;
};

Outcome Feed(const std::vector<std::string>& stops, const std::vector<std::string>& pushes) {
  StopMatcher matcher(stops);
  Outcome outcome;
  for (const std::string& push : pushes) {
    const StopMatcher::Step step = matcher.Push(push);
    outcome.text += step.text;
    outcome.stopped = step.stopped;
  }
  outcome.text += matcher.Finish();
  return outcome;
}

TEST(StopMatcher, HoldsNothingBackWithoutStopStrings) {
  StopMatcher matcher({});
  EXPECT_EQ(matcher.Push("abc").text, "abc");
  EXPECT_EQ(matcher.Finish(), "");
}

TEST(StopMatcher, IgnoresEmptyStopString) {
  EXPECT_EQ(Feed({""}, {"abc"}), Outcome({"abc", false}));
  EXPECT_EQ(Feed({"", "b"}, {"abc"}), Outcome({"a", true}));
}

TEST(StopMatcher, HoldsBackPossibleStopsOnly) {
  StopMatcher matcher({"\n\nUser:"});
  EXPECT_EQ(matcher.Push("hi\n").text, "hi");
  EXPECT_EQ(matcher.Push("x").text, "\nx");
  EXPECT_EQ(matcher.Push("\n\nUs").text, "");
  EXPECT_EQ(matcher.Push("a").text, "\n\nUsa");
  EXPECT_EQ(matcher.Push("\n").text, "");
  EXPECT_EQ(matcher.Finish(), "\n");
}

TEST(StopMatcher, FindsStopStringAcrossPushes) {
  StopMatcher matcher({"END"});
  EXPECT_EQ(matcher.Push("abE").text, "ab");
  EXPECT_EQ(matcher.Push("N").text, "");
  const StopMatcher::Step step = matcher.Push("Dxyz");
  EXPECT_EQ(step.text, "");
  EXPECT_TRUE(step.stopped);
}

TEST(StopMatcher, NoTextFollowsStop) {
  StopMatcher matcher({"X"});
  EXPECT_TRUE(matcher.Push("aXb").stopped);
  const StopMatcher::Step step = matcher.Push("more");
  EXPECT_TRUE(step.stopped);
  EXPECT_EQ(step.text, "");
  EXPECT_EQ(matcher.Finish(), "");
}

TEST(StopMatcher, FalseStartMayContainRealStop) {
  EXPECT_EQ(Feed({"aab"}, {"a", "a", "a", "b"}), Outcome({"a", true}));
  EXPECT_EQ(Feed({"abac"}, {"ababac"}), Outcome({"ab", true}));
}

TEST(StopMatcher, FirstEndingStopCounts) {
  EXPECT_EQ(Feed({"abcd", "bc"}, {"xabcd"}), Outcome({"xa", true}));
  EXPECT_EQ(Feed({"ab", "abc"}, {"abc"}), Outcome({"", true}));
}

TEST(StopMatcher, LongestOfStopsEndingTogetherCounts) {
  EXPECT_EQ(Feed({"c", "abc"}, {"xabc"}), Outcome({"x", true}));
  EXPECT_EQ(Feed({"bc", "abc", "xbc"}, {"abc"}), Outcome({"", true}));
}

TEST(StopMatcher, FindsStopInsideLongerOne) {
  EXPECT_EQ(Feed({"abcx", "b"}, {"abc"}), Outcome({"a", true}));
}

TEST(StopMatcher, WholeCharactersAreHeldBack) {
  StopMatcher matcher({"é!"});
  EXPECT_EQ(matcher.Push("caf").text, "caf");
  EXPECT_EQ(matcher.Push("é").text, "");
  EXPECT_EQ(matcher.Push("è").text, "éè");  // é and è share their first byte
}

// The definition: the first position where a stop string ends, cut before the longest that ends
// there.
Outcome Reference(const std::vector<std::string>& stops, const std::string& text) {
  for (size_t end = 0; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& stop : stops) {
      if (text.substr(0, end).ends_with(stop)) longest = std::max(longest, stop.size());
    }
    if (longest > 0) return {text.substr(0, end - longest), true};
  }
  return {text, false};
}

TEST(StopMatcher, AgreesWithDefinitionForAnyCuts) {
  std::mt19937 random(11);
  const auto word = [&](size_t size) {
    std::string out;
    for (; size > 0; --size) out += "ab"[random() % 2];
    return out;
  };
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> stops;
    for (size_t i = 1 + random() % 3; i > 0; --i) stops.push_back(word(1 + random() % 6));
    const std::string text = word(random() % 24);
    std::vector<std::string> pushes;
    for (size_t pos = 0; pos < text.size();) {
      const size_t size = random() % 5;
      pushes.push_back(text.substr(pos, size));
      pos += size;
    }
    ASSERT_EQ(Feed(stops, pushes).text, Reference(stops, text).text)
        << text << " " << ::testing::PrintToString(stops);
    ASSERT_EQ(Feed(stops, pushes).stopped, Reference(stops, text).stopped);
  }
}

}  // namespace
}  // namespace outrider
