#include "common/backend/cuda/kernels/block.h"
#include "common/backend/cuda/kernels/code_layout.h"
#include "common/backend/cuda/kernels/device.h"
#include "common/backend/cuda/kernels/fp8_rows.h"
#include "common/backend/cuda/kernels/widen_codes.h"
#include "common/math/fp4.h"

namespace outrider {
namespace {

constexpr int kThreads = 256;
// As ExponentToFloat takes them: of 1, and of the least scale, 2^-117.
constexpr int kOne = 127, kLeastExponent = kOne - 117;

// The exponent of the scale of a row whose largest magnitude is `most`, which is finite.
__device__ inline int ScaleExponent(float most) {
  const unsigned bits = __float_as_uint(most);
  const auto exponent = static_cast<int>(bits >> 23);
  // 448 is 1.75 x 2^8.
  const int above = (bits & 0x7fffffu) > 0x600000u ? 7 : 8;
  return max(exponent - above, kLeastExponent);
}

__device__ inline void StoreCodes(const Fp8Matrix& out, int64_t row, int stride, int i,
                                  const uint8_t (&codes)[8]) {
  uint2 words;
  memcpy(&words, codes, sizeof words);
  *reinterpret_cast<uint2*>(out.codes + row * stride + i) = words;
}

// The grid has a block for each row.
__device__ inline void StoreFp8(const Fp8Matrix& out, int64_t row, int stride, int i, float scale,
                                const uint8_t (&codes)[8]) {
  StoreCodes(out, row, stride, i, codes);
  if (i == 0 || (out.in_blocks && i % kScaleBlock == 0)) {
    out.scales[static_cast<int64_t>(i / kScaleBlock) * gridDim.x + row] = scale;
  }
}
__device__ inline void StoreFp8(Bf16* out, int64_t row, int stride, int i, float scale,
                                const uint8_t (&codes)[8]) {
  float values[8];
#pragma unroll
  for (int k = 0; k < 8; ++k) values[k] = Fp8ToFloat(codes[k]) * scale;
  StoreEight(out + row * stride + i, values);
}

// One block per row; a thread has eight neighbouring values at a time. Out: Fp8Matrix or Bf16*.
template <class Out>
__global__ void __launch_bounds__(kThreads) RoundToFp8Kernel(const Bf16* x, int stride, Out out) {
  AwaitEarlierKernels();
  OUTRIDER_SHARED(float[kMaxWarps], warp_results);
  const int64_t row = blockIdx.x;
  const Bf16* const in = x + row * stride;
  const int first = static_cast<int>(threadIdx.x) * 8, step = kThreads * 8;
  float values[8];
  float most = 0.f;
  for (int i = first; i < stride; i += step) {
    LoadEight(in + i, values);
#pragma unroll
    for (const float value : values) most = fmaxf(most, fabsf(value));
  }
  most = BlockReduce(most, warp_results, Largest());
  const bool is_finite = most < INFINITY;
  const int exponent = is_finite ? ScaleExponent(most) : kOne;
  const float scale = ExponentToFloat(static_cast<uint8_t>(exponent));
  const float inverse = ExponentToFloat(static_cast<uint8_t>(2 * kOne - exponent));
  for (int i = first; i < stride; i += step) {
    LoadEight(in + i, values);
    uint8_t codes[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) codes[k] = FloatToFp8(is_finite ? values[k] * inverse : NAN);
    StoreFp8(out, row, stride, i, scale, codes);
  }
}

// One block per row; a thread has eight codes at a time.
__global__ void PlainCodesKernel(DeviceCodes matrix, int stride, Fp8Matrix out) {
  AwaitEarlierKernels();
  const int64_t row = blockIdx.x;
  for (int first = static_cast<int>(threadIdx.x) * 8; first < stride;
       first += static_cast<int>(blockDim.x) * 8) {
    const EightCodes eight = LoadEightCodes(matrix, row, first);
    uint8_t codes[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      codes[k] = static_cast<uint8_t>(CodeOfEight(matrix.type, eight.words, k));
    }
    StoreCodes(out, row, stride, first, codes);
  }
  if (!out.in_blocks) {
    if (threadIdx.x == 0) out.scales[row] = matrix.scales[ScaleAt(1, row, 0)];
  } else if (row % kScaleBlock == 0) {
    const int padded = (matrix.groups + 3) / 4 * 4;
    float* const scales = out.scales + row / kScaleBlock * padded;
    for (int group = static_cast<int>(threadIdx.x); group < padded;
         group += static_cast<int>(blockDim.x)) {
      scales[group] =
          group < matrix.groups ? matrix.scales[ScaleAt(matrix.groups, row, group)] : 0.f;
    }
  }
}

}  // namespace

cudaError_t LaunchRoundToFp8(const Bf16* x, int rows, int stride, Fp8Matrix out,
                             cudaStream_t stream) {
  return LaunchNext(RoundToFp8Kernel<Fp8Matrix>, static_cast<unsigned>(rows), kThreads, 0, stream,
                    x, stride, out);
}
cudaError_t LaunchRoundToFp8(const Bf16* x, int rows, int stride, Bf16* out, cudaStream_t stream) {
  return LaunchNext(RoundToFp8Kernel<Bf16*>, static_cast<unsigned>(rows), kThreads, 0, stream, x,
                    stride, out);
}

cudaError_t LaunchPlainCodes(const DeviceCodes& matrix, int rows, int stride, Fp8Matrix out,
                             cudaStream_t stream) {
  return LaunchNext(PlainCodesKernel, static_cast<unsigned>(rows), ThreadsForRow((stride + 7) / 8),
                    0, stream, matrix, stride, out);
}

}  // namespace outrider
