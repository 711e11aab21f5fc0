// The split patterns in use, on texts where they differ or are easily wrong.
#include "common/text/pre_tokenizer.h"

#include <gtest/gtest.h>

#include "common/text/tokenizer_json.h"
#include "tests/common/text/tiny_tokenizers.h"

namespace outrider {
namespace {

using Strings = std::vector<std::string>;

constexpr const char* kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

Strings SplitBy(const std::vector<PreTokenizerStep>& steps, const std::string& text,
                bool at_text_start = true) {
  const Result<PreTokenizer> pre_tokenizer = PreTokenizer::Create(steps);
  EXPECT_TRUE(pre_tokenizer.ok()) << pre_tokenizer.status().ToString();
  MatchBudget budget;
  const Result<Pieces> pieces = pre_tokenizer->Split(text, at_text_start, &budget);
  EXPECT_TRUE(pieces.ok()) << pieces.status().ToString();
  Strings out;
  for (const TextSpan& span : pieces->spans) {
    out.push_back(pieces->text.substr(span.begin, span.end - span.begin));
  }
  return out;
}

Strings SplitByRegex(const char* regex, const std::string& text) {
  return SplitBy({SplitStep{.pattern = {regex, true}}}, text);
}

Strings Gpt2(const std::string& text) {
  const Result<TokenizerSpec> spec = ParseTokenizerJson(ByteLevelJson({}));
  EXPECT_TRUE(spec.ok());
  return SplitBy(spec->pre_tokenizer, text);
}
Strings Llama3(const std::string& text) { return SplitByRegex(kLlama3, text); }
Strings Qwen(const std::string& text) { return SplitByRegex(kQwen, text); }

TEST(PreTokenizer, EmptyTextHasNoPieces) {
  EXPECT_EQ(Gpt2(""), Strings());
  EXPECT_EQ(SplitBy({PrefixSpaceStep{}}, ""), Strings());
  EXPECT_EQ(SplitBy({MetaspaceStep{.replacement = "▁"}}, ""), Strings());
}

TEST(PreTokenizer, Gpt2TakesLowerCaseContractionsApart) {
  EXPECT_EQ(Gpt2("It's they'd we'll"), Strings({"It", "'s", " they", "'d", " we", "'ll"}));
  EXPECT_EQ(Gpt2("IT'S I'LL"), Strings({"IT", "'", "S", " I", "'", "LL"}));
  EXPECT_EQ(Gpt2("it'\u017F"), Strings({"it", "'", "\u017F"}));
}

TEST(PreTokenizer, LlamaAndQwenIgnoreContractionCase) {
  for (const char* pattern : {kLlama3, kQwen}) {
    EXPECT_EQ(SplitByRegex(pattern, "IT'S I'lL"), Strings({"IT", "'S", " I", "'lL"}));
    EXPECT_EQ(SplitByRegex(pattern, "it'\u017F"), Strings({"it", "'\u017F"}));
    EXPECT_EQ(SplitByRegex(pattern, "y'all o'clock"), Strings({"y", "'all", " o", "'clock"}));
  }
}

TEST(PreTokenizer, TheyGroupDigitsDifferently) {
  EXPECT_EQ(Gpt2("a 1234567"), Strings({"a", " 1234567"}));
  EXPECT_EQ(Llama3("a 1234567"), Strings({"a", " ", "123", "456", "7"}));
  EXPECT_EQ(Qwen("a 123"), Strings({"a", " ", "1", "2", "3"}));
  EXPECT_EQ(Llama3("\uFF11\uFF12\u00BD\u0663"), Strings({"\uFF11\uFF12\u00BD", "\u0663"}));
}

TEST(PreTokenizer, LastSpaceGoesWithWord) {
  EXPECT_EQ(Gpt2("   Hello"), Strings({"  ", " Hello"}));
  EXPECT_EQ(Llama3("   Hello"), Strings({"  ", " Hello"}));
  EXPECT_EQ(Gpt2("a  "), Strings({"a", "  "}));
  EXPECT_EQ(Gpt2("a  \n b"), Strings({"a", "  \n", " b"}));
  EXPECT_EQ(Llama3("a  \n b"), Strings({"a", "  \n", " b"}));
}

TEST(PreTokenizer, LineEndsStayWithPrecedingPunctuation) {
  EXPECT_EQ(Llama3("x!!\n\ny"), Strings({"x", "!!\n\n", "y"}));
  EXPECT_EQ(Gpt2("x!!\n\ny"), Strings({"x", "!!", "\n", "\n", "y"}));
  EXPECT_EQ(Llama3("a\r\n\r\nb"), Strings({"a", "\r\n\r\n", "b"}));
  EXPECT_EQ(Gpt2("a\r\nb"), Strings({"a", "\r", "\n", "b"}));
  EXPECT_EQ(Qwen("\n \n\n x"), Strings({"\n \n\n", " x"}));
}

TEST(PreTokenizer, NonLetterJoinsFollowingWord) {
  EXPECT_EQ(Llama3("\tx(word"), Strings({"\tx", "(word"}));
  EXPECT_EQ(Llama3("a\u00A0b"), Strings({"a", "\u00A0b"}));
  EXPECT_EQ(Gpt2("a\u00A0b"), Strings({"a", "\u00A0", "b"}));
}

TEST(PreTokenizer, UnicodeWhiteSpaceIsWhiteSpace) {
  EXPECT_EQ(Gpt2("a\u3000\u2003b"), Strings({"a", "\u3000", "\u2003", "b"}));
  EXPECT_EQ(Gpt2("a\u2028\u0085"), Strings({"a", "\u2028\u0085"}));
  // U+180E was white space only in old versions of Unicode, U+200B never was.
  EXPECT_EQ(Gpt2("\u180E. \u200B!"), Strings({"\u180E.", " \u200B!"}));
}

TEST(PreTokenizer, MarksAndJoinersAreNoLetters) {
  EXPECT_EQ(Llama3("e\u0301x"), Strings({"e", "\u0301x"}));
  EXPECT_EQ(Gpt2("e\u0301x"), Strings({"e", "\u0301", "x"}));
  EXPECT_EQ(Gpt2(" \U0001F636\u200D\U0001F32B\uFE0F ok"),
            Strings({" \U0001F636\u200D\U0001F32B\uFE0F", " ok"}));
  EXPECT_EQ(Llama3("中文 한국어"), Strings({"中文", " 한국어"}));
}

TEST(PreTokenizer, SplitBehaviorsPlaceTheMatch) {
  const auto split = [](SplitBehavior behavior, bool invert) {
    return SplitBy({SplitStep{{"-", false}, behavior, invert}}, "-a--b-");
  };
  EXPECT_EQ(split(SplitBehavior::kIsolated, false), Strings({"-", "a", "-", "-", "b", "-"}));
  EXPECT_EQ(split(SplitBehavior::kRemoved, false), Strings({"a", "b"}));
  EXPECT_EQ(split(SplitBehavior::kRemoved, true), Strings({"-", "-", "-", "-"}));
  EXPECT_EQ(split(SplitBehavior::kMergedWithPrevious, false), Strings({"-", "a-", "-", "b-"}));
  EXPECT_EQ(split(SplitBehavior::kMergedWithNext, false), Strings({"-a", "-", "-b", "-"}));
  EXPECT_EQ(split(SplitBehavior::kContiguous, false), Strings({"-", "a", "--", "b", "-"}));
}

TEST(PreTokenizer, MetaspacePrependsMissingSpace) {
  const MetaspaceStep always{.replacement = "▁", .split = false};
  EXPECT_EQ(SplitBy({always}, "a b"), Strings({"▁a▁b"}));
  EXPECT_EQ(SplitBy({always}, " a"), Strings({"▁a"}));
  EXPECT_EQ(SplitBy({always}, "▁a"), Strings({"▁a"}));
  EXPECT_EQ(SplitBy({always}, "a", false), Strings({"▁a"}));
}

TEST(PreTokenizer, MetaspacePrependsByScheme) {
  const MetaspaceStep first{
      .replacement = "▁", .prepend_scheme = PrependScheme::kFirst, .split = false};
  EXPECT_EQ(SplitBy({first}, "a", true), Strings({"▁a"}));
  EXPECT_EQ(SplitBy({first}, "a", false), Strings({"a"}));
  const MetaspaceStep never{
      .replacement = "▁", .prepend_scheme = PrependScheme::kNever, .split = false};
  EXPECT_EQ(SplitBy({never}, "a b"), Strings({"a▁b"}));
}

TEST(PreTokenizer, MetaspaceSplitsBeforeEachMark) {
  EXPECT_EQ(SplitBy({MetaspaceStep{.replacement = "▁"}}, "a  b "), Strings({"▁a", "▁", "▁b", "▁"}));
}

TEST(PreTokenizer, AddsPrefixSpaceToEveryPiece) {
  EXPECT_EQ(SplitBy({PrefixSpaceStep{}}, "a b"), Strings({" a b"}));
  EXPECT_EQ(SplitBy({PrefixSpaceStep{}}, " a"), Strings({" a"}));
  EXPECT_EQ(
      SplitBy({SplitStep{{",", false}, SplitBehavior::kRemoved, false}, PrefixSpaceStep{}}, "a, b"),
      Strings({" a", " b"}));
}

// Expected pieces are those of tokenizers 0.23.
TEST(PreTokenizer, ScriptsAreCutWhereTheyChange) {
  const auto split = [](const std::string& text) { return SplitBy({ScriptsStep{}}, text); };
  EXPECT_EQ(split("Yes, да 1. α"), Strings({"Yes", ", ", "да ", "1. ", "α"}));
  EXPECT_EQ(split("どこで生れ。カーYes"), Strings({"どこで生れ", "。", "カー", "Yes"}));
  EXPECT_EQ(split("ab 中 か ー ア"), Strings({"ab ", "中 か ー ア"}))
      << "spaces go with what is before";
  EXPECT_EQ(split("a\u3000b"), Strings({"a", "\u3000", "b"})) << "but no other white space";
  EXPECT_EQ(split("  a b "), Strings({"a b "})) << "leading ones are dropped";
  EXPECT_EQ(split("   "), Strings());
  EXPECT_EQ(split("e\u0301x"), Strings({"e", "\u0301", "x"}));
  EXPECT_EQ(split("a\u0378b \U0001F9D1"), Strings({"a\u0378b \U0001F9D1"})) << "not in Unicode 9";
  EXPECT_EQ(SplitBy({SplitStep{{"-", false}, SplitBehavior::kIsolated, false}, ScriptsStep{}},
                    "a- b\u03B1-\u0378"),
            Strings({"a", "-", "b", "\u03B1", "-"}))
      << "each piece by itself";
}

TEST(PreTokenizer, SplitsLongRunsInReasonableTime) {
  constexpr size_t kBytes = 1 << 20;
  for (const char* pattern : {kLlama3, kQwen}) {
    EXPECT_EQ(SplitByRegex(pattern, std::string(kBytes, ' ')).size(), 1u);
    EXPECT_EQ(SplitByRegex(pattern, std::string(kBytes, ' ') + "x").size(), 2u);
    EXPECT_EQ(SplitByRegex(pattern, std::string(kBytes, 'a')).size(), 1u);
  }
  EXPECT_EQ(Qwen(std::string(kBytes, '7')).size(), kBytes);
}

}  // namespace
}  // namespace outrider
