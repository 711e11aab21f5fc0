#include <bit>
#include <type_traits>

#include "common/backend/cuda/kernels/code_product.h"
#include "common/backend/cuda/kernels/code_weights.h"
#include "common/backend/cuda/kernels/product_kernel.h"

namespace outrider {
namespace {

template <class T, class Output>
cudaError_t LaunchByType(const DeviceCodes& codes, const T* x, int stride, int n, int rows,
                         const Output& out, cudaStream_t stream) {
  if (rows < 1) return cudaErrorInvalidValue;
  return ByType<T>(codes, [&](const auto& weights) {
    constexpr int kFew = std::decay_t<decltype(weights)>::kFewTilesM;
    return rows <= 8 ? LaunchProduct<kFew, 1>(weights, x, stride, n, rows, out, stream)
                     : LaunchProduct<2, 2>(weights, x, stride, n, rows, out, stream);
  });
}

// Blocks along y are rows.
template <class T>
__global__ void OrderInputsKernel(const int32_t* column_of_input, int columns, const T* x,
                                  int stride, T* out) {
  AwaitEarlierKernels();
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= stride) return;
  const int64_t row = static_cast<int64_t>(blockIdx.y) * stride;
  out[row + (i < columns ? column_of_input[i] : i)] = i < columns ? x[row + i] : T{};
}

}  // namespace

bool HasCodeProduct(const DeviceCodes& codes) {
  const bool is_integer = codes.type == CodeType::kInt4 || codes.type == CodeType::kInt8;
  if (codes.offsets != nullptr && !is_integer) return false;
  if (codes.groups == 1) return true;
  return codes.group_size >= 32 && std::has_single_bit(static_cast<unsigned>(codes.group_size));
}

template <class T>
cudaError_t LaunchCodeProduct(const DeviceCodes& codes, const T* x, int stride, int out_features,
                              int rows, const float* bias, bool accumulate, float* y,
                              cudaStream_t stream) {
  return LaunchByType(codes, x, stride, out_features, rows, PlainOutput{bias, accumulate, y},
                      stream);
}
template cudaError_t LaunchCodeProduct(const DeviceCodes&, const Bf16*, int, int, int, const float*,
                                       bool, float*, cudaStream_t);
template cudaError_t LaunchCodeProduct(const DeviceCodes&, const F16*, int, int, int, const float*,
                                       bool, float*, cudaStream_t);

template <class T>
cudaError_t LaunchGatedCodeProduct(const DeviceCodes& codes, const T* x, int stride, int n,
                                   int rows, const float* bias, Activation activation, float* out,
                                   RoundedRows rounded, cudaStream_t stream) {
  return LaunchByType(codes, x, stride, n, rows, GatedOutput{bias, activation, out, rounded},
                      stream);
}
template cudaError_t LaunchGatedCodeProduct(const DeviceCodes&, const Bf16*, int, int, int,
                                            const float*, Activation, float*, RoundedRows,
                                            cudaStream_t);
template cudaError_t LaunchGatedCodeProduct(const DeviceCodes&, const F16*, int, int, int,
                                            const float*, Activation, float*, RoundedRows,
                                            cudaStream_t);

template <class T>
cudaError_t LaunchOrderInputs(const DeviceCodes& codes, const T* x, int stride, int rows, T* out,
                              cudaStream_t stream) {
  constexpr int kThreads = 256;
  const dim3 grid(Blocks(stride, kThreads), static_cast<unsigned>(rows));
  return LaunchNext(OrderInputsKernel<T>, grid, kThreads, 0, stream, codes.column_of_input,
                    codes.columns, x, stride, out);
}
template cudaError_t LaunchOrderInputs(const DeviceCodes&, const Bf16*, int, int, Bf16*,
                                       cudaStream_t);
template cudaError_t LaunchOrderInputs(const DeviceCodes&, const F16*, int, int, F16*,
                                       cudaStream_t);

}  // namespace outrider
