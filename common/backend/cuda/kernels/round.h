// A session's round as the rules see it, with its working memory; what a warp asks of it. Included
// by .cu only.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "common/backend/cuda/kernels/block.h"
#include "common/backend/cuda/kernels/rounds.h"
#include "common/math/accept.h"
#include "common/math/coins.h"
#include "common/math/kseq.h"

namespace outrider {

// How a round ends: at `node`, with a token drawn from max(scale P - law, 0).
struct Stop {
  int node;
  double scale;
  const TokenId* ids;
  const double* weights;
  int size;
};

// Of one round, M = its max_entries, D = its max_depth, at least 1.
struct RoundScratch {
  double* p;           // [D + 1]
  double* weights;     // [D, M]: the laws along a path
  double* by_kseq;     // [M]
  double* by_ratio;    // [M]
  RatioEntry* raw;     // [M]
  RatioEntry* ranked;  // [M]
  float* saved;        // [M]
  TokenId* ids;        // [D, M]
  int32_t* nodes;      // [D + 1]

  static int64_t Bytes(int64_t depth, int64_t entries) {
    const int64_t bytes = 8 * (depth + 1) +
                          entries * (8 * (depth + 2) + 2 * int64_t{sizeof(RatioEntry)}) +
                          4 * (entries + depth * entries + depth + 1);
    return (bytes + 7) / 8 * 8;
  }
  __device__ RoundScratch(unsigned char* at, int64_t depth, int64_t entries) {
    p = reinterpret_cast<double*>(at);
    weights = p + depth + 1;
    by_kseq = weights + depth * entries;
    by_ratio = by_kseq + entries;
    raw = reinterpret_cast<RatioEntry*>(by_ratio + entries);
    ranked = raw + entries;
    saved = reinterpret_cast<float*>(ranked + entries);
    ids = reinterpret_cast<TokenId*>(saved + entries);
    nodes = ids + depth * entries;
  }
};

// Every step is one of the whole warp and gives the same in all lanes, but where it says otherwise.
class WarpRound {
 public:
  __device__ WarpRound(const RoundArrays& arrays, const BatchedRound& round)
      : scratch(arrays.scratch + round.scratch, max(round.max_depth, 1), round.max_entries),
        a_(arrays),
        round_(round) {}

  RoundScratch scratch;

  __device__ int nodes() const { return round_.nodes; }
  __device__ int size_of_laws() const { return round_.max_entries; }
  __device__ float* target(int node) const {
    return a_.logits + int64_t{round_.first_row + node} * a_.vocab;
  }
  __device__ TokenId token(int node) const { return a_.tokens[round_.first_node + node]; }
  __device__ int parent(int node) const { return a_.parents[round_.first_node + node]; }
  __device__ int depth(int node) const { return a_.depths[round_.first_node + node]; }
  __device__ bool is_broken(int node) const { return a_.broken[round_.first_node + node] != 0; }
  __device__ TokenId match(int node) const { return a_.matches[round_.first_node + node]; }
  __device__ int draws(int node) const {
    const int32_t* begin = a_.draws_begin + round_.first_node + node;
    return begin[1] - begin[0];
  }
  __device__ int draw(int node, int i) const {
    return a_.draws[a_.draws_begin[round_.first_node + node] + i];
  }

  // q of the drafted child `token` of `node`. A step of one thread.
  __device__ double DraftProbability(int node, TokenId token) const {
    const int32_t* begin = a_.law_begin + round_.first_node + node;
    if (begin[0] == begin[1]) return 1;  // a point mass
    for (int i = begin[0]; i < begin[1]; ++i) {
      if (a_.law_ids[i] == token) return static_cast<double>(a_.law_weights[i]) * (1.0 / 65536);
    }
    return 0;
  }

  // Entries of the law behind `node`; a point mass has one.
  __device__ int size_of_law(int node) const {
    const int32_t* begin = a_.law_begin + round_.first_node + node;
    return max(begin[1] - begin[0], 1);
  }

  __device__ double Toss(Purpose purpose, int depth, int trial) const {
    return Coin(round_.spec.seed, round_.spec.round, static_cast<uint32_t>(depth), purpose,
                static_cast<uint32_t>(trial));
  }
  __device__ bool Flip(Purpose purpose, int depth, int trial, double probability) const {
    return Toss(purpose, depth, trial) < probability;
  }

  // The law of the draws behind `node`, copied to the place of `depth` in the scratch.
  __device__ SparseRow<double> Draft(int node, int depth) const {
    const int32_t* begin = a_.law_begin + round_.first_node + node;
    const int n = begin[1] - begin[0];
    __syncwarp();  // whoever reads the one before
    TokenId* ids = scratch.ids + depth * size_of_laws();
    double* weights = scratch.weights + depth * size_of_laws();
    for (int i = Lane(); i < n; i += kWarpSize) {
      ids[i] = a_.law_ids[begin[0] + i];
      weights[i] = static_cast<double>(a_.law_weights[begin[0] + i]) * (1.0 / 65536);
    }
    if (n == 0 && Lane() == 0) {
      ids[0] = token(draw(node, 0));
      weights[0] = 1;
    }
    __syncwarp();
    return {ids, weights, size_of_law(node), 1};
  }

  // AcceptedMass and ResidualMass of accept.h.
  __device__ double Accepted(double p, int node, const SparseRow<double>& law,
                             TokenId token) const {
    const int at = Find(law.size, [&](int i) { return law.ids[i] == token; });
    const SparseRow<double> one = {law.ids + max(at, 0), law.weights + max(at, 0), at < 0 ? 0 : 1,
                                   1};
    return AcceptedMass(p, target(node), one, token);
  }
  __device__ double Residual(double p, int node, const SparseRow<double>& law) const {
    return ResidualMass(p,
                        WarpReduce(OverlapMass(p, target(node), law, Lane(), kWarpSize), Plus()));
  }

  // Sorted by RanksBefore into scratch.ranked.
  __device__ const RatioEntry* Rank(int node, const SparseRow<double>& law) const {
    __syncwarp();
    const float* row = target(node);
    for (int i = Lane(); i < law.size; i += kWarpSize) {
      scratch.raw[i] = {law.ids[i], static_cast<double>(row[law.ids[i]]), law.Probability(i)};
    }
    __syncwarp();
    for (int i = Lane(); i < law.size; i += kWarpSize) {
      int rank = 0;
      for (int j = 0; j < law.size; ++j) rank += RanksBefore(scratch.raw[j], scratch.raw[i]);
      scratch.ranked[rank] = scratch.raw[i];
    }
    __syncwarp();
    return scratch.ranked;
  }

  // The first i below n for which is(i), -1 if none.
  template <class Is>
  __device__ int Find(int n, Is is) const {
    for (int begin = 0; begin < n; begin += kWarpSize) {
      const int i = begin + Lane();
      const unsigned found = __ballot_sync(kFullWarp, i < n && is(i));
      if (found != 0) return begin + __ffs(static_cast<int>(found)) - 1;
    }
    return -1;
  }
  __device__ int FindEntry(const RatioEntry* entries, int n, TokenId id) const {
    return Find(n, [&](int i) { return entries[i].id == id; });
  }

  __device__ Stop StopAt(int node, double scale, const SparseRow<double>& law) const {
    return {node, scale, law.ids, law.weights, law.size};
  }
  __device__ Stop StopAtLeaf(int node) const { return {node, 1, nullptr, nullptr, 0}; }

 private:
  const RoundArrays& a_;
  const BatchedRound& round_;
};

}  // namespace outrider
