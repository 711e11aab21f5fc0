#include "common/text/unicode.h"

#include <gtest/gtest.h>

#include "common/text/rewriting.h"

namespace outrider {
namespace {

std::string ToNfc(std::string_view text) { return ToUnicodeForm(text, UnicodeForm::kNfc); }

TEST(Unicode, FormsDecomposeAndCompose) {
  const std::string text = "\u00E9\uFB01\u2460\u1112\u1161\u11AB";
  EXPECT_EQ(ToUnicodeForm(text, UnicodeForm::kNfd), "e\u0301\uFB01\u2460\u1112\u1161\u11AB");
  EXPECT_EQ(ToUnicodeForm(text, UnicodeForm::kNfkd), "e\u0301fi1\u1112\u1161\u11AB");
  EXPECT_EQ(ToUnicodeForm(text, UnicodeForm::kNfkc), "\u00E9fi1\uD55C");
  EXPECT_EQ(ToUnicodeForm(text, UnicodeForm::kNfc), "\u00E9\uFB01\u2460\uD55C");
  // The longest decomposition, with 18 characters.
  EXPECT_EQ(ToUnicodeForm("\uFDFA", UnicodeForm::kNfkc).size(), 33u);
}

TEST(Unicode, NfcComposesCharacters) {
  EXPECT_EQ(ToNfc("cafe\u0301"), "caf\u00E9");
  EXPECT_EQ(ToNfc("A\u030A"), "\u00C5");
  EXPECT_EQ(ToNfc("\u1112\u1161\u11AB"), "\uD55C");  // Hangul jamo
  EXPECT_EQ(ToNfc("\u1E69"), "\u1E69");
  EXPECT_EQ(ToNfc("s\u0323\u0307"), "\u1E69");
}

TEST(Unicode, NfcKeepsCompatibilityCharacters) {
  EXPECT_EQ(ToNfc("\u212B"), "\u00C5");  // the Angstrom sign
  EXPECT_EQ(ToNfc("\u2126"), "\u03A9");  // the Ohm sign
  EXPECT_EQ(ToNfc("\uFB01"), "\uFB01");  // a ligature is not a canonical equivalent
  EXPECT_EQ(ToNfc("\uFF11"), "\uFF11");
}

TEST(Unicode, NfcDecomposesCompositionExclusions) {
  EXPECT_EQ(ToNfc("\u0958"), "\u0915\u093C");
  EXPECT_EQ(ToNfc("\u2ADC"), "\u2ADD\u0338");
}

TEST(Unicode, NfcSortsMarksStablyByClass) {
  EXPECT_EQ(ToNfc("q\u0307\u0323"), "q\u0323\u0307");
  EXPECT_EQ(ToNfc("q\u0307\u0301"), "q\u0307\u0301");
  EXPECT_EQ(ToNfc("e\u0316\u0301"), "\u00E9\u0316");  // composes across a mark of another class
  EXPECT_EQ(ToNfc("e\u0307\u0301"), "\u0117\u0301");
}

// As the Hugging Face library, whose tables are of Unicode 9, has them (tokenizers 0.23.3).
TEST(Unicode, NewerMarksAreNoMarks) {
  // U+1DF9 is of Unicode 10 and of class 220, U+1DF5 of Unicode 9 and of class 230.
  EXPECT_EQ(ToNfc("q\u0301\u1DF9"), "q\u0301\u1DF9");
  EXPECT_EQ(ToNfc("q\u1DF5\u0323"), "q\u0323\u1DF5");
  EXPECT_EQ(ToNfc("e\u1DF9\u0301"), "e\u1DF9\u0301");
  EXPECT_EQ(ToNfc("e\u0301\u1DF9e\u0301"), "\u00E9\u1DF9\u00E9");
  EXPECT_EQ(ToNfc("\u1DF9\u1DF9"), "\u1DF9\u1DF9");
  // Kawi's virama, of class 9.
  EXPECT_EQ(ToNfc("\U00011F12\u0301\U00011F42"), "\U00011F12\u0301\U00011F42");
  // Characters that decompose, with which nothing becomes them.
  EXPECT_EQ(ToUnicodeForm("\U00011938", UnicodeForm::kNfd), "\U00011938");
  EXPECT_EQ(ToNfc("\U00011935\U00011930"), "\U00011935\U00011930");
  EXPECT_EQ(ToUnicodeForm("\u32FF", UnicodeForm::kNfkc), "\u32FF");
  EXPECT_EQ(ToUnicodeForm("\uA7F2", UnicodeForm::kNfkd), "\uA7F2");
  EXPECT_EQ(ToUnicodeForm("\u32FE", UnicodeForm::kNfkc), "\u30F2");
}

TEST(Unicode, StrippingMarksKeepsNewerOnes) {
  EXPECT_EQ(WithoutMarks("e\u0301\u1DF5\u1DF9o\u0903", false), "e\u1DF9o");
  EXPECT_EQ(WithoutMarks("e\u0301\u1DF9o\u0903", true), "e\u1DF9o\u0903");
}

TEST(Unicode, NfcKeepsMarksWithoutBase) {
  EXPECT_EQ(ToNfc("\u0301"), "\u0301");
  EXPECT_EQ(ToNfc("\n\u0301"), "\n\u0301");
  EXPECT_EQ(ToNfc(""), "");
}

// Sorting by swapping neighbours would take 10^10 steps.
TEST(Unicode, NfcSortsLongRunsInTime) {
  constexpr int kPairs = 200'000;
  std::string text = "q", above, below;
  for (int i = 0; i < kPairs; ++i) {
    text += "\u0301\u0316";
    above += "\u0301";
    below += "\u0316";
  }
  EXPECT_EQ(ToNfc(text), "q" + below + above);
}

TEST(Unicode, WhiteSpaceFollowsUnicodeProperty) {
  for (const char32_t code :
       {U'\t', U'\v', U'\f', U'\r', U' ', U'\u0085', U'\u00A0', U'\u1680', U'\u2000', U'\u200A',
        U'\u2028', U'\u2029', U'\u202F', U'\u205F', U'\u3000'}) {
    EXPECT_TRUE(IsWhiteSpace(code)) << static_cast<uint32_t>(code);
  }
  for (const char32_t code :
       {U'\b', U'\u001C', U'a', U'\u180E', U'\u200B', U'\u200D', U'\u2060', U'\uFEFF'}) {
    EXPECT_FALSE(IsWhiteSpace(code)) << static_cast<uint32_t>(code);
  }
}

TEST(Unicode, WordCharactersFollowUnicodeProperties) {
  for (const char32_t code : {U'a', U'\u00E9', U'\u4E2D', U'0', U'_', U'\u0301', U'\u2160'}) {
    EXPECT_TRUE(IsWordCharacter(code)) << static_cast<uint32_t>(code);
  }
  for (const char32_t code : {U' ', U'-', U'.', U'\u00BD', U'\U0001F600'}) {
    EXPECT_FALSE(IsWordCharacter(code)) << static_cast<uint32_t>(code);
  }
}

TEST(Unicode, ScriptsAreThoseOfUnicodeNine) {
  EXPECT_EQ(ScriptOf('a'), ScriptOf(0xFB01));
  EXPECT_NE(ScriptOf('a'), ScriptOf(0x3B1));
  EXPECT_EQ(ScriptOf('1'), ScriptOf('.'));
  for (const char32_t han : {0x3042, 0x30A2, 0x30FC, 0x4E2D, 0x20000}) {
    EXPECT_EQ(ScriptOf(han), ScriptOf(0x4E00)) << static_cast<uint32_t>(han);
  }
  EXPECT_EQ(ScriptOf(0x589), ScriptOf('.')) << "Armenian only later";
  for (const char32_t none : {0x20, 0x378, 0x1F9D1, 0x10FFFF}) EXPECT_EQ(ScriptOf(none), 0);
  EXPECT_NE(ScriptOf(0), 0);
  EXPECT_EQ(ScriptOf(0xE0100), ScriptOf(0x300));
}

}  // namespace
}  // namespace outrider
