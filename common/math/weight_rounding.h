// The arithmetic of a draft distribution (common/spec/draft_distribution.h), shared by host and
// device so that both get the same integers from the same entries: where it is cut, the weight of
// each entry, and the entry at a random number.
#pragma once

#include <cstdint>

#include "common/math/host_device.h"

namespace outrider {

inline constexpr uint32_t kDraftWeightTotal = 65536;

// How many of the `n` entries, in descending order, are kept to reach `limit`; `mass`: their sum.
// value(i): entry i.
template <class Value>
OUTRIDER_HD int KeptEntries(const Value& value, int n, float limit, double* mass) {
  int kept = 0;
  *mass = 0;
  while (kept < n && *mass < static_cast<double>(limit))
    *mass += static_cast<double>(value(kept++));
  return kept;
}

// An entry's share, rounded down. The rest of the total goes to the largest fractions, one each;
// the earlier entry first among equals.
struct WeightShare {
  uint32_t weight;
  double fraction;
};
OUTRIDER_HD inline WeightShare ShareOf(float value, double mass) {
  const double exact = static_cast<double>(value) / mass * kDraftWeightTotal;
  const auto weight = static_cast<uint32_t>(exact);
  return {weight, exact - weight};
}

// The entry at `coin`, a uniform random number in [0, 1), of the cumulative weights. weight(i): of
// entry i, n of them.
template <class Weight>
OUTRIDER_HD int EntryAt(const Weight& weight, int n, double coin) {
  const auto goal = static_cast<uint32_t>(coin * kDraftWeightTotal);
  uint32_t reached = 0;
  int i = 0;
  while (i + 1 < n && (reached += weight(i)) <= goal) ++i;
  return i;
}

}  // namespace outrider
