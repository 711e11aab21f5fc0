// Launchers of the kernels of a mixture of experts. All pointers are device memory. A launch
// depends only on the number of rows and on sizes, never on which experts are chosen, so it can be
// part of a graph.
//
// Each returns errors of the launch itself. A row's bits depend on that row alone.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "common/backend/cuda/kernels/codes.h"
#include "common/backend/experts.h"
#include "common/tensor/tensor.h"

namespace outrider {

// Pairs of one expert that a block multiplies.
struct ExpertTile {
  int32_t expert = 0;
  int32_t first = 0;  // sorted index of the first pair
  int32_t pairs = 0;  // at most kExpertTileRows; 0: an unused tile
};
constexpr int kExpertTileRows = 8;

// The matrix of one expert: values [out, stride], or codes if `values` is null.
struct DeviceExpert {
  const void* values = nullptr;
  DeviceCodes codes;
};

// Backend::RouteRows: writes `chosen` and `weights`, then the order of the pairs and the tiles.
cudaError_t LaunchRouteRows(const float* logits, int rows, const RouterShape& shape,
                            const ExpertRouting& routing, cudaStream_t stream);

// Backend::ExpertMatMul. `dtype` is the type of the experts' values, or the type to which codes are
// widened. `stride` is that of rows of values, a multiple of 8. Activations are multiplied in f32.
struct ExpertProductCall {
  const DeviceExpert* experts = nullptr;
  Dtype dtype = Dtype::kF32;
  int in_features = 0;
  int out_features = 0;
  int stride = 0;
  const float* x = nullptr;  // [rows, in_features] if x_by_row, otherwise [pairs, in_features]
  bool x_by_row = false;
  const float* bias = nullptr;  // [experts, out_features] or null
  float* y = nullptr;           // [pairs, out_features]
};
cudaError_t LaunchExpertProduct(const ExpertProductCall& call, const RouterShape& shape,
                                const ExpertRouting& routing, int rows, cudaStream_t stream);

// Backend::CombineExperts.
cudaError_t LaunchCombineExperts(const float* y, const RouterShape& shape,
                                 const ExpertRouting& routing, int rows, int n, bool accumulate,
                                 float* out, cudaStream_t stream);

}  // namespace outrider
