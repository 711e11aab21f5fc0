#include "common/text/utf8.h"

#include <gtest/gtest.h>

#include <random>

namespace outrider {
namespace {

std::string Lossy(std::string_view bytes) {
  Utf8Stream stream;
  std::string out;
  stream.Push(bytes, out);
  stream.Finish(out);
  return out;
}

TEST(Utf8, AcceptsLimitsOfEachLength) {
  for (const std::string& text :
       {std::string(1, '\0'), std::string("\x7F"), std::string("\xC2\x80"), std::string("\xDF\xBF"),
        std::string("\xE0\xA0\x80"), std::string("\xED\x9F\xBF"), std::string("\xEE\x80\x80"),
        std::string("\xEF\xBF\xBF"), std::string("\xF0\x90\x80\x80"),
        std::string("\xF4\x8F\xBF\xBF")}) {
    EXPECT_EQ(FindInvalidUtf8("ab" + text), std::nullopt) << ::testing::PrintToString(text);
  }
}

TEST(Utf8, NamesOffsetOfFirstBadByte) {
  const std::pair<const char*, size_t> cases[] = {
      {"ab\x80", 2},            // a lone continuation byte
      {"a\xC0\x80", 1},         // overlong
      {"\xE0\x9F\xBF", 0},      // overlong
      {"\xF0\x8F\xBF\xBF", 0},  // overlong
      {"é\xED\xA0\x80", 2},     // a surrogate
      {"\xF4\x90\x80\x80", 0},  // above U+10FFFF
      {"\xFF", 0},              // not a lead byte
      {"abc\xE2\x82", 3},       // truncated
      {"\xE2\x82zz", 0},
  };
  for (const auto& [text, offset] : cases) {
    EXPECT_EQ(FindInvalidUtf8(text), offset) << ::testing::PrintToString(text);
  }
}

TEST(Utf8, AppendAndFirstCharacterAreInverse) {
  for (const char32_t code : {U'\0', U'a', U'\x7F', U'\x80', U'\u07FF', U'\u0800', U'\uFFFF',
                              U'\U00010000', U'\U0010FFFF'}) {
    std::string text;
    AppendUtf8(code, text);
    EXPECT_EQ(FirstCharacter(text).code, code);
    EXPECT_EQ(FirstCharacter(text).size, text.size());
    EXPECT_EQ(LastCharacter("x" + text).code, code);
  }
}

// The example of the Unicode standard, section 3.9, table 3-11.
TEST(Utf8, MaximalSubpartBecomesOneReplacement) {
  EXPECT_EQ(Lossy("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), "\uFFFD\uFFFD\uFFFD\uFFFDA");
  EXPECT_EQ(Lossy("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(Lossy("\xC0\xAF"), "\uFFFD\uFFFD");
  EXPECT_EQ(Lossy("a\xF0\x9F\x98"), "a\uFFFD");
}

TEST(Utf8, StreamHoldsBackIncompleteCharacterOnly) {
  Utf8Stream stream;
  std::string out;
  stream.Push("a\xF0", out);
  EXPECT_EQ(out, "a");
  stream.Push("\x9F\x98", out);
  EXPECT_EQ(out, "a");
  stream.Push("\x80z", out);
  EXPECT_EQ(out, "a😀z");
}

TEST(Utf8, StreamIsIndependentOfCuts) {
  std::mt19937 random(1);
  const std::string bytes = "\x80\xBF\xC2\xE2\x82\xAC\xED\xA0\xF0\x9F\x98\x80\xF4\xFFz";
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (int i = 0; i < 12; ++i) text += bytes[random() % bytes.size()];
    Utf8Stream stream;
    std::string out;
    for (size_t pos = 0; pos < text.size();) {
      const size_t size = 1 + random() % 4;
      stream.Push(std::string_view(text).substr(pos, size), out);
      pos += size;
    }
    stream.Finish(out);
    ASSERT_EQ(out, Lossy(text)) << ::testing::PrintToString(text);
    ASSERT_EQ(FindInvalidUtf8(out), std::nullopt);
  }
}

}  // namespace
}  // namespace outrider
