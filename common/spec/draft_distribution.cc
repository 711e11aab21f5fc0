#include "common/spec/draft_distribution.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

namespace outrider {
namespace {

// `entries`: in descending order.
DraftDistribution Rounded(std::vector<RowEntry> entries, const DraftDistributionLimits& limits) {
  double mass = 0;
  const auto kept =
      static_cast<size_t>(KeptEntries([&](int i) { return entries[static_cast<size_t>(i)].value; },
                                      static_cast<int>(entries.size()), limits.mass, &mass));
  entries.resize(kept);

  // Largest remainders: rounds down, then gives the rest to the largest fractions. Weights keep the
  // descending order, because of two equal floors the larger entry has the larger fraction.
  DraftDistribution q;
  std::vector<double> fractions(kept);
  uint32_t given = 0;
  for (size_t i = 0; i < kept; ++i) {
    const WeightShare share = ShareOf(entries[i].value, mass);
    q.ids.push_back(entries[i].id);
    q.weights.push_back(share.weight);
    given += share.weight;
    fractions[i] = share.fraction;
  }
  std::vector<size_t> order(kept);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return fractions[a] > fractions[b]; });
  for (size_t i = 0; i < kept && given < kDraftWeightTotal; ++i, ++given) ++q.weights[order[i]];

  while (!q.weights.empty() && q.weights.back() == 0) {
    q.ids.pop_back();
    q.weights.pop_back();
  }
  return q;
}

}  // namespace

DraftDistribution MakeDraftDistribution(std::span<const float> probs,
                                        const DraftDistributionLimits& limits) {
  return Rounded(TopEntries(probs, limits.max_entries), limits);
}

DraftDistribution MakeDraftDistribution(std::vector<RowEntry> entries,
                                        const DraftDistributionLimits& limits) {
  std::sort(entries.begin(), entries.end(), LargerFirst);
  return Rounded(std::move(entries), limits);
}

TokenId SampleDraftDistribution(const DraftDistribution& q, double coin) {
  OUTRIDER_CHECK(!q.ids.empty());
  const int entry = EntryAt([&](int i) { return q.weights[static_cast<size_t>(i)]; },
                            static_cast<int>(q.weights.size()), coin);
  return q.ids[static_cast<size_t>(entry)];
}

Status Validate(const DraftDistribution& q, std::span<const TokenId> tokens, int vocab_size) {
  if (q.ids.empty()) return InvalidArgument("draft distribution: no entries");
  if (q.ids.size() != q.weights.size()) {
    return InvalidArgument("draft distribution: " + std::to_string(q.ids.size()) + " ids, " +
                           std::to_string(q.weights.size()) + " weights");
  }
  uint64_t sum = 0;
  for (size_t i = 0; i < q.ids.size(); ++i) {
    if (q.ids[i] < 0 || q.ids[i] >= vocab_size) {
      return InvalidArgument("draft distribution: id " + std::to_string(q.ids[i]) +
                             " is not below the vocabulary's " + std::to_string(vocab_size));
    }
    if (q.weights[i] == 0) {
      return InvalidArgument("draft distribution: id " + std::to_string(q.ids[i]) +
                             " has weight 0");
    }
    sum += q.weights[i];
  }
  if (sum != kDraftWeightTotal) {
    return InvalidArgument("draft distribution: weights sum to " + std::to_string(sum) + ", not " +
                           std::to_string(kDraftWeightTotal));
  }
  std::vector<TokenId> sorted = q.ids;
  std::sort(sorted.begin(), sorted.end());
  if (const auto twin = std::adjacent_find(sorted.begin(), sorted.end()); twin != sorted.end()) {
    return InvalidArgument("draft distribution: id " + std::to_string(*twin) + " occurs twice");
  }
  for (const TokenId token : tokens) {
    if (!std::binary_search(sorted.begin(), sorted.end(), token)) {
      return InvalidArgument("draft distribution: token " + std::to_string(token) +
                             " is not among its ids");
    }
  }
  return Status();
}

double Probability(const DraftDistribution& q, TokenId token) {
  const auto it = std::find(q.ids.begin(), q.ids.end(), token);
  if (it == q.ids.end()) return 0;
  return static_cast<double>(q.weights[static_cast<size_t>(it - q.ids.begin())]) /
         kDraftWeightTotal;
}

}  // namespace outrider
