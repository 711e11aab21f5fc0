#include "common/backend/cuda/kernels/codes.h"
#include "common/backend/cuda/kernels/device.h"

namespace outrider {
namespace {

// The subnormals are multiples of 2^-9; other exponents have a bias of 7 instead of f32's 127.
__device__ inline float WidenFp8(unsigned code) {
  const unsigned magnitude = code & 0x7f;
  const float value = magnitude < 8 ? static_cast<float>(magnitude) * 0x1p-9f
                                    : __uint_as_float((magnitude << 20) + (120u << 23));
  return (code & 0x80) != 0 ? -value : value;
}

__device__ inline float WidenCode(const DeviceCodes& codes, const uint8_t* row, int column) {
  switch (codes.type) {
    case CodeType::kInt4: return static_cast<float>(row[column / 2] >> column % 2 * 4 & 15);
    case CodeType::kInt8: return static_cast<float>(static_cast<int8_t>(row[column]));
    case CodeType::kFp8E4M3: return WidenFp8(row[column]);
  }
  return 0.f;
}

// One block a row.
template <class T>
__global__ void WidenCodesKernel(DeviceCodes codes, const int32_t* rows, int stride, T* out) {
  const int64_t row = rows != nullptr ? rows[blockIdx.x] : static_cast<int64_t>(blockIdx.x);
  const uint8_t* const of_row = codes.codes + row * codes.row_bytes;
  T* const to = out + static_cast<int64_t>(blockIdx.x) * stride;
  for (int i = static_cast<int>(threadIdx.x); i < stride; i += static_cast<int>(blockDim.x)) {
    float value = 0.f;
    if (i < codes.columns) {
      const int column = codes.column_of_input != nullptr ? codes.column_of_input[i] : i;
      const int64_t group = row * codes.groups + column / codes.group_size;
      const float offset = codes.offsets != nullptr ? codes.offsets[group] : 0.f;
      value = WidenCode(codes, of_row, column) * codes.scales[group] + offset;
    }
    to[i] = Narrow<T>(value);
  }
}

}  // namespace

template <class T>
cudaError_t LaunchWidenCodes(const DeviceCodes& codes, const int32_t* rows, int count, int stride,
                             T* out, cudaStream_t stream) {
  return Launch(WidenCodesKernel<T>, static_cast<unsigned>(count), ThreadsForRow(stride), 0, stream,
                codes, rows, stride, out);
}
template cudaError_t LaunchWidenCodes(const DeviceCodes&, const int32_t*, int, int, float*,
                                      cudaStream_t);
template cudaError_t LaunchWidenCodes(const DeviceCodes&, const int32_t*, int, int, Bf16*,
                                      cudaStream_t);
template cudaError_t LaunchWidenCodes(const DeviceCodes&, const int32_t*, int, int, F16*,
                                      cudaStream_t);

}  // namespace outrider
