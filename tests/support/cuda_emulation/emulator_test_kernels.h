// Correct and incorrect kernels for the emulator's own test.
#pragma once

#include <cuda_runtime.h>

namespace outrider {

cudaError_t LaunchBlockSum(const float* x, int n, float* sum);
cudaError_t LaunchWarpIds(int* up, int* down, int* broadcast, unsigned* ballot);
cudaError_t LaunchCount(int blocks, int threads, int* counter);
// *at = *at * 10 + digit, so that the order is visible.
cudaError_t LaunchDigit(int* number, int digit, cudaStream_t stream);
// Half of the threads call __syncthreads.
cudaError_t LaunchDivergentBarrier();
// Lanes of one warp are at two different operations.
cudaError_t LaunchDivergentWarp();
// A thread reads its neighbour's shared value without a barrier.
cudaError_t LaunchMissingBarrier(int* out, int threads);
// Writes `count` bytes of a shared memory of `bytes` bytes.
cudaError_t LaunchSharedWrite(int bytes, int count);
// out[b]: the sum of two variables' first elements, of which the second is written by block 0 only,
// if `write`. Accesses the first variable `more` elements beyond its end.
cudaError_t LaunchVariables(int blocks, bool write, int more, float* out);
// Has a variable of 48 or 49 KB beside dynamic memory, which is asked for before if `allow`.
cudaError_t LaunchLargeVariable(int kilobytes, int dynamic_kilobytes, bool allow, char* out);

// Launched by LaunchNext: the last of `threads` threads exits without waiting, unless `wait`.
cudaError_t LaunchAwaiting(int threads, bool wait);

}  // namespace outrider
