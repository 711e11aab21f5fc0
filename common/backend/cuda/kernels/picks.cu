#include <algorithm>
#include <cmath>

#include "common/backend/cuda/kernels/pick_parts.h"
#include "common/backend/cuda/kernels/picks.h"
#include "common/backend/cuda/kernels/row_picks.h"
#include "common/math/coins.h"
#include "common/math/weight_rounding.h"

namespace outrider {
namespace {

// A distribution stored in the row.
struct StoredRow {
  const float* row;
  __device__ float operator()(int i) const { return row[i]; }
  __device__ const float* entries() const { return row; }
  __device__ float ProbabilityOf(float p, int) const { return p; }
};

// The logits from which a row's entries are picked: the row itself, or candidates from its parts.
struct PickSource {
  float* logits;       // [n]
  const TokenId* ids;  // [n]; nullptr: their indices
  int n;
  float missed;  // at least the probability of every entry of the row that is not here

  __device__ TokenId IdAt(int i) const { return ids == nullptr ? i : ids[i]; }
};

// The `count` largest of the row's positive entries. Returns their number.
__device__ int PickLargest(const PickSource& from, int count, PickShared& shared, RowEntry* out) {
  RowCut cut = KeepAll();
  if (count < from.n) {
    cut = ShortestPrefix(StoredRow{from.logits}, cut, from.n, CountOne(), static_cast<Bits>(count),
                         shared.sampling.cut);
  }
  if (threadIdx.x == 0) shared.counts[0] = 0;
  __syncthreads();
  ForEntries(from.logits, from.n, [&](float p, int i) {
    if (p > 0.f && cut.Keeps(p, i)) out[atomicAdd(&shared.counts[0], 1)] = {from.IdAt(i), p};
  });
  __syncthreads();
  return shared.counts[0];
}

// The first arrival by the probabilities of `from`.
__device__ RaceArrival FirstByProbability(const SampledRow& probability, const PickSource& from,
                                          const PickSpec& spec, const After& runs, double* bounds,
                                          RaceShared& shared) {
  if (from.ids == nullptr) {
    return FirstArrival(
        probability, [](float p) { return static_cast<double>(p); }, {0, from.n}, spec.seed,
        spec.position, runs, bounds, shared);
  }
  double first = INFINITY;
  int id = INT32_MAX;
  ForProbabilities(probability, from.n, [&](float p, int i) {
    if (!(p > 0.f)) return;
    const auto token = static_cast<uint32_t>(from.ids[i]);
    const TileNoise noise(spec.seed, spec.position, token / TileNoise::kTile);
    const double time = noise.Of(token, noise.least()) / static_cast<double>(p);
    // Ids ascend, so ties go to the first.
    if (time < first && runs(time, from.ids[i])) first = time, id = from.ids[i];
  });
  return EarliestOf(first, id, shared);
}

// Picks from a distribution, by a race or its largest entries. `summary` is that of the adjusted
// row, with its sum. Returns the number of entries, -1: `from` lacks some that are needed.
template <bool kIsRace>
__device__ int PickSampled(const PickSpec& spec, const PickSource& from, const RowSummary& summary,
                           double* bounds, PickShared& shared, RowEntry* out, float* measure) {
  const SoftmaxRow softmax(from.logits, spec.sampling.temperature, summary);
  const SampledRow probability(softmax, spec.sampling, from.n, shared.sampling);
  if (spec.sampling.truncates(spec.allowed) && from.missed > 0.f &&
      !probability.KeepsOnlyAbove(from.missed)) {
    return -1;
  }
  if constexpr (kIsRace) {
    *measure =
        static_cast<float>(MeasureOf(probability, from.n, spec.measure, shared.sampling.sum));
    const auto next = [&](const After& runs) {
      return RacesLogits(spec, summary.max)
                 ? FirstByLogits(from.logits, {0, from.n}, summary.max, spec, runs, bounds,
                                 shared.race)
                 : FirstByProbability(probability, from, spec, runs, bounds, shared.race);
    };
    return PickWinners(spec.count, next, [&](int i, const RaceArrival& arrival) {
      out[i] = {arrival.token, 0.f};
    });
  } else {
    ForProbabilities(probability, from.n, [&](float p, int i) { from.logits[i] = p; });
    __syncthreads();
    return PickLargest(from, spec.count, shared, out);
  }
}

// The summary of the adjusted row, with the measure of kTop.
__device__ RowSummary ReadRow(const PickArrays& a, const BatchedPick& row, PickShared& shared,
                              float* measure) {
  const PickSpec& spec = row.spec;
  float* logits = a.logits + int64_t{row.row} * a.vocab;
  double* sums = shared.sampling.sum;
  if (spec.pick == RowPick::kTop && spec.measure != RowMeasure::kNone) {
    const RowSummary all =
        Summarize(logits, {0, a.vocab}, 1.f, /*sums=*/true, shared.sampling.best, sums);
    *measure =
        static_cast<float>(MeasureOf(SoftmaxRow(logits, 1.f, all), a.vocab, spec.measure, sums));
  }
  return AdjustAndSummarize(AdjustmentOf(a, row), {0, spec.allowed}, NeedsSum(spec), logits,
                            shared.sampling);
}
// The same for a row whose parts were read, with the measure of a race by logits, too.
__device__ RowSummary MergeRow(const PickArrays& a, const PickSpec& spec, float* measure) {
  const PickPart* const parts = PartsOfRow(a, static_cast<int>(blockIdx.x));
  const float temperature = spec.sampling.temperature;
  RowSummary all;
  if (spec.pick != RowPick::kTop) {
    all = MergeSummaries(parts, a.parts_of_row, InverseTemperature(temperature));
  }
  all.broken = AnyIsBroken(parts, a.parts_of_row);
  if (spec.pick == RowPick::kTop || (temperature > 0.f && RacesLogits(spec, all.max))) {
    *measure = MergeMeasures(parts, a.parts_of_row, spec.measure);
  }
  return all;
}

// If all tokens are excluded it yields token 0. Returns the number of entries.
__device__ int PickTopOfRow(const PickSpec& spec, const float* logits, Bits best, bool in_parts,
                            const FoundInRow& found, PickShared& shared, RowEntry* out) {
  Bits* const results = shared.sampling.best;
  const auto next_of_parts = [&](Bits last) {
    Bits most = 0;
    for (int i = static_cast<int>(threadIdx.x); i < found.parts * spec.count;
         i += static_cast<int>(blockDim.x)) {
      if (found.keys()[i] < last) most = Largest()(most, found.keys()[i]);
    }
    return BlockReduce(most, results, Largest());
  };
  const auto next = [&](Bits last) {
    return in_parts ? next_of_parts(last) : NextBest(logits, {0, spec.allowed}, last, results);
  };
  const int count =
      PickTop(in_parts ? next_of_parts(~Bits{0}) : best, spec.count, next, [&](int i, Bits key) {
        out[i] = {IdOf(key), 0.f};
      });
  if (count == 0 && threadIdx.x == 0) out[0] = {0, 0.f};
  return max(count, 1);
}

// The first arrivals among those of the parts.
__device__ int PickAmongArrivals(const PickSpec& spec, const FoundInRow& found, RaceShared& shared,
                                 RowEntry* out) {
  const auto next = [&](const After& runs) {
    RaceArrival first{INFINITY, INT32_MAX};
    for (int i = static_cast<int>(threadIdx.x); i < found.parts * spec.count;
         i += static_cast<int>(blockDim.x)) {
      const RaceArrival own = found.arrivals()[i];
      if (own.token < 0 || !runs(own.time, own.token)) continue;
      if (own.time < first.time) first = own;  // tokens ascend among equals
    }
    return EarliestOf(first.time, first.token, shared);
  };
  return PickWinners(spec.count, next, [&](int i, const RaceArrival& arrival) {
    out[i] = {arrival.token, 0.f};
  });
}

// Rows of kRace, or all other rows. The kernels are separate, because the race's noise needs
// registers that would spill in the others.
template <bool kIsRace>
__global__ void __launch_bounds__(512, 2) PickRowsKernel(PickArrays a) {
  OUTRIDER_SHARED(PickShared, shared);
  OUTRIDER_DYNAMIC_SHARED(double, bounds);
  AwaitEarlierKernels();
  const auto index = static_cast<int>(blockIdx.x);
  const BatchedPick& row = a.rows[index];
  const PickSpec& spec = row.spec;
  if (kIsRace != (spec.pick == RowPick::kRace)) return;
  float* logits = a.logits + int64_t{row.row} * a.vocab;
  RowEntry* out = a.entries + row.first_entry;
  const bool in_parts = IsReadInParts(spec);
  const FoundInRow found = FoundIn(a, index);
  float measure = 0.f;
  const RowSummary summary =
      in_parts ? MergeRow(a, spec, &measure) : ReadRow(a, row, shared, &measure);
  int count = -1;
  if (!kIsRace && spec.pick == RowPick::kTop) {
    count = PickTopOfRow(spec, logits, summary.best, in_parts, found, shared, out);
  } else if (!(spec.sampling.temperature > 0.f)) {
    if (threadIdx.x == 0) out[0] = {summary.best == 0 ? 0 : IdOf(summary.best), 1.f};
    if (spec.measure == RowMeasure::kLargest) measure = 1.f;
    count = 1;
  } else if (kIsRace && in_parts && RacesLogits(spec, summary.max)) {
    count = PickAmongArrivals(spec, found, shared.race, out);
  } else {
    // A race of infinities, of which a row may have more than candidates, is run by all of them.
    if (in_parts && IsFinite(summary.max)) {
      const PickSource candidates = {found.logits(), found.ids(), found.candidates(),
                                     MostMissed(PartsOfRow(a, index), a.parts_of_row)};
      count = PickSampled<kIsRace>(spec, candidates, summary, bounds, shared, out, &measure);
    }
    if (count < 0) {
      const PickSource whole = {logits, nullptr, spec.allowed, 0.f};
      count = PickSampled<kIsRace>(spec, whole, summary, bounds, shared, out, &measure);
    }
  }
  if (threadIdx.x == 0) a.headers[index] = {count, measure, -1, summary.broken ? 1 : 0};
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
  AwaitEarlierKernels();
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
  const int at_once = arrays.parts_of_row > 0 ? kRowsInParts : arrays.count;
  cudaError_t error = cudaSuccess;
  for (int first = 0; first < arrays.count && error == cudaSuccess; first += at_once) {
    PickArrays some = arrays;
    some.rows += first;
    some.headers += first;
    some.count = std::min(at_once, arrays.count - first);
    error = LaunchReadParts(some, stream);
    const auto launch = [&](auto* kernel) {
      if (error != cudaSuccess) return;
      error = LaunchNext(kernel, static_cast<unsigned>(some.count), ThreadsForRow(some.vocab),
                         tiles * sizeof(double), stream, some);
    };
    if (some.races) launch(PickRowsKernel<true>);
    if (some.others) launch(PickRowsKernel<false>);
  }
  return error;
}

cudaError_t LaunchSampleTokens(const PickArrays& arrays, cudaStream_t stream) {
  constexpr unsigned kThreads = 128;
  return LaunchNext(DrawRowsKernel, static_cast<unsigned>(arrays.count), kThreads, 0, stream,
                    arrays);
}

}  // namespace outrider
