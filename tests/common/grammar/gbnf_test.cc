#include "common/grammar/gbnf.h"

#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/common/grammar/grammar_testing.h"

namespace outrider::grammar {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Gbnf, ReadsEveryConstruct) {
  const GrammarPtr grammar = Compiled(Kind::kGbnf, R"(# a comment
root ::= greeting " "+ name ("," " " name){0,2} end?   # another
greeting ::= "Hello" |
             "Hi" |   # an alternative a line
  "\x48ey"
name ::= [A-Z] [^A-Z ,!\n]* [\]\-"]?
end ::= ("!"
  | "?" .)
)");
  for (const char* text :
       {"Hello Bob", "Hi   Ann, Bo, Cy!", "Hey X?\xE2\x82\xAC", "Hi A]", "Hi A-"}) {
    EXPECT_TRUE(Accepts(grammar, text)) << text;
  }
  for (const char* text : {"Hello", "Hello bob", "Hi A, B, C, D", "Hi A!!", "hi A"}) {
    EXPECT_FALSE(Accepts(grammar, text)) << text;
  }
}

TEST(Gbnf, RecursesWithoutBound) {
  const GrammarPtr grammar = Compiled(Kind::kGbnf, "root ::= \"(\" root \")\" root | \"\"\n");
  std::string deep(20000, '(');
  deep += std::string(20000, ')');
  EXPECT_TRUE(Accepts(grammar, deep + "()(())"));
  EXPECT_FALSE(Accepts(grammar, deep + ")"));
  EXPECT_FALSE(Accepts(grammar, "(()"));
}

TEST(Gbnf, NeedsTheWholeOfTwoCounts) {
  const GrammarPtr grammar =
      Compiled(Kind::kGbnf, "root ::= \"a\" root \"b\" | mid\nmid ::= \"c\"* \"d\"");
  EXPECT_TRUE(Accepts(grammar, "aaadbbb"));
  EXPECT_TRUE(Accepts(grammar, "aaccdbb"));
  EXPECT_FALSE(Accepts(grammar, "aadb"));
  EXPECT_FALSE(Accepts(grammar, "adbb"));
}

// A tail call of a rule takes no frame.
TEST(Gbnf, RunsListsInConstantSpace) {
  const GrammarPtr grammar =
      Compiled(Kind::kGbnf, "root ::= \"a\" more\nmore ::= \",\" root | \"\"");
  Stepper stepper;
  GrammarState state(grammar);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(state.Advance("a,", stepper));
  EXPECT_LE(state.items().size(), 2u);
  for (const Item& item : state.items()) EXPECT_EQ(item.frame, nullptr);
}

TEST(Gbnf, RefusesByLine) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"root = \"a\"", "needs ::="},
      {"root ::= \"a", "without its end"},
      {"root ::= [a", "[ without"},
      {"root ::= (\"a\"", "( without"},
      {"root ::= \"a\" )", "end with its line"},
      {"\nroot ::= \"\\q\"", "line 2: the escape \\q"},
      {"root ::= <think>", "tokens"},
      {"root ::= \"a\"{2,1}", "below its least"},
      {"root ::= \"a\"{1000000}", "at most 100000"},
      {"root ::= \"a\"\nroot ::= \"b\"", "line 2: the rule root is defined twice"},
      {"root ::= $", "begins no part"},
      {"::= \"a\"", "begin with its name"},
  };
  for (const auto& [text, words] : cases) {
    EXPECT_THAT(Refusal(Kind::kGbnf, text), AllOf(HasSubstr(words), HasSubstr("line "))) << text;
  }
  EXPECT_THAT(Refusal(Kind::kGbnf, "a ::= \"a\""), HasSubstr("no rule root"));
  EXPECT_THAT(Refusal(Kind::kGbnf, "root ::= other"), HasSubstr("other is used but not defined"));
}

TEST(Gbnf, RefersToRulesOfSchemas) {
  const std::string schema =
      R"({"properties": {"a/b": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "integer"}}})";
  GrammarSource source{.kind = Kind::kGbnf,
                       .text = "root ::= \"<\" whole (\"|\" part)* \">\"",
                       .choices = {},
                       .schemas = {{"whole", schema}, {"part", schema, {"properties", "a/b"}}}};
  const auto grammar = Grammar::Compile(source);
  ASSERT_TRUE(grammar.ok()) << grammar.status().ToString();
  EXPECT_TRUE(Accepts(*grammar, R"(<{"a/b": 3}>)"));
  EXPECT_TRUE(Accepts(*grammar, "<{}|5|-6>"));
  EXPECT_FALSE(Accepts(*grammar, R"(<{"a/b": "x"}>)"));
  EXPECT_FALSE(Accepts(*grammar, "<{}|{}>"));

  const auto refusal = [](const GrammarSource& wrong) {
    return Grammar::Compile(wrong).status().message();
  };
  GrammarSource twice = source;
  twice.schemas.push_back({"part", schema});
  EXPECT_THAT(refusal(twice), HasSubstr("part is defined by two"));
  GrammarSource both = source;
  both.text += "\npart ::= \"x\"";
  EXPECT_THAT(refusal(both), HasSubstr("part is defined twice"));
  GrammarSource lost = source;
  lost.schemas[1].path = {"properties", "c"};
  EXPECT_THAT(refusal(lost), HasSubstr("part: "));
  GrammarSource wrong = source;
  wrong.schemas[0].schema = R"({"not": {}})";
  EXPECT_THAT(refusal(wrong), AllOf(HasSubstr("whole: "), HasSubstr("not")));
}

TEST(Gbnf, RefusesLeftRecursionByName) {
  EXPECT_THAT(Refusal(Kind::kGbnf, "root ::= root \"a\" | \"b\""),
              HasSubstr("the rule root is left-recursive"));
  EXPECT_THAT(Refusal(Kind::kGbnf, "root ::= x\nx ::= \" \"? y\ny ::= x \"a\" | \"b\""),
              HasSubstr("left-recursive"));
  // Unused rules do no harm.
  EXPECT_TRUE(Accepts(Compiled(Kind::kGbnf, "root ::= \"a\"\nbad ::= bad \"a\""), "a"));
}

TEST(Gbnf, RefusesWhatNoTextMatches) {
  EXPECT_THAT(Refusal(Kind::kGbnf, "root ::= \"a\" root"), HasSubstr("no text matches"));
  // A part that cannot be completed is never started.
  const GrammarPtr grammar = Compiled(Kind::kGbnf, "root ::= \"a\" end | \"b\"\nend ::= \"x\" end");
  Stepper stepper;
  GrammarState state(grammar);
  EXPECT_FALSE(state.Advance("a", stepper));
  EXPECT_TRUE(Accepts(grammar, "b"));
}

}  // namespace
}  // namespace outrider::grammar
