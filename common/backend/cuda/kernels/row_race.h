// The exponential race over a row (common/spec/race.h). Included by .cu only.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "common/backend/cuda/kernels/block.h"
#include "common/backend/cuda/kernels/row_softmax.h"
#include "common/base/types.h"
#include "common/math/race_noise.h"

namespace outrider {

struct RaceShared {
  double time[kMaxWarps];
  int id[kMaxWarps];
};

struct RaceArrival {
  double time;
  TokenId token;  // -1: none
};

// Which tokens take part in a race: all, or those that arrive after `last`.
struct AllArrivals {
  __device__ bool operator()(double, int) const { return true; }
};
struct After {
  RaceArrival last;
  __device__ bool operator()(double time, int id) const {
    return time > last.time || (time == last.time && id > last.token);
  }
};

// The earliest of the threads' arrivals, ties by the lower id; a thread without one has the time
// INFINITY. Must be called by the whole block.
__device__ inline RaceArrival EarliestOf(double time, int id, RaceShared& shared) {
  const double first = BlockReduce(time, shared.time, Least());
  id = BlockReduce(time == first && time < INFINITY ? id : INT32_MAX, shared.id, Least());
  return {first, id == INT32_MAX ? -1 : id};
}

// The first arrival among the participants of `range`, which begins with a tile; none if no weight
// is above 0. entry(i) increases with token i's weight, which is weight(entry). bounds [tiles of
// the range] is shared memory. Must be called by the whole block: it first computes a bound for
// each tile and the earlier arrival of two tokens per tile, then visits the tiles that may beat it.
template <class Entry, class Weight, class Runs>
__device__ RaceArrival FirstArrival(const Entry& entry, const Weight& weight, IndexRange range,
                                    uint64_t seed, uint32_t position, const Runs& runs,
                                    double* bounds, RaceShared& shared) {
  constexpr int kTile = TileNoise::kTile;
  const int first_tile = range.begin / kTile;
  double limit = INFINITY;
  const auto arrival = [&](const TileNoise& noise, double least, int i) {
    const double w = weight(entry(i));
    const double time =
        w > 0 ? noise.Of(static_cast<uint32_t>(i), least) / w : static_cast<double>(INFINITY);
    return runs(time, i) ? time : static_cast<double>(INFINITY);
  };
  for (int tile = first_tile + Warp(); tile * kTile < range.end; tile += Warps()) {
    const int end = min((tile + 1) * kTile, range.end);
    Bits best = 0;
    for (int i = tile * kTile + Lane(); i < end; i += kWarpSize) {
      const float e = entry(i);
      if (e > -INFINITY) best = Largest()(best, RankKey(e, i));
    }
    best = WarpReduce(best, Largest());
    double bound = INFINITY;
    if (best != 0) {
      const TileNoise noise(seed, position, static_cast<uint32_t>(tile));
      const double least = noise.least();
      const double w = weight(entry(IdOf(best)));
      if (w > 0) bound = least / w;
      limit = Least()(limit, arrival(noise, least, IdOf(best)));
      const int index = static_cast<int>(noise.least_at());
      if (index < range.end) limit = Least()(limit, arrival(noise, least, index));
    }
    if (Lane() == 0) bounds[tile - first_tile] = bound;
  }
  limit = BlockReduce(limit, shared.time, Least());
  double time = INFINITY;
  int id = INT32_MAX;
  for (int tile = first_tile + Warp(); tile * kTile < range.end; tile += Warps()) {
    if (!(bounds[tile - first_tile] <= limit)) continue;
    const TileNoise noise(seed, position, static_cast<uint32_t>(tile));
    const double least = noise.least();
    const int end = min((tile + 1) * kTile, range.end);
    for (int i = tile * kTile + Lane(); i < end; i += kWarpSize) {
      const double own = arrival(noise, least, i);
      if (own < time) time = own, id = i;  // ids ascend, so ties go to the first
    }
  }
  return EarliestOf(time, id, shared);
}

template <class Entry, class Weight>
__device__ TokenId RaceWinner(const Entry& entry, const Weight& weight, int n, uint64_t seed,
                              uint32_t position, double* bounds, RaceShared& shared) {
  return FirstArrival(entry, weight, {0, n}, seed, position, AllArrivals(), bounds, shared).token;
}

}  // namespace outrider
