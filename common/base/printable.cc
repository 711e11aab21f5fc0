#include "common/base/printable.h"

#include <algorithm>

namespace outrider {

std::string Printable(std::string_view text, size_t longest) {
  std::string shown(text.substr(0, longest));
  std::replace_if(
      shown.begin(), shown.end(),
      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, '?');
  return text.size() > longest ? shown + "..." : shown;
}

}  // namespace outrider
