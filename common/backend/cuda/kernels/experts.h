// Launchers of the kernels around the products of a mixture of experts (expert_product.h). All
// pointers are device memory. A launch depends only on the number of rows and on sizes, never on
// which experts are chosen, so it can be part of a graph.
//
// Each returns errors of the launch itself. A row's bits depend on that row alone.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "common/backend/experts.h"

namespace outrider {

// Pairs of one expert that a block multiplies.
struct ExpertTile {
  int32_t expert = 0;
  int32_t first = 0;  // sorted index of the first pair
  int32_t pairs = 0;  // at most ExpertTileRows; 0: an unused tile
};

// The most pairs of a tile. Each tile reads its expert's matrix, so it has more where eight would
// not hold those of an average expert.
inline int ExpertTileRows(int rows, const RouterShape& shape) {
  return rows * shape.top_k > 8 * shape.experts ? 16 : 8;
}

// The most tiles that there can be: each expert that some row chooses may have one partly filled
// tile.
inline int MaxExpertTiles(int rows, const RouterShape& shape) {
  const int pairs = rows * shape.top_k;
  return std::min(pairs, pairs / ExpertTileRows(rows, shape) + shape.experts);
}

// Backend::RouteRows: writes `chosen` and `weights`, then the order of the pairs and the tiles.
cudaError_t LaunchRouteRows(const float* logits, int rows, const RouterShape& shape,
                            const ExpertRouting& routing, cudaStream_t stream);

// Backend::CombineExperts.
cudaError_t LaunchCombineExperts(const float* y, const RouterShape& shape,
                                 const ExpertRouting& routing, int rows, int n, bool accumulate,
                                 float* out, cudaStream_t stream);

}  // namespace outrider
