#include "common/text/added_tokens.h"

#include <gtest/gtest.h>

#include "tests/common/text/tiny_tokenizers.h"

namespace outrider {
namespace {

// Shows tokens as their id in brackets, and the text between them unchanged.
std::string Shown(const AddedTokens& tokens, const std::string& text, bool parse_special = true,
                  const std::vector<TextSpan>& plain = {}) {
  std::string out;
  size_t done = 0;
  for (const TextPart& part : tokens.Split(text, parse_special, plain)) {
    EXPECT_EQ(part.begin, done);
    EXPECT_LT(part.begin, part.end);
    done = part.end;
    const std::string piece = text.substr(part.begin, part.end - part.begin);
    out += part.id < 0 ? piece : "[" + std::to_string(part.id) + ":" + piece + "]";
  }
  EXPECT_EQ(done, text.size());
  return out;
}

AddedTokenSpec Token(TokenId id, std::string content) {
  return {.id = id, .content = std::move(content)};
}
AddedTokenSpec Special(TokenId id, std::string content) {
  return {.id = id, .content = std::move(content), .special = true};
}

TEST(AddedTokens, CoverTheTextAndMayAdjoin) {
  const AddedTokens tokens({Special(1, "<s>"), Special(2, "</s>")});
  EXPECT_EQ(Shown(tokens, ""), "");
  EXPECT_EQ(Shown(tokens, "a<s>b"), "a[1:<s>]b");
  EXPECT_EQ(Shown(tokens, "<s><s></s>"), "[1:<s>][1:<s>][2:</s>]");
  EXPECT_EQ(Shown(tokens, "<s <S> <s"), "<s <S> <s");
}

TEST(AddedTokens, LongestOfSeveralWins) {
  const AddedTokens tokens({Token(1, "<r>"), Token(2, "<r>2"), Token(3, "<r>25")});
  EXPECT_EQ(Shown(tokens, "<r>24<r>25<r>3"), "[2:<r>2]4[3:<r>25][1:<r>]3");
}

TEST(AddedTokens, LeftmostWinsEvenIfShorter) {
  const AddedTokens tokens({Token(1, "ab"), Token(2, "bcd")});
  EXPECT_EQ(Shown(tokens, "abcd"), "[1:ab]cd");
}

TEST(AddedTokens, FailedPrefixHidesNoTokenWithin) {
  const AddedTokens tokens({Token(1, "aab"), Token(2, "aaaac")});
  EXPECT_EQ(Shown(tokens, "aaaab"), "aa[1:aab]");
}

TEST(AddedTokens, SpecialTokensAreTextByDefault) {
  const AddedTokens tokens({Special(1, "<s>"), Token(2, "<tool>"), Token(3, "<s>x")});
  EXPECT_EQ(Shown(tokens, "<s><tool>", false), "<s>[2:<tool>]");
  EXPECT_EQ(Shown(tokens, "<s>x", false), "[3:<s>x]");
  EXPECT_EQ(Shown(tokens, "<s>y", true), "[1:<s>]y");
}

TEST(AddedTokens, PlainBytesMakeNoSpecialToken) {
  const AddedTokens tokens({Special(1, "<s>"), Special(2, "<s>x"), Token(3, "<t>")});
  const auto shown = [&](const std::string& text, const std::vector<TextSpan>& plain) {
    return Shown(tokens, text, true, plain);
  };
  EXPECT_EQ(shown("<s>a<s>b", {}), "[1:<s>]a[1:<s>]b");
  EXPECT_EQ(shown("<s>a<s>b", {{3, 4}, {7, 8}}), "[1:<s>]a[1:<s>]b");
  for (const TextSpan plain : {TextSpan{4, 7}, TextSpan{3, 5}, TextSpan{6, 8}, TextSpan{5, 6}}) {
    EXPECT_EQ(shown("<s>a<s>b", {plain}), "[1:<s>]a<s>b") << plain.begin;
  }
  EXPECT_EQ(shown("<s><s>", {{0, 3}}), "<s>[1:<s>]");
  EXPECT_EQ(shown("<s>x", {{3, 4}}), "[1:<s>]x") << "the longest that ends before it";
  EXPECT_EQ(shown("<t><s>", {{0, 6}}), "[3:<t>]<s>");
  EXPECT_EQ(Shown(tokens, "<s>a", false, {{3, 4}}), "<s>a");
}

TEST(AddedTokens, StripTakesSurroundingWhiteSpace) {
  AddedTokenSpec left = Token(1, "<l>"), right = Token(2, "<r>");
  left.lstrip = true;
  right.rstrip = true;
  const AddedTokens tokens({left, right});
  EXPECT_EQ(Shown(tokens, "a \u3000\n<l> b"), "a[1: \u3000\n<l>] b");
  EXPECT_EQ(Shown(tokens, "a <r> \t\u00A0b"), "a [2:<r> \t\u00A0]b");
  EXPECT_EQ(Shown(tokens, "<r>  <l>"), "[2:<r>  ][1:<l>]");
}

// The ids are those of Hugging Face's tokenizers 0.23, which has no answer for a token with lstrip.
TEST(AddedTokens, StrippedWhiteSpaceMayHoldTokens) {
  AddedTokenSpec right = Token(1, "<r>"), line = Token(2, "\n"), left = Token(3, "\t");
  right.rstrip = true;
  left.lstrip = true;
  const AddedTokens tokens({right, line, left, Token(4, "  "), Token(5, " <m>")});
  EXPECT_EQ(Shown(tokens, "<r> \n x"), "[1:<r> ][2:\n] x");
  EXPECT_EQ(Shown(tokens, "<r>\n\nx"), "[1:<r>][2:\n][2:\n]x");
  EXPECT_EQ(Shown(tokens, "<r>   x"), "[1:<r>][4:  ] x");
  EXPECT_EQ(Shown(tokens, "<r>     "), "[1:<r>][4:  ][4:  ] ");
  EXPECT_EQ(Shown(tokens, "<r>\r <m>x"), "[1:<r>\r][5: <m>]x");
  EXPECT_EQ(Shown(tokens, "<r>\n\tx"), "[1:<r>][2:\n][3:\t]x");
  EXPECT_EQ(Shown(tokens, "<r>\r\tx"), "[1:<r>\r][3:\t]x");
}

TEST(AddedTokens, StrippedTokensTakeLinearTime) {
  AddedTokenSpec line = Token(1, "\n");
  line.rstrip = true;
  const AddedTokens tokens({line});
  EXPECT_EQ(Shown(tokens, "\n \n x"), "[1:\n ][1:\n ]x");
  constexpr size_t kLines = 1'000'000;  // hours, if each looked at those after it
  EXPECT_EQ(tokens.Split(std::string(kLines, '\n'), true).size(), kLines);
}

TEST(AddedTokens, SingleWordIsAlone) {
  AddedTokenSpec word = Token(1, "cat");
  word.single_word = true;
  const AddedTokens tokens({word});
  EXPECT_EQ(Shown(tokens, "cat, the cat"), "[1:cat], the [1:cat]");
  EXPECT_EQ(Shown(tokens, "cats concat cat_ écat cat\u0301"), "cats concat cat_ écat cat\u0301");
}

TEST(AddedTokens, FindsLongestRunOfSpacesFirst) {
  const AddedTokens tokens({Token(1, "  "), Token(2, "    ")});
  EXPECT_EQ(Shown(tokens, "x     y"), "x[2:    ] y");
  EXPECT_EQ(Shown(tokens, "      "), "[2:    ][1:  ]");
}

TEST(AddedTokens, SplitTextFirst) {
  std::string json = ByteLevelJson({{"a", "b"}});
  json = With(json, "/added_tokens/-", AddedTokenJson(257, "<x>", {"special"}));
  json = With(json, "/added_tokens/-", AddedTokenJson(258, "    "));
  const auto tokenizer = MakeTokenizer(json);
  EXPECT_EQ(Encoded(*tokenizer, "ab<x>a<x>b", true),
            std::vector<TokenId>({256, 257, 'a', 257, 'b'}));
  EXPECT_EQ(Encoded(*tokenizer, "<x>", false), std::vector<TokenId>({'<', 'x', '>'}));
  EXPECT_EQ(Encoded(*tokenizer, "ab    ab", false), std::vector<TokenId>({256, 258, 256}));
  EXPECT_EQ(tokenizer->Decode(std::vector<TokenId>{256, 258, 257}, false), "ab    <x>");
}

TEST(AddedTokens, FindsNormalizedTokensInNormalizedText) {
  std::string json = With(ByteLevelJson({}), "/normalizer", R"({"type": "NFC"})");
  json = With(json, "/added_tokens/-", AddedTokenJson(256, "cafe\u0301", {"normalized"}));
  json = With(json, "/added_tokens/-", AddedTokenJson(257, "the\u0301"));
  const auto tokenizer = MakeTokenizer(json);
  EXPECT_EQ(Encoded(*tokenizer, "cafe\u0301caf\u00E9"), std::vector<TokenId>({256, 256}));
  // Not normalized: the exact characters.
  EXPECT_EQ(Encoded(*tokenizer, "the\u0301"), std::vector<TokenId>({257}));
  EXPECT_EQ(Encoded(*tokenizer, "th\u00E9"), std::vector<TokenId>({'t', 'h', 0xC3, 0xA9}));
}

TEST(AddedTokens, NormalizationDoesNotReachAcrossThem) {
  std::string json = With(ByteLevelJson({}), "/normalizer", R"({"type": "NFC"})");
  json = With(json, "/added_tokens/-", AddedTokenJson(256, "<x>", {"special"}));
  const auto tokenizer = MakeTokenizer(json);
  EXPECT_EQ(Encoded(*tokenizer, "e<x>\u0301", true), std::vector<TokenId>({'e', 256, 0xCC, 0x81}));
}

}  // namespace
}  // namespace outrider
