#include <cmath>

#include "common/backend/cuda/kernels/block.h"
#include "common/backend/cuda/kernels/picks.h"
#include "common/backend/cuda/kernels/row_race.h"
#include "common/backend/cuda/kernels/row_sampling.h"
#include "common/math/coins.h"
#include "common/math/weight_rounding.h"

namespace outrider {
namespace {

struct PickShared {
  SamplingShared sampling;
  RaceShared race;
  int count;
};

// Must be called by the whole block.
template <class Distribution>
__device__ float MeasureOf(const Distribution& distribution, int n, RowMeasure measure,
                           double* warp_results) {
  if (measure == RowMeasure::kNone) return 0.f;
  double part = 0;
  ForProbabilities(distribution, n, [&](float probability, int) {
    const auto p = static_cast<double>(probability);
    if (measure == RowMeasure::kLargest) {
      part = Largest()(part, p);
    } else if (p > 0) {
      part -= p * log(p);
    }
  });
  return static_cast<float>(measure == RowMeasure::kLargest
                                ? BlockReduce(part, warp_results, Largest())
                                : BlockReduce(part, warp_results, Plus()));
}

// The largest entry after `last` in the order of RankKey; 0 if there is none.
__device__ Bits NextBest(const float* row, int n, Bits last, Bits* warp_results) {
  Bits best = 0;
  ForEntries(row, n, [&](float x, int i) {
    if (!(x > -INFINITY)) return;
    const Bits key = RankKey(x, i);
    if (key < last) best = Largest()(best, key);
  });
  return BlockReduce(best, warp_results, Largest());
}

// Repeats the argmax without earlier results, until only excluded tokens are left. If all are
// excluded from the start it yields token 0. Returns the number of entries.
__device__ int PickTop(const float* logits, int n, int count, Bits best, Bits* warp_results,
                       RowEntry* out) {
  int found = 0;
  for (; found < count && best != 0; ++found) {
    if (threadIdx.x == 0) out[found] = {IdOf(best), 0.f};
    if (found + 1 < count) best = NextBest(logits, n, best, warp_results);
  }
  if (found > 0) return found;
  if (threadIdx.x == 0) out[0] = {0, 0.f};
  return 1;
}

template <class Entry, class Weight>
__device__ int PickWinners(const Entry& entry, const Weight& weight, const BatchedPick& row,
                           double* bounds, RaceShared& shared, RowEntry* out) {
  const PickSpec& spec = row.spec;
  After runs{{-1., -1}};
  int found = 0;
  for (; found < spec.count; ++found) {
    runs.last =
        FirstArrival(entry, weight, spec.allowed, spec.seed, spec.position, runs, bounds, shared);
    if (runs.last.token < 0) break;
    if (threadIdx.x == 0) out[found] = {runs.last.token, 0.f};
  }
  return found;
}

// A distribution stored in the row.
struct StoredRow {
  const float* row;
  __device__ float operator()(int i) const { return row[i]; }
  __device__ const float* entries() const { return row; }
  __device__ float ProbabilityOf(float p, int) const { return p; }
};

// The `count` largest of the row's positive entries. Returns their number.
__device__ int PickLargest(const float* row, int n, int count, PickShared& shared, RowEntry* out) {
  RowCut cut = KeepAll();
  if (count < n) {
    cut = ShortestPrefix(StoredRow{row}, cut, n, CountOne(), static_cast<Bits>(count),
                         shared.sampling.cut);
  }
  if (threadIdx.x == 0) shared.count = 0;
  __syncthreads();
  ForEntries(row, n, [&](float p, int i) {
    if (p > 0.f && cut.Keeps(p, i)) out[atomicAdd(&shared.count, 1)] = {i, p};
  });
  __syncthreads();
  return shared.count;
}

// Penalties and biases of the row.
__device__ RowAdjustment AdjustmentOf(const PickArrays& a, const BatchedPick& row) {
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

// Whether a race's row must become a distribution, provided its largest entry is finite.
__device__ inline bool NeedsProbabilities(const PickSpec& spec) {
  return spec.sampling.truncates(spec.allowed) || spec.measure != RowMeasure::kNone;
}

// The winners of the row's race, and its measure. `summary` is that of the adjusted row, with its
// sum if NeedsProbabilities. Returns the number of winners.
__device__ int PickRace(const BatchedPick& row, const float* logits, const RowSummary& summary,
                        double* bounds, PickShared& shared, RowEntry* out, float* measure) {
  const PickSpec& spec = row.spec;
  const RowSampling& sampling = spec.sampling;
  const int n = spec.allowed;
  const float max = summary.max;
  // As in RaceOrder: in a row of probabilities, those too small for a float are missing.
  const bool races_logits = !sampling.truncates(n) && max > -INFINITY && max < INFINITY;
  if (!races_logits || spec.measure != RowMeasure::kNone) {
    const SoftmaxRow softmax(logits, sampling.temperature, summary);
    const SampledRow probability(softmax, sampling, n, shared.sampling);
    *measure = MeasureOf(probability, n, spec.measure, shared.sampling.sum);
    if (!races_logits) {
      return PickWinners(
          probability, [](float p) { return static_cast<double>(p); }, row, bounds, shared.race,
          out);
    }
  }
  const auto top = static_cast<double>(max);
  const double inverse = 1 / static_cast<double>(sampling.temperature);
  return PickWinners([&](int i) { return logits[i]; },
                     [&](float x) { return exp((static_cast<double>(x) - top) * inverse); }, row,
                     bounds, shared.race, out);
}

// Rows of kRace, or all other rows. The kernels are separate, because the race's noise needs
// registers that would spill in the others.
template <bool kIsRace>
__global__ void __launch_bounds__(512, 2) PickRowsKernel(PickArrays a) {
  OUTRIDER_SHARED(PickShared, shared);
  OUTRIDER_DYNAMIC_SHARED(double, bounds);
  const BatchedPick& row = a.rows[blockIdx.x];
  const PickSpec& spec = row.spec;
  if (kIsRace != (spec.pick == RowPick::kRace)) return;
  const RowSampling sampling = spec.sampling;
  float* logits = a.logits + int64_t{row.row} * a.vocab;
  RowEntry* out = a.entries + row.first_entry;
  const int n = spec.allowed;
  double* sums = shared.sampling.sum;
  float measure = 0.f;
  const bool is_top = !kIsRace && spec.pick == RowPick::kTop;
  if (is_top && spec.measure != RowMeasure::kNone) {
    const RowSummary all =
        Summarize(logits, a.vocab, 1.f, /*sums=*/true, shared.sampling.best, sums);
    measure = MeasureOf(SoftmaxRow(logits, 1.f, all), a.vocab, spec.measure, sums);
  }
  const bool is_sampled = !is_top && sampling.temperature > 0.f;
  const RowSummary summary = AdjustAndSummarize(
      AdjustmentOf(a, row), n, is_sampled && (!kIsRace || NeedsProbabilities(spec)), logits,
      shared.sampling);
  const Bits best = summary.best;
  const auto finish = [&](int found) {
    if (threadIdx.x == 0) a.headers[blockIdx.x] = {found, measure, -1, summary.broken ? 1 : 0};
  };
  if (is_top) {
    finish(PickTop(logits, n, spec.count, best, shared.sampling.best, out));
    return;
  }
  if (!(sampling.temperature > 0.f)) {
    if (threadIdx.x == 0) out[0] = {best == 0 ? 0 : IdOf(best), 1.f};
    if (spec.measure == RowMeasure::kLargest) measure = 1.f;
    finish(1);
    return;
  }
  if constexpr (kIsRace) {
    finish(PickRace(row, logits, summary, bounds, shared, out, &measure));
  } else {
    const SoftmaxRow softmax(logits, sampling.temperature, summary);
    const SampledRow probability(softmax, sampling, n, shared.sampling);
    ForProbabilities(probability, n, [&](float p, int i) { logits[i] = p; });
    __syncthreads();
    finish(PickLargest(logits, n, spec.count, shared, out));
  }
}

struct EntriesShared {
  double fractions[kMaxChainEntries];
  float values[kMaxChainEntries];
  TokenId ids[kMaxChainEntries];
  uint32_t weights[kMaxChainEntries];
  uint32_t sum[kMaxWarps];
  double mass;
  int kept;
};

// MakeDraftDistribution of the `n` entries; thread 0 returns the token that `coin` selects from it.
// Weights of 0, which are at the end, are never reached. Must be called by the whole block.
__device__ TokenId DrawFromEntries(const RowEntry* entries, int n, float mass, double coin,
                                   EntriesShared& shared) {
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  for (int i = thread; i < n; i += threads) {
    const RowEntry entry = entries[i];
    int rank = 0;
    for (int j = 0; j < n; ++j) {
      const RowEntry& other = entries[j];
      rank += other.value > entry.value || (other.value == entry.value && other.id < entry.id);
    }
    shared.values[rank] = entry.value;
    shared.ids[rank] = entry.id;
  }
  __syncthreads();
  if (thread == 0) {
    shared.kept = KeptEntries([&](int i) { return shared.values[i]; }, n, mass, &shared.mass);
  }
  __syncthreads();
  const int kept = shared.kept;
  uint32_t given = 0;
  for (int i = thread; i < kept; i += threads) {
    const WeightShare share = ShareOf(shared.values[i], shared.mass);
    shared.weights[i] = share.weight;
    shared.fractions[i] = share.fraction;
    given += share.weight;
  }
  given = BlockReduce(given, shared.sum, Plus());
  for (int i = thread; i < kept; i += threads) {
    uint32_t rank = 0;
    for (int j = 0; j < kept; ++j) {
      rank += shared.fractions[j] > shared.fractions[i] ||
              (shared.fractions[j] == shared.fractions[i] && j < i);
    }
    if (given < kDraftWeightTotal && rank < kDraftWeightTotal - given) ++shared.weights[i];
  }
  __syncthreads();
  if (thread != 0) return -1;
  return shared.ids[EntryAt([&](int i) { return shared.weights[i]; }, kept, coin)];
}

__global__ void DrawRowsKernel(PickArrays a) {
  OUTRIDER_SHARED(EntriesShared, shared);
  const BatchedPick& row = a.rows[blockIdx.x];
  PickHeader& header = a.headers[blockIdx.x];
  const RowEntry* entries = a.entries + row.first_entry;
  // If nothing was picked, the host ends the draft; the next pass still needs a valid token.
  TokenId sampled = header.entries > 0 ? entries[0].id : 0;
  if (row.spec.pick == RowPick::kDistribution && header.entries > 0) {
    sampled = DrawFromEntries(
        entries, header.entries, row.chain.mass,
        Coin(row.spec.seed, row.chain.round, row.chain.first_depth, Purpose::kDraftToken), shared);
  }
  if (threadIdx.x != 0) return;
  header.sampled = sampled;
  a.sampled[blockIdx.x] = sampled;
  a.path_tokens[row.path + row.depth + 1] = sampled;
}

}  // namespace

cudaError_t LaunchPickRows(const PickArrays& arrays, cudaStream_t stream) {
  const size_t tiles =
      (static_cast<size_t>(arrays.vocab) + TileNoise::kTile - 1) / TileNoise::kTile;
  const auto launch = [&](auto* kernel) {
    return Launch(kernel, static_cast<unsigned>(arrays.count), ThreadsForRow(arrays.vocab),
                  tiles * sizeof(double), stream, arrays);
  };
  if (arrays.races) {
    const cudaError_t error = launch(PickRowsKernel<true>);
    if (error != cudaSuccess || !arrays.others) return error;
  }
  return launch(PickRowsKernel<false>);
}

cudaError_t LaunchSampleTokens(const PickArrays& arrays, cudaStream_t stream) {
  constexpr unsigned kThreads = 128;
  return Launch(DrawRowsKernel, static_cast<unsigned>(arrays.count), kThreads, 0, stream, arrays);
}

}  // namespace outrider
