#include "common/backend/cuda/cuda_matrix.h"

#include <cstring>
#include <limits>
#include <optional>
#include <string>

#include "common/tensor/tensor.h"

namespace outrider {
namespace {

// The element type that a product reads for a weight type.
Dtype ElementsOf(WeightType type) {
  switch (type) {
    case WeightType::kF32: return Dtype::kF32;
    case WeightType::kF16: return Dtype::kF16;
    case WeightType::kBf16:
    case WeightType::kW8A16:
    case WeightType::kW8A8:
    case WeightType::kW4A16:
    case WeightType::kFp8:
    case WeightType::kMxfp4: break;
  }
  return Dtype::kBf16;
}

// The codes to which floats are rounded; nullopt: they stay floats.
std::optional<CodeType> RoundedTo(WeightType type) {
  switch (type) {
    case WeightType::kW8A16:
    case WeightType::kW8A8: return CodeType::kInt8;
    case WeightType::kW4A16: return CodeType::kInt4;
    case WeightType::kF32:
    case WeightType::kF16:
    case WeightType::kBf16:
    case WeightType::kFp8:
    case WeightType::kMxfp4: break;
  }
  return std::nullopt;
}

constexpr int64_t kMaxSide = std::numeric_limits<int>::max() - 8;

Status CheckSides(int64_t out, int64_t in, size_t element) {
  const std::string sides = "[" + std::to_string(out) + ", " + std::to_string(in) + "]";
  if (out < 1 || in < 1 || out > kMaxSide || in > kMaxSide) {
    return InvalidArgument("pack: sides out of range: " + sides);
  }
  if (static_cast<size_t>(in + 7) / 8 * 8 * element > StagedCopy::kPieceBytes) {
    return InvalidArgument("pack: rows too wide: " + sides);
  }
  return {};
}

// Writes row `row` of `weight` as `dtype` to `out`.
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
  if (weight.data == nullptr || weight.shape.size() != 2) {
    return InvalidArgument("pack: not a matrix: " + weight.Describe());
  }
  const int64_t out = weight.shape[0], in = weight.shape[1];
  const Dtype dtype = ElementsOf(type);
  const size_t element = DtypeBytes(dtype);
  OUTRIDER_TRY(CheckSides(out, in, element));
  if (const std::optional<CodeType> codes = RoundedTo(type)) {
    return Pack(RoundMatrix(weight, *codes), type, WeightType::kBf16, staging);
  }
  if (type == WeightType::kFp8) return Unimplemented("floats are not rounded to FP8");
  if (type == WeightType::kMxfp4) return Unimplemented("floats are not rounded to MXFP4");
  const size_t stride = (static_cast<size_t>(in) + 7) / 8 * 8;
  const size_t row_bytes = stride * element, used_bytes = static_cast<size_t>(in) * element;
  const size_t bytes = static_cast<size_t>(out) * row_bytes;
  OUTRIDER_ASSIGN(std::unique_ptr<CudaBuffer> buffer,
                  CudaBuffer::Allocate(MemoryKind::kDevice, bytes, &staging->stream()));
  staging->Write(buffer->data(), bytes, row_bytes,
                 [&](std::byte* piece, size_t first, size_t count) {
                   for (size_t row = first; row < first + count; ++row, piece += row_bytes) {
                     WriteRow(weight, row, dtype, piece);
                     std::memset(piece + used_bytes, 0, row_bytes - used_bytes);
                   }
                 });
  return std::unique_ptr<CudaMatrix>(new CudaMatrix(std::move(buffer), nullptr, type, dtype,
                                                    static_cast<int>(out), static_cast<int>(in),
                                                    static_cast<int>(stride)));
}

Result<std::unique_ptr<CudaMatrix>> CudaMatrix::Pack(const QuantizedMatrix& weight, WeightType type,
                                                     WeightType floats, StagedCopy* staging) {
  const Dtype dtype = ElementsOf(floats);
  OUTRIDER_TRY(CheckSides(weight.rows, weight.columns, DtypeBytes(dtype)));
  OUTRIDER_ASSIGN(std::unique_ptr<CudaCodes> codes, CudaCodes::Upload(weight, staging));
  const auto stride = static_cast<int>((weight.columns + 7) / 8 * 8);
  return std::unique_ptr<CudaMatrix>(new CudaMatrix(nullptr, std::move(codes), type, dtype,
                                                    static_cast<int>(weight.rows),
                                                    static_cast<int>(weight.columns), stride));
}

}  // namespace outrider
