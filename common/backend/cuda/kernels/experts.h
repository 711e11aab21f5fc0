// Launchers of the kernels of a mixture of experts. All pointers are device memory. What a launch
// looks like depends on numbers of rows and sizes alone, never on which experts are chosen: so they
// can be part of a graph.
//
// Each returns what is wrong with the launch itself. A row's bits depend on that row alone.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "common/backend/cuda/kernels/codes.h"
#include "common/backend/experts.h"
#include "common/tensor/tensor.h"

namespace outrider {

// Places of one expert that a block multiplies with: at most kExpertTileRows, 0 for a tile that is
// left over.
struct ExpertTile {
  int32_t expert = 0;
  int32_t first = 0;
  int32_t places = 0;
};
constexpr int kExpertTileRows = 8;

// A matrix of one expert: values [out, stride], or codes where `values` is null.
struct DeviceExpert {
  const void* values = nullptr;
  DeviceCodes codes;
};

// Backend::RouteRows: `chosen` and `weights`, then the order of the pairs and the tiles.
cudaError_t LaunchRouteRows(const float* logits, int rows, const RouterShape& shape,
                            const ExpertRouting& routing, cudaStream_t stream);

// Backend::ExpertMatMul, where `dtype` is that of the experts' values, or that codes are widened
// to. `stride` is of rows of values, a multiple of 8. Activations are multiplied in f32.
struct ExpertProductCall {
  const DeviceExpert* experts = nullptr;
  Dtype dtype = Dtype::kF32;
  int in_features = 0;
  int out_features = 0;
  int stride = 0;
  const float* x = nullptr;
  bool x_by_row = false;
  const float* bias = nullptr;
  float* y = nullptr;
};
cudaError_t LaunchExpertProduct(const ExpertProductCall& call, const RouterShape& shape,
                                const ExpertRouting& routing, int rows, cudaStream_t stream);

// Backend::CombineExperts.
cudaError_t LaunchCombineExperts(const float* y, const RouterShape& shape,
                                 const ExpertRouting& routing, int rows, int n, bool accumulate,
                                 float* out, cudaStream_t stream);

}  // namespace outrider
