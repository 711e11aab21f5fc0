// A weight matrix on the device: [out, stride] of f32, bf16 or f16, zero-padded beyond `in`; or
// codes, which products of few rows read as they are (kernels/code_product.h) and others widen to
// such a matrix first.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "common/backend/cuda/cuda_codes.h"
#include "common/backend/cuda/device_memory.h"
#include "common/backend/packed_matrix.h"
#include "common/base/status.h"
#include "common/tensor/tensor.h"

namespace outrider {

class CudaMatrix final : public PackedMatrix {
 public:
  // As Backend::Pack. Floats that are rounded to codes are widened to bf16 for a product.
  static Result<std::unique_ptr<CudaMatrix>> Pack(const TensorView& weight, WeightType type,
                                                  StagedCopy* staging);
  static Result<std::unique_ptr<CudaMatrix>> Pack(const QuantizedMatrix& weight, WeightType type,
                                                  WeightType floats, StagedCopy* staging);

  int out_features() const override { return out_; }
  int in_features() const override { return in_; }
  size_t bytes() const override { return codes_ != nullptr ? codes_->bytes() : buffer_->bytes(); }
  WeightType type() const override { return type_; }
  // Element type of the matrix that the product reads.
  Dtype dtype() const { return dtype_; }
  // Null if the matrix is floats.
  const CudaCodes* codes() const { return codes_.get(); }
  size_t widened_bytes() const {
    return static_cast<size_t>(out_) * static_cast<size_t>(stride_) * DtypeBytes(dtype_);
  }
  // Elements between rows, a multiple of 8.
  int stride() const { return stride_; }
  // REQUIRES: codes() is null.
  template <class T>
  const T* values() const {
    return static_cast<const T*>(buffer_->data());
  }

 private:
  CudaMatrix(std::unique_ptr<CudaBuffer> buffer, std::unique_ptr<CudaCodes> codes, WeightType type,
             Dtype dtype, int out, int in, int stride)
      : buffer_(std::move(buffer)),
        codes_(std::move(codes)),
        type_(type),
        dtype_(dtype),
        out_(out),
        in_(in),
        stride_(stride) {}

  const std::unique_ptr<CudaBuffer> buffer_;  // one of the two is null
  const std::unique_ptr<CudaCodes> codes_;
  const WeightType type_;
  const Dtype dtype_;
  const int out_, in_, stride_;
};

}  // namespace outrider
