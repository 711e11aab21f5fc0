#include "common/text/detokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/common/text/tiny_tokenizers.h"

namespace outrider {
namespace {

using Ids = std::vector<TokenId>;

std::string Streamed(Detokenizer& detokenizer, const Ids& ids) {
  std::string text;
  for (const TokenId id : ids) text += detokenizer.Push(id);
  return text + detokenizer.Finish();
}

TEST(Detokenizer, CharacterAppearsWithItsLastByte) {
  const auto tokenizer = MakeTokenizer(ByteLevelJson({}));
  Detokenizer detokenizer(*tokenizer, true, true);
  EXPECT_EQ(detokenizer.Push('a'), "a");
  EXPECT_EQ(detokenizer.Push(0xF0), "");
  EXPECT_EQ(detokenizer.Push(0x9F), "");
  EXPECT_EQ(detokenizer.Push(0x98), "");
  EXPECT_EQ(detokenizer.Push(0x80), "😀");
  EXPECT_EQ(detokenizer.Finish(), "");
}

TEST(Detokenizer, ReplacesIncompleteCharacterAtEnd) {
  const auto tokenizer = MakeTokenizer(ByteLevelJson({}));
  Detokenizer detokenizer(*tokenizer, true, true);
  EXPECT_EQ(detokenizer.Push(0xE2), "");
  EXPECT_EQ(detokenizer.Push(0x82), "");
  EXPECT_EQ(detokenizer.Finish(), "\uFFFD");
}

TEST(Detokenizer, ReplacesBrokenCharacterWhereItBreaks) {
  const auto tokenizer = MakeTokenizer(ByteLevelJson({}));
  Detokenizer detokenizer(*tokenizer, true, true);
  EXPECT_EQ(detokenizer.Push(0xE2), "");
  EXPECT_EQ(detokenizer.Push('x'), "\uFFFDx");
  EXPECT_EQ(detokenizer.Push(0x80), "\uFFFD");
}

TEST(Detokenizer, FallbackBytesFormCharacters) {
  const auto tokenizer = MakeTokenizer(SentencePieceJson({}));
  Detokenizer detokenizer(*tokenizer, true, true);
  EXPECT_EQ(detokenizer.Push(3 + 0xC3), "");
  EXPECT_EQ(detokenizer.Push(3 + 0xA9), "é");
}

TEST(Detokenizer, StripsSpaceOnlyAtTextStart) {
  const auto tokenizer = MakeTokenizer(SentencePieceJson({{"▁", "a"}}));
  Detokenizer text(*tokenizer, true, true);
  EXPECT_EQ(Streamed(text, {286, 286}), "a a");
  Detokenizer continuation(*tokenizer, true, false);
  EXPECT_EQ(Streamed(continuation, {286, 286}), " a a");
}

TEST(Detokenizer, OneSpaceGoesNotAll) {
  const auto tokenizer = MakeTokenizer(SentencePieceJson({{"▁", "▁"}}));
  Detokenizer detokenizer(*tokenizer, true, true);
  EXPECT_EQ(Streamed(detokenizer, {286, 259}), "  ");
}

TEST(Detokenizer, SkippedTokenIsNotTheStart) {
  const auto tokenizer = MakeTokenizer(SentencePieceJson({{"▁", "a"}}));
  Detokenizer skip(*tokenizer, true, true);
  EXPECT_EQ(Streamed(skip, {1, 286}), "a");
  Detokenizer keep(*tokenizer, false, true);
  EXPECT_EQ(Streamed(keep, {1, 286}), "<s> a");
}

TEST(Detokenizer, IdsWithoutTokenAddNothing) {
  const auto tokenizer = MakeTokenizer(ByteLevelJson({}));
  Detokenizer detokenizer(*tokenizer, true, true);
  EXPECT_EQ(detokenizer.Push(-1), "");
  EXPECT_EQ(detokenizer.Push(256), "");
  EXPECT_EQ(detokenizer.Push(1 << 30), "");
  EXPECT_EQ(detokenizer.Push('a'), "a");
}

TEST(Detokenizer, StreamingEqualsDecoding) {
  std::mt19937 random(5);
  for (const std::string& json : {ByteLevelJson({}), SentencePieceJson({{"▁", "a"}})}) {
    const auto tokenizer = MakeTokenizer(json);
    for (int round = 0; round < 500; ++round) {
      Ids ids;
      for (int i = 0; i < 20; ++i) {
        ids.push_back(static_cast<TokenId>(random() % tokenizer->vocab_size()));
      }
      for (const bool skip_special : {false, true}) {
        Detokenizer detokenizer(*tokenizer, skip_special, true);
        std::string streamed;
        for (const TokenId id : ids) {
          const std::string text = detokenizer.Push(id);
          ASSERT_EQ(FindInvalidUtf8(text), std::nullopt);
          streamed += text;
        }
        streamed += detokenizer.Finish();
        ASSERT_EQ(streamed, tokenizer->Decode(ids, skip_special));
      }
    }
  }
}

}  // namespace
}  // namespace outrider
