// A weight matrix on the device: [out, stride] of f32, bf16 or f16, zeros behind `in`.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "common/backend/cuda/device_memory.h"
#include "common/backend/packed_matrix.h"
#include "common/base/status.h"
#include "common/tensor/tensor.h"

namespace outrider {

class CudaMatrix final : public PackedMatrix {
 public:
  // As Backend::Pack; kUnimplemented for 8-bit integers.
  static Result<std::unique_ptr<CudaMatrix>> Pack(const TensorView& weight, WeightType type,
                                                  StagedCopy* staging);

  int out_features() const override { return out_; }
  int in_features() const override { return in_; }
  size_t bytes() const override { return buffer_->bytes(); }
  WeightType type() const override { return type_; }
  Dtype dtype() const { return dtype_; }
  // Elements from row to row, a multiple of 8.
  int stride() const { return stride_; }
  template <class T>
  const T* values() const {
    return static_cast<const T*>(buffer_->data());
  }

 private:
  CudaMatrix(std::unique_ptr<CudaBuffer> buffer, WeightType type, Dtype dtype, int out, int in,
             int stride)
      : buffer_(std::move(buffer)),
        type_(type),
        dtype_(dtype),
        out_(out),
        in_(in),
        stride_(stride) {}

  const std::unique_ptr<CudaBuffer> buffer_;
  const WeightType type_;
  const Dtype dtype_;
  const int out_, in_, stride_;
};

}  // namespace outrider
