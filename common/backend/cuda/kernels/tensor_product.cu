#include "common/backend/cuda/kernels/float_weights.h"
#include "common/backend/cuda/kernels/product_kernel.h"
#include "common/backend/cuda/kernels/tensor_product.h"

namespace outrider {

template <class T>
cudaError_t LaunchTensorProduct(const T* w, const T* x, int stride, int out_features, int rows,
                                const float* bias, bool accumulate, float* y, cudaStream_t stream) {
  if (rows < 1) return cudaErrorInvalidValue;
  const FloatWeights<T> weights = {w, stride};
  const PlainOutput out = {bias, accumulate, y};
  constexpr int kFew = FloatWeights<T>::kFewTilesM;
  return rows <= 8 ? LaunchProduct<kFew, 1>(weights, x, stride, out_features, rows, out, stream)
                   : LaunchProduct<2, 2>(weights, x, stride, out_features, rows, out, stream);
}
template cudaError_t LaunchTensorProduct(const Bf16*, const Bf16*, int, int, int, const float*,
                                         bool, float*, cudaStream_t);
template cudaError_t LaunchTensorProduct(const F16*, const F16*, int, int, int, const float*, bool,
                                         float*, cudaStream_t);

template <class T>
cudaError_t LaunchGatedProduct(const T* w, const T* x, int stride, int n, int rows,
                               const float* bias, Activation activation, float* out,
                               RoundedRows rounded, cudaStream_t stream) {
  if (rows < 1) return cudaErrorInvalidValue;
  const FloatWeights<T> weights = {w, stride};
  const GatedOutput output = {bias, activation, out, rounded};
  return rows <= 8 ? LaunchProduct<2, 1>(weights, x, stride, n, rows, output, stream)
                   : LaunchProduct<2, 2>(weights, x, stride, n, rows, output, stream);
}
template cudaError_t LaunchGatedProduct(const Bf16*, const Bf16*, int, int, int, const float*,
                                        Activation, float*, RoundedRows, cudaStream_t);
template cudaError_t LaunchGatedProduct(const F16*, const F16*, int, int, int, const float*,
                                        Activation, float*, RoundedRows, cudaStream_t);

}  // namespace outrider
