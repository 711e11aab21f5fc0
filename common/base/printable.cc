#include "common/base/printable.h"

#include <algorithm>

#include "common/base/utf8_bytes.h"

namespace outrider {

std::string Printable(std::string_view text, size_t longest) {
  size_t end = std::min(longest, text.size());
  // Does not cut within a UTF-8 character.
  while (end > 0 && end < text.size() && IsContinuationByte(text[end])) --end;
  std::string shown(text.substr(0, end));
  std::replace_if(
      shown.begin(), shown.end(),
      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, '?');
  return end < text.size() ? shown + "..." : shown;
}

}  // namespace outrider
