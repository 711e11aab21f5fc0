#include "common/spec/vocabulary_entries.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/tiny_tokenizer.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TokenizerJsonOf;

VocabularyEntries EntriesOf(const std::string& json, int limit = 1000,
                            const std::vector<TokenId>& ends = {}) {
  return VocabularyEntries::FromTokenizer(*Tokenizer::FromJson(json).value(), limit, ends).value();
}

TEST(VocabularyEntries, HoldBytesAndKinds) {
  const VocabularyEntries entries = EntriesOf(TokenizerJsonOf({"a", "bc"}, {"<s>"}));
  ASSERT_EQ(entries.size(), 3);
  EXPECT_EQ(entries.tokens(), 3);
  EXPECT_EQ(entries.kind(1), TokenKind::kText);
  EXPECT_EQ(entries.bytes(1), "bc");
  EXPECT_EQ(entries.kind(2), TokenKind::kSpecial);
  EXPECT_EQ(entries.bytes(2), "<s>");
  EXPECT_EQ(EntriesOf(TokenizerJsonOf({"a", "bc"}, {"<s>"}), 2).size(), 2);
  EXPECT_TRUE(entries.CheckDistinct().ok());
}

// As in SentencePiece: the bytes come first, but "a" is still the token of its byte.
TEST(VocabularyEntries, ByteTokensAreAliases) {
  const std::string json =
      R"({"version":"1.0","added_tokens":[],"normalizer":null,"pre_tokenizer":null,)"
      R"("decoder":{"type":"Sequence","decoders":[{"type":"ByteFallback"},{"type":"Fuse"}]},)"
      R"("model":{"type":"BPE","byte_fallback":true,"unk_token":null,"vocab":{"<0x61>":0,)"
      R"("<0x62>":1,"a":2},"merges":[]}})";
  const auto tokenizer = Tokenizer::FromJson(json);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  const VocabularyEntries entries = VocabularyEntries::FromTokenizer(**tokenizer, 10, {}).value();
  EXPECT_EQ(entries.kind(0), TokenKind::kAlias);
  EXPECT_EQ(entries.bytes(0), "a");
  EXPECT_EQ(entries.kind(1), TokenKind::kText);
  EXPECT_EQ(entries.kind(2), TokenKind::kText);
  EXPECT_TRUE(entries.CheckDistinct().ok());
}

TEST(VocabularyEntries, HoldEndsThatAreTokens) {
  const std::string json = TokenizerJsonOf({"a", "bc"}, {"<s>", "</s>"});
  EXPECT_THAT(EntriesOf(json, 1000, {3, 1, 9}).end_tokens(), ElementsAre(3, 1));
  EXPECT_THAT(EntriesOf(json, 3, {3, 1}).end_tokens(), ElementsAre(1)) << "ids below the limit";
  std::vector<TokenId> many(65);
  std::iota(many.begin(), many.end(), 0);
  EXPECT_THAT(EntriesOf(json, 1000, many).end_tokens(), IsEmpty());
}

TEST(VocabularyEntries, RefuseEndsThatAreNoTokens) {
  VocabularyEntries entries;
  ASSERT_TRUE(entries.Add(TokenKind::kSpecial, "</s>").ok());
  ASSERT_TRUE(entries.Add(TokenKind::kNone, "").ok());
  for (const TokenId id : {-1, 1, 2}) {
    EXPECT_THAT(entries.AddEndToken(id).message(),
                HasSubstr("end token " + std::to_string(id) + " is none"));
  }
  EXPECT_TRUE(entries.AddEndToken(0).ok());
  EXPECT_THAT(entries.AddEndToken(0).message(), HasSubstr("end token 0 is named twice"));
  EXPECT_THAT(entries.end_tokens(), ElementsAre(0));
  for (TokenId id = 2; id < 66; ++id) {
    ASSERT_TRUE(entries.Add(TokenKind::kAlias, "a").ok());
    EXPECT_EQ(entries.AddEndToken(id).ok(), id < 65) << "at most 64";
  }
}

TEST(VocabularyEntries, RefuseWhatIsNoToken) {
  VocabularyEntries entries;
  EXPECT_THAT(entries.Add(TokenKind::kText, "").message(),
              HasSubstr("id 0 is a token without bytes"));
  EXPECT_THAT(entries.Add(TokenKind::kNone, "a").message(), HasSubstr("has bytes, but no token"));
  EXPECT_THAT(entries.Add(TokenKind::kText, std::string(1025, 'a')).message(),
              HasSubstr("1025 bytes, at most 1024"));
  EXPECT_EQ(entries.size(), 0);
  const std::string longest(VocabularyEntries::kMaxTokenBytes, 'a');
  while (entries.text().size() < VocabularyEntries::kMaxTextBytes) {
    ASSERT_TRUE(entries.Add(TokenKind::kText, longest).ok());
  }
  EXPECT_THAT(entries.Add(TokenKind::kText, "a").message(), HasSubstr("more than 4194304 bytes"));
}

TEST(VocabularyEntries, RefuseTheSameTokenTwice) {
  VocabularyEntries entries;
  for (const TokenKind kind :
       {TokenKind::kText, TokenKind::kSpecial, TokenKind::kAlias, TokenKind::kAlias}) {
    ASSERT_TRUE(entries.Add(kind, "abc").ok());
  }
  EXPECT_TRUE(entries.CheckDistinct().ok()) << "a special token is not text, an alias is none";
  ASSERT_TRUE(entries.Add(TokenKind::kText, "abc").ok());
  EXPECT_EQ(entries.CheckDistinct().code(), Code::kInvalidArgument);
  EXPECT_THAT(entries.CheckDistinct().message(), HasSubstr("ids 0 and 4 are the same token"));
}

}  // namespace
}  // namespace outrider
