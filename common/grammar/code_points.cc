#include "common/grammar/code_points.h"

#include <algorithm>
#include <string>

#include "common/text/utf8.h"

namespace outrider::grammar {
namespace {

constexpr CodePointRange kSurrogates{0xD800, 0xDFFF};

// The last characters that UTF-8 writes in one, two and three bytes.
constexpr char32_t kLengthEnds[] = {0x7F, 0x7FF, 0xFFFF};

// Splits a range whose characters have UTF-8 of equal length until each part is a product of
// ranges.
void SplitInto(CodePointRange range, std::vector<std::vector<ByteRange>>& out) {
  for (const char32_t end : kLengthEnds) {
    if (range.low <= end && range.high > end) {
      SplitInto({range.low, end}, out);
      SplitInto({end + 1, range.high}, out);
      return;
    }
  }
  if (range.high > 0x7F) {
    for (int bits = 6; bits <= 18; bits += 6) {  // of the last one, two, three bytes
      const char32_t mask = (char32_t{1} << bits) - 1;
      if ((range.low & ~mask) == (range.high & ~mask)) break;
      if ((range.low & mask) != 0) {
        SplitInto({range.low, range.low | mask}, out);
        SplitInto({(range.low | mask) + 1, range.high}, out);
        return;
      }
      if ((range.high & mask) != mask) {
        SplitInto({range.low, (range.high & ~mask) - 1}, out);
        SplitInto({range.high & ~mask, range.high}, out);
        return;
      }
    }
  }
  std::string low, high;
  AppendUtf8(range.low, low);
  AppendUtf8(range.high, high);
  std::vector<ByteRange>& sequence = out.emplace_back();
  for (size_t i = 0; i < low.size(); ++i) {
    sequence.push_back({static_cast<uint8_t>(low[i]), static_cast<uint8_t>(high[i])});
  }
}

}  // namespace

CodePointSet CodePointSet::Range(char32_t low, char32_t high) {
  CodePointSet out;
  out.Add(low, high);
  return out;
}

void CodePointSet::Add(const CodePointSet& other) {
  ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
}

std::vector<CodePointRange> CodePointSet::Ranges() const {
  std::vector<CodePointRange> sorted;
  for (const CodePointRange& range : ranges_) {
    if (range.low < kSurrogates.low) {
      sorted.push_back({range.low, std::min<char32_t>(range.high, kSurrogates.low - 1)});
    }
    if (range.high > kSurrogates.high) {
      sorted.push_back({std::max<char32_t>(range.low, kSurrogates.high + 1), range.high});
    }
  }
  std::sort(sorted.begin(), sorted.end(),
            [](const CodePointRange& a, const CodePointRange& b) { return a.low < b.low; });
  std::vector<CodePointRange> out;
  for (const CodePointRange& range : sorted) {
    if (!out.empty() && range.low <= out.back().high + 1) {
      out.back().high = std::max(out.back().high, range.high);
    } else {
      out.push_back(range);
    }
  }
  return out;
}

CodePointSet CodePointSet::Complement() const {
  CodePointSet out;
  char32_t next = 0;
  for (const CodePointRange& range : Ranges()) {
    if (range.low > next) out.Add(next, range.low - 1);
    next = range.high + 1;
  }
  if (next <= kLastCodePoint) out.Add(next, kLastCodePoint);
  return out;
}

CodePointSet CodePointSet::Without(const CodePointSet& other) const {
  CodePointSet out = Complement();
  out.Add(other);
  return out.Complement();
}

std::vector<std::vector<ByteRange>> Utf8Ranges(CodePointRange range) {
  std::vector<std::vector<ByteRange>> out;
  SplitInto(range, out);
  return out;
}

}  // namespace outrider::grammar
