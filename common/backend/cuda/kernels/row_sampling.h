// Applies a sequence's sampling parameters to a logits row, as in common/spec/row_sampling.h.
// Included by .cu only.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "common/backend/cuda/kernels/block.h"
#include "common/backend/cuda/kernels/row_cut.h"
#include "common/backend/cuda/kernels/row_softmax.h"
#include "common/base/types.h"
#include "common/spec/row_sampling.h"

namespace outrider {

// How often `token` occurs on the path from the root to `node`.
__device__ inline int CountOnPath(const int32_t* parents, const TokenId* tokens, int node,
                                  TokenId token) {
  int count = 0;
  for (; parents[node] >= 0; node = parents[node]) count += tokens[node] == token;
  return count;
}

__device__ inline bool Contains(const SeenToken* seen, int n, TokenId token) {
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

// The adjustments of a row's logits, by its sequence and by its node in the draft tree.
struct RowAdjustment {
  RowSampling sampling;
  const SeenToken* seen;
  int seen_count;
  const TokenBias* biases;
  int bias_count;
  const TokenId* suppressed;
  int suppressed_count;
  const uint32_t* mask = nullptr;  // nullptr: every token may be sampled
  const BadWord* bad_words = nullptr;
  int bad_word_count = 0;
  const TokenId* bad_tokens = nullptr;
  const TokenId* recent = nullptr;
  int recent_count = 0;
  const int32_t* parents;  // of the tree; the root's is below 0
  const TokenId* tokens;
  int node, depth;
};

// As MaskLogits of row_sampling.cc, for the tokens of `range`. Must be called by the whole block.
__device__ inline void MaskLogits(const RowAdjustment& a, IndexRange range, float* logits) {
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  if (a.mask != nullptr) {
    for (int i = range.begin + thread; i < range.end; i += threads) {
      if (!MaskHolds(a.mask, i)) logits[i] = -INFINITY;
    }
    __syncthreads();
  }
  if (a.bad_word_count == 0) return;
  const auto before = [&](int i) {
    if (i >= a.depth) {
      const int index = a.recent_count - 1 - (i - a.depth);
      return index >= 0 ? a.recent[index] : TokenId{-1};
    }
    int node = a.node;
    for (; i > 0; --i) node = a.parents[node];
    return a.tokens[node];
  };
  for (int i = thread; i < a.bad_word_count; i += threads) {
    const BadWord word = a.bad_words[i];
    const TokenId last = a.bad_tokens[word.first + word.size - 1];
    if (range.has(last) && IsBegun(word, a.bad_tokens, before)) logits[last] = -INFINITY;
  }
  __syncthreads();
}

// Whether AdjustLogits may change anything.
__device__ inline bool Adjusts(const RowAdjustment& a) {
  return a.sampling.has_penalties() || a.bias_count > 0 || a.mask != nullptr ||
         a.bad_word_count > 0 || a.suppressed_count > 0;
}

// Applies penalties, bias, then masks, in place on the logits of `range`. Must be called by the
// whole block.
__device__ inline void AdjustLogits(const RowAdjustment& a, IndexRange range, float* logits) {
  const RowSampling& sampling = a.sampling;
  const auto penalize = [&](TokenId token, int in_output) {
    logits[token] = PenalizedLogit(sampling, in_output, logits[token]);
  };
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  if (sampling.has_penalties()) {
    for (int i = thread; i < a.seen_count; i += threads) {
      const TokenId token = a.seen[i].token;
      if (!range.has(token)) continue;
      penalize(token, a.seen[i].in_output + CountOnPath(a.parents, a.tokens, a.node, token));
    }
    // The path's tokens that were not seen before, each by the thread of its first occurrence.
    for (int up = thread; up < a.depth; up += threads) {
      int node = a.node;
      for (int i = 0; i < up; ++i) node = a.parents[node];
      const TokenId token = a.tokens[node];
      if (!range.has(token) || Contains(a.seen, a.seen_count, token)) continue;
      if (CountOnPath(a.parents, a.tokens, a.parents[node], token) > 0) continue;
      penalize(token, CountOnPath(a.parents, a.tokens, a.node, token));
    }
    __syncthreads();
  }
  if (a.bias_count > 0) {
    for (int i = thread; i < a.bias_count; i += threads) {
      const TokenId token = a.biases[i].token;
      if (range.has(token)) logits[token] += a.biases[i].bias;
    }
    __syncthreads();
  }
  MaskLogits(a, range, logits);
  if (a.suppressed_count > 0) {
    for (int i = thread; i < a.suppressed_count; i += threads) {
      const TokenId token = a.suppressed[i];
      if (range.has(token)) logits[token] = -INFINITY;
    }
    __syncthreads();
  }
}

struct SamplingShared {
  CutShared cut;
  Bits best[kMaxWarps];
  double sum[kMaxWarps];
};

// Adjusts the row's logits of `range`. Returns their summary afterwards, except `broken`, which
// refers to the model's own logits, since penalties may produce infinities. `sums`: as Summarize.
// Must be called by the whole block.
__device__ inline RowSummary AdjustAndSummarize(const RowAdjustment& a, IndexRange range, bool sums,
                                                float* logits, SamplingShared& shared) {
  const float inverse = InverseTemperature(a.sampling.temperature);
  const RowSummary before = Summarize(logits, range, inverse, sums, shared.best, shared.sum);
  if (!Adjusts(a)) return before;
  AdjustLogits(a, range, logits);
  RowSummary after = Summarize(logits, range, inverse, sums, shared.best, shared.sum);
  after.broken = before.broken;
  return after;
}

// Where top-k, top-p and min-p cut.
__device__ inline RowCut FindCut(const SoftmaxRow& distribution, const RowSampling& sampling, int n,
                                 SamplingShared& shared) {
  RowCut cut = KeepAll();
  double mass = 1;
  if (sampling.top_k > 0 && sampling.top_k < n) {
    cut = ShortestPrefix(distribution, cut, n, CountOne(), static_cast<Bits>(sampling.top_k),
                         shared.cut);
    if (sampling.top_p < 1.f) mass = KeptMass(distribution, cut, n, shared.sum);
  }
  if (sampling.top_p < 1.f) {
    const double goal = static_cast<double>(sampling.top_p) * mass;
    cut = ShortestPrefix(distribution, cut, n, Mass(), static_cast<Bits>(ceil(goal * Mass::kOne)),
                         shared.cut);
  }
  if (sampling.min_p > 0.f) cut.floor = __fmul_rn(sampling.min_p, distribution.top());
  return cut;
}

// The probabilities from which the row is sampled, recomputed for every requested token.
class SampledRow {
 public:
  // `distribution` is that of the adjusted logits, and must outlive this. Must be called by the
  // whole block.
  __device__ SampledRow(const SoftmaxRow& distribution, const RowSampling& sampling, int n,
                        SamplingShared& shared)
      : distribution_(distribution), cut_(KeepAll()), scale_(1.f) {
    if (!sampling.truncates(n)) return;
    cut_ = FindCut(distribution, sampling, n, shared);
    scale_ = static_cast<float>(1.0 / KeptMass(distribution, cut_, n, shared.sum));
  }
  __device__ float operator()(int i) const { return ProbabilityOf(entries()[i], i); }
  __device__ const float* entries() const { return distribution_.entries(); }
  __device__ float ProbabilityOf(float logit, int i) const {
    const float p = distribution_.ProbabilityOf(logit, i);
    return cut_.Keeps(p, i) ? __fmul_rn(p, scale_) : 0.f;
  }
  // Whether every entry that it keeps had a probability above `p` before the cuts.
  __device__ bool KeepsOnlyAbove(float p) const { return fmaxf(cut_.value, cut_.floor) > p; }

 private:
  const SoftmaxRow& distribution_;
  RowCut cut_;
  float scale_;
};

}  // namespace outrider
