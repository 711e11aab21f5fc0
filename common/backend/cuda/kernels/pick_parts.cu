#include "common/backend/cuda/kernels/pick_parts.h"
#include "common/backend/cuda/kernels/picks.h"
#include "common/backend/cuda/kernels/row_picks.h"

namespace outrider {
namespace {

static_assert(kPartEntries % TileNoise::kTile == 0);

// Blocks along x are rows, along y their parts.
__device__ int Row() { return static_cast<int>(blockIdx.x); }
__device__ int Part() { return static_cast<int>(blockIdx.y); }
// This block's part of the row's first `n` entries.
__device__ IndexRange PartOfRow(int n) {
  const int begin = Part() * kPartEntries;
  return {begin, max(begin, min(begin + kPartEntries, n))};
}
__device__ int Length(IndexRange range) { return range.end - range.begin; }

// Adjusts the logits and sums them up, for distributions and races; for measures of kTop, sums up
// the model's own.
__global__ void __launch_bounds__(512, 2) SummarizePartsKernel(PickArrays a) {
  OUTRIDER_SHARED(SamplingShared, shared);
  AwaitEarlierKernels();
  const BatchedPick& row = a.rows[Row()];
  const PickSpec& spec = row.spec;
  if (!IsReadInParts(spec) || !NeedsSummaries(spec)) return;
  float* logits = a.logits + int64_t{row.row} * a.vocab;
  const RowSummary found =
      spec.pick == RowPick::kTop
          ? Summarize(logits, PartOfRow(a.vocab), 1.f, /*sums=*/true, shared.best, shared.sum)
          : AdjustAndSummarize(AdjustmentOf(a, row), PartOfRow(spec.allowed), NeedsSum(spec),
                               logits, shared);
  if (threadIdx.x != 0) return;
  PickPart& part = PartsOfRow(a, Row())[Part()];
  part.best = found.best;
  part.sum = found.sum;
  part.max = found.max;
  part.broken = found.broken ? 1 : 0;
}

// Puts the part's kPartCandidates largest positive probabilities into `found`. Returns what
// PickPart::missed says. Must be called by the whole block.
__device__ float PutCandidates(const SoftmaxRow& probability, IndexRange range, PickShared& shared,
                               const FoundInRow& found) {
  const int n = Length(range);
  RowCut cut = KeepAll();
  if (n > kPartCandidates) {
    cut =
        ShortestPrefix(probability, cut, n, CountOne(), Bits{kPartCandidates}, shared.sampling.cut);
  }
  const auto keeps = [&](int i, int end) {
    if (i >= end) return false;
    const float p = probability(i);
    return p > 0.f && cut.Keeps(p, i);
  };
  // Each warp puts a piece of the part, after those before it.
  const IndexRange mine = PartOf({0, n}, Warp());
  int kept = 0;
  for (int i = mine.begin + Lane(); i < mine.end; i += kWarpSize) kept += keeps(i, mine.end);
  ReduceWarps(kept, shared.counts, Plus());
  int next = 0, all = 0;
  for (int w = 0; w < Warps(); ++w) {
    if (w < Warp()) next += shared.counts[w];
    all += shared.counts[w];
  }
  float* const logits = found.logits() + Part() * kPartCandidates;
  TokenId* const ids = found.ids() + Part() * kPartCandidates;
  for (int begin = mine.begin; begin < mine.end; begin += kWarpSize) {
    const int i = begin + Lane();
    const bool keep = keeps(i, mine.end);
    const unsigned kept_lanes = __ballot_sync(kFullWarp, keep);
    if (keep) {
      const int at = next + __popc(kept_lanes & ((1u << Lane()) - 1));
      logits[at] = probability.entries()[i];
      ids[at] = range.begin + i;
    }
    next += __popc(kept_lanes);
  }
  for (int i = all + static_cast<int>(threadIdx.x); i < kPartCandidates;
       i += static_cast<int>(blockDim.x)) {
    logits[i] = -INFINITY;
    ids[i] = 0;
  }
  return cut.value;
}

// The part's likely tokens, and its share of the measure, which is that of the model's own logits.
__device__ void PickTopOfPart(const PickArrays& a, const BatchedPick& row, const FoundInRow& found,
                              PickPart* parts, PickShared& shared) {
  const PickSpec& spec = row.spec;
  float* logits = a.logits + int64_t{row.row} * a.vocab;
  if (spec.measure != RowMeasure::kNone) {
    const RowSummary all = MergeSummaries(parts, a.parts_of_row, 1.f);
    const IndexRange range = PartOfRow(a.vocab);
    const double measure = MeasureOf(SoftmaxRow(logits + range.begin, 1.f, all), Length(range),
                                     spec.measure, shared.sampling.sum);
    if (threadIdx.x == 0) parts[Part()].measure = measure;
  }
  const IndexRange range = PartOfRow(spec.allowed);
  const RowSummary own =
      AdjustAndSummarize(AdjustmentOf(a, row), range, /*sums=*/false, logits, shared.sampling);
  Bits* const keys = found.keys() + Part() * spec.count;
  const int count = PickTop(
      own.best, spec.count,
      [&](Bits last) { return NextBest(logits, range, last, shared.sampling.best); },
      [&](int i, Bits key) { keys[i] = key; });
  if (threadIdx.x != 0) return;
  parts[Part()].broken = own.broken ? 1 : 0;
  for (int i = count; i < spec.count; ++i) keys[i] = 0;
}

// The first arrivals of the part, and its share of the measure.
__device__ void RacePart(const PickSpec& spec, const float* logits, const RowSummary& all,
                         double* bounds, const FoundInRow& found, PickPart& part,
                         PickShared& shared) {
  const IndexRange range = PartOfRow(spec.allowed);
  if (spec.measure != RowMeasure::kNone) {
    const SoftmaxRow probability(logits + range.begin, spec.sampling.temperature, all);
    const double measure = MeasureOf(probability, Length(range), spec.measure, shared.sampling.sum);
    if (threadIdx.x == 0) part.measure = measure;
  }
  RaceArrival* const arrivals = found.arrivals() + Part() * spec.count;
  const int count = PickWinners(
      spec.count,
      [&](const After& runs) {
        return FirstByLogits(logits, range, all.max, spec, runs, bounds, shared.race);
      },
      [&](int i, const RaceArrival& arrival) { arrivals[i] = arrival; });
  if (threadIdx.x != 0) return;
  for (int i = count; i < spec.count; ++i) arrivals[i] = {INFINITY, -1};
}

// Rows of kRace, or all other rows, as PickRowsKernel, which reads rows whole whose largest logit
// is not finite.
template <bool kIsRace>
__global__ void __launch_bounds__(512, 2) ReadPartsKernel(PickArrays a) {
  OUTRIDER_SHARED(PickShared, shared);
  OUTRIDER_DYNAMIC_SHARED(double, bounds);
  AwaitEarlierKernels();
  const BatchedPick& row = a.rows[Row()];
  const PickSpec& spec = row.spec;
  if (kIsRace != (spec.pick == RowPick::kRace) || !IsReadInParts(spec)) return;
  const float* logits = a.logits + int64_t{row.row} * a.vocab;
  PickPart* const parts = PartsOfRow(a, Row());
  PickPart& part = parts[Part()];
  const FoundInRow found = FoundIn(a, Row());
  if (!kIsRace && spec.pick == RowPick::kTop) {
    PickTopOfPart(a, row, found, parts, shared);
    return;
  }
  const float temperature = spec.sampling.temperature;
  if (!(temperature > 0.f)) return;
  const RowSummary all = MergeSummaries(parts, a.parts_of_row, InverseTemperature(temperature));
  if (!IsFinite(all.max)) return;
  if constexpr (kIsRace) {
    if (RacesLogits(spec, all.max)) {
      RacePart(spec, logits, all, bounds, found, part, shared);
      return;
    }
  }
  const IndexRange range = PartOfRow(spec.allowed);
  const SoftmaxRow probability(logits + range.begin, temperature, all);
  const float missed = PutCandidates(probability, range, shared, found);
  if (threadIdx.x == 0) part.missed = missed;
}

}  // namespace

cudaError_t LaunchReadParts(const PickArrays& arrays, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(arrays.count), static_cast<unsigned>(arrays.parts_of_row));
  constexpr unsigned kThreads = 512;
  constexpr size_t kBounds = kPartEntries / TileNoise::kTile * sizeof(double);
  cudaError_t error = cudaSuccess;
  const auto launch = [&](auto* kernel, size_t shared) {
    if (error == cudaSuccess) error = LaunchNext(kernel, grid, kThreads, shared, stream, arrays);
  };
  if (arrays.parts_have_summaries) launch(SummarizePartsKernel, 0);
  if (arrays.parts_of_races) launch(ReadPartsKernel<true>, kBounds);
  if (arrays.parts_of_others) launch(ReadPartsKernel<false>, kBounds);
  return error;
}

}  // namespace outrider
