// Products of activations with packed matrices, by our own kernels or by a library, and the working
// memory that they need: 16-bit copies of the activations, padded rows, widened codes.
//
// Thread: the backend's owner, with its device selected.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "common/backend/backend.h"
#include "common/backend/cuda/cuda_matrix.h"
#include "common/backend/cuda/device_memory.h"
#include "common/backend/cuda/large_product.h"
#include "common/backend/cuda/rounded_copies.h"
#include "common/backend/device_ops.h"
#include "common/base/status.h"

namespace outrider {

// Whether the activations of products with FP8 weights that have a scale a row, or in blocks of
// 128 x 128 (DeviceCodes::in_blocks), are rounded to FP8 (kernels/fp8_rows.h), where --weights is
// bf16.
struct Fp8Activations {
  bool enabled = false;
  // Called once if the device's library has no products of codes on both sides.
  std::function<void(const std::string&)> warn;
};

class MatrixProducts {
 public:
  // `stream` is the one that products are enqueued on; `rounded` has the copies that the backend's
  // other ops write. Without `large`, our own kernels multiply any number of rows.
  MatrixProducts(const Stream* stream, RoundedCopies* rounded, std::unique_ptr<LargeProduct> large,
                 Fp8Activations fp8)
      : stream_(*stream),
        rounded_(*rounded),
        large_(std::move(large)),
        fp8_(std::move(fp8)),
        padded_(stream),
        ordered_(stream),
        fp8_rows_(stream) {}

  // Allocates what products with `matrix` need, before the first of them. May wait.
  // kResourceExhausted when out of memory.
  Status Prepare(const CudaMatrix& matrix);

  // out[rows, out_features] = x W^T (+ bias), or out += when `accumulate`; rows > 0.
  void Multiply(const CudaMatrix& w, const float* x, int rows, const float* bias, bool accumulate,
                float* out);
  // The same with our own kernels, however many rows there are: a library may sum in another order.
  // REQUIRES: w is f32.
  void MultiplyExactly(const CudaMatrix& w, const float* x, int rows, const float* bias,
                       float* out);
  Fp8Counts fp8_counts() const { return fp8_counts_; }
  // Whether MultiplyGated takes that many rows of w.
  static bool HasGated(const CudaMatrix& w, int rows);
  // Backend::GatedMatMul in one product. REQUIRES: HasGated(w, rows).
  void MultiplyGated(const CudaMatrix& w, const float* x, int rows, const float* bias,
                     Activation activation, float* out, Consumers consumers);

 private:
  // The matrix as floats; if widened from codes, valid until the next call.
  template <class T>
  const T* Floats(const CudaMatrix& matrix);
  // f32 rows as they are, or zero-padded if the matrix's stride is larger than its width.
  const float* Padded(const float* x, int rows, const CudaMatrix& matrix);
  // The 16-bit copy of the rows; with FP8 values where the matrix asks for it, until the next call.
  const uint16_t* Rounded(const float* x, int rows, const CudaMatrix& matrix);
  // The FP8 values of a 16-bit copy of the rows, until the next call.
  const uint16_t* RoundedToFp8(const uint16_t* rounded, int rows, int stride);
  bool RoundsToFp8(const CudaMatrix& matrix) const;
  // Whether the product is a library's, if it has one.
  bool IsLarge(const CudaMatrix& w, int rows) const;
  // The rows in the order of the columns of the matrix's codes.
  template <class T>
  const T* Ordered(const CudaMatrix& matrix, const T* x, int rows);
  template <class T>
  void MultiplyAny(const CudaMatrix& w, const T* x, int rows, const float* bias, bool accumulate,
                   float* out);
  // Multiply with codes on both sides, by the library. Returns false, and nothing has changed, if
  // it has no such product, or this is none.
  bool MultiplyFp8(const CudaMatrix& w, const float* x, int rows, const float* bias,
                   bool accumulate, float* out);
  // Warns once. Returns false.
  bool WarnOfFp8();
  // A product by the library, and the bias. Returns what LargeProduct::Run returns.
  bool RunLarge(const ProductCall& call, const float* bias);
  // With our own kernels. `weights` are not read where codes are.
  template <class T>
  void MultiplyFew(const CudaMatrix& w, const T* weights, const T* x, int rows, const float* bias,
                   bool accumulate, float* out);

  const Stream& stream_;
  RoundedCopies& rounded_;
  const std::unique_ptr<LargeProduct> large_;
  Fp8Activations fp8_;
  Fp8Counts fp8_counts_;
  Scratch padded_, ordered_;
  Scratch fp8_rows_;                     // activations rounded to FP8
  std::unique_ptr<CudaBuffer> widened_;  // the largest matrix of codes, widened to floats
};

}  // namespace outrider
