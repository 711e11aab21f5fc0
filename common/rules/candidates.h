// The entries of a draft row next to the target's probabilities, as the arithmetic of several
// candidates wants them (common/math/kseq.h).
#pragma once

#include <algorithm>
#include <vector>

#include "common/math/accept.h"
#include "common/math/kseq.h"

namespace outrider {

// Sorted by RanksBefore; entries of weight 0 are left out.
template <class Real, class Weight>
std::vector<RatioEntry> RankEntries(const Real* target, const SparseRow<Weight>& draft) {
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

// A sparse law over given tokens that owns its arrays. Moving it leaves row() valid: vectors keep
// their storage.
struct OwnedRow {
  std::vector<TokenId> ids;
  std::vector<double> weights;

  SparseRow<double> row() const {
    return {ids.data(), weights.data(), static_cast<int>(ids.size()), 1};
  }
};

// Over the tokens of `entries`; weights still to be set.
inline OwnedRow RowOver(const std::vector<RatioEntry>& entries) {
  OwnedRow row;
  row.ids.reserve(entries.size());
  for (const RatioEntry& e : entries) row.ids.push_back(e.id);
  row.weights.resize(entries.size());
  return row;
}

// The entry of a token; nullptr if the row cannot have produced it.
inline const RatioEntry* FindEntry(const std::vector<RatioEntry>& entries, TokenId id) {
  for (const RatioEntry& e : entries) {
    if (e.id == id) return &e;
  }
  return nullptr;
}

}  // namespace outrider
