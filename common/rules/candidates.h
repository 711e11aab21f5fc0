// Draft distributions that own their memory, for the host's simulations and tests.
#pragma once

#include <algorithm>
#include <vector>

#include "common/math/accept.h"
#include "common/math/kseq.h"

namespace outrider {

// A draft distribution's positive entries with the target's probabilities, sorted by RanksBefore.
template <class Real>
std::vector<RatioEntry> RankEntries(const Real* target, const SparseRow<double>& draft) {
  std::vector<RatioEntry> entries;
  entries.reserve(static_cast<size_t>(draft.size));
  for (int i = 0; i < draft.size; ++i) {
    const double q = draft.Probability(i);
    if (!(q > 0)) continue;
    const TokenId id = draft.ids[i];
    entries.push_back({.id = id, .p = static_cast<double>(target[id]), .q = q});
  }
  std::sort(entries.begin(), entries.end(), RanksBefore);
  return entries;
}

// A distribution over given tokens.
struct OwnedRow {
  std::vector<TokenId> ids;
  std::vector<double> weights;

  SparseRow<double> row() const {
    return {ids.data(), weights.data(), static_cast<int>(ids.size()), 1};
  }
};

// The positive entries of `row`.
inline OwnedRow RowOf(const SparseRow<double>& row) {
  OwnedRow owned;
  for (int i = 0; i < row.size; ++i) {
    if (!(row.Probability(i) > 0)) continue;
    owned.ids.push_back(row.ids[i]);
    owned.weights.push_back(row.Probability(i));
  }
  return owned;
}

// Over the tokens of `entries`, with weights still to be set.
inline OwnedRow RowOver(const std::vector<RatioEntry>& entries) {
  OwnedRow row;
  row.ids.reserve(entries.size());
  for (const RatioEntry& e : entries) row.ids.push_back(e.id);
  row.weights.resize(entries.size());
  return row;
}

}  // namespace outrider
