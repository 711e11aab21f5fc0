#include "common/grammar/source_reader.h"

#include <algorithm>
#include <cstdint>

#include "common/grammar/rule_set.h"
#include "common/text/utf8.h"

namespace outrider::grammar {
namespace {

bool IsDigit(char32_t c) { return c >= '0' && c <= '9'; }

}  // namespace

SourceReader::SourceReader(std::string_view text) {
  while (!text.empty()) {
    const Utf8Character character = FirstCharacter(text);
    text_.push_back(character.code);
    text.remove_prefix(character.size);
  }
}

bool SourceReader::Take(char32_t c) {
  if (Peek() != c) return false;
  ++at_;
  return true;
}

bool SourceReader::TakeText(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (Peek(i) != static_cast<unsigned char>(text[i])) return false;
  }
  at_ += text.size();
  return true;
}

Result<bool> SourceReader::TakeCounts(int* min, int* max, int limit) {
  if (Peek() != '{') return false;
  size_t ahead = 1;
  const auto number = [&](int64_t* out) {
    const size_t begin = ahead;
    for (*out = 0; IsDigit(Peek(ahead)); ++ahead) {
      *out = std::min<int64_t>(*out * 10 + static_cast<int64_t>(Peek(ahead) - '0'), INT32_MAX);
    }
    return ahead > begin;
  };
  int64_t low = 0, high = 0;
  if (!number(&low)) return false;
  high = low;
  bool is_unbounded = false;
  if (Peek(ahead) == ',') {
    ++ahead;
    is_unbounded = !number(&high);
  }
  if (Peek(ahead) != '}') return false;
  if (low > limit || (!is_unbounded && high > limit)) {
    return Error("a repetition of " + std::to_string(std::max(low, high)) + " times, at most " +
                 std::to_string(limit) + " are supported");
  }
  if (!is_unbounded && high < low) return Error("a repetition whose most is below its least");
  at_ += ahead + 1;
  *min = static_cast<int>(low);
  *max = is_unbounded ? kUnbounded : static_cast<int>(high);
  return true;
}

Result<char32_t> SourceReader::TakeHex(int digits) {
  uint32_t code = 0;
  for (int i = 0; i < digits; ++i) {
    const char32_t c = Peek();
    const char32_t lower = c | 0x20;
    const bool is_letter = lower >= 'a' && lower <= 'f';
    if (!IsDigit(c) && !is_letter) return Error("needs " + std::to_string(digits) + " hex digits");
    code = code * 16 + static_cast<uint32_t>(IsDigit(c) ? c - '0' : lower - 'a' + 10);
    ++at_;
  }
  if (digits == 0) return Error("needs hex digits");
  return static_cast<char32_t>(code);
}

size_t SourceReader::line() const {
  return 1 + static_cast<size_t>(
                 std::count(text_.begin(), text_.begin() + static_cast<ptrdiff_t>(at_), U'\n'));
}

Status SourceReader::Error(const std::string& why) const {
  return InvalidArgument("at character " + std::to_string(at_) + ": " + why);
}

}  // namespace outrider::grammar
