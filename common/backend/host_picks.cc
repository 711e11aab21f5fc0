#include "common/backend/host_picks.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "common/base/check.h"
#include "common/math/softmax.h"
#include "common/spec/row_sampling.h"

namespace outrider {
namespace {

double Entropy(std::span<const float> probs) {
  double entropy = 0;
  for (const float entry : probs) {
    const auto p = static_cast<double>(entry);
    if (p > 0) entropy -= p * std::log(p);
  }
  return entropy;
}

}  // namespace

std::span<const PickedRow> HostPicks::Read(const PickBatch& batch, float* rows, int vocab) {
  entries_.clear();
  picked_.clear();
  std::vector<size_t> ends;
  const auto width = static_cast<size_t>(vocab);
  for (const BatchedPick& pick : batch.picks()) {
    OUTRIDER_CHECK(0 < pick.spec.allowed && pick.spec.allowed <= vocab && pick.spec.count > 0 &&
                   pick.chain.depths == 0);
    const SamplingState state{
        .sampling = pick.spec.sampling,
        .seen = {batch.seen().data() + pick.first_seen, static_cast<size_t>(pick.seen)},
        .biases = {batch.biases().data() + pick.first_bias, static_cast<size_t>(pick.biases)},
        .mask = {batch.mask().data() + pick.first_mask, static_cast<size_t>(pick.mask)}};
    const std::span<const TokenId> path(batch.path_tokens().data() + pick.path + 1,
                                        static_cast<size_t>(pick.depth));
    picked_.push_back(
        ReadRow(pick.spec, state, path, {rows + static_cast<size_t>(pick.row) * width, width}));
    ends.push_back(entries_.size());
  }
  size_t begin = 0;
  for (size_t i = 0; i < picked_.size(); ++i) {
    picked_[i].entries = std::span(entries_).subspan(begin, ends[i] - begin);
    begin = ends[i];
  }
  return picked_;
}

PickedRow HostPicks::ReadRow(const PickSpec& spec, const SamplingState& state,
                             std::span<const TokenId> path, std::span<float> row) {
  PickedRow picked{.broken = !IsFinite(row.first(static_cast<size_t>(spec.allowed)))};
  if (picked.broken) return picked;
  if (spec.pick == RowPick::kDistribution) {
    MakeDistribution(state, spec.allowed, path, row);
    const std::vector<RowEntry> top = TopEntries(row, spec.count);
    entries_.insert(entries_.end(), top.begin(), top.end());
    return picked;
  }
  picked.measure = Measure(spec, state, path, row);
  const std::vector<TokenId> tokens =
      spec.pick == RowPick::kTop
          ? TopTokens(state, spec.allowed, path, row, spec.count)
          : RaceOrder(state, spec.allowed, path, row, spec.count, spec.seed, spec.position);
  for (const TokenId token : tokens) entries_.push_back({.id = token});
  return picked;
}

float HostPicks::Measure(const PickSpec& spec, const SamplingState& state,
                         std::span<const TokenId> path, std::span<const float> row) {
  if (spec.measure == RowMeasure::kNone) return 0;
  measured_.assign(row.begin(), row.end());
  if (spec.pick == RowPick::kRace) {
    MakeDistribution(state, spec.allowed, path, measured_);
  } else {
    Softmax(measured_, 1.f);  // at temperature 0 every distribution would be a point mass
  }
  return spec.measure == RowMeasure::kLargest ? RowMax(measured_)
                                              : static_cast<float>(Entropy(measured_));
}

}  // namespace outrider
