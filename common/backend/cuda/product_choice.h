// Which of a library's algorithms a matrix product takes. Pure: the library is not named here.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <span>

namespace outrider {

// Products whose rows fall into one bucket share an algorithm, so that a batch of a new size costs
// no search: multiples of 16 up to 128, powers of two beyond. Returns the largest of the bucket.
inline int RowBucket(int rows) {
  if (rows <= 128) return (rows + 15) / 16 * 16;
  return static_cast<int>(std::bit_ceil(static_cast<unsigned>(rows)));
}

// By how much another algorithm must be faster than the first, which is the library's own choice:
// where they are about equal, every start of a service takes the same one, and a seed the same
// text.
constexpr float kClearlyFaster = 0.95f;

// `milliseconds` of each candidate in the library's order; one that failed has a negative time.
// Returns the index of the one to take; `milliseconds` is not empty.
inline size_t ChooseAlgorithm(std::span<const float> milliseconds) {
  size_t best = 0;
  for (size_t i = 1; i < milliseconds.size(); ++i) {
    if (milliseconds[i] < 0) continue;
    const bool first_failed = milliseconds[best] < 0;
    if (first_failed || milliseconds[i] < milliseconds[best]) best = i;
  }
  if (milliseconds[0] >= 0 && milliseconds[best] >= kClearlyFaster * milliseconds[0]) return 0;
  return best;
}

}  // namespace outrider
