#include "common/backend/cuda/kernels/codes.h"
#include "common/backend/cuda/kernels/device.h"
#include "common/backend/cuda/kernels/widen_codes.h"

namespace outrider {
namespace {

// One block per row; a thread widens eight inputs at a time.
template <class T>
__global__ void WidenCodesKernel(DeviceCodes codes, const int32_t* rows, int stride, T* out) {
  AwaitEarlierKernels();
  const int64_t row = rows != nullptr ? rows[blockIdx.x] : static_cast<int64_t>(blockIdx.x);
  T* const out_row = out + static_cast<int64_t>(blockIdx.x) * stride;
  for (int first = static_cast<int>(threadIdx.x) * 8; first < stride;
       first += static_cast<int>(blockDim.x) * 8) {
    float values[8];
    WidenEight(codes, row, first, values);
    if constexpr (sizeof(T) == 2) {
      if (stride % 8 == 0) {
        StoreEight(out_row + first, values);
        continue;
      }
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (first + i < stride) out_row[first + i] = Narrow<T>(values[i]);
    }
  }
}

}  // namespace

template <class T>
cudaError_t LaunchWidenCodes(const DeviceCodes& codes, const int32_t* rows, int count, int stride,
                             T* out, cudaStream_t stream) {
  return LaunchNext(WidenCodesKernel<T>, static_cast<unsigned>(count),
                    ThreadsForRow((stride + 7) / 8), 0, stream, codes, rows, stride, out);
}
template cudaError_t LaunchWidenCodes(const DeviceCodes&, const int32_t*, int, int, float*,
                                      cudaStream_t);
template cudaError_t LaunchWidenCodes(const DeviceCodes&, const int32_t*, int, int, Bf16*,
                                      cudaStream_t);
template cudaError_t LaunchWidenCodes(const DeviceCodes&, const int32_t*, int, int, F16*,
                                      cudaStream_t);

}  // namespace outrider
