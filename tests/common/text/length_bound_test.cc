// No text of more than MostBytes(n) bytes has n tokens or fewer.
#include "common/text/length_bound.h"

#include <gtest/gtest.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>

#include "common/text/utf8.h"
#include "tests/common/text/tiny_tokenizers.h"

namespace outrider {
namespace {

size_t PerToken(const std::string& json) { return MakeTokenizer(json)->MostBytes(1); }

constexpr size_t kNone = Tokenizer::kMaxTextBytes;

TEST(LengthBound, AccountsForTokensAndNormalization) {
  const std::string bytes = ByteLevelJson({{"a", "a"}, {"aa", "aa"}});
  EXPECT_EQ(PerToken(bytes), 4u);
  EXPECT_EQ(MakeTokenizer(bytes)->MostBytes(100), 400u);
  EXPECT_EQ(MakeTokenizer(bytes)->MostBytes(2'000'000'000), kNone);
  EXPECT_EQ(MakeTokenizer(bytes)->MostBytes(-1), 0u);
  EXPECT_EQ(PerToken(With(bytes, "/normalizer", R"({"type": "NFC"})")), 4 * kNfcShrinks);
  const auto replace = [&](const std::string& pattern, const std::string& content) {
    return With(
        bytes, "/normalizer",
        R"({"type": "Replace", "pattern": )" + pattern + R"(, "content": ")" + content + "\"}");
  };
  EXPECT_EQ(PerToken(replace(R"({"String": " "})", "▁")), 4u);
  EXPECT_EQ(PerToken(replace(R"({"String": "aaa"})", "bb")), 8u);
  EXPECT_EQ(PerToken(With(bytes, "/added_tokens/-", AddedTokenJson(258, "<hello>"))), 7u);
}

TEST(LengthBound, IsUnsetForUnboundedTokens) {
  const std::string bytes = ByteLevelJson({});
  for (const char* flag : {"lstrip", "rstrip"}) {
    EXPECT_EQ(PerToken(With(bytes, "/added_tokens/-", AddedTokenJson(256, "<x>", {flag}))), kNone);
  }
  EXPECT_EQ(PerToken(With(bytes, "/normalizer",
                          R"({"type": "Replace", "pattern": {"Regex": " +"}, "content": " "})")),
            kNone);
  EXPECT_EQ(PerToken(With(bytes, "/normalizer",
                          R"({"type": "Replace", "pattern": {"String": "x"}, "content": ""})")),
            kNone);
  EXPECT_EQ(PerToken(With(bytes, "/pre_tokenizer", R"({"type": "UnicodeScripts"})")), kNone);
  EXPECT_EQ(PerToken(With(bytes, "/pre_tokenizer",
                          R"({"type": "Split", "pattern": {"String": "x"},)"
                          R"( "behavior": "Removed", "invert": false})")),
            kNone);
  const std::string fused = With(SentencePieceJson({}), "/model/byte_fallback", "false");
  EXPECT_EQ(PerToken(fused), kNone);
  EXPECT_GE(PerToken(With(fused, "/model/fuse_unk", "false")), 4u);
}

// Texts that consist of the sequences that are shortened most.
TEST(LengthBound, HoldsForTextsOfFewTokens) {
  const std::string merged = ByteLevelJson({{"Ġ", "Ġ"}, {"ĠĠ", "ĠĠ"}, {"e", "Ì"}});
  const std::string piece = SentencePieceJson({{"▁", "▁"}, {"▁▁", "▁▁"}});
  const std::string jsons[] = {
      merged,
      With(merged, "/normalizer", R"({"type": "NFC"})"),
      With(merged, "/normalizer",
           R"({"type": "Replace", "pattern": {"String": "aaa"}, "content": " "})"),
      piece,
      With(With(piece, "/model/byte_fallback", "false"), "/model/fuse_unk", "false"),
      With(piece, "/added_tokens/-", AddedTokenJson(288, "hello world", {"normalized"})),
  };
  const char* parts[] = {" ",           "    ",      "a", "aaa",    "e\u0301",
                         "\u212A",      "\u1FEF",    "é", "\u2581", "\u1112\u1161\u11AB",
                         "hello world", "\U0001F600"};
  std::mt19937 random(5);
  for (const std::string& json : jsons) {
    const auto tokenizer = MakeTokenizer(json);
    for (int round = 0; round < 300; ++round) {
      std::string text;
      const size_t kinds = 1 + random() % 3;
      const size_t first = random();
      for (size_t i = 0; i < 1 + random() % 60; ++i) {
        text += parts[(first + random() % kinds) % std::size(parts)];
      }
      const std::vector<TokenId> ids = Encoded(*tokenizer, text);
      ASSERT_LE(text.size(), tokenizer->MostBytes(static_cast<int>(ids.size()))) << text;
    }
  }
}

// For every character of Unicode: the longest canonically equivalent text is its canonical
// decomposition, with each part in its longest equivalent form.
TEST(LengthBound, NfcShortensAtMostFourfold) {
  std::map<utf8proc_int32_t, size_t> longest;  // equivalent form of a character, in bytes
  const auto bytes_of = [](utf8proc_int32_t code) {
    std::string text;
    AppendUtf8(static_cast<char32_t>(code), text);
    return text.size();
  };
  const auto decompose = [](utf8proc_int32_t code, std::array<utf8proc_int32_t, 8>& parts) {
    int boundary = 0;
    return utf8proc_decompose_char(code, parts.data(), 8, UTF8PROC_DECOMPOSE, &boundary);
  };
  std::array<utf8proc_int32_t, 8> parts;
  constexpr utf8proc_int32_t kLast = 0x10FFFF;
  const auto is_character = [](utf8proc_int32_t code) { return code < 0xD800 || code > 0xDFFF; };
  for (utf8proc_int32_t code = 0; code <= kLast; ++code) {
    if (!is_character(code) || decompose(code, parts) != 1) continue;
    longest[parts[0]] = std::max({longest[parts[0]], bytes_of(code), bytes_of(parts[0])});
  }
  for (utf8proc_int32_t code = 0; code <= kLast; ++code) {
    if (!is_character(code)) continue;
    const utf8proc_ssize_t count = decompose(code, parts);
    size_t spelled = 0;
    for (utf8proc_ssize_t i = 0; i < count; ++i) spelled += longest.at(parts[i]);
    ASSERT_LE(spelled, kNfcShrinks * bytes_of(code)) << std::hex << code;
  }
}

}  // namespace
}  // namespace outrider
