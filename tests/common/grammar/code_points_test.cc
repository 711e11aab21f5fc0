#include "common/grammar/code_points.h"

#include <gtest/gtest.h>

#include <string>

#include "common/text/utf8.h"

namespace outrider::grammar {
namespace {

TEST(CodePointSet, MergesAndLeavesOutSurrogates) {
  CodePointSet set = CodePointSet::Range('c', 'f');
  set.Add('a', 'b');
  set.Add(0xD000, 0xE010);
  const std::vector<CodePointRange> expected = {{'a', 'f'}, {0xD000, 0xD7FF}, {0xE000, 0xE010}};
  EXPECT_EQ(set.Ranges(), expected);
}

TEST(CodePointSet, ComplementOfComplementIsTheSet) {
  CodePointSet set = CodePointSet::Range(0, 5);
  set.Add(0x7F, 0x900);
  set.Add(kLastCodePoint, kLastCodePoint);
  EXPECT_EQ(set.Complement().Complement().Ranges(), set.Ranges());
  EXPECT_TRUE(CodePointSet().Complement().Complement().Ranges().empty());
}

// Every character is in exactly one product of ranges if it is in the range, otherwise in none.
TEST(Utf8Ranges, HoldExactlyTheCharacters) {
  const std::vector<CodePointRange> ranges = {{0, 0x7F},        {0x61, 0x7A},      {0x80, 0x7FF},
                                              {0x3A9, 0x3A9},   {0x7C0, 0x12345},  {0x20AC, 0x20AF},
                                              {0xE000, 0xFFFF}, {0xFFFE, 0x10FFFF}};
  for (const CodePointRange& range : ranges) {
    const auto sequences = Utf8Ranges(range);
    for (char32_t code = 0; code <= kLastCodePoint; code += code < 0x13000 ? 1 : 97) {
      if (code >= 0xD800 && code <= 0xDFFF) continue;
      std::string text;
      AppendUtf8(code, text);
      int found = 0;
      for (const auto& sequence : sequences) {
        bool fits = sequence.size() == text.size();
        for (size_t i = 0; fits && i < text.size(); ++i) {
          const auto byte = static_cast<uint8_t>(text[i]);
          fits = byte >= sequence[i].low && byte <= sequence[i].high;
        }
        found += fits ? 1 : 0;
      }
      ASSERT_EQ(found, code >= range.low && code <= range.high ? 1 : 0)
          << static_cast<uint32_t>(code);
    }
  }
}

}  // namespace
}  // namespace outrider::grammar
