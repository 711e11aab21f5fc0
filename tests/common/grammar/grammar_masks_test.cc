#include "common/grammar/grammar_masks.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/common/grammar/grammar_testing.h"

namespace outrider::grammar {
namespace {

constexpr const char* kDocument =
    R"({"name": "x","tags":["a", "b\u00e9"],"size":-12.50e+3,"next": {"name":"","tags":[]}}},)"
    "\xE2\x82\xAC\xF0\x9F\x98\x80 (a,b);((aab)) cccddd";

struct Walk {
  const char* name;
  Kind kind;
  std::string text;
};

std::vector<Walk> Walks() {
  return {
      {"object", Kind::kJsonObject, ""},
      {"recursive schema", Kind::kJsonSchema,
       R"({"properties":{"name":{"type":"string"},"tags":{"type":"array","items":{"type":"string"}},
           "size":{"type":"number"},"next":{"anyOf":[{"$ref":"#"},{"type":"null"}]}},
           "required":["name","next"]})"},
      {"open object", Kind::kJsonSchema,
       R"({"properties":{"name":{"type":"integer"},"no":{"type":"null"}},"additionalProperties":{"type":"boolean"}})"},
      {"bounded string", Kind::kJsonSchema,
       R"({"type":"array","items":{"type":"string","minLength":3,"maxLength":40}})"},
      {"bounded list", Kind::kJsonSchema,
       R"({"type":"array","items":{"type":"string"},"minItems":2,"maxItems":200})"},
      {"counted with calls", Kind::kGbnf, "root ::= (\"(\" root \")\" | [ab]){1,600} \";\"?"},
      {"regex", Kind::kRegex, "(a|ab|b)*c+(d|\\u20ac|[^x])?"},
      {"dead ends", Kind::kRegex, "(\\(a,b\\)|\\(\\(aab\\)\\))+"},
      {"ambiguous", Kind::kGbnf,
       "root ::= x y | y x\nx ::= \"a\"* | \"(\" x \")\" x\ny ::= [ab]* | \"(\" root \")\""},
      {"nullable tails", Kind::kGbnf,
       "root ::= a b c\na ::= \"a\" a | \"\"\nb ::= (\"b\" a)* \nc ::= a b | \"(\" c \")\""},
  };
}

// Every bit of every mask along a random text equals the result of reading the token itself.
TEST(GrammarMasks, EqualReadingEveryToken) {
  const auto tokens = TokensOf({kDocument}, 5);
  std::vector<MaskWord> mask(tokens->mask_words());
  MaskScratch scratch;
  Stepper reader;
  for (const Walk& walk : Walks()) {
    const GrammarPtr grammar = Compiled(walk.kind, walk.text);
    ASSERT_NE(grammar, nullptr);
    GrammarMasks masks(grammar, tokens);
    std::mt19937 rng(7);
    for (int text = 0; text < 12; ++text) {
      GrammarState state(grammar);
      for (int step = 0; step < 25; ++step) {
        const auto count = masks.Fill(state, scratch, mask);
        ASSERT_TRUE(count.ok()) << count.status().ToString();
        std::vector<TokenId> allowed;
        int bits = 0;
        for (TokenId id = 0; id < tokens->vocab(); ++id) {
          const std::string_view bytes = tokens->Bytes(id);
          GrammarState after = state;
          const bool is_end = id == 0 || id == tokens->vocab() - 2;
          const bool expected =
              is_end ? state.is_accepting() : !bytes.empty() && after.Advance(bytes, reader);
          ASSERT_EQ(HasBit(mask, id), expected)
              << walk.name << ", text " << text << ", step " << step << ": " << bytes;
          bits += expected ? 1 : 0;
          if (expected && !is_end) allowed.push_back(id);
        }
        ASSERT_EQ(*count, bits) << walk.name;
        ASSERT_GT(bits, 0) << walk.name << ": a text that cannot be finished";
        if (allowed.empty()) break;
        ASSERT_TRUE(state.Advance(tokens->Bytes(allowed[rng() % allowed.size()]), reader));
      }
    }
  }
}

// A count far from its bounds has no mask of its own.
TEST(GrammarMasks, SharesMasksOfCounts) {
  const auto tokens = TokensOf({kDocument}, 4);
  const GrammarPtr grammar = Compiled(Kind::kJsonSchema, R"({"type":"string","maxLength":50000})");
  GrammarMasks masks(grammar, tokens);
  std::vector<MaskWord> mask(tokens->mask_words());
  MaskScratch scratch;
  GrammarState state(grammar);
  ASSERT_TRUE(state.Advance("\"", scratch.stepper));
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(state.Advance("a", scratch.stepper));
    ASSERT_TRUE(masks.Fill(state, scratch, mask).ok());
  }
  EXPECT_LE(masks.cached_nodes(), 8u);
}

std::string BoundedStrings(int fields) {
  std::string properties, required;
  for (int i = 0; i < fields; ++i) {
    const std::string name = (i == 0 ? "\"f" : ",\"f") + std::to_string(i) + "\"";
    properties += name + R"(:{"type":"string","maxLength":100})";
    required += name;
  }
  return R"({"type":"object","properties":{)" + properties + R"(},"required":[)" + required + "]}";
}

// A vocabulary as large as a model's, whose longest tokens are longer than the strings may be.
TEST(GrammarMasks, FollowBoundedStringsOverBigVocabulary) {
  const auto tokens = BigVocabulary();
  const GrammarPtr grammar = Compiled(Kind::kJsonSchema, BoundedStrings(8));
  GrammarMasks masks(grammar, tokens);
  std::vector<MaskWord> mask(tokens->mask_words());
  MaskScratch scratch;
  GrammarState state(grammar);
  std::string text = "{";
  for (int i = 0; i < 8; ++i) {
    text += (i == 0 ? "\"f" : ",\"f") + std::to_string(i) + "\":\"hello world, this is a text\"";
  }
  for (const char byte : text + "}") {
    const Result<int> count = masks.Fill(state, scratch, mask);
    ASSERT_TRUE(count.ok()) << count.status().ToString();
    ASSERT_TRUE(state.Advance({&byte, 1}, scratch.stepper));
  }
  EXPECT_TRUE(state.is_accepting());
}

// Only the few long tokens distinguish counts that are far from their bounds.
TEST(GrammarMasks, LongTokensAloneTellCountsApart) {
  const auto tokens = BigVocabulary();
  const GrammarPtr grammar = Compiled(Kind::kJsonSchema, R"({"type":"string","maxLength":100})");
  GrammarMasks masks(grammar, tokens);
  std::vector<MaskWord> mask(tokens->mask_words());
  MaskScratch scratch;
  GrammarState state(grammar);
  ASSERT_TRUE(state.Advance("\"a", scratch.stepper));
  ASSERT_TRUE(masks.Fill(state, scratch, mask).ok());
  const int64_t first = scratch.stepper.steps();
  for (int i = 0; i < 60; ++i) {
    ASSERT_TRUE(state.Advance("a", scratch.stepper));
    ASSERT_TRUE(masks.Fill(state, scratch, mask).ok());
  }
  EXPECT_LT(scratch.stepper.steps() - first, first);
}

// Whether a mask exceeds the limit does not depend on whether the masks of its nodes were cached.
TEST(GrammarMasks, LimitsAreIndependentOfCache) {
  const auto tokens = TokensOf({kDocument}, 5);
  const GrammarPtr grammar = Compiled(Kind::kRegex, "(\\(a,b\\)|[^,]{2,9},)+");
  std::vector<MaskWord> mask(tokens->mask_words());
  MaskScratch scratch;
  int allowed = 0, refused = 0;
  for (const int64_t limit : {500, 1000, 2000, 4000, 100'000}) {
    GrammarMasks none(grammar, tokens, {.cache_bytes = 0, .node_steps = limit});
    GrammarMasks kept(grammar, tokens, {.node_steps = limit});
    for (int pass = 0; pass < 2; ++pass) {
      GrammarState state(grammar);
      for (const char byte : std::string("(a,b)xyz,(a,b)")) {
        const bool is_allowed = none.Fill(state, scratch, mask).ok();
        ASSERT_EQ(kept.Fill(state, scratch, mask).ok(), is_allowed) << limit << ", pass " << pass;
        ++(is_allowed ? allowed : refused);
        ASSERT_TRUE(state.Advance({&byte, 1}, scratch.stepper));
      }
    }
  }
  EXPECT_GT(allowed, 0);
  EXPECT_GT(refused, 0);
}

TEST(GrammarMasks, EndTokensComeWithTheEnd) {
  const std::vector<std::string_view> bytes = {"", "a", "b", "ab", "", "</s>"};
  const auto tokens = TokenTable::Create(bytes, std::vector<TokenId>{5}, 40).value();
  const GrammarPtr grammar = Compiled(Kind::kRegex, "ab?|</s>x");
  GrammarMasks masks(grammar, tokens);
  MaskScratch scratch;
  std::vector<MaskWord> mask(tokens->mask_words(), ~MaskWord{0});
  GrammarState state(grammar);
  EXPECT_EQ(masks.Fill(state, scratch, mask).value(), 2);  // "a", "ab"; an end token is not text
  EXPECT_EQ(mask[0], (MaskWord{1} << 1) | (MaskWord{1} << 3));
  EXPECT_EQ(mask[1], 0u);
  ASSERT_TRUE(state.Advance("a", scratch.stepper));
  EXPECT_EQ(masks.Fill(state, scratch, mask).value(), 2);  // "b" and the end token
  EXPECT_EQ(mask[0], (MaskWord{1} << 2) | (MaskWord{1} << 5));
  ASSERT_TRUE(state.Advance("b", scratch.stepper));
  EXPECT_EQ(masks.Fill(state, scratch, mask).value(), 1);
  EXPECT_EQ(FirstToken(mask), 5);
  EXPECT_FALSE(state.Advance("b", scratch.stepper));
  EXPECT_EQ(masks.Fill(state, scratch, mask).value(), 0);
}

TEST(GrammarMasks, OneTokenIsForced) {
  const std::vector<std::string_view> bytes = {"r", "e", "d", "ro", "se", "x"};
  const auto tokens = TokenTable::Create(bytes, {}, 6).value();
  const GrammarPtr grammar = OneOf({"red", "rd"});
  GrammarMasks masks(grammar, tokens);
  MaskScratch scratch;
  std::vector<MaskWord> mask(1);
  EXPECT_EQ(masks.Fill(GrammarState(grammar), scratch, mask).value(), 1);
  EXPECT_EQ(FirstToken(mask), 0);
}

TEST(GrammarMasks, CacheStaysWithinItsBytes) {
  const auto tokens = TokensOf({kDocument}, 5);
  const GrammarPtr grammar = Grammar::Compile({}).value();
  const GrammarMasks::Limits small{.cache_bytes = 6'000};
  GrammarMasks bounded(grammar, tokens, small), none(grammar, tokens, {.cache_bytes = 0}),
      whole(grammar, tokens);
  MaskScratch scratch;
  std::vector<MaskWord> a(tokens->mask_words()), b = a, c = a;
  GrammarState state(grammar);
  for (const char byte : std::string(R"({"name":[1,-2.5e1,true,null,{"a\u00e9":{}}],"b":"\n"})")) {
    ASSERT_TRUE(state.Advance({&byte, 1}, scratch.stepper));
    ASSERT_TRUE(bounded.Fill(state, scratch, a).ok());
    ASSERT_TRUE(none.Fill(state, scratch, b).ok());
    ASSERT_TRUE(whole.Fill(state, scratch, c).ok());
    ASSERT_EQ(a, c);
    ASSERT_EQ(b, c);
    EXPECT_LE(bounded.cached_bytes(), small.cache_bytes);
  }
  EXPECT_EQ(none.cached_nodes(), 0u);
  EXPECT_GT(whole.cached_nodes(), bounded.cached_nodes());
  EXPECT_GT(bounded.cached_nodes(), 0u);
}

TEST(TokenTable, RefusesWhatDoesNotFit) {
  const std::vector<std::string_view> bytes = {"a", "b"};
  EXPECT_FALSE(TokenTable::Create(bytes, {}, 1).ok());
  EXPECT_FALSE(TokenTable::Create(bytes, std::vector<TokenId>{2}, 2).ok());
  EXPECT_FALSE(TokenTable::Create(bytes, {}, kMaxVocabulary + 1).ok());
  const std::string long_token(TokenTable::kMaxTokenBytes + 1, 'a');
  const auto table =
      TokenTable::Create(std::vector<std::string_view>{long_token, "a"}, {}, 2).value();
  EXPECT_EQ(table->Bytes(0), "");
  EXPECT_EQ(table->Bytes(1), "a");
  EXPECT_EQ(table->Bytes(7), "");
  EXPECT_EQ(table->groups()[0].longest, 1u);
  EXPECT_EQ(table->groups()[1].longest, 0u);
}

}  // namespace
}  // namespace outrider::grammar
