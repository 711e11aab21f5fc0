#include "common/spec/draft_law.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

namespace outrider {
namespace {

// `entries`: in falling order.
DraftLaw LawOf(std::vector<RowEntry> entries, const DraftLawLimits& limits) {
  double mass = 0;
  const auto kept =
      static_cast<size_t>(KeptOfLaw([&](int i) { return entries[static_cast<size_t>(i)].value; },
                                    static_cast<int>(entries.size()), limits.mass, &mass));
  entries.resize(kept);

  // Largest remainders: round down, then give what is left over to the largest fractions. Weights
  // keep the falling order: of two equal floors the larger entry has the larger fraction.
  DraftLaw law;
  std::vector<double> fractions(kept);
  uint32_t given = 0;
  for (size_t i = 0; i < kept; ++i) {
    const LawShare share = ShareOfLaw(entries[i].value, mass);
    law.ids.push_back(entries[i].id);
    law.weights.push_back(share.weight);
    given += share.weight;
    fractions[i] = share.fraction;
  }
  std::vector<size_t> order(kept);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return fractions[a] > fractions[b]; });
  for (size_t i = 0; i < kept && given < kDraftLawTotal; ++i, ++given) ++law.weights[order[i]];

  while (!law.weights.empty() && law.weights.back() == 0) {
    law.ids.pop_back();
    law.weights.pop_back();
  }
  return law;
}

}  // namespace

DraftLaw MakeDraftLaw(std::span<const float> probs, const DraftLawLimits& limits) {
  return LawOf(TopEntries(probs, limits.max_entries), limits);
}

DraftLaw MakeDraftLaw(std::vector<RowEntry> entries, const DraftLawLimits& limits) {
  std::sort(entries.begin(), entries.end(), LargerFirst);
  return LawOf(std::move(entries), limits);
}

TokenId SampleDraftLaw(const DraftLaw& law, double coin) {
  OUTRIDER_CHECK(!law.ids.empty());
  const int entry = LawEntryAt([&](int i) { return law.weights[static_cast<size_t>(i)]; },
                               static_cast<int>(law.weights.size()), coin);
  return law.ids[static_cast<size_t>(entry)];
}

Status Validate(const DraftLaw& law, std::span<const TokenId> tokens, int vocab_size) {
  if (law.ids.empty()) return InvalidArgument("draft law: no entries");
  if (law.ids.size() != law.weights.size()) {
    return InvalidArgument("draft law: " + std::to_string(law.ids.size()) + " ids, " +
                           std::to_string(law.weights.size()) + " weights");
  }
  uint64_t sum = 0;
  for (size_t i = 0; i < law.ids.size(); ++i) {
    if (law.ids[i] < 0 || law.ids[i] >= vocab_size) {
      return InvalidArgument("draft law: id " + std::to_string(law.ids[i]) +
                             " is not below the vocabulary's " + std::to_string(vocab_size));
    }
    if (law.weights[i] == 0) {
      return InvalidArgument("draft law: id " + std::to_string(law.ids[i]) + " has weight 0");
    }
    sum += law.weights[i];
  }
  if (sum != kDraftLawTotal) {
    return InvalidArgument("draft law: weights sum to " + std::to_string(sum) + ", not " +
                           std::to_string(kDraftLawTotal));
  }
  std::vector<TokenId> sorted = law.ids;
  std::sort(sorted.begin(), sorted.end());
  if (const auto twin = std::adjacent_find(sorted.begin(), sorted.end()); twin != sorted.end()) {
    return InvalidArgument("draft law: id " + std::to_string(*twin) + " occurs twice");
  }
  for (const TokenId token : tokens) {
    if (!std::binary_search(sorted.begin(), sorted.end(), token)) {
      return InvalidArgument("draft law: token " + std::to_string(token) + " is not among its ids");
    }
  }
  return Status();
}

double Probability(const DraftLaw& law, TokenId token) {
  const auto at = std::find(law.ids.begin(), law.ids.end(), token);
  if (at == law.ids.end()) return 0;
  return static_cast<double>(law.weights[static_cast<size_t>(at - law.ids.begin())]) /
         kDraftLawTotal;
}

}  // namespace outrider
