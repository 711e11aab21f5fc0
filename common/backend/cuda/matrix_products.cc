#include "common/backend/cuda/matrix_products.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "common/backend/cuda/kernels/code_product.h"
#include "common/backend/cuda/kernels/codes.h"
#include "common/backend/cuda/kernels/fp8_rows.h"
#include "common/backend/cuda/kernels/rows.h"
#include "common/backend/cuda/kernels/small_product.h"
#include "common/backend/cuda/kernels/tensor_product.h"
#include "common/base/check.h"

namespace outrider {
namespace {

// Whether products of few rows read the matrix's codes as they are.
bool ReadsCodes(const CudaMatrix& matrix) {
  return matrix.dtype() != Dtype::kF32 && matrix.codes() != nullptr &&
         HasCodeProduct(matrix.codes()->view());
}

// Bytes of FP8 codes and a scale for each row, or each block of a row.
size_t Fp8Bytes(int rows, int stride) {
  const auto width = static_cast<size_t>(stride);
  const size_t blocks = (width + kScaleBlock - 1) / kScaleBlock;
  return static_cast<size_t>(rows) * (width + blocks * sizeof(float));
}
// Such a matrix in memory of that size.
Fp8Matrix Fp8In(void* memory, int rows, int stride, bool in_blocks) {
  auto* const codes = static_cast<uint8_t*>(memory);
  const size_t bytes = static_cast<size_t>(rows) * static_cast<size_t>(stride);
  return {codes, reinterpret_cast<float*>(codes + bytes), in_blocks};
}

// The number of rows up to which our own product is faster than a library's.
int FewRows(const CudaMatrix& matrix) {
  if (matrix.dtype() == Dtype::kF32) return kSmallProductRows;
  return ReadsCodes(matrix) ? kCodeProductRows : kTensorProductRows;
}

}  // namespace

Status MatrixProducts::Prepare(const CudaMatrix& matrix) {
  if (RoundsToFp8(matrix)) ++fp8_counts_.matrices;
  if (matrix.dtype() != Dtype::kF32) rounded_.SetType(matrix.dtype());
  const size_t widened = matrix.codes() != nullptr ? matrix.widened_bytes() : 0;
  if (widened > (widened_ != nullptr ? widened_->bytes() : 0)) {
    stream_.Wait();
    widened_.reset();  // before the larger one is allocated
    OUTRIDER_ASSIGN(widened_, CudaBuffer::Allocate(MemoryKind::kDevice, widened, &stream_));
  }
  return {};
}

void MatrixProducts::Multiply(const CudaMatrix& w, const float* x, int rows, const float* bias,
                              bool accumulate, float* out) {
  switch (w.dtype()) {
    case Dtype::kF32: MultiplyAny(w, Padded(x, rows, w), rows, bias, accumulate, out); break;
    case Dtype::kF16:
      MultiplyAny(w, reinterpret_cast<const F16*>(Rounded(x, rows, w)), rows, bias, accumulate,
                  out);
      break;
    case Dtype::kBf16:
      if (MultiplyFp8(w, x, rows, bias, accumulate, out)) break;
      MultiplyAny(w, Rounded(x, rows, w), rows, bias, accumulate, out);
      break;
  }
  rounded_.Overwritten(out);
}

void MatrixProducts::MultiplyExactly(const CudaMatrix& w, const float* x, int rows,
                                     const float* bias, float* out) {
  OUTRIDER_CHECK(w.dtype() == Dtype::kF32 && w.codes() == nullptr);
  rounded_.Overwritten(out);
  MultiplyFew(w, w.values<float>(), Padded(x, rows, w), rows, bias, /*accumulate=*/false, out);
}

bool MatrixProducts::IsLarge(const CudaMatrix& w, int rows) const {
  return large_ != nullptr && rows > FewRows(w);
}

bool MatrixProducts::HasGated(const CudaMatrix& w, int rows) {
  return w.dtype() != Dtype::kF32 && rows <= FewRows(w) &&
         (!ReadsCodes(w) || HasGatedCodeProduct(w.codes()->view(), w.out_features() / 2));
}

void MatrixProducts::MultiplyGated(const CudaMatrix& w, const float* x, int rows, const float* bias,
                                   Activation activation, float* out, Consumers consumers) {
  const uint16_t* const rounded = Rounded(x, rows, w);
  const int n = w.out_features() / 2;
  const RoundedCopies::Output to =
      rounded_.OutputFor(consumers, rows, n, out);  // in other memory than `rounded`
  const auto launch = [&](auto element) {
    using T = decltype(element);
    const T* const inputs = reinterpret_cast<const T*>(rounded);
    if (ReadsCodes(w)) {
      return LaunchGatedCodeProduct(w.codes()->view(), Ordered(w, inputs, rows), w.stride(), n,
                                    rows, bias, activation, to.floats, to.rounded, stream_.get());
    }
    return LaunchGatedProduct(Floats<T>(w), inputs, w.stride(), n, rows, bias, activation,
                              to.floats, to.rounded, stream_.get());
  };
  MustSucceed(w.dtype() == Dtype::kF16 ? launch(F16{}) : launch(Bf16{}), "gated product");
}

template <class T>
const T* MatrixProducts::Floats(const CudaMatrix& matrix) {
  if (matrix.codes() == nullptr) return matrix.values<T>();
  T* const out = static_cast<T*>(widened_->data());
  MustSucceed(LaunchWidenCodes(matrix.codes()->view(), nullptr, matrix.out_features(),
                               matrix.stride(), out, stream_.get()),
              "widening weights");
  return out;
}

bool MatrixProducts::RoundsToFp8(const CudaMatrix& matrix) const {
  if (!fp8_.enabled || matrix.codes() == nullptr || matrix.dtype() != Dtype::kBf16) {
    return false;
  }
  const DeviceCodes& codes = matrix.codes()->view();
  return codes.type == CodeType::kFp8E4M3 && (codes.groups == 1 || codes.in_blocks) &&
         codes.column_of_input == nullptr && codes.offsets == nullptr;
}

const uint16_t* MatrixProducts::Rounded(const float* x, int rows, const CudaMatrix& matrix) {
  const int stride = matrix.stride();
  const uint16_t* const rounded = rounded_.Of(x, rows, matrix.in_features(), stride);
  return RoundsToFp8(matrix) ? RoundedToFp8(rounded, rows, stride) : rounded;
}

const uint16_t* MatrixProducts::RoundedToFp8(const uint16_t* rounded, int rows, int stride) {
  auto* const fp8 = static_cast<uint16_t*>(fp8_rows_.AtLeast(
      static_cast<size_t>(rows) * static_cast<size_t>(stride) * sizeof(uint16_t)));
  MustSucceed(LaunchRoundToFp8(rounded, rows, stride, fp8, stream_.get()), "rounding to FP8");
  return fp8;
}

bool MatrixProducts::MultiplyFp8(const CudaMatrix& w, const float* x, int rows, const float* bias,
                                 bool accumulate, float* out) {
  constexpr int kMultiple = 16;  // of a matrix's sides
  const int width = w.out_features(), stride = w.stride();
  if (!RoundsToFp8(w) || !IsLarge(w, rows) || width % kMultiple != 0 || stride % kMultiple != 0) {
    return false;
  }
  const bool in_blocks = w.codes()->view().groups > 1;  // a single group has a scale for each row
  // With blocks the library takes multiples of 4 rows, and our own product the others.
  const int many = in_blocks ? rows / 4 * 4 : rows;
  if (!IsLarge(w, many)) {  // a library's algorithms are not chosen for so few rows
    MultiplyFew<Bf16>(w, nullptr, Rounded(x, rows, w), rows, bias, accumulate, out);
    return true;
  }
  const Fp8Matrix inputs =
      Fp8In(fp8_rows_.AtLeast(Fp8Bytes(many, stride)), many, stride, in_blocks);
  // They take no more than the matrix in bf16.
  const Fp8Matrix weights = Fp8In(widened_->data(), width, stride, in_blocks);
  const ProductCall call = {.w = weights.codes,
                            .x = inputs.codes,
                            .w_scales = weights.scales,
                            .x_scales = inputs.scales,
                            .in_blocks = in_blocks,
                            .out_features = width,
                            .stride = stride,
                            .rows = many,
                            .accumulate = accumulate,
                            .y = out};
  if (!large_->Supports(call)) return WarnOfFp8();
  const uint16_t* const rounded = rounded_.Of(x, rows, w.in_features(), stride);
  MustSucceed(LaunchRoundToFp8(rounded, many, stride, inputs, stream_.get()), "rounding to FP8");
  MustSucceed(LaunchPlainCodes(w.codes()->view(), width, stride, weights, stream_.get()),
              "ordering weights");
  if (!RunLarge(call, bias)) return WarnOfFp8();
  ++fp8_counts_.products;
  if (many < rows) {
    const uint16_t* const others =
        RoundedToFp8(rounded + static_cast<int64_t>(many) * stride, rows - many, stride);
    MultiplyFew<Bf16>(w, nullptr, others, rows - many, bias, accumulate,
                      out + static_cast<int64_t>(many) * width);
  }
  return true;
}

bool MatrixProducts::WarnOfFp8() {
  if (fp8_.warn) {
    fp8_.warn(
        "cublasLt has no product of FP8 with FP8, with a scale for each row or block, on this "
        "device (or not for each size): activations are rounded to FP8, but weights are widened to "
        "bf16");
  }
  fp8_.warn = nullptr;
  return false;
}

bool MatrixProducts::RunLarge(const ProductCall& call, const float* bias) {
  if (!large_->Run(call, stream_.get())) return false;
  if (bias != nullptr) {
    MustSucceed(LaunchBias(bias, call.rows, call.out_features, call.y, stream_.get()), "bias");
  }
  return true;
}

const float* MatrixProducts::Padded(const float* x, int rows, const CudaMatrix& matrix) {
  if (matrix.stride() == matrix.in_features()) return x;
  const auto height = static_cast<size_t>(rows);
  const size_t pitch = static_cast<size_t>(matrix.stride()) * sizeof(float);
  const size_t width = static_cast<size_t>(matrix.in_features()) * sizeof(float);
  auto* padded = static_cast<float*>(padded_.AtLeast(height * pitch));
  MustSucceed(cudaMemsetAsync(padded, 0, height * pitch, stream_.get()), "padding");
  MustSucceed(cudaMemcpy2DAsync(padded, pitch, x, width, width, height, cudaMemcpyDeviceToDevice,
                                stream_.get()),
              "padding");
  return padded;
}

template <class T>
const T* MatrixProducts::Ordered(const CudaMatrix& matrix, const T* x, int rows) {
  const DeviceCodes& codes = matrix.codes()->view();
  if (codes.column_of_input == nullptr) return x;
  T* const ordered = static_cast<T*>(ordered_.AtLeast(
      static_cast<size_t>(rows) * static_cast<size_t>(matrix.stride()) * sizeof(T)));
  MustSucceed(LaunchOrderInputs(codes, x, matrix.stride(), rows, ordered, stream_.get()),
              "ordering inputs");
  return ordered;
}

template <class T>
void MatrixProducts::MultiplyAny(const CudaMatrix& w, const T* x, int rows, const float* bias,
                                 bool accumulate, float* out) {
  const bool is_large = IsLarge(w, rows);
  const T* const weights = is_large || !ReadsCodes(w) ? Floats<T>(w) : nullptr;
  if (is_large && RunLarge({.w = weights,
                            .x = x,
                            .dtype = w.dtype(),
                            .out_features = w.out_features(),
                            .stride = w.stride(),
                            .rows = rows,
                            .accumulate = accumulate,
                            .y = out},
                           bias)) {
    return;
  }
  MultiplyFew(w, weights, x, rows, bias, accumulate, out);
}

template <class T>
void MatrixProducts::MultiplyFew(const CudaMatrix& w, const T* weights, const T* x, int rows,
                                 const float* bias, bool accumulate, float* out) {
  const int width = w.out_features();
  if constexpr (sizeof(T) == 2) {
    const cudaError_t launched =
        ReadsCodes(w) ? LaunchCodeProduct(w.codes()->view(), Ordered(w, x, rows), w.stride(), width,
                                          rows, bias, accumulate, out, stream_.get())
                      : LaunchTensorProduct(weights, x, w.stride(), width, rows, bias, accumulate,
                                            out, stream_.get());
    MustSucceed(launched, "matrix product");
  } else {
    for (int first = 0; first < rows; first += kSmallProductRows) {
      const int count = std::min(kSmallProductRows, rows - first);
      MustSucceed(LaunchSmallProduct(weights, x + static_cast<int64_t>(first) * w.stride(),
                                     w.stride(), width, count, bias, accumulate,
                                     out + static_cast<int64_t>(first) * width, stream_.get()),
                  "matrix product");
    }
  }
}

}  // namespace outrider
