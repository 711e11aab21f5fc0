// Sets of Unicode characters, and their UTF-8 as sequences of byte ranges.
//
// Thread: one owner.
#pragma once

#include <cstdint>
#include <vector>

namespace outrider::grammar {

inline constexpr char32_t kLastCodePoint = 0x10FFFF;

struct CodePointRange {
  char32_t low;
  char32_t high;  // inclusive
  bool operator==(const CodePointRange&) const = default;
};

class CodePointSet {
 public:
  CodePointSet() = default;
  static CodePointSet Range(char32_t low, char32_t high);

  void Add(char32_t low, char32_t high) { ranges_.push_back({low, high}); }
  void Add(const CodePointSet& other);
  // All characters outside this set.
  CodePointSet Complement() const;
  CodePointSet Without(const CodePointSet& other) const;
  // Ascending, neither overlapping nor adjacent, without surrogates.
  std::vector<CodePointRange> Ranges() const;

 private:
  std::vector<CodePointRange> ranges_;  // in any order
};

struct ByteRange {
  uint8_t low;
  uint8_t high;  // inclusive
};

// The UTF-8 of the characters from `low` to `high`: sequences of byte ranges whose products are
// disjoint and cover exactly these. REQUIRES: low <= high, no surrogate between them.
std::vector<std::vector<ByteRange>> Utf8Ranges(CodePointRange range);

}  // namespace outrider::grammar
