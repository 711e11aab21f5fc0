#include "common/text/pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace outrider {
namespace {

std::vector<std::string> Matches(const PatternSpec& spec, const std::string& text) {
  const Result<Pattern> pattern = Pattern::Create(spec);
  EXPECT_TRUE(pattern.ok()) << pattern.status().ToString();
  MatchBudget budget;
  const Result<std::vector<TextSpan>> spans = pattern->FindAll(text, &budget);
  EXPECT_TRUE(spans.ok()) << spans.status().ToString();
  if (!spans.ok()) return {};
  std::vector<std::string> out;
  for (const TextSpan& span : *spans) out.push_back(text.substr(span.begin, span.end - span.begin));
  return out;
}

using Strings = std::vector<std::string>;

TEST(Pattern, FindsLiteralsWithoutOverlap) {
  EXPECT_EQ(Matches({"aa", false}, "aaaaa"), Strings({"aa", "aa"}));
  EXPECT_EQ(Matches({".", false}, "a.b"), Strings({"."}));
  EXPECT_EQ(Matches({"", false}, "ab"), Strings());
}

TEST(Pattern, LongSFoldsInCaselessGroups) {
  EXPECT_EQ(Matches({"(?i:'s)", true}, "'s 'S '\u017F"), Strings({"'s", "'S", "'\u017F"}));
  EXPECT_EQ(Matches({"'s", true}, "'s 'S '\u017F"), Strings({"'s"}));
}

TEST(Pattern, WhiteSpaceIsTheUnicodeProperty) {
  const std::string text = " \t\u0085\u00A0\u2028\u3000\u180E\u200B";
  EXPECT_EQ(Matches({"\\s+", true}, text), Strings({" \t\u0085\u00A0\u2028\u3000"}));
  EXPECT_EQ(Matches({"[^\\s]+", true}, text), Strings({"\u180E\u200B"}));
  EXPECT_EQ(Matches({"\\S+", true}, text), Strings({"\u180E\u200B"}));
}

TEST(Pattern, EscapedBackslashBeforeSIsLiteral) {
  EXPECT_EQ(Matches({"\\\\s", true}, "a\\s b"), Strings({"\\s"}));
}

TEST(Pattern, CharactersOfUnicode15HaveTheirCategory) {
  // CJK extensions H and I, a letter and a digit of Kawi, a Cyrillic modifier letter.
  const std::string letters = "\U00031350\U0002EBF0\U00011F04\U0001E030";
  const std::string digit = "\U00011F50";
  EXPECT_EQ(Matches({"\\p{L}+", true}, "1" + letters + digit), Strings({letters}));
  EXPECT_EQ(Matches({"\\p{Lo}+", true}, "1\U00031350\U0001E030"), Strings({"\U00031350"}));
  EXPECT_EQ(Matches({"\\P{L}+", true}, "1" + letters + "2"), Strings({"1", "2"}));
  EXPECT_EQ(Matches({"[^\\s\\p{L}\\p{N}]+", true}, letters + digit + "!"), Strings({"!"}));
  EXPECT_EQ(Matches({"[\\p{N}-]+", true}, letters + digit + "-"), Strings({digit + "-"}));
  EXPECT_EQ(Matches({"[[:digit:]\\p{L}]+", true}, "-" + letters + "7"), Strings({letters + "7"}));
  EXPECT_EQ(Matches({"[]\\p{L}]+|[^]\\p{L}]+", true}, "]" + letters + "--"),
            Strings({"]" + letters, "--"}));
}

TEST(Pattern, EmptyMatchesAdvanceByWholeCharacters) {
  EXPECT_EQ(Matches({"x*", true}, "é"), Strings({"", ""}));
  EXPECT_EQ(Matches({"x*", true}, ""), Strings({""}));
}

TEST(Pattern, RefusesWhatDoesNotCompile) {
  const Result<Pattern> pattern = Pattern::Create({"a(b", true});
  ASSERT_FALSE(pattern.ok());
  EXPECT_EQ(pattern.status().code(), Code::kInvalidArgument);
  EXPECT_NE(pattern.status().message().find("parenthesis"), std::string::npos)
      << pattern.status().message();
  EXPECT_FALSE(Pattern::Create({std::string(1 << 20, 'a'), true}).ok());
  EXPECT_FALSE(Pattern::Create({"\\C", true}).ok());
}

TEST(Pattern, RefusesWhatPcreReadsOtherwise) {
  const std::pair<const char*, const char*> cases[] = {
      {"[\\p{L}&&[^a]]+", "&& in a class at byte 6 of [\\p{L}&&[^a]]+"},
      {"a[bc[d]]", "[ in a class at byte 4 of"},
      {"[^[d]]", "[ in a class at byte 2 of"},
      {"[[:alpha:][d]]", "[ in a class at byte 10 of"},
      {"[[:d]", "[ in a class at byte 1 of"},
      {"\\h+", "\\h at byte 0 of"},
      {"[\\H]", "\\H at byte 1 of"},
      {"a\\v", "\\v at byte 1 of"},
  };
  for (const auto& [text, words] : cases) {
    const Status status = Pattern::Create({text, true}).status();
    EXPECT_EQ(status.code(), Code::kUnimplemented) << text;
    EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
  }
  EXPECT_EQ(Matches({"a&&b", true}, "a&&b"), Strings({"a&&b"}));
  EXPECT_EQ(Matches({"[&\\[\\&]+", true}, "a&[&&"), Strings({"&[&&"}));
  EXPECT_EQ(Matches({"[[:alpha:]&]+", true}, "a&b-"), Strings({"a&b"}));
  EXPECT_EQ(Matches({"\\\\h", true}, "a\\h"), Strings({"\\h"}));
}

TEST(Pattern, UnboundedBacktrackingIsError) {
  const Result<Pattern> pattern = Pattern::Create({"(a+)+[bc]", true});
  ASSERT_TRUE(pattern.ok());
  MatchBudget budget;
  const auto spans = pattern->FindAll(std::string(64, 'a'), &budget);
  ASSERT_FALSE(spans.ok());
  EXPECT_EQ(spans.status().code(), Code::kInvalidArgument) << "trying again does not help";
}

// Each match of a letter reads all letters that follow, without backtracking.
TEST(Pattern, TimeOfTextIsLimited) {
  const Result<Pattern> pattern = Pattern::Create({"(?=[a-z]*9)x|[a-z]", true});
  ASSERT_TRUE(pattern.ok());
  MatchBudget budget(/*milliseconds=*/20);
  const Status status = pattern->FindAll(std::string(200'000, 'a'), &budget).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(),
              ::testing::HasSubstr("by (?=[a-z]*9)x|[a-z] takes more than 20 ms"));
}

// A text is split again and again, by the steps of a tokenizer and for the parts between added
// tokens.
TEST(Pattern, PartsOfTextShareTheTime) {
  const Result<Pattern> pattern = Pattern::Create({"a", true});
  ASSERT_TRUE(pattern.ok());
  MatchBudget none(/*milliseconds=*/0);
  Status status;
  for (int i = 0; i < 100 && status.ok(); ++i) status = pattern->FindAll("a", &none).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
}

// Each iteration of the group takes a frame: more than the 32 KiB stack of the compiled code.
TEST(Pattern, InterpretsMatchesTooDeepForJit) {
  const std::string text(200'000, 'a');
  EXPECT_EQ(Matches({"(?:a|b)+", true}, text), Strings({text}));
}

}  // namespace
}  // namespace outrider
