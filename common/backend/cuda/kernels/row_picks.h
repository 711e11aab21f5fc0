// What the kernels that pick from logits rows share. Included by .cu only.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "common/backend/cuda/kernels/block.h"
#include "common/backend/cuda/kernels/pick_parts.h"
#include "common/backend/cuda/kernels/picks.h"
#include "common/backend/cuda/kernels/row_race.h"
#include "common/backend/cuda/kernels/row_sampling.h"

namespace outrider {

struct PickShared {
  SamplingShared sampling;
  RaceShared race;
  int counts[kMaxWarps];
};

// What blocks find in the parts of a row, by the kind of its pick one of these.
struct FoundInRow {
  unsigned char* data;  // [parts * kFoundBytesOfPart]
  int parts;

  // Candidates for the entries of a distribution, in the order of their ids: logits (-INFINITY
  // marks an empty place) and ids.
  __device__ int candidates() const { return parts * kPartCandidates; }
  __device__ float* logits() const { return reinterpret_cast<float*>(data); }
  __device__ TokenId* ids() const { return reinterpret_cast<TokenId*>(logits() + candidates()); }
  // kTop: each part's `count` largest RankKeys; 0 is none.
  __device__ Bits* keys() const { return reinterpret_cast<Bits*>(data); }
  // kRace: each part's `count` first arrivals.
  __device__ RaceArrival* arrivals() const { return reinterpret_cast<RaceArrival*>(data); }
};
static_assert(kPartCandidates * (sizeof(float) + sizeof(TokenId)) <= kFoundBytesOfPart &&
              kMostPickedByParts * sizeof(Bits) <= kFoundBytesOfPart &&
              kMostPickedByParts * sizeof(RaceArrival) <= kFoundBytesOfPart);

__device__ inline PickPart* PartsOfRow(const PickArrays& a, int index) {
  return a.parts + int64_t{index} * a.parts_of_row;
}
__device__ inline FoundInRow FoundIn(const PickArrays& a, int index) {
  const auto parts = static_cast<size_t>(a.parts_of_row);
  return {a.found + static_cast<size_t>(index) * parts * kFoundBytesOfPart, a.parts_of_row};
}

// Combines a value of each part of a row, of(part); each warp does so for itself.
template <class T, class Of, class Combine>
__device__ T MergeParts(const PickPart* parts, int count, T nothing, const Of& of,
                        Combine combine) {
  T all = nothing;
  for (int i = Lane(); i < count; i += kWarpSize) all = combine(all, of(parts[i]));
  return WarpReduce(all, combine);
}
// The summary of the whole row, but for `broken`.
__device__ inline RowSummary MergeSummaries(const PickPart* parts, int count,
                                            float inverse_temperature) {
  RowSummary all;
  all.best = MergeParts(
      parts, count, Bits{0}, [](const PickPart& p) { return p.best; }, Largest());
  all.max = MergeParts(
      parts, count, -INFINITY, [](const PickPart& p) { return p.max; }, Largest());
  const auto sum_of = [&](const PickPart& p) {
    // Not the exponential of a difference of infinities, which is NaN.
    const float factor = p.max == all.max ? 1.f : Exponent(p.max - all.max, inverse_temperature);
    return p.sum * static_cast<double>(factor);
  };
  all.sum = MergeParts(parts, count, 0., sum_of, Plus());
  return all;
}
__device__ inline bool AnyIsBroken(const PickPart* parts, int count) {
  return MergeParts(
             parts, count, 0, [](const PickPart& p) { return p.broken; }, Largest()) != 0;
}
// PickPart::missed of the whole row.
__device__ inline float MostMissed(const PickPart* parts, int count) {
  return MergeParts(
      parts, count, 0.f, [](const PickPart& p) { return p.missed; }, Largest());
}
// The measure of the whole row.
__device__ inline float MergeMeasures(const PickPart* parts, int count, RowMeasure measure) {
  if (measure == RowMeasure::kNone) return 0.f;
  const auto of = [](const PickPart& p) { return p.measure; };
  return static_cast<float>(measure == RowMeasure::kLargest
                                ? MergeParts(parts, count, 0., of, Largest())
                                : MergeParts(parts, count, 0., of, Plus()));
}

// Penalties and biases of the row.
__device__ inline RowAdjustment AdjustmentOf(const PickArrays& a, const BatchedPick& row) {
  return {.sampling = row.spec.sampling,
          .seen = a.seen + row.first_seen,
          .seen_count = row.seen,
          .biases = a.biases + row.first_bias,
          .bias_count = row.biases,
          .suppressed = nullptr,
          .suppressed_count = 0,
          .mask = row.mask > 0 ? a.mask + row.first_mask : nullptr,
          .parents = a.path_parents,
          .tokens = a.path_tokens + row.path,
          .node = row.depth,
          .depth = row.depth};
}

// Whether a race is run by logits: in a row of probabilities, those too small for a float are
// missing (as in RaceOrder).
__device__ inline bool RacesLogits(const PickSpec& spec, float max) {
  return !spec.sampling.truncates(spec.allowed) && IsFinite(max);
}
// Whether a row's summary needs its sum, unless its largest entry is not finite.
__device__ inline bool NeedsSum(const PickSpec& spec) {
  if (!(spec.sampling.temperature > 0.f) || spec.pick == RowPick::kTop) return false;
  return spec.pick == RowPick::kDistribution || spec.sampling.truncates(spec.allowed) ||
         spec.measure != RowMeasure::kNone;
}

// The measure of the first `n` entries. Must be called by the whole block.
template <class Distribution>
__device__ double MeasureOf(const Distribution& distribution, int n, RowMeasure measure,
                            double* warp_results) {
  if (measure == RowMeasure::kNone) return 0;
  double part = 0;
  ForProbabilities(distribution, n, [&](float probability, int) {
    const auto p = static_cast<double>(probability);
    if (measure == RowMeasure::kLargest) {
      part = Largest()(part, p);
    } else if (p > 0) {
      part -= p * log(p);
    }
  });
  return measure == RowMeasure::kLargest ? BlockReduce(part, warp_results, Largest())
                                         : BlockReduce(part, warp_results, Plus());
}

// The first `count` keys in descending order: `best`, and then next(last), the largest below
// `last`; 0 is none. put(i, key) is called by one thread. Returns their number. Must be called by
// the whole block.
template <class Next, class Put>
__device__ int PickTop(Bits best, int count, const Next& next, const Put& put) {
  int found = 0;
  for (; found < count && best != 0; ++found) {
    if (threadIdx.x == 0) put(found, best);
    if (found + 1 < count) best = next(best);
  }
  return found;
}
// The largest key of the row's entries of `range` below `last`.
__device__ inline Bits NextBest(const float* row, IndexRange range, Bits last, Bits* warp_results) {
  Bits best = 0;
  ForEntries(row, range, [&](float x, int i) {
    if (!(x > -INFINITY)) return;
    const Bits key = RankKey(x, i);
    if (key < last) best = Largest()(best, key);
  });
  return BlockReduce(best, warp_results, Largest());
}

// The first `count` arrivals, in order; next(runs) is the first of those that `runs` lets run.
// Otherwise as PickTop.
template <class Next, class Put>
__device__ int PickWinners(int count, const Next& next, const Put& put) {
  After runs{{-1., -1}};
  int found = 0;
  for (; found < count; ++found) {
    runs.last = next(runs);
    if (runs.last.token < 0) break;
    if (threadIdx.x == 0) put(found, runs.last);
  }
  return found;
}
// The first arrival by the logits of `range`; `max`: the largest of the row.
__device__ inline RaceArrival FirstByLogits(const float* logits, IndexRange range, float max,
                                            const PickSpec& spec, const After& runs, double* bounds,
                                            RaceShared& shared) {
  const auto top = static_cast<double>(max);
  const double inverse = 1 / static_cast<double>(spec.sampling.temperature);
  return FirstArrival([&](int i) { return logits[i]; },
                      [&](float x) { return exp((static_cast<double>(x) - top) * inverse); }, range,
                      spec.seed, spec.position, runs, bounds, shared);
}

}  // namespace outrider
