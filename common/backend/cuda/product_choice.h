// Chooses the algorithm of a matrix product among a library's. Pure: makes no library calls.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <span>

namespace outrider {

// Products whose rows are in the same bucket share an algorithm, so that a new batch size needs no
// search: multiples of 16 up to 128, powers of two beyond. Returns the bucket's largest size.
inline int RowBucket(int rows) {
  if (rows <= 128) return (rows + 15) / 16 * 16;
  return static_cast<int>(std::bit_ceil(static_cast<unsigned>(rows)));
}

// An algorithm must be faster than the library's own first choice by this factor. Where they are
// about equal, every start of a service then takes the same one, and a seed gives the same text.
constexpr float kClearlyFaster = 0.95f;

// `milliseconds` has a time for each candidate in the library's order; negative: it failed. Returns
// the index of the one to use. REQUIRES: `milliseconds` is not empty.
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
