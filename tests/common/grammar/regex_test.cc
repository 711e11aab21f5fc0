#include "common/grammar/regex.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/common/grammar/grammar_testing.h"

namespace outrider::grammar {
namespace {

using ::testing::HasSubstr;

// Grouped by feature; Grammar.oracle compares many more texts with Python's re.
TEST(Regex, MatchesWholeTexts) {
  struct Texts {
    const char* regex;
    std::vector<std::string> in;
    std::vector<std::string> out;
  };
  const std::vector<Texts> cases = {
      {"", {""}, {"a"}},
      {"abc", {"abc"}, {"", "ab", "abcd", "xabc"}},
      {"^ab|cd$", {"ab", "cd"}, {"abcd", "a"}},
      {"a|b|", {"a", "b", ""}, {"ab"}},
      {"(a|b)*c", {"c", "abac"}, {"ab", "cc"}},
      {"a{2,3}", {"aa", "aaa"}, {"a", "aaaa"}},
      {"a{2}", {"aa"}, {"a", "aaa"}},
      {"a{2,}?b", {"aab", "aaaab"}, {"ab"}},
      {"a{,2}", {"a{,2}"}, {"a", "aa"}},  // not a quantifier, as in ECMAScript
      {"a+?b*", {"a", "aabb"}, {"", "b"}},
      {"[a-c-]+", {"a-c", "-"}, {"d"}},
      {"[^a-c]", {"d", "\xE2\x82\xAC"}, {"a", "dd"}},
      {"[\\]\\-x]+", {"]-x"}, {"a"}},
      {".", {"a", "\xF0\x9F\x98\x80"}, {"\n", "", "\xF0\x9F"}},
      {"\\d{3}-\\w+", {"123-a_Z"}, {"12-a", "123-"}},
      {"\\D\\W\\S", {"a-b"}, {"1-b", "aab", "a- "}},
      {"\\s", {" ", "\t", "\xC2\xA0"}, {"a"}},
      {"[^\\s]", {"a", "\xE2\x80\x8B"}, {" ", "\xC2\xA0"}},
      {"[^\\S]", {" ", "\xC2\xA0"}, {"a"}},
      {"\\x41\\u00e9\\u{1F600}", {"A\xC3\xA9\xF0\x9F\x98\x80"}, {"A"}},
      {"\\uD83D\\uDE00", {"\xF0\x9F\x98\x80"}, {"\xED\xA0\xBD"}},
      {"\\.\\*\\\\\\/", {".*\\/"}, {"a"}},
      {"(?:a)(?<n>b)(?P<m>c)", {"abc"}, {"ab"}},
      {"(a|a)*", {"", "aaaa"}, {"b"}},
      {"(a*)*b", {"b", "aab"}, {"a", ""}},
      {"(a?){3}", {"", "a", "aaa"}, {"aaaa"}},
      {"[\xC3\xA0-\xC3\xBF]", {"\xC3\xA9"}, {"\xC3", "e"}},
  };
  for (const Texts& each : cases) {
    const GrammarPtr grammar = Compiled(Kind::kRegex, each.regex);
    ASSERT_NE(grammar, nullptr);
    for (const auto& text : each.in)
      EXPECT_TRUE(Accepts(grammar, text)) << each.regex << " " << text;
    for (const auto& text : each.out) {
      EXPECT_FALSE(Accepts(grammar, text)) << each.regex << " " << text;
    }
  }
}

// U+001C to U+001F, U+0085 and U+FEFF are white space in ECMAScript or in Python, not in both.
TEST(Regex, DoubtfulWhiteSpaceMatchesNoClass) {
  for (const char* regex :
       {"\\s", "\\S", "[\\s]", "[\\S]", "[^\\s]", "[^\\S]", "[^a\\s]", "[^\\S,]"}) {
    const GrammarPtr grammar = Compiled(Kind::kRegex, regex);
    ASSERT_NE(grammar, nullptr);
    for (const std::string text : {"\x1C", "\x1D", "\x1E", "\x1F", "\xC2\x85", "\xEF\xBB\xBF"}) {
      EXPECT_FALSE(Accepts(grammar, text)) << regex << " " << testing::PrintToString(text);
    }
  }
}

TEST(Regex, CountsWithoutCopies) {
  const GrammarPtr grammar = Compiled(Kind::kRegex, "(ab?){1000,50000}");
  EXPECT_LT(grammar->automaton().num_nodes(), 20u);
  const auto times = [](const std::string& text, int count) {
    std::string out;
    for (int i = 0; i < count; ++i) out += text;
    return out;
  };
  EXPECT_FALSE(Accepts(grammar, times("ab", 999)));
  EXPECT_TRUE(Accepts(grammar, times("ab", 999) + "a"));
  EXPECT_TRUE(Accepts(grammar, times("a", 50000)));
  EXPECT_FALSE(Accepts(grammar, times("a", 50001)));
  const GrammarPtr open = Compiled(Kind::kRegex, "([0-9]|x?){2000,}");
  EXPECT_TRUE(Accepts(open, ""));  // empty repetitions count
  EXPECT_TRUE(Accepts(open, times("1x", 3000)));
  const GrammarPtr least = Compiled(Kind::kRegex, "[0-9]{2000,}y");
  EXPECT_FALSE(Accepts(least, times("1", 1999) + "y"));
  EXPECT_TRUE(Accepts(least, times("1", 2000) + "y"));
  EXPECT_TRUE(Accepts(least, times("1", 4001) + "y"));
}

TEST(Regex, RefusesByName) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"(a)\\1", "back-references"},
      {"\\k<n>", "back-references"},
      {"(?P=n)", "back-references"},
      {"(?=a)", "look-ahead"},
      {"(?!a)", "look-ahead"},
      {"(?<=a)b", "look-behind"},
      {"(?<!a)b", "look-behind"},
      {"(?>a)", "atomic"},
      {"(?i)a", "flags"},
      {"a*+", "possessive"},
      {"a**", "quantifier after a quantifier"},
      {"*a", "without what it repeats"},
      {"\\bword", "\\b"},
      {"\\p{L}", "\\p"},
      {"(^a)", "^ inside a group"},
      {"(a$)", "$ inside a group"},
      {"a^b", "^ is supported at the beginning"},
      {"a$b", "$ is supported at the end"},
      {"(a", "( without"},
      {"a)", ") without"},
      {"[a", "[ without"},
      {"[]", "empty class"},
      {"[b-a]", "range"},
      {"[[:alpha:]]", "POSIX"},
      {"a{3,2}", "below its least"},
      {"a{1000000}", "at most 100000"},
      {"\\q", "\\q"},
      {"\\uD83D", "surrogate"},
      {"\\x4", "hex"},
      {"\\u{110000}", "not a character"},
      {"\\07", "octal"},
      {"a\\", "at the end"},
  };
  for (const auto& [regex, words] : cases) {
    EXPECT_THAT(Refusal(Kind::kRegex, regex), HasSubstr(words)) << regex;
    EXPECT_THAT(Refusal(Kind::kRegex, regex), HasSubstr("at character")) << regex;
  }
  EXPECT_THAT(Refusal(Kind::kRegex, "a\xFF"), HasSubstr("UTF-8 at byte 1"));
  EXPECT_THAT(Refusal(Kind::kRegex, "[^\\x00-\\u{10FFFF}]"), HasSubstr("no text matches"));
}

}  // namespace
}  // namespace outrider::grammar
