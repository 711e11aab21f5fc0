#include "common/text/jinja/text_operations.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "common/base/utf8_bytes.h"
#include "common/text/jinja/python_text.h"
#include "common/text/utf8.h"

namespace outrider::jinja {
namespace {

std::string_view ViewOf(const MarkedText& text, TextSpan bytes) {
  return std::string_view(text.text()).substr(bytes.begin, bytes.end - bytes.begin);
}

// Calls `is_in(code)` for the characters at the ends of `bytes`, which is reduced to the rest.
template <class IsIn>
TextSpan Stripped(const MarkedText& text, TextSpan bytes, Side side, IsIn is_in) {
  while (side != Side::kRight && bytes.begin < bytes.end) {
    const Utf8Character first = FirstCharacter(ViewOf(text, bytes));
    if (!is_in(first.code)) break;
    bytes.begin += first.size;
  }
  while (side != Side::kLeft && bytes.begin < bytes.end) {
    const Utf8Character last = LastCharacter(ViewOf(text, bytes));
    if (!is_in(last.code)) break;
    bytes.end -= last.size;
  }
  return bytes;
}

// Removes a word from one end of `bytes`, and returns it.
TextSpan TakeWord(const MarkedText& text, Side side, TextSpan* bytes) {
  const auto is_word = [](char32_t code) { return !IsSpace(code); };
  const TextSpan rest = Stripped(text, *bytes, side, is_word);
  const TextSpan word =
      side == Side::kLeft ? TextSpan{bytes->begin, rest.begin} : TextSpan{rest.end, bytes->end};
  *bytes = Stripped(text, rest, side, IsSpace);
  return word;
}

size_t Limit(int64_t max_splits) {
  return max_splits < 0 ? std::numeric_limits<size_t>::max() : static_cast<size_t>(max_splits);
}

}  // namespace

MarkedText Strip(const MarkedText& text, std::optional<std::string_view> chars, Side side) {
  std::u32string set;
  for (std::string_view rest = chars.value_or(""); !rest.empty();) {
    const Utf8Character character = FirstCharacter(rest);
    set += character.code;
    rest.remove_prefix(character.size);
  }
  std::sort(set.begin(), set.end());
  const auto is_in = [&](char32_t code) {
    return chars.has_value() ? std::binary_search(set.begin(), set.end(), code) : IsSpace(code);
  };
  return text.Slice(Stripped(text, {0, text.size()}, side, is_in));
}

std::vector<MarkedText> SplitAtSpace(const MarkedText& text, int64_t max_splits, Side side) {
  std::vector<MarkedText> parts;
  TextSpan rest = Stripped(text, {0, text.size()}, side, IsSpace);
  while (rest.begin < rest.end && parts.size() < Limit(max_splits)) {
    parts.push_back(text.Slice(TakeWord(text, side, &rest)));
  }
  // The rest after `max_splits` splits keeps the white space at its other end.
  if (rest.begin < rest.end) parts.push_back(text.Slice(rest));
  if (side == Side::kRight) std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<MarkedText> SplitAt(const MarkedText& text, std::string_view separator,
                                int64_t max_splits, Side side) {
  std::vector<MarkedText> parts;
  const std::string_view whole = text.text();
  TextSpan rest{0, text.size()};
  while (parts.size() < Limit(max_splits)) {
    if (side == Side::kLeft) {
      const size_t position = whole.find(separator, rest.begin);
      if (position == whole.npos) break;
      parts.push_back(text.Slice({rest.begin, position}));
      rest.begin = position + separator.size();
    } else {
      if (rest.end < separator.size()) break;
      const size_t pos = whole.rfind(separator, rest.end - separator.size());
      if (pos == whole.npos) break;
      parts.push_back(text.Slice({pos + separator.size(), rest.end}));
      rest.end = pos;
    }
  }
  parts.push_back(text.Slice(rest));
  if (side == Side::kRight) std::reverse(parts.begin(), parts.end());
  return parts;
}

size_t CountOf(std::string_view text, std::string_view part) {
  if (part.empty()) return CountCharacters(text) + 1;
  size_t count = 0;
  for (size_t pos = text.find(part); pos != text.npos; pos = text.find(part, pos + part.size())) {
    ++count;
  }
  return count;
}

size_t CountSpaces(std::string_view text) {
  size_t count = 0;
  while (!text.empty()) {
    const Utf8Character character = FirstCharacter(text);
    count += IsSpace(character.code) ? 1 : 0;
    text.remove_prefix(character.size);
  }
  return count;
}

size_t BytesAfterReplace(const MarkedText& text, std::string_view from, const MarkedText& to,
                         int64_t max_count) {
  const size_t count = std::min(CountOf(text.text(), from), Limit(max_count));
  size_t added = 0;
  if (__builtin_mul_overflow(count, to.size(), &added)) added = SIZE_MAX / 2;
  return text.size() + added;
}

MarkedText Replace(const MarkedText& text, std::string_view from, const MarkedText& to,
                   int64_t max_count) {
  MarkedText out;
  const std::string_view whole = text.text();
  size_t pos = 0, count = 0;
  while (count < Limit(max_count)) {
    if (from.empty()) {
      if (count > 0) {
        if (pos == whole.size()) break;
        const size_t size = FirstCharacter(whole.substr(pos)).size;
        out.Append(text, {pos, pos + size});
        pos += size;
      }
    } else {
      const size_t found = whole.find(from, pos);
      if (found == whole.npos) break;
      out.Append(text, {pos, found});
      pos = found + from.size();
    }
    out.Append(to);
    ++count;
  }
  out.Append(text, {pos, whole.size()});
  return out;
}

MarkedText Changed(const MarkedText& text, std::string changed) {
  return MarkedText(std::move(changed), text.HasRequestText());
}

}  // namespace outrider::jinja
