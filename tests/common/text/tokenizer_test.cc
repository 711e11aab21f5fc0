#include "common/text/tokenizer.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/common/text/tiny_tokenizers.h"

namespace outrider {
namespace {

using Ids = std::vector<TokenId>;

TEST(Tokenizer, EmptyTextHasNoTokens) {
  EXPECT_EQ(Encoded(*MakeTokenizer(ByteLevelJson({})), ""), Ids());
  EXPECT_EQ(Encoded(*MakeTokenizer(SentencePieceJson({})), ""), Ids());
  EXPECT_EQ(MakeTokenizer(ByteLevelJson({}))->Decode(Ids(), false), "");
}

TEST(Tokenizer, InvalidUtf8NamesItsOffset) {
  const auto ids = MakeTokenizer(ByteLevelJson({}))->Encode("caf\xC3", false);
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.status().code(), Code::kInvalidArgument);
  EXPECT_EQ(ids.status().message(), "the text is not UTF-8 at byte 3");
}

TEST(Tokenizer, TextOverTheLimitIsRefused) {
  const auto tokenizer = MakeTokenizer(ByteLevelJson({}));
  const auto ids = tokenizer->Encode(std::string(Tokenizer::kMaxTextBytes + 1, 'a'), false);
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.status().code(), Code::kInvalidArgument);
  EXPECT_NE(ids.status().message().find("at most 4194304"), std::string::npos);
}

TEST(Tokenizer, ByteLevelTextsRoundTrip) {
  const auto tokenizer = MakeTokenizer(ByteLevelJson({{"Ġ", "t"}, {"h", "e"}, {"Ġt", "he"}}));
  for (const std::string& text :
       {std::string("the  the\r\n\tthe "), std::string("a\0b", 3), std::string("e\u0301\u0316"),
        std::string("\U0001F636\u200D\U0001F32B\uFE0F 한국어 \u3000\u2028 \u017F"),
        std::string("<|im_start|>")}) {
    EXPECT_EQ(tokenizer->Decode(Encoded(*tokenizer, text), false), text);
  }
}

TEST(Tokenizer, SentencePieceTextsRoundTrip) {
  const auto tokenizer = MakeTokenizer(SentencePieceJson({{"▁", "a"}, {"▁", "▁"}}));
  for (const std::string text : {" ", "  a  a ", "a", " a", "\n", "é 中文 😀", "<s> b"}) {
    EXPECT_EQ(tokenizer->Decode(Encoded(*tokenizer, text), false), text);
  }
}

TEST(Tokenizer, NfcComesBeforeTheModel) {
  const auto tokenizer =
      MakeTokenizer(With(ByteLevelJson({}), "/normalizer", R"({"type": "NFC"})"));
  EXPECT_EQ(Encoded(*tokenizer, "e\u0301"), Ids({0xC3, 0xA9}));
  EXPECT_EQ(tokenizer->Decode(Ids({0xC3, 0xA9}), false), "\u00E9");
}

TEST(Tokenizer, PrependAddsSpaceToEverySegment) {
  const auto tokenizer = MakeTokenizer(SentencePieceJson({{"▁", "a"}}));
  EXPECT_EQ(Encoded(*tokenizer, "a<s>a", true), Ids({286, 1, 286}));
  EXPECT_EQ(Encoded(*tokenizer, " a", true), Ids({259, 286}));
  EXPECT_EQ(Encoded(*tokenizer, "<s></s>", true), Ids({1, 2}));
  EXPECT_EQ(tokenizer->Decode(Ids({1, 286}), false), "<s> a");
  EXPECT_EQ(tokenizer->Decode(Ids({1, 286}), true), "a");
}

std::string MetaspaceJson(const std::string& pre_tokenizer) {
  const std::string json = With(SentencePieceJson({{"▁", "a"}}), "/normalizer", "null");
  return With(json, "/pre_tokenizer", pre_tokenizer);
}

TEST(Tokenizer, MetaspaceAddsSpaceToFirstSegment) {
  const auto tokenizer = MakeTokenizer(MetaspaceJson(
      R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false})"));
  EXPECT_EQ(Encoded(*tokenizer, "a<s>a", true), Ids({286, 1, 260}));
  EXPECT_EQ(Encoded(*tokenizer, "<s>a", true), Ids({1, 260}));
  EXPECT_EQ(Encoded(*tokenizer, " a", true), Ids({286}));
}

TEST(Tokenizer, OldMetaspaceReadsAddPrefixSpace) {
  const auto always = MakeTokenizer(
      MetaspaceJson(R"({"type": "Metaspace", "replacement": "▁", "add_prefix_space": true})"));
  EXPECT_EQ(Encoded(*always, "a<s>a", true), Ids({286, 1, 286}));
  const auto never = MakeTokenizer(
      MetaspaceJson(R"({"type": "Metaspace", "replacement": "▁", "add_prefix_space": false})"));
  EXPECT_EQ(Encoded(*never, "a a", true), Ids({260, 286}));
}

TEST(Tokenizer, MetaspaceDecoderStripsItsAddedSpace) {
  const std::string json = MetaspaceJson(R"({"type": "Metaspace", "replacement": "▁"})");
  const auto strips =
      MakeTokenizer(With(json, "/decoder", R"({"type": "Metaspace", "replacement": "▁"})"));
  EXPECT_EQ(strips->Decode(Ids({286, 286}), false), "a a");
  EXPECT_TRUE(strips->strips_leading_space());
  const auto keeps = MakeTokenizer(With(
      json, "/decoder", R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never"})"));
  EXPECT_EQ(keeps->Decode(Ids({286, 286}), false), " a a");
}

// Gemma 2's file: no space before the text, a split that finds no spaces any more, a decoder that
// strips none.
TEST(Tokenizer, ReadsGemma2sForm) {
  std::string json = With(SentencePieceJson({{"▁", "a"}}), "/normalizer",
                          R"({"type": "Replace", "pattern": {"String": " "}, "content": "▁"})");
  json = With(json, "/pre_tokenizer",
              R"({"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious",
                  "invert": false})");
  json = With(json, "/decoder/decoders", R"([
      {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
      {"type": "ByteFallback"}, {"type": "Fuse"}])");
  const auto tokenizer = MakeTokenizer(json);
  EXPECT_EQ(Encoded(*tokenizer, "a a"), Ids({260, 286}));
  for (const char* text : {"a", " a", "  b a\n\nc é ", " "}) {
    EXPECT_EQ(tokenizer->Decode(Encoded(*tokenizer, text), false), text);
  }
}

TEST(Tokenizer, ByteLevelOptionsAreFollowed) {
  const std::string json = ByteLevelJson({{"Ġ", "a"}, {"a", "Ġ"}});
  const auto prefix = MakeTokenizer(With(json, "/pre_tokenizer", R"({"type": "ByteLevel"})"));
  EXPECT_EQ(Encoded(*prefix, "a"), Ids({256}));
  // With the pattern "a a" is two pieces, without it one piece, in which the better rank wins.
  EXPECT_EQ(Encoded(*MakeTokenizer(json), "a a"), Ids({'a', 256}));
  const auto whole = MakeTokenizer(
      With(With(json, "/model/merges", R"(["a Ġ", "Ġ a"])"), "/pre_tokenizer",
           R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": false})"));
  EXPECT_EQ(Encoded(*whole, "a a"), Ids({257, 'a'}));
}

TEST(Tokenizer, TokenBytesEqualAddedText) {
  const auto bytes = MakeTokenizer(ByteLevelJson({{"Ġ", "a"}}));
  EXPECT_EQ(bytes->TokenBytes(256), " a");
  EXPECT_EQ(bytes->TokenBytes(0xC3), "\xC3");
  EXPECT_EQ(bytes->TokenBytes(0), std::string_view("\0", 1));
  EXPECT_EQ(bytes->IdToToken(256), "Ġa");
  const auto pieces = MakeTokenizer(SentencePieceJson({{"▁", "a"}}));
  EXPECT_EQ(pieces->TokenBytes(286), " a");
  EXPECT_EQ(pieces->TokenBytes(3 + 0xC3), "\xC3");
  EXPECT_EQ(pieces->IdToToken(3 + 0xC3), "<0xC3>");
}

TEST(Tokenizer, IdsOutsideVocabularyHaveNoToken) {
  const auto tokenizer = MakeTokenizer(ByteLevelJson({}));
  for (const TokenId id : {-1, 256, 1 << 30}) {
    EXPECT_EQ(tokenizer->IdToToken(id), "");
    EXPECT_EQ(tokenizer->TokenBytes(id), "");
    EXPECT_FALSE(tokenizer->IsSpecial(id));
  }
}

TEST(Tokenizer, LookUpsKnowAddedTokens) {
  const auto tokenizer = MakeTokenizer(SentencePieceJson({}));
  EXPECT_EQ(tokenizer->vocab_size(), 286);
  EXPECT_EQ(tokenizer->TokenToId("</s>"), 2);
  EXPECT_EQ(tokenizer->TokenToId("nothing"), std::nullopt);
  EXPECT_TRUE(tokenizer->IsSpecial(2));
  EXPECT_FALSE(tokenizer->IsSpecial(3));
  EXPECT_EQ(tokenizer->prompt_prefix(), Ids({1}));
}

TEST(Tokenizer, PostProcessorInSequenceGivesPrefix) {
  const std::string json = With(SentencePieceJson({}), "/post_processor", R"({
      "type": "Sequence", "processors": [{"type": "ByteLevel"}, {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}},
                   {"SpecialToken": {"id": "</s>"}}],
        "special_tokens": {"<s>": {"ids": [1]}, "</s>": {"ids": [2]}}}]})");
  EXPECT_EQ(MakeTokenizer(json)->prompt_prefix(), Ids({1}));
}

TEST(Tokenizer, ThreadsMayShareOne) {
  const auto tokenizer = MakeTokenizer(ByteLevelJson({{"a", "b"}}));
  std::vector<std::thread> threads;
  std::vector<Ids> results(4);
  for (Ids& result : results) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) result = *tokenizer->Encode("ab cab 123\n", false);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Ids& result : results) EXPECT_EQ(result, results[0]);
}

}  // namespace
}  // namespace outrider
