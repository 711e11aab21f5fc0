#include <cmath>

#include "common/backend/cuda/kernels/block.h"
#include "common/backend/cuda/kernels/row_cut.h"
#include "common/backend/cuda/kernels/row_law.h"
#include "common/backend/cuda/kernels/row_race.h"
#include "common/backend/cuda/kernels/sampling.h"

namespace outrider {
namespace {

// How often `token` stands on the way from the root to `node`.
__device__ int CountOnPath(const int32_t* parents, const TokenId* tokens, int node, TokenId token) {
  int count = 0;
  for (; parents[node] >= 0; node = parents[node]) count += tokens[node] == token;
  return count;
}

__device__ bool Contains(const SeenToken* seen, int n, TokenId token) {
  int low = 0, high = n;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (seen[middle].token < token) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < n && seen[low].token == token;
}

__device__ void Penalise(const RowWarp& warp, int in_output, float* logit) {
  float x = *logit;
  x = x > 0.f ? x / warp.repetition_penalty : x * warp.repetition_penalty;
  x -= __fmul_rn(warp.frequency_penalty, static_cast<float>(in_output));
  if (in_output > 0) x -= warp.presence_penalty;
  *logit = x;
}

// Penalties, then bias, in place. `node`: the row's own, of the session's tree.
__device__ void AdjustLogits(const RoundArrays& a, const BatchedRound& round, int node,
                             float* logits) {
  const RowWarp& warp = round.spec.warp;
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  if (warp.repetition_penalty != 1.f || warp.presence_penalty != 0.f ||
      warp.frequency_penalty != 0.f) {
    const int32_t* parents = a.parents + round.first_node;
    const TokenId* tokens = a.tokens + round.first_node;
    const SeenToken* seen = a.seen + round.first_seen;
    for (int i = thread; i < round.seen; i += threads) {
      const TokenId token = seen[i].token;
      if (token < 0 || token >= a.allowed) continue;
      Penalise(warp, seen[i].in_output + CountOnPath(parents, tokens, node, token), logits + token);
    }
    // The path's tokens that were not seen before, each by the thread of its first place.
    const int depth = a.depths[round.first_node + node];
    for (int up = thread; up < depth; up += threads) {
      int at = node;
      for (int i = 0; i < up; ++i) at = parents[at];
      const TokenId token = tokens[at];
      if (token < 0 || token >= a.allowed || Contains(seen, round.seen, token)) continue;
      if (CountOnPath(parents, tokens, parents[at], token) > 0) continue;
      Penalise(warp, CountOnPath(parents, tokens, node, token), logits + token);
    }
    __syncthreads();
  }
  if (round.biases > 0) {
    const TokenBias* biases = a.biases + round.first_bias;
    for (int i = thread; i < round.biases; i += threads) {
      if (biases[i].token >= 0 && biases[i].token < a.allowed) {
        logits[biases[i].token] += biases[i].bias;
      }
    }
    __syncthreads();
  }
}

struct WarpShared {
  CutShared cut;
  RaceShared race;
  Bits best[kMaxWarps];
  double sum[kMaxWarps];
};

// Where top-k, top-p and min-p cut.
__device__ RowCut FindCut(const SoftmaxRow& law, const RowWarp& warp, int n, WarpShared& shared) {
  RowCut cut = KeepAll();
  double mass = 1;
  if (warp.top_k > 0 && warp.top_k < n) {
    cut = ShortestPrefix(law, cut, n, CountOne(), static_cast<Bits>(warp.top_k), shared.cut);
    if (warp.top_p < 1.f) mass = KeptMass(law, cut, n, shared.sum);
  }
  if (warp.top_p < 1.f) {
    const double goal = static_cast<double>(warp.top_p) * mass;
    cut =
        ShortestPrefix(law, cut, n, Mass(), static_cast<Bits>(ceil(goal * Mass::kOne)), shared.cut);
  }
  if (warp.min_p > 0.f) cut.floor = __fmul_rn(warp.min_p, law.top());
  return cut;
}

__device__ bool Cuts(const RowWarp& warp, int n) {
  return (warp.top_k > 0 && warp.top_k < n) || warp.top_p < 1.f || warp.min_p > 0.f;
}

// The rows of kRace or all others; apart, for the race's noise takes registers that laws would
// spill. Two blocks of the widest rows' 512 threads on a multiprocessor: its memory is what is
// waited for.
template <bool kIsRace>
__global__ void __launch_bounds__(512, 2) WarpRowsKernel(RoundArrays a) {
  __shared__ WarpShared shared;
  OUTRIDER_DYNAMIC_SHARED(double, bounds);
  const int row = static_cast<int>(blockIdx.x);  // of the batch's nodes
  const BatchedRound& round = a.rounds[a.round_of[row]];
  if (kIsRace != (round.spec.rule == VerifyRule::kRace)) return;
  const RowWarp warp = round.spec.warp;
  float* logits = a.logits + int64_t{round.first_row + row - round.first_node} * a.vocab;
  const int n = a.allowed;
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  AdjustLogits(a, round, row - round.first_node, logits);

  const Bits best = RowBest(logits, n, shared.best);
  if (round.spec.rule == VerifyRule::kArgmax) {
    if (thread == 0) a.matches[row] = best == 0 ? 0 : IdOf(best);
    return;
  }
  const uint32_t position = round.spec.position + static_cast<uint32_t>(a.depths[row]);
  const float max = best == 0 ? -INFINITY : logits[IdOf(best)];
  if constexpr (kIsRace) {
    if (!Cuts(warp, n) && max > -INFINITY && max < INFINITY) {
      const double top = static_cast<double>(max);
      const double inverse = 1 / static_cast<double>(warp.temperature);
      const TokenId winner =
          RaceWinner([&](int i) { return logits[i]; },
                     [&](float x) { return exp((static_cast<double>(x) - top) * inverse); }, n,
                     round.spec.seed, position, bounds, shared.race);
      if (thread == 0) a.matches[row] = winner;
      return;
    }
  }

  const SoftmaxRow law(logits, n, warp.temperature, best, shared.sum);
  RowCut cut = KeepAll();
  float scale = 1.f;
  if (Cuts(warp, n)) {
    cut = FindCut(law, warp, n, shared);
    scale = static_cast<float>(1.0 / KeptMass(law, cut, n, shared.sum));
  }
  const auto probability = [&](int i) {
    const float p = law(i);
    return cut.Keeps(p, i) ? __fmul_rn(p, scale) : 0.f;
  };
  if constexpr (kIsRace) {
    const TokenId winner = RaceWinner(
        probability, [](float p) { return static_cast<double>(p); }, n, round.spec.seed, position,
        bounds, shared.race);
    if (thread == 0) a.matches[row] = winner;
  } else {
    for (int i = thread; i < n; i += threads) logits[i] = probability(i);
    for (int i = n + thread; i < a.vocab; i += threads) logits[i] = 0.f;
  }
}

}  // namespace

cudaError_t LaunchWarpRows(const RoundArrays& arrays, cudaStream_t stream) {
  const size_t tiles =
      (static_cast<size_t>(arrays.allowed) + TileNoise::kTile - 1) / TileNoise::kTile;
  const auto launch = [&](auto* kernel) {
    return Launch(kernel, static_cast<unsigned>(arrays.rows), ThreadsForRow(arrays.vocab),
                  tiles * sizeof(double), stream, arrays);
  };
  if (arrays.races) {
    const cudaError_t error = launch(WarpRowsKernel<true>);
    if (error != cudaSuccess || !arrays.others) return error;
  }
  return launch(WarpRowsKernel<false>);
}

}  // namespace outrider
