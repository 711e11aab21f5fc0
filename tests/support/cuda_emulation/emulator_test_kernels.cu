#include "common/backend/cuda/launch.h"
#include "tests/support/cuda_emulation/emulator_test_kernels.h"

namespace outrider {
namespace {

__global__ void BlockSumKernel(const float* x, int n, float* sum) {
  OUTRIDER_SHARED(float[32], warp_sums);
  float own = 0.f;
  for (unsigned i = threadIdx.x; i < static_cast<unsigned>(n); i += blockDim.x) own += x[i];
  for (int step = 16; step > 0; step /= 2) own += __shfl_xor_sync(kFullWarp, own, step);
  if (threadIdx.x % 32 == 0) warp_sums[threadIdx.x / 32] = own;
  __syncthreads();
  if (threadIdx.x != 0) return;
  float all = 0.f;
  for (unsigned w = 0; w < blockDim.x / 32; ++w) all += warp_sums[w];
  *sum = all;
}

__global__ void WarpIdsKernel(int* up, int* down, int* broadcast, unsigned* ballot) {
  const int lane = static_cast<int>(threadIdx.x);
  up[lane] = __shfl_up_sync(kFullWarp, lane, 3);
  down[lane] = __shfl_down_sync(kFullWarp, lane, 5);
  broadcast[lane] = __shfl_sync(kFullWarp, lane, 7);
  ballot[lane] = __ballot_sync(kFullWarp, lane % 3 == 0);
}

__global__ void CountKernel(int* counter) { atomicAdd(counter, 1); }

__global__ void DigitKernel(int* number, int digit) { *number = *number * 10 + digit; }

__global__ void DivergentBarrierKernel() {
  if (threadIdx.x < 32) __syncthreads();
}

__global__ void DivergentWarpKernel(int* out) {
  if (threadIdx.x < 16) {
    __syncwarp();
  } else {
    *out = __shfl_sync(kFullWarp, 1, 0);
  }
}

__global__ void MissingBarrierKernel(int* out) {
  OUTRIDER_DYNAMIC_SHARED(int, values);
  const unsigned i = threadIdx.x;
  values[i] = static_cast<int>(i);
  out[i] = values[(i + 1) % blockDim.x];
}

__global__ void SharedWriteKernel(int count) {
  OUTRIDER_DYNAMIC_SHARED(char, bytes);
  for (int i = 0; i < count; ++i) bytes[i] = 1;
}

// Sums two variables of which a block has written the first, and adds the second's first element.
__global__ void VariablesKernel(bool write, int more, float* out) {
  OUTRIDER_SHARED(float[32], first);
  OUTRIDER_SHARED(float[8], second);
  first[threadIdx.x] = 1.f;
  if (write && blockIdx.x == 0 && threadIdx.x == 0) second[0] = 5.f;
  float* const values = first;  // of a length that the compiler cannot check
  values[static_cast<int>(threadIdx.x) + more] = 2.f;
  __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = first[0] + second[0];
}

template <int kBytes>
__global__ void LargeVariableKernel(char* out) {
  OUTRIDER_SHARED(char[kBytes], bytes);
  bytes[kBytes - 1] = 7;
  *out = bytes[kBytes - 1];
}

__global__ void AwaitingKernel(bool wait) {
  if (!wait && threadIdx.x + 1 == blockDim.x) return;
  AwaitEarlierKernels();
}

}  // namespace

cudaError_t LaunchBlockSum(const float* x, int n, float* sum) {
  return Launch(BlockSumKernel, 1, 128, 0, nullptr, x, n, sum);
}
cudaError_t LaunchWarpIds(int* up, int* down, int* broadcast, unsigned* ballot) {
  return Launch(WarpIdsKernel, 1, 32, 0, nullptr, up, down, broadcast, ballot);
}
cudaError_t LaunchCount(int blocks, int threads, int* counter) {
  return Launch(CountKernel, dim3(static_cast<unsigned>(blocks), 2, 3),
                static_cast<unsigned>(threads), 0, nullptr, counter);
}
cudaError_t LaunchDigit(int* number, int digit, cudaStream_t stream) {
  return Launch(DigitKernel, 1, 1, 0, stream, number, digit);
}
cudaError_t LaunchDivergentBarrier() { return Launch(DivergentBarrierKernel, 3, 64, 0, nullptr); }
cudaError_t LaunchDivergentWarp() {
  static int out = 0;
  return Launch(DivergentWarpKernel, 1, 32, 0, nullptr, &out);
}
cudaError_t LaunchMissingBarrier(int* out, int threads) {
  return Launch(MissingBarrierKernel, 1, static_cast<unsigned>(threads),
                static_cast<size_t>(threads) * sizeof(int), nullptr, out);
}
cudaError_t LaunchSharedWrite(int bytes, int count) {
  return Launch(SharedWriteKernel, 1, 1, static_cast<size_t>(bytes), nullptr, count);
}

cudaError_t LaunchVariables(int blocks, bool write, int more, float* out) {
  return Launch(VariablesKernel, static_cast<unsigned>(blocks), 32, 0, nullptr, write, more, out);
}
cudaError_t LaunchLargeVariable(int kilobytes, int dynamic_kilobytes, bool allow, char* out) {
  const size_t dynamic = static_cast<size_t>(dynamic_kilobytes) << 10;
  const auto launch = [&](auto* kernel) {
    if (allow) {
      const cudaError_t error = AllowShared(kernel, dynamic);
      if (error != cudaSuccess) return error;
    }
    return Launch(kernel, 1, 1, dynamic, nullptr, out);
  };
  return kilobytes == 48 ? launch(LargeVariableKernel<(48 << 10)>)
                         : launch(LargeVariableKernel<(49 << 10)>);
}

cudaError_t LaunchAwaiting(int threads, bool wait) {
  return LaunchNext(AwaitingKernel, 2, static_cast<unsigned>(threads), 0, nullptr, wait);
}

}  // namespace outrider
