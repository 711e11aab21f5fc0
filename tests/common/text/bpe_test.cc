#include "common/text/bpe.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "common/text/byte_alphabet.h"
#include "tests/common/text/tiny_tokenizers.h"

namespace outrider {
namespace {

using Ids = std::vector<TokenId>;

TEST(Bpe, MergesTheBestRankFirst) {
  // "abc": bc has the better rank, so ab is never merged.
  const auto tokenizer = MakeTokenizer(ByteLevelJson({{"b", "c"}, {"a", "b"}}));
  EXPECT_EQ(Encoded(*tokenizer, "abc"), Ids({'a', 256}));
  EXPECT_EQ(Encoded(*tokenizer, "ab"), Ids({257}));
}

TEST(Bpe, LeftmostOfEqualRanksMergesFirst) {
  const auto tokenizer = MakeTokenizer(ByteLevelJson({{"a", "a"}}));
  EXPECT_EQ(Encoded(*tokenizer, "aaa"), Ids({256, 'a'}));
  EXPECT_EQ(Encoded(*tokenizer, "aaaa"), Ids({256, 256}));
}

TEST(Bpe, MergesMergedTokens) {
  const auto tokenizer =
      MakeTokenizer(ByteLevelJson({{"l", "o"}, {"lo", "w"}, {"e", "r"}, {"low", "er"}}));
  EXPECT_EQ(Encoded(*tokenizer, "lower"), Ids({259}));
  EXPECT_EQ(Encoded(*tokenizer, "lowe"), Ids({257, 'e'}));
}

TEST(Bpe, MergesNeverCrossPieces) {
  const auto tokenizer = MakeTokenizer(ByteLevelJson({{"a", "Ġ"}, {"Ġ", "b"}}));
  EXPECT_EQ(Encoded(*tokenizer, "a b"), Ids({'a', 257}));
}

TEST(Bpe, IgnoreMergesTakesWholePieces) {
  const std::string json = ByteLevelJson({{"b", "c"}, {"a", "b"}, {"ab", "c"}});
  EXPECT_EQ(Encoded(*MakeTokenizer(json), "abc"), Ids({'a', 256}));
  EXPECT_EQ(Encoded(*MakeTokenizer(With(json, "/model/ignore_merges", "true")), "abc"), Ids({258}));
}

TEST(Bpe, IgnoreMergesTakesNoAddedToken) {
  std::string json = With(ByteLevelJson({}), "/model/ignore_merges", "true");
  json = With(json, "/added_tokens/-", AddedTokenJson(256, "abc", {"special"}));
  EXPECT_EQ(Encoded(*MakeTokenizer(json), "abc"), Ids({'a', 'b', 'c'}));
}

TEST(Bpe, ByteWithoutTokenIsError) {
  const std::string json = Without(ByteLevelJson({}), "/model/vocab/z");
  const auto ids = MakeTokenizer(json)->Encode("az", false);
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.status().code(), Code::kInvalidArgument);
  EXPECT_NE(ids.status().message().find("<0x7A>"), std::string::npos) << ids.status().message();
}

TEST(Bpe, UnknownCharactersFallBackToBytes) {
  const auto tokenizer = MakeTokenizer(SentencePieceJson({}));
  EXPECT_EQ(Encoded(*tokenizer, "aé\n"), Ids({259, 260, 3 + 0xC3, 3 + 0xA9, 3 + 0x0A}));
}

TEST(Bpe, MissingByteTokensMakeCharacterUnknown) {
  std::string json = Without(SentencePieceJson({}), "/model/vocab/<0xA9>");
  json = With(json, "/model/byte_fallback", "true");
  EXPECT_EQ(Encoded(*MakeTokenizer(json), "éb"), Ids({259, 0, 261}));
}

TEST(Bpe, FusesUnknownNeighboursIfAsked) {
  const std::string json = With(SentencePieceJson({}), "/model/byte_fallback", "false");
  EXPECT_EQ(Encoded(*MakeTokenizer(json), "XYaZ"), Ids({259, 0, 260, 0}));
  EXPECT_EQ(Encoded(*MakeTokenizer(With(json, "/model/fuse_unk", "false")), "XYaZ"),
            Ids({259, 0, 0, 260, 0}));
}

TEST(Bpe, UnencodableCharacterIsError) {
  std::string json = With(SentencePieceJson({}), "/model/byte_fallback", "false");
  json = Without(json, "/model/unk_token");
  const auto ids = MakeTokenizer(json)->Encode("aé", false);
  ASSERT_FALSE(ids.ok());
  EXPECT_NE(ids.status().message().find("é"), std::string::npos) << ids.status().message();
}

TEST(Bpe, VocabularyImpliesByteFallback) {
  std::string json = Without(SentencePieceJson({}), "/model/byte_fallback");
  EXPECT_EQ(Encoded(*MakeTokenizer(json), "é"), Ids({259, 3 + 0xC3, 3 + 0xA9}));
  json = With(json, "/decoder", R"({"type": "Fuse"})");
  EXPECT_EQ(Encoded(*MakeTokenizer(json), "é"), Ids({259, 3 + 0xC3, 3 + 0xA9}));
  json = Without(json, "/model/vocab/<0x00>");
  EXPECT_EQ(Encoded(*MakeTokenizer(json), "é"), Ids({259, 0}));
}

// The definition, word by word: find the best pair of the whole piece, merge it, repeat.
Ids MergeBySearching(Ids ids, const std::map<std::pair<TokenId, TokenId>, int>& ranks) {
  while (true) {
    int best = -1;
    size_t pos = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto rank = ranks.find({ids[i], ids[i + 1]});
      if (rank == ranks.end() || (best >= 0 && rank->second >= best)) continue;
      best = rank->second;
      pos = i;
    }
    if (best < 0) return ids;
    ids[pos] = 256 + best;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(pos) + 1);
  }
}

TEST(Bpe, AgreesWithDefinitionOnRandomTexts) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    MergeList merges;
    std::map<std::string, TokenId> id_of = {{"a", 'a'}, {"b", 'b'}, {"c", 'c'}};
    std::map<std::pair<TokenId, TokenId>, int> ranks;
    std::vector<std::string> tokens = {"a", "b", "c"};
    for (int tries = 0; tries < 20; ++tries) {
      const std::string left = tokens[random() % tokens.size()];
      const std::string right = tokens[random() % tokens.size()];
      if (!id_of.emplace(left + right, 256 + static_cast<TokenId>(merges.size())).second) continue;
      ranks[{id_of[left], id_of[right]}] = static_cast<int>(merges.size());
      merges.emplace_back(left, right);
      tokens.push_back(left + right);
    }
    const auto tokenizer = MakeTokenizer(ByteLevelJson(merges));
    for (int k = 0; k < 20; ++k) {
      std::string text;
      for (size_t size = 1 + random() % 40; size > 0; --size) text += "abc"[random() % 3];
      ASSERT_EQ(Encoded(*tokenizer, text), MergeBySearching(Ids(text.begin(), text.end()), ranks))
          << text;
    }
  }
}

TEST(Bpe, LongRunsMergeInReasonableTime) {
  constexpr size_t kBytes = 1 << 20;
  const MergeList letters = {{"a", "a"}, {"aa", "aa"}};
  const MergeList spaces = {{"▁", "▁"}, {"▁▁", "▁▁"}};
  EXPECT_EQ(Encoded(*MakeTokenizer(ByteLevelJson(letters)), std::string(kBytes, 'a')).size(),
            kBytes / 4);
  // A U+2581 is prepended to the text.
  EXPECT_EQ(Encoded(*MakeTokenizer(SentencePieceJson(spaces)), std::string(kBytes, ' ')).size(),
            kBytes / 4 + 1);
}

TEST(ByteAlphabet, IsABijectionOntoPrintableCharacters) {
  std::map<std::string, int> seen;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string character = ByteToCharacter(static_cast<uint8_t>(byte));
    EXPECT_TRUE(seen.emplace(character, byte).second);
    EXPECT_EQ(CharactersToBytes(character), std::string(1, static_cast<char>(byte)));
  }
  EXPECT_EQ(BytesToCharacters(" \n~\x7F\xAD"), "ĠĊ~ġŃ");
  EXPECT_EQ(CharactersToBytes("▁"), std::nullopt);
  EXPECT_EQ(CharactersToBytes(" "), std::nullopt);
}

TEST(ByteAlphabet, ByteTokensHaveTwoHexDigits) {
  EXPECT_EQ(ByteTokenName(0x0A), "<0x0A>");
  EXPECT_EQ(ParseByteTokenName("<0xfF>"), 0xFF);
  for (const char* name : {"<0x0>", "<0x0A", "<0xG0>", "<0x-1>", "<0x0A> ", "0x0A", "<0x 1>"}) {
    EXPECT_EQ(ParseByteTokenName(name), std::nullopt) << name;
  }
}

}  // namespace
}  // namespace outrider
