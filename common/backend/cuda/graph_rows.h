// The numbers of rows for which a pass has graphs. Pure.
#pragma once

#include <bit>

namespace outrider {

// The launches of larger passes are hidden by their work.
constexpr int kMaxGraphRows = 256;

// The next number of rows with graphs: powers of two up to 8, multiples of 8 up to 64, of 16 up to
// 128, of 32 up to 256. At most seven rows of up to 64 are padding, or a fifth of more; our own
// products cost the same for all numbers up to 8 (of f32) and 16. REQUIRES: 1 <= rows <=
// kMaxGraphRows.
inline int GraphRows(int rows) {
  if (rows <= 8) return static_cast<int>(std::bit_ceil(static_cast<unsigned>(rows)));
  const int step = rows <= 64 ? 8 : rows <= 128 ? 16 : 32;
  return (rows + step - 1) / step * step;
}

}  // namespace outrider
