// The matrix product for many rows: cublasLt in the module. Without one (in host tests) the backend
// multiplies any number of rows with its own kernels.
#pragma once

#include <cuda_runtime.h>

#include <memory>

#include "common/base/status.h"
#include "common/tensor/tensor.h"

namespace outrider {

// y[rows, out] (+)= x[rows, stride] w[out, stride]^T, with y in f32 and the sums too, but for FP8,
// whose sums are as precise as the device makes them.
struct ProductCall {
  const void* w = nullptr;
  const void* x = nullptr;
  Dtype dtype = Dtype::kF32;  // of w and x, unless they are FP8
  // Scales of the rows of w and x, which are then codes E4M3; null: they are floats.
  const float* w_scales = nullptr;
  const float* x_scales = nullptr;
  // If set, the scales are those of blocks of 128 x 128 of w, [out_features / 128, stride / 128
  // rounded up to a multiple of 4], and of 128 inputs of a row of x, [stride / 128, rows], aligned
  // to 16 bytes; w's sides are multiples of 128, and `rows` is one of 4.
  bool in_blocks = false;
  int out_features = 0;
  int stride = 0;  // a multiple of 8, for FP8 of 16; zeros after the inputs
  int rows = 0;
  bool accumulate = false;
  float* y = nullptr;
};

class LargeProduct {
 public:
  virtual ~LargeProduct() = default;
  // Whether there is such a product, by its types, sides and rows; reads no operand.
  virtual bool Supports(const ProductCall& call) = 0;
  // Returns false if there is none after all; y is then unchanged, and Supports says so from then
  // on.
  virtual bool Run(const ProductCall& call, cudaStream_t stream) = 0;
};

// kInternal or kResourceExhausted, with cublasLt's message.
Result<std::unique_ptr<LargeProduct>> CreateCublasProduct();

}  // namespace outrider
