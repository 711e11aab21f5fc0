// A part of a text, by its bytes.
#pragma once

#include <cstddef>

namespace outrider {

// Bytes [begin, end) of a text.
struct TextSpan {
  size_t begin = 0;
  size_t end = 0;
  bool operator==(const TextSpan&) const = default;
};

}  // namespace outrider
