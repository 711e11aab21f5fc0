// Hostile sources and texts. Bounds are on steps, states or bytes, never on time.

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "common/grammar/automaton_builder.h"
#include "common/grammar/regex.h"
#include "tests/common/grammar/grammar_testing.h"

namespace outrider::grammar {
namespace {

using ::testing::HasSubstr;

std::string Times(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

TEST(GrammarLimits, SourceBytes) {
  const GrammarLimits limits{.source_bytes = 10};
  EXPECT_NE(Compiled(Kind::kRegex, "abcdefghij", limits), nullptr);
  EXPECT_THAT(Refusal(Kind::kRegex, "abcdefghijk", limits), HasSubstr("11 bytes, at most 10"));
  const auto choices = Grammar::Compile(
      {.kind = Kind::kChoice, .text = "", .choices = {"abcd", "abcd", "a"}}, limits);
  EXPECT_THAT(choices.status().message(), HasSubstr("12 bytes"));
}

TEST(GrammarLimits, Nesting) {
  EXPECT_NE(Compiled(Kind::kRegex, Times("(", 64) + "a" + Times(")", 64)), nullptr);
  for (const int depth : {65, 100000}) {
    EXPECT_THAT(Refusal(Kind::kRegex, Times("(", depth) + "a" + Times(")", depth)),
                HasSubstr("beyond 64 levels"));
    EXPECT_THAT(Refusal(Kind::kGbnf, "root ::= " + Times("(", depth) + "\"a\"" + Times(")", depth)),
                HasSubstr("beyond 64 levels"));
  }
  EXPECT_THAT(Refusal(Kind::kJsonSchema, Times(R"({"items":)", 20000) + "{}" + Times("}", 20000)),
              HasSubstr("deeper than 64 levels"));
}

TEST(GrammarLimits, StatesAndSteps) {
  const std::string hungry = "(" + Times("(a|b|cd){50}e", 40) + "){2}";
  EXPECT_THAT(Refusal(Kind::kRegex, Times("a", 1001), {.nodes = 1000}), HasSubstr("1000 states"));
  EXPECT_THAT(Refusal(Kind::kRegex, hungry, {.steps = 1000}), HasSubstr("1000 steps"));
  EXPECT_THAT(Refusal(Kind::kRegex, hungry, {.expressions = 10}), HasSubstr("10 parts"));
  EXPECT_THAT(Refusal(Kind::kGbnf, "root ::= a b\na ::= \"a\"\nb ::= \"b\"", {.rules = 2}),
              HasSubstr("2 rules"));
}

// Parts that match only the empty text take no states, but work and edges.
TEST(GrammarLimits, CopiesOfNothing) {
  const std::string nested = "((){0,100000}){0,100000}", many = Times("(){100000}", 20000);
  const std::string long_part = "((" + Times("()", 1000) + "){100000}){100000}";
  for (const std::string& regex : {many, long_part}) {
    EXPECT_THAT(Refusal(Kind::kRegex, regex), HasSubstr("16000000 steps"));
  }
  for (const std::string& regex : {nested, many, long_part}) {
    const std::string schema = R"({"type":"string","pattern":"^)" + regex + R"($","maxLength":9})";
    EXPECT_THAT(Refusal(Kind::kJsonSchema, schema), HasSubstr("16000000 steps"));
  }
  EXPECT_TRUE(Accepts(Compiled(Kind::kRegex, "a(){3}b(){0,9}"), "ab"));
}

// Schemas d0 to d<levels>, each of which includes the next one twice.
std::string DoublingSchema(int levels, const std::string& last = "{}") {
  std::string defs;
  for (int i = 0; i < levels; ++i) {
    const std::string next = R"({"$ref":"#/$defs/d)" + std::to_string(i + 1) + "\"}";
    defs += "\"d" + std::to_string(i) + R"(":{"allOf":[)" + next + "," + next + "]},";
  }
  return R"({"$ref":"#/$defs/d0","$defs":{)" + defs + "\"d" + std::to_string(levels) +
         "\":" + last + "}}";
}

// Without the budget each level doubles the time: 30 levels would take hours.
TEST(GrammarLimits, SchemaReadingIsCharged) {
  EXPECT_NE(Compiled(Kind::kJsonSchema, DoublingSchema(4)), nullptr);
  EXPECT_THAT(Refusal(Kind::kJsonSchema, DoublingSchema(30)), HasSubstr("16000000 steps"));
  EXPECT_THAT(Refusal(Kind::kJsonSchema, DoublingSchema(30, R"({"properties":{"a":{}}})")),
              HasSubstr("two schemas of allOf have this property"));
  GrammarSource tools{.kind = Kind::kGbnf, .text = "root ::= a | b", .choices = {}};
  for (const char* name : {"a", "b"}) {
    tools.schemas.push_back({.name = name, .schema = DoublingSchema(8)});
  }
  EXPECT_TRUE(Grammar::Compile(tools).ok());
  const GrammarLimits one_schema{.steps = 120'000};  // enough for one of them
  EXPECT_NE(Compiled(Kind::kJsonSchema, DoublingSchema(8), one_schema), nullptr);
  EXPECT_THAT(Grammar::Compile(tools, one_schema).status().message(), HasSubstr("120000 steps"));
}

// The same alternatives, compared in many places.
TEST(GrammarLimits, ComparingAlternativesIsCharged) {
  const std::string constants = Times("\"" + std::string(98, 'x') + "\",", 500);
  const std::string one_of = R"({"oneOf":[{"$ref":"#/$defs/a"},{"type":"null"}]},)";
  const auto schema = [&](int places) {
    return R"({"anyOf":[)" + Times(one_of, places) +
           R"({"type":"boolean"}],"$defs":{"a":{"enum":[)" + constants + "1]}}}";
  };
  EXPECT_NE(Compiled(Kind::kJsonSchema, schema(1)), nullptr);
  EXPECT_THAT(Refusal(Kind::kJsonSchema, schema(1000)), HasSubstr("16000000 steps"));
}

// Each node and each part takes a step: few steps mean few nodes, and little memory.
TEST(GrammarLimits, NodesAreBoundedWhileBuilding) {
  RuleSet rules({.nodes = 1000});
  const RuleId root = rules.DeclareRule("root");
  rules.SetBody(root, ParseRegex(Times("a{511}", 1000), rules).value());
  const int64_t left = rules.budget().left();
  EXPECT_THAT(BuildAutomaton(rules, root).status().message(), HasSubstr("more than 4000 states"));
  EXPECT_LT(left - rules.budget().left(), 15'000);
}

// 300 optional calls: 45,000 edges to 300 nodes, which have as many edges. Visiting the target's
// edges for each edge would take 4,500,000 steps.
TEST(GrammarLimits, FollowSetsTakeLinearSteps) {
  std::string root = "root ::=", others;
  for (int i = 0; i < 300; ++i) {
    const std::string name = "a" + std::to_string(i);
    root += " " + name + "?";
    others += "\n" + name + " ::= [a-z] [0-9]";
  }
  EXPECT_NE(Compiled(Kind::kGbnf, root + others, {.steps = 1'000'000}), nullptr);
}

TEST(GrammarLimits, BytesOfAnAutomatonAreBounded) {
  std::string letters;  // each is optional: n of them make n^2 / 2 edges
  for (int i = 0; i < 2200; ++i) letters += {static_cast<char>('a' + i % 26), '?'};
  EXPECT_THAT(Refusal(Kind::kRegex, letters), HasSubstr("more than 8388608 bytes"));
  const GrammarPtr half = Compiled(Kind::kRegex, letters.substr(0, letters.size() / 2));
  ASSERT_NE(half, nullptr);
  EXPECT_LT(half->automaton().bytes(), size_t{8} << 20);
  const std::string rules = "root ::= a b\na ::= [a-c]{20} \"x\"\nb ::= [a-c]{20} \"y\"";
  const size_t bytes = Compiled(Kind::kGbnf, rules)->automaton().bytes();
  EXPECT_NE(Compiled(Kind::kGbnf, rules, {.bytes = bytes}), nullptr);
  EXPECT_THAT(Refusal(Kind::kGbnf, rules, {.bytes = bytes / 2}), HasSubstr("bytes"));
}

// The deterministic automaton would have 2^30 states.
TEST(GrammarLimits, ExponentialAutomatonStaysSmall) {
  const GrammarPtr grammar = Compiled(Kind::kRegex, "[ab]*a[ab]{30}");
  EXPECT_LT(grammar->automaton().num_nodes(), 200u);
  EXPECT_TRUE(Accepts(grammar, "bbba" + Times("b", 30)));
  EXPECT_FALSE(Accepts(grammar, "bbbb" + Times("b", 30)));
}

TEST(GrammarLimits, NestedCountsTakeFewStates) {
  const GrammarPtr grammar = Compiled(Kind::kRegex, "((((a{100}){100}){100}){100}){100}");
  ASSERT_NE(grammar, nullptr);
  EXPECT_LT(grammar->automaton().num_nodes(), 1000u);
  Stepper stepper;
  GrammarState state(grammar);
  EXPECT_TRUE(state.Advance(Times("a", 10000), stepper));
  EXPECT_LT(stepper.steps(), 10000 * 100);
}

// Ambiguous, but a text takes time in proportion to its length.
TEST(GrammarLimits, AmbiguousTextsTakeLinearSteps) {
  const std::vector<std::pair<Kind, std::string>> grammars = {
      {Kind::kRegex, "(a|a)*"},
      {Kind::kRegex, "(a*)*b"},
      {Kind::kRegex, "(a|aa|aaa)*b"},
      {Kind::kRegex, "((a?){10}){5,}b"},
      {Kind::kGbnf, "root ::= x*\nx ::= \"a\" | \"a\" | y\ny ::= \"a\" | \"aa\""},
  };
  for (const auto& [kind, text] : grammars) {
    const GrammarPtr grammar = Compiled(kind, text);
    Stepper stepper;
    GrammarState state(grammar);
    ASSERT_TRUE(state.Advance(Times("a", 1000), stepper)) << text;
    const int64_t first = stepper.steps();
    ASSERT_TRUE(state.Advance(Times("a", 1000), stepper)) << text;
    EXPECT_LT(stepper.steps() - first, 2 * first + 1000) << text;
    EXPECT_LT(stepper.steps(), 2000 * 4000) << text;
  }
}

// The number of ways to read n letters grows with n: reading fails with an error instead of running
// forever.
TEST(GrammarLimits, WaysOfReadingAreBounded) {
  const GrammarPtr grammar = Compiled(Kind::kRegex, "a{0,100000}a{0,100000}b");
  const auto tokens = TokensOf({"aaaab"}, 4);
  GrammarMasks masks(grammar, tokens);
  MaskScratch scratch;
  std::vector<MaskWord> mask(tokens->mask_words());
  GrammarState state(grammar);
  ASSERT_TRUE(state.Advance(Times("a", 50), scratch.stepper));
  ASSERT_TRUE(masks.Fill(state, scratch, mask).ok());
  EXPECT_FALSE(state.Advance(Times("a", 5000), scratch.stepper));
  EXPECT_TRUE(state.is_overflowed());
  EXPECT_EQ(masks.Fill(state, scratch, mask).status().code(), Code::kResourceExhausted);
  EXPECT_FALSE(state.Advance("b", scratch.stepper));
  EXPECT_TRUE(state.is_overflowed());
}

// Mask steps due to the stack: here for the rests of all tokens that end the rule x.
TEST(GrammarLimits, StepsOfReadingRestsAreBounded) {
  const GrammarPtr grammar = Compiled(Kind::kGbnf, "root ::= x [a-z]*\nx ::= \"(\" [0-9]* \")\"");
  const auto tokens = TokensOf({")abcdefghijklmnopqrstuvwxyz"}, 20);
  MaskScratch scratch;
  std::vector<MaskWord> mask(tokens->mask_words());
  GrammarState state(grammar);
  ASSERT_TRUE(state.Advance("(", scratch.stepper));
  GrammarMasks masks(grammar, tokens);
  ASSERT_TRUE(masks.Fill(state, scratch, mask).ok());
  const int64_t begin = scratch.stepper.steps();
  ASSERT_TRUE(masks.Fill(state, scratch, mask).ok());
  const int64_t needed = scratch.stepper.steps() - begin;
  GrammarMasks enough(grammar, tokens, {.steps = needed}), bounded(grammar, tokens, {.steps = 10});
  EXPECT_TRUE(enough.Fill(state, scratch, mask).ok());
  EXPECT_EQ(bounded.Fill(state, scratch, mask).status().code(), Code::kResourceExhausted);
  const int64_t kept = scratch.stepper.steps();
  EXPECT_EQ(bounded.Fill(state, scratch, mask).status().code(), Code::kResourceExhausted);
  EXPECT_LT(scratch.stepper.steps() - kept, needed / 2);
}

// 400 rules that may all be called repeatedly within a token. The second time nothing is
// recomputed.
TEST(GrammarLimits, StepsOfNodeMasksAreBounded) {
  std::string calls, rules;
  for (int i = 0; i < 400; ++i) {
    const std::string name = "r" + std::to_string(i);
    calls += (i == 0 ? "" : " | ") + name;
    rules += name + " ::= . . . \"" + std::to_string(i) + ";\"\n";
  }
  const GrammarPtr grammar = Compiled(Kind::kGbnf, "root ::= . . . (" + calls + ")*\n" + rules);
  const auto tokens = BigVocabulary();
  constexpr int64_t kLimit = 1'000'000;
  GrammarMasks masks(grammar, tokens, {.node_steps = kLimit});
  MaskScratch scratch;
  std::vector<MaskWord> mask(tokens->mask_words());
  const GrammarState state(grammar);
  EXPECT_EQ(masks.Fill(state, scratch, mask).status().code(), Code::kResourceExhausted);
  const int64_t first = scratch.stepper.steps();
  EXPECT_LE(first, kLimit + kMaxStepsOfByte + static_cast<int64_t>(kMaxItems));
  EXPECT_EQ(masks.Fill(state, scratch, mask).status().code(), Code::kResourceExhausted);
  EXPECT_EQ(scratch.stepper.steps(), first);
}

// After "ab" each of 150 rules returns to 150 callers, all to the same nodes: few items, many
// steps.
TEST(GrammarLimits, StepsOfAByteAreBounded) {
  std::string callers, called, rules;
  for (int i = 0; i < 150; ++i) {
    const std::string number = std::to_string(i);
    callers += (i == 0 ? "r" : " | r") + number;
    called += (i == 0 ? "q" : " | q") + number;
    rules += "q" + number + " ::= \"b\" (\"" + number + ";\")?\n";
  }
  for (int i = 0; i < 150; ++i) {
    const std::string number = std::to_string(i);
    rules += "r" + number + " ::= \"a\" (" + called + ") \"" + number + ".\"\n";
  }
  const GrammarPtr grammar = Compiled(Kind::kGbnf, "root ::= " + callers + "\n" + rules);
  Stepper stepper;
  GrammarState state(grammar);
  ASSERT_TRUE(state.Advance("a", stepper));
  const int64_t begin = stepper.steps();
  EXPECT_FALSE(state.Advance("b", stepper));
  EXPECT_TRUE(state.is_overflowed());
  EXPECT_LE(stepper.steps() - begin, 2 * kMaxStepsOfByte);
}

TEST(GrammarLimits, DeepTextsNeedNoRecursion) {
  const GrammarPtr grammar = Grammar::Compile({}).value();
  Stepper stepper;
  GrammarState state(grammar);
  ASSERT_TRUE(state.Advance("{\"a\":" + Times("[", 300000), stepper));
  ASSERT_TRUE(state.Advance(Times("]", 300000) + "}", stepper));
  EXPECT_TRUE(state.is_accepting());
}

// `rules` rules that each call all of them after an "a".
GrammarPtr MutualCalls(int rules) {
  std::string calls, text;
  for (int i = 0; i < rules; ++i) calls += (i == 0 ? "a" : " | a") + std::to_string(i);
  for (int i = 0; i < rules; ++i) {
    const std::string number = std::to_string(i);
    text += "a" + number + " ::= \"a\" (" + calls + ") \"" + number + ";\" | \"c\"\n";
  }
  return Compiled(Kind::kGbnf, "root ::= " + calls + "\n" + text);
}

// Each "a" keeps 150 frames with 150 returns each. The path from an item to the bottom passes only
// one of these frames per "a", but all of them are kept.
TEST(GrammarLimits, BoundsReturnsOfKeptFrames) {
  const GrammarPtr grammar = MutualCalls(150);
  Stepper stepper;
  GrammarState state(grammar);
  int read = 0;
  while (read < 10'000 && state.Advance("a", stepper)) ++read;
  EXPECT_GT(read, 5);
  EXPECT_LE(read, static_cast<int>(2 * kMaxKeptReturns / (150 * 150)) + 2);
  EXPECT_TRUE(state.is_overflowed());
}

// Frames that a text no longer keeps are not counted: here each "a" replaces the previous one.
TEST(GrammarLimits, FinishedReturnsDoNotCount) {
  const GrammarPtr grammar =
      Compiled(Kind::kGbnf, "root ::= (x | y)*\nx ::= \"a\" [a-c]\ny ::= \"b\" [a-c]");
  Stepper stepper;
  GrammarState state(grammar);
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(state.Advance(Times("ab", 50'000), stepper));
    ASSERT_LE(state.most_returns(), 2 * kMaxKeptReturns);
  }
}

// A token's returns are in the Stepper, whose memory is never freed.
TEST(GrammarLimits, ReturnsOfATokenAreBounded) {
  const GrammarPtr grammar = MutualCalls(150);
  Stepper stepper;
  GrammarState state(grammar);
  EXPECT_FALSE(state.Advance(Times("a", 500), stepper));
  EXPECT_TRUE(state.is_overflowed());
  EXPECT_LE(stepper.steps(), static_cast<int64_t>(kMaxStepperReturns) * 4);
}

// Each "a" keeps a frame with 240 returns, although there is one item.
TEST(GrammarLimits, BoundsReturnsKeptByText) {
  std::string calls, rules;
  for (int i = 0; i < 240; ++i) {
    const std::string number = std::to_string(i);
    calls += (i == 0 ? "a" : " | a") + number;
    rules += "a" + number + " ::= root \"" + number + ";\"\n";
  }
  const GrammarPtr grammar =
      Compiled(Kind::kGbnf, "root ::= \"a\" (" + calls + ") | \"c\"\n" + rules);
  Stepper stepper;
  GrammarState state(grammar);
  int read = 0;
  while (read < 10'000 && state.Advance("a", stepper)) ++read;
  EXPECT_GT(read, 1000);
  EXPECT_LE(read, static_cast<int>(2 * kMaxKeptReturns / 240) + 2);
  EXPECT_TRUE(state.is_overflowed());
}

// A pattern with a length limit is made deterministic: this one has 2^20 states, and product and
// sets are bounded as well.
TEST(GrammarLimits, IntersectionsAreBounded) {
  const auto refusal = [](const std::string& pattern, int length) {
    return Refusal(Kind::kJsonSchema, R"({"type":"string","pattern":")" + pattern +
                                          R"(","maxLength":)" + std::to_string(length) + "}");
  };
  EXPECT_THAT(refusal("^[ab]*a[ab]{20}$", 100), HasSubstr("takes more than 4096 states"));
  EXPECT_THAT(refusal("^(a|bb|ccc)*$", 3000), HasSubstr("takes more than 4096 states"));
  EXPECT_THAT(refusal("^(.{100}){100}$", 100000), HasSubstr("takes more than 4096 states"));
  EXPECT_THAT(Refusal(Kind::kJsonSchema, R"({"type":"number","multipleOf":0.00000999})"),
              HasSubstr("multipleOf: takes more than 4096 states"));
}

TEST(GrammarLimits, MessagesShowTheBeginningOfNames) {
  const std::string name(10'000, 'x'), shown = std::string(80, 'x') + "...";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"root ::= " + name, "is used but not defined"},
      {"root ::= \"a\"\n" + name + " = \"b\"", "needs ::= after its name"},
      {"root ::= \"a\"\n" + name + " ::= \"b\"\n" + name + " ::= \"b\"", "is defined twice"},
      {"root ::= \"a\"\n" + name + " ::= \"b\" )", "must end with its line"},
      {"root ::= " + name + "\n" + name + " ::= " + name + " \"a\" | \"b\"", "is left-recursive"},
  };
  for (const auto& [source, words] : cases) {
    const std::string message = Refusal(Kind::kGbnf, source);
    EXPECT_THAT(message, HasSubstr("the rule " + shown + " " + words));
    EXPECT_LT(message.size(), 300u);
  }
  const std::string pointer = R"({"$ref":"#/$defs/)" + name + "\"";
  EXPECT_LT(Refusal(Kind::kJsonSchema, pointer + "}").size(), 300u);
  const std::string recursive = R"(,"$defs":{")" + name + R"(":{"anyOf":[{"type":"null"},)";
  EXPECT_LT(Refusal(Kind::kJsonSchema, pointer + recursive + pointer + "}]}}}").size(), 300u);
}

// Any property may follow any other: the automaton must not have an edge for each pair.
TEST(GrammarLimits, OptionalPropertiesTakeLinearSpace) {
  const auto compiled = [](int count, const std::string& more) {
    std::string properties;
    for (int i = 0; i < count; ++i) {
      const std::string name = std::to_string(i * 7919 % 1000) + "_field_" + std::to_string(i);
      properties += (i == 0 ? "\"" : ",\"") + name + "\":{\"type\":\"integer\"}";
    }
    return Compiled(Kind::kJsonSchema, "{\"properties\":{" + properties + "}" + more + "}");
  };
  const std::string any = R"(,"additionalProperties":{"type":"null"})";
  for (const std::string& more : {std::string(), any}) {
    const int count = more.empty() ? 2000 : 1000;
    const GrammarPtr small = compiled(count / 4, more), big = compiled(count, more);
    ASSERT_TRUE(small != nullptr && big != nullptr);
    EXPECT_LT(big->automaton().bytes(), 6 * small->automaton().bytes());
    EXPECT_TRUE(Accepts(big, "{}"));
    EXPECT_TRUE(Accepts(big, R"({"0_field_0": 1,"919_field_1":2,"81_field_999":3})"));
    EXPECT_FALSE(Accepts(big, R"({"919_field_1":2,"0_field_0":1})"));
    EXPECT_FALSE(Accepts(big, R"({"0_field_0":1,"0_field_0":1})"));
    EXPECT_FALSE(Accepts(big, R"({"0_field_0":1,})"));
    EXPECT_EQ(Accepts(big, R"({"0_field_0":1,"0_field_1":null})"), !more.empty());
    // The possible keys are one item, not one per property.
    Stepper stepper;
    GrammarState state(big);
    ASSERT_TRUE(state.Advance("{\"", stepper));
    EXPECT_LE(state.items().size(), 4u);
  }
}

TEST(GrammarLimits, LongChainsOfRules) {
  std::string forward, backward;
  for (int i = 0; i < 5000; ++i) {
    const std::string rule =
        "r" + std::to_string(i) + " ::= \"x\"? r" + std::to_string(i + 1) + "\n";
    forward += rule;
    backward.insert(0, rule);
  }
  for (const std::string& rules : {forward, backward}) {
    const GrammarPtr grammar =
        Compiled(Kind::kGbnf, "root ::= \"y\" r0\n" + rules + "r5000 ::= \"a\"?\n");
    ASSERT_NE(grammar, nullptr);
    Stepper stepper;
    GrammarState state(grammar);
    // 5000 rules may begin here at once.
    EXPECT_FALSE(state.Advance("y", stepper));
    EXPECT_TRUE(state.is_overflowed());
  }
}

}  // namespace
}  // namespace outrider::grammar
