#include "common/backend/cuda/kernels/tensor_core.h"
#include "common/backend/cuda/launch.h"
#include "tests/support/cuda_emulation/tensor_core_test_kernels.h"

namespace outrider {
namespace {

constexpr int kStride = 24;  // elements per row in shared memory

__device__ unsigned Two(uint16_t low, uint16_t high) {
  return low | static_cast<unsigned>(high) << 16;
}

__global__ void MatrixProductKernel(Fragments how, const uint16_t* a, const uint16_t* b,
                                    const float* c, float* d) {
  OUTRIDER_DYNAMIC_SHARED(uint16_t, shared);
  const int lane = static_cast<int>(threadIdx.x), g = lane / 4, t = lane % 4;
  unsigned fragment_a[4], fragment_b[4];
  float sum[4];
  for (int i = 0; i < 4; ++i) sum[i] = c[(g + i / 2 * 8) * 8 + 2 * t + i % 2];
  if (how == Fragments::kByHand) {
    for (int i = 0; i < 4; ++i) {
      const uint16_t* pair = a + (g + i % 2 * 8) * 16 + 2 * t + i / 2 * 8;
      fragment_a[i] = Two(pair[0], pair[1]);
    }
    for (int i = 0; i < 2; ++i) {
      const uint16_t* pair = b + (2 * t + i * 8) * 8 + g;
      fragment_b[i] = Two(pair[0], pair[8]);
    }
  } else {
    uint16_t* const b_by_column = shared + 16 * kStride;  // [8, 16], then [16, 8]
    uint16_t* const b_by_row = b_by_column + 8 * kStride;
    for (int i = lane; i < 16 * 16; i += 32) shared[i / 16 * kStride + i % 16] = a[i];
    for (int i = lane; i < 16 * 8; i += 32) {
      b_by_column[i % 8 * kStride + i / 8] = b[i];
      b_by_row[i / 8 * kStride + i % 8] = b[i];
    }
    __syncthreads();
    LoadMatrices(shared + lane % 16 * kStride + lane / 16 * 8, fragment_a);
    // Of four matrices, the last two repeat the first two.
    if (how == Fragments::kLoaded) {
      LoadMatrices(b_by_column + lane % 8 * kStride + lane / 8 % 2 * 8, fragment_b);
    } else {
      LoadTransposed(b_by_row + lane % 16 * kStride, fragment_b);
    }
  }
  TensorCore<Bf16>::MultiplyAdd(fragment_a, fragment_b[0], fragment_b[1], sum);
  for (int i = 0; i < 4; ++i) d[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = sum[i];
}

__global__ void HalfAProductKernel() {
  const unsigned a[4] = {};
  float c[4] = {};
  if (threadIdx.x % 2 == 0) TensorCore<Bf16>::MultiplyAdd(a, 0, 0, c);
}

__global__ void HalfALoadKernel() {
  OUTRIDER_DYNAMIC_SHARED(uint16_t, shared);
  unsigned out[4];
  if (threadIdx.x < 16) {
    LoadMatrices(shared, out);
  } else {
    __syncwarp();
  }
}

__global__ void CopiesKernel(const uint16_t* from, uint16_t* early, uint16_t* late) {
  OUTRIDER_DYNAMIC_SHARED(uint16_t, shared);
  BeginCopy(shared, from, true);
  CloseCopies();
  BeginCopy(shared + 8, from, false);
  CloseCopies();
  WaitForCopies<1>();
  for (int i = 0; i < 16; ++i) early[i] = shared[i];
  WaitForCopies<0>();
  for (int i = 0; i < 16; ++i) late[i] = shared[i];
}

__global__ void MisalignedKernel(Misaligned what, const uint16_t* from) {
  OUTRIDER_DYNAMIC_SHARED(uint16_t, shared);
  unsigned out[4];
  switch (what) {
    case Misaligned::kCopySource: return BeginCopy(shared, from + 1, false);
    case Misaligned::kCopyTarget: return BeginCopy(shared + 4, from, true);
    case Misaligned::kMatrixRow: return LoadMatrices(shared + (threadIdx.x == 9 ? 4 : 0), out);
  }
}

__global__ void SharedKernel() {}
__global__ void AllowedSharedKernel() {}

}  // namespace

cudaError_t LaunchMatrixProduct(Fragments how, const uint16_t* a, const uint16_t* b, const float* c,
                                float* d) {
  return Launch(MatrixProductKernel, 1, 32, 40 * kStride * sizeof(uint16_t), nullptr, how, a, b, c,
                d);
}
cudaError_t LaunchHalfAProduct() { return Launch(HalfAProductKernel, 1, 32, 0, nullptr); }
cudaError_t LaunchHalfALoad() { return Launch(HalfALoadKernel, 1, 32, 16, nullptr); }
cudaError_t LaunchCopies(const uint16_t* from, uint16_t* early, uint16_t* late) {
  return Launch(CopiesKernel, 1, 1, 32, nullptr, from, early, late);
}
cudaError_t LaunchMisaligned(Misaligned what, const uint16_t* from) {
  return Launch(MisalignedKernel, 1, 32, 64, nullptr, what, from);
}
cudaError_t LaunchWithShared(int bytes, bool allow) {
  const auto size = static_cast<size_t>(bytes);
  if (!allow) return Launch(SharedKernel, 1, 1, size, nullptr);
  const cudaError_t error = AllowShared(AllowedSharedKernel, size);
  return error != cudaSuccess ? error : Launch(AllowedSharedKernel, 1, 1, size, nullptr);
}

}  // namespace outrider
