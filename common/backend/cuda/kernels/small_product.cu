#include "common/backend/cuda/kernels/device.h"
#include "common/backend/cuda/kernels/small_product.h"

namespace outrider {
namespace {

constexpr int kWarps = 4;    // per block
constexpr int kOutputs = 2;  // rows of W per warp: x is read once for both

// w [out_features, stride], x [kRows, stride], y [kRows, out_features].
//
// The sum over k is computed lane by lane (lane l has the groups of eight l, l + 32, ...), then
// over the lanes: the order is the same for every number of rows.
template <int kRows>
__global__ void __launch_bounds__(kWarps* kWarpSize)
    SmallProductKernel(const float* w, const float* x, int stride, int out_features,
                       const float* bias, bool accumulate, float* y) {
  AwaitEarlierKernels();
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int first = (static_cast<int>(blockIdx.x) * kWarps + warp) * kOutputs;
  if (first >= out_features) return;
  // The last warp may have one row fewer: it then computes the last one twice.
  const float* weight_row[kOutputs];
#pragma unroll
  for (int o = 0; o < kOutputs; ++o) {
    weight_row[o] = w + static_cast<int64_t>(min(first + o, out_features - 1)) * stride;
  }
  float sum[kOutputs][kRows] = {};
  for (int k = lane * 8; k < stride; k += kWarpSize * 8) {
    float weight[kOutputs][8];
#pragma unroll
    for (int o = 0; o < kOutputs; ++o) LoadEight(weight_row[o] + k, weight[o]);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      float value[8];
      LoadEight(x + static_cast<int64_t>(r) * stride + k, value);
#pragma unroll
      for (int o = 0; o < kOutputs; ++o) {
#pragma unroll
        for (int i = 0; i < 8; ++i) sum[o][r] = fmaf(weight[o][i], value[i], sum[o][r]);
      }
    }
  }
  // Output o of row r is value o * kPadded + r, rows padded to a power of two.
  constexpr int kPadded = kRows <= 1 ? 1 : kRows <= 2 ? 2 : kRows <= 4 ? 4 : 8;
  constexpr int kLanesOfSum = kWarpSize / (kOutputs * kPadded);
  float total[kOutputs * kPadded] = {};
#pragma unroll
  for (int o = 0; o < kOutputs; ++o) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) total[o * kPadded + r] = sum[o][r];
  }
  WarpSums(total);
  const int output = first + lane / kLanesOfSum / kPadded, row = lane / kLanesOfSum % kPadded;
  if (lane % kLanesOfSum != 0 || row >= kRows || output >= out_features) return;
  float& result = y[static_cast<int64_t>(row) * out_features + output];
  const float with_bias = bias == nullptr ? total[0] : total[0] + bias[output];
  result = accumulate ? result + with_bias : with_bias;
}

}  // namespace

cudaError_t LaunchSmallProduct(const float* w, const float* x, int stride, int out_features,
                               int rows, const float* bias, bool accumulate, float* y,
                               cudaStream_t stream) {
  const auto launch = [&](auto kernel) {
    return LaunchNext(kernel, Blocks(out_features, kWarps * kOutputs), kWarps * kWarpSize, 0,
                      stream, w, x, stride, out_features, bias, accumulate, y);
  };
  switch (rows) {
    case 1: return launch(SmallProductKernel<1>);
    case 2: return launch(SmallProductKernel<2>);
    case 3: return launch(SmallProductKernel<3>);
    case 4: return launch(SmallProductKernel<4>);
    case 5: return launch(SmallProductKernel<5>);
    case 6: return launch(SmallProductKernel<6>);
    case 7: return launch(SmallProductKernel<7>);
    case 8: return launch(SmallProductKernel<8>);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace outrider
