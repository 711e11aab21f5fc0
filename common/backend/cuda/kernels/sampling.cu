#include <cmath>

#include "common/backend/cuda/kernels/block.h"
#include "common/backend/cuda/kernels/row_race.h"
#include "common/backend/cuda/kernels/row_sampling.h"
#include "common/backend/cuda/kernels/sampling.h"

namespace outrider {
namespace {

// Penalties, biases and masks of row `row` of the batch's nodes.
__device__ RowAdjustment AdjustmentOf(const DeviceRoundArrays& a, int row) {
  const RoundHeader& round = a.batch.rounds[a.batch.round_of[row]];
  const int depth = a.batch.depths[row];
  const int node = row - round.first_node;
  return {.sampling = round.sampling,
          .seen = a.batch.seen + round.first_seen,
          .seen_count = round.seen,
          .biases = a.batch.biases + round.first_bias,
          .bias_count = round.biases,
          .suppressed = a.batch.suppressed + round.first_suppressed,
          .suppressed_count = depth < round.suppressed_rows ? round.suppressed : 0,
          .mask = round.mask > 0 ? a.batch.mask + round.mask_of(node) : nullptr,
          .bad_words = a.batch.bad_words + round.first_bad_word,
          .bad_word_count = round.bad_words,
          .bad_tokens = a.batch.bad_tokens + round.first_bad_token,
          .recent = a.batch.recent + round.first_recent,
          .recent_count = round.recent,
          .parents = a.batch.parents + round.first_node,
          .tokens = a.batch.tokens + round.first_node,
          .node = node,
          .depth = depth};
}

struct RowShared {
  SamplingShared sampling;
  RaceShared race;
};

// Rows of kRace, or all other rows. The kernels are separate, because the race's noise needs
// registers that would spill in the others. Two blocks of 512 threads (for the widest rows) per
// multiprocessor hide the latency of memory.
template <bool kIsRace>
__global__ void __launch_bounds__(512, 2) SampleRowsKernel(DeviceRoundArrays a) {
  OUTRIDER_SHARED(RowShared, shared);
  OUTRIDER_DYNAMIC_SHARED(double, bounds);
  const int row = static_cast<int>(blockIdx.x);  // of the batch's nodes
  const RoundHeader& round = a.batch.rounds[a.batch.round_of[row]];
  if (kIsRace != (round.kind() == DraftKind::kRace)) return;
  const RowSampling sampling = round.sampling;
  float* logits = a.logits + int64_t{row} * a.vocab;
  const int n = a.allowed;
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const bool is_argmax = round.kind() == DraftKind::kArgmax;
  const bool sums = !is_argmax && (!kIsRace || sampling.truncates(n));
  const RowAdjustment adjustment = AdjustmentOf(a, row);
  const RowSummary summary = AdjustAndSummarize(adjustment, {0, n}, sums, logits, shared.sampling);
  if (thread == 0) a.broken[row] = summary.broken ? 1 : 0;
  const int depth = adjustment.depth;
  if (is_argmax) {
    if (thread == 0) a.matches[row] = summary.best == 0 ? 0 : IdOf(summary.best);
    return;
  }
  const uint32_t position = round.spec.position + static_cast<uint32_t>(depth);
  const float max = summary.max;
  if constexpr (kIsRace) {
    if (!sampling.truncates(n) && IsFinite(max)) {
      const double top = static_cast<double>(max);
      const double steepness = 1 / static_cast<double>(sampling.temperature);
      const TokenId winner =
          RaceWinner([&](int i) { return logits[i]; },
                     [&](float x) { return exp((static_cast<double>(x) - top) * steepness); }, n,
                     round.spec.seed, position, bounds, shared.race);
      if (thread == 0) a.matches[row] = winner;
      return;
    }
  }

  const SoftmaxRow softmax(logits, sampling.temperature, summary);
  const SampledRow probability(softmax, sampling, n, shared.sampling);
  if constexpr (kIsRace) {
    const TokenId winner = RaceWinner(
        probability, [](float p) { return static_cast<double>(p); }, n, round.spec.seed, position,
        bounds, shared.race);
    if (thread == 0) a.matches[row] = winner;
  } else {
    ForProbabilities(probability, n, [&](float p, int i) { logits[i] = p; });
    for (int i = n + thread; i < a.vocab; i += threads) logits[i] = 0.f;
  }
}

}  // namespace

cudaError_t LaunchSampleRows(const DeviceRoundArrays& arrays, cudaStream_t stream) {
  const size_t tiles =
      (static_cast<size_t>(arrays.allowed) + TileNoise::kTile - 1) / TileNoise::kTile;
  const auto launch = [&](auto* kernel) {
    return Launch(kernel, static_cast<unsigned>(arrays.nodes), ThreadsForRow(arrays.vocab),
                  tiles * sizeof(double), stream, arrays);
  };
  if (arrays.races) {
    const cudaError_t error = launch(SampleRowsKernel<true>);
    if (error != cudaSuccess || !arrays.others) return error;
  }
  return launch(SampleRowsKernel<false>);
}

}  // namespace outrider
