#include "common/backend/cuda/cuda_matrix.h"

#include <cstring>
#include <limits>

#include "common/tensor/tensor.h"

namespace outrider {
namespace {

// What a weight type's values are kept as; kUnimplemented where there is no product for it.
Result<Dtype> ElementsOf(WeightType type) {
  switch (type) {
    case WeightType::kF32: return Dtype::kF32;
    case WeightType::kF16: return Dtype::kF16;
    case WeightType::kBf16: return Dtype::kBf16;
    case WeightType::kW8A16:
    case WeightType::kW8A8: break;
  }
  return Unimplemented("int8 weights on CUDA: keep them as bf16, f16 or f32");
}

// Row `row` of `weight` as `dtype` at `out`.
void WriteRow(const TensorView& weight, size_t row, Dtype dtype, std::byte* out) {
  const auto width = static_cast<size_t>(weight.shape[1]);
  if (weight.dtype == dtype) {
    const size_t bytes = width * DtypeBytes(weight.dtype);
    std::memcpy(out, static_cast<const std::byte*>(weight.data) + row * bytes, bytes);
    return;
  }
  for (size_t i = 0; i < width; ++i) {
    const float value = LoadElement(weight, row * width + i);
    switch (dtype) {
      case Dtype::kF32: reinterpret_cast<float*>(out)[i] = value; break;
      case Dtype::kF16: reinterpret_cast<uint16_t*>(out)[i] = FloatToF16(value); break;
      case Dtype::kBf16: reinterpret_cast<uint16_t*>(out)[i] = FloatToBf16(value); break;
    }
  }
}

}  // namespace

Result<std::unique_ptr<CudaMatrix>> CudaMatrix::Pack(const TensorView& weight, WeightType type,
                                                     StagedCopy* staging) {
  constexpr int64_t kMaxSide = std::numeric_limits<int>::max() - 8;
  if (weight.data == nullptr || weight.shape.size() != 2) {
    return InvalidArgument("pack: not a matrix: " + weight.Describe());
  }
  const int64_t out = weight.shape[0], in = weight.shape[1];
  if (out < 1 || in < 1 || out > kMaxSide || in > kMaxSide) {
    return InvalidArgument("pack: sides out of range: " + weight.Describe());
  }
  OUTRIDER_ASSIGN(const Dtype dtype, ElementsOf(type));
  const size_t element = DtypeBytes(dtype);
  const size_t stride = (static_cast<size_t>(in) + 7) / 8 * 8;
  const size_t row_bytes = stride * element, used_bytes = static_cast<size_t>(in) * element;
  if (row_bytes > StagedCopy::kPieceBytes) {
    return InvalidArgument("pack: rows too wide: " + weight.Describe());
  }
  const size_t bytes = static_cast<size_t>(out) * row_bytes;
  OUTRIDER_ASSIGN(std::unique_ptr<CudaBuffer> buffer,
                  CudaBuffer::Allocate(MemoryKind::kDevice, bytes));
  staging->Write(buffer->data(), bytes, row_bytes,
                 [&](std::byte* piece, size_t first, size_t count) {
                   for (size_t row = first; row < first + count; ++row, piece += row_bytes) {
                     WriteRow(weight, row, dtype, piece);
                     std::memset(piece + used_bytes, 0, row_bytes - used_bytes);
                   }
                 });
  return std::unique_ptr<CudaMatrix>(new CudaMatrix(std::move(buffer), type, dtype,
                                                    static_cast<int>(out), static_cast<int>(in),
                                                    static_cast<int>(stride)));
}

}  // namespace outrider
