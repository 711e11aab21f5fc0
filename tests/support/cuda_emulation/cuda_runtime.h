// Replaces CUDA's header of this name on machines without a CUDA compiler or device: the include
// path of an emulated target contains this folder, and its kernels (.cu) and the host code around
// them compile as plain C++. Only the parts that they use exist. Device memory is host memory, a
// stream runs work immediately or as late as possible, and a launch runs its blocks one after
// another (emulator.h).
#pragma once

#include <math.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>

#define OUTRIDER_CUDA_EMULATION 1

// The names are CUDA's.
// NOLINTBEGIN(readability-identifier-naming, bugprone-reserved-identifier)

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

struct dim3 {
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
  unsigned x, y, z;
};
struct uint3 {
  unsigned x, y, z;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(8) float2 {
  float x, y;
};
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

inline thread_local uint3 threadIdx, blockIdx;
inline thread_local dim3 blockDim, gridDim;

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInvalidDeviceFunction = 98,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorNoKernelImageForDevice = 209,
  cudaErrorIllegalState = 401,
  cudaErrorNotReady = 600,
  cudaErrorLaunchFailure = 719,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901,
  cudaErrorStreamCaptureUnjoined = 904,
  cudaErrorStreamCaptureIsolation = 905,
};
const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError();

enum cudaMemcpyKind {
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice
};
using cudaStream_t = struct CudaStream*;
using cudaEvent_t = struct CudaEvent*;
using cudaGraph_t = struct CudaGraph*;
using cudaGraphExec_t = struct CudaGraphExec*;
inline constexpr unsigned cudaStreamNonBlocking = 1;
inline constexpr unsigned cudaEventDisableTiming = 2;

// Filled with NaN (0xff) and of exactly this size, so that the address sanitizer detects overruns.
cudaError_t cudaMalloc(void** pointer, size_t bytes);
cudaError_t cudaFree(void* pointer);
cudaError_t cudaMallocHost(void** pointer, size_t bytes);
cudaError_t cudaFreeHost(void* pointer);
cudaError_t cudaMemGetInfo(size_t* free, size_t* total);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaEventCreate(cudaEvent_t* event);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end);
cudaError_t cudaEventDestroy(cudaEvent_t event);

enum cudaStreamCaptureMode {
  cudaStreamCaptureModeGlobal,
  cudaStreamCaptureModeThreadLocal,
  cudaStreamCaptureModeRelaxed
};
enum cudaStreamCaptureStatus {
  cudaStreamCaptureStatusNone,
  cudaStreamCaptureStatusActive,
  cudaStreamCaptureStatusInvalidated
};
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                 unsigned long long flags = 0);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);

struct cudaDeviceProp {
  char name[256];
  size_t totalGlobalMem;
  int major, minor;
  int multiProcessorCount;
};
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
enum cudaDeviceAttr { cudaDevAttrL2CacheSize = 38 };
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);

enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
  cudaFuncAttributePreferredSharedMemoryCarveout = 9,
};
inline constexpr int cudaSharedmemCarveoutMaxShared = 100;
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value);
struct cudaFuncAttributes {
  int ptxVersion;
};
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel);

// Collective operations of a block's threads. If a thread waits for others that wait elsewhere or
// have exited, the launch fails with a message.
void __syncthreads();
void __syncwarp(unsigned mask = 0xffffffffu);
unsigned __ballot_sync(unsigned mask, int predicate);
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
int __all_sync(unsigned mask, int predicate);

namespace outrider::cuda_emulation {
// Enqueues body() to be called once for every thread of the grid, with threadIdx and so on set.
cudaError_t LaunchGrid(dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
                       std::function<void()> body);
// Counts a launch that may overlap with earlier ones. The emulated one does not.
void CountOverlap();
// Await must be called by every thread of a kernel launched with LaunchNext before it exits;
// CheckAwaited fails the launch of a thread that has not called it.
void Await();
void CheckAwaited();
// The block's dynamic shared memory.
void* DynamicShared();
// The block's memory for a variable of OUTRIDER_SHARED, which `variable` identifies; aligned to 16.
void* StaticShared(const void* variable, size_t bytes);
// Sets which kernel this thread launches next; SharedLimit is how many bytes of shared memory its
// blocks may have.
void SetKernel(const void* kernel);
inline constexpr size_t kMaxShared = size_t{48} << 10;  // unless set; of variables alone, always
struct SharedMemoryLimit {
  size_t dynamic = 0;  // of dynamic memory alone
  size_t all = 0;      // with variables
};
SharedMemoryLimit SharedLimit();

enum class Shuffle { kIndex, kUp, kDown, kXor };
uint64_t ShuffleBits(Shuffle kind, unsigned mask, uint64_t bits, int operand, int width);

template <class T>
T ShuffleValue(Shuffle kind, unsigned mask, T value, int operand, int width) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = ShuffleBits(kind, mask, bits, operand, width);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}
}  // namespace outrider::cuda_emulation

template <class T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32) {
  using namespace outrider::cuda_emulation;
  return ShuffleValue(Shuffle::kIndex, mask, value, lane, width);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  using namespace outrider::cuda_emulation;
  return ShuffleValue(Shuffle::kUp, mask, value, static_cast<int>(delta), width);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  using namespace outrider::cuda_emulation;
  return ShuffleValue(Shuffle::kDown, mask, value, static_cast<int>(delta), width);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32) {
  using namespace outrider::cuda_emulation;
  return ShuffleValue(Shuffle::kXor, mask, value, lane_mask, width);
}

// Each returns the previous value.
template <class T>
T atomicAdd(T* address, std::type_identity_t<T> value) {
  return std::atomic_ref<T>(*address).fetch_add(value, std::memory_order_relaxed);
}
template <class T>
T atomicExch(T* address, std::type_identity_t<T> value) {
  return std::atomic_ref<T>(*address).exchange(value, std::memory_order_relaxed);
}
template <class T>
T atomicCAS(T* address, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  std::atomic_ref<T>(*address).compare_exchange_strong(expected, value, std::memory_order_relaxed);
  return expected;
}
template <class T>
T atomicMax(T* address, std::type_identity_t<T> value) {
  T before = std::atomic_ref<T>(*address).load(std::memory_order_relaxed);
  while (before < value && !std::atomic_ref<T>(*address).compare_exchange_weak(before, value)) {
  }
  return before;
}
template <class T>
T atomicMin(T* address, std::type_identity_t<T> value) {
  T before = std::atomic_ref<T>(*address).load(std::memory_order_relaxed);
  while (value < before && !std::atomic_ref<T>(*address).compare_exchange_weak(before, value)) {
  }
  return before;
}
inline void __threadfence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
inline void __threadfence_block() { std::atomic_thread_fence(std::memory_order_seq_cst); }

template <class T>
T __ldg(const T* address) {
  return *address;
}
inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline unsigned __float_as_uint(float value) { return std::bit_cast<unsigned>(value); }
inline int __float_as_int(float value) { return std::bit_cast<int>(value); }
inline float __int_as_float(int bits) { return std::bit_cast<float>(bits); }
inline int __popc(unsigned bits) { return std::popcount(bits); }
inline int __ffs(int bits) {
  return bits == 0 ? 0 : std::countr_zero(static_cast<unsigned>(bits)) + 1;
}
inline int __clz(int bits) { return std::countl_zero(static_cast<unsigned>(bits)); }
inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a < b ? b : a; }
// Rounded separately, never part of a multiply-add.
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float rsqrtf(float x) { return 1.f / std::sqrt(x); }
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(uint64_t{a} * b >> 32);
}
// NOLINTEND(readability-identifier-naming, bugprone-reserved-identifier)
