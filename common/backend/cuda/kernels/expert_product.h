// Products of each expert of a mixture with the rows that chose it, for the tiles of
// LaunchRouteRows (experts.h). All pointers are device memory. A launch depends only on the number
// of rows and on sizes, so it can be part of a graph.
//
// Each returns errors of the launch itself. A row's bits depend on that row alone.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <span>

#include "common/backend/cuda/kernels/codes.h"
#include "common/backend/experts.h"
#include "common/tensor/tensor.h"

namespace outrider {

// The matrix of one expert: values [out, stride], or codes if `values` is null.
struct DeviceExpert {
  const void* values = nullptr;
  DeviceCodes codes;
};

// The arguments of Backend::ExpertMatMul, but for x.
struct ExpertProductCall {
  const DeviceExpert* experts = nullptr;
  Dtype dtype = Dtype::kF32;  // of values, or to which codes are widened
  int in_features = 0;
  int out_features = 0;
  int stride = 0;               // of rows of values; a multiple of 8
  const float* bias = nullptr;  // [experts, out_features] or null
  float* y = nullptr;           // [pairs, out_features]
};

// Whether there is a product of these experts, in host memory, on tensor cores: all are values of
// 16 bits, or codes of one type in groups of one size that LaunchCodeProduct takes.
bool HasTensorExpertProduct(Dtype dtype, std::span<const DeviceExpert> experts);

// On tensor cores, as LaunchTensorProduct and LaunchCodeProduct multiply, to the bit. x [rows,
// stride] if `x_by_row`, otherwise [pairs, stride], holds values of `dtype` with zeros from
// `in_features` on. `any`: one of the experts. REQUIRES: HasTensorExpertProduct.
cudaError_t LaunchTensorExpertProduct(const ExpertProductCall& call, const DeviceExpert& any,
                                      const uint16_t* x, bool x_by_row, const RouterShape& shape,
                                      const ExpertRouting& routing, int rows, cudaStream_t stream);

// For any experts; activations are multiplied in f32. x [rows, in_features] if `x_by_row`,
// otherwise [pairs, in_features].
cudaError_t LaunchExpertProduct(const ExpertProductCall& call, const float* x, bool x_by_row,
                                const RouterShape& shape, const ExpertRouting& routing, int rows,
                                cudaStream_t stream);

}  // namespace outrider
