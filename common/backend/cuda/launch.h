// Kernel launches, for nvcc and for the tests' host emulation alike
// (tests/support/cuda_emulation/emulator.h says how to write and test a kernel).
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <type_traits>

namespace outrider {

constexpr int kWarpSize = 32;
constexpr unsigned kFullWarp = 0xffffffffu;

// More than 48 KB of dynamic shared memory must be requested once per kernel and device.
template <class... Params>
cudaError_t AllowShared(void (*kernel)(Params...), size_t bytes) {
  const auto* function = reinterpret_cast<const void*>(kernel);
  const cudaError_t error = cudaFuncSetAttribute(
      function, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  if (error != cudaSuccess) return error;
  return cudaFuncSetAttribute(function, cudaFuncAttributePreferredSharedMemoryCarveout,
                              cudaSharedmemCarveoutMaxShared);
}

// Kernels of a pass are launched by LaunchNext instead of Launch: where the code that runs was
// compiled for compute capability 9.0 or later, their blocks may start while the previous kernel
// still runs, and wait in AwaitEarlierKernels (programmatic dependent launch). Every thread of such
// a kernel calls that before it exits, and before it touches memory that other kernels write or
// read: a kernel that exited without waiting would let the kernels after it start before their
// inputs are complete.

// Whether LaunchNext lets kernels overlap on this thread's current device. A backend sets it when
// it makes its device the current one: a process may have several.
inline thread_local bool kernels_overlap = false;

#if defined(__CUDACC__)

// Returns once everything enqueued before this kernel has completed, and lets the next one start.
__device__ inline void AwaitEarlierKernels() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" : : : "memory");
  asm volatile("griddepcontrol.wait;" : : : "memory");
#endif
}

// A variable in the block's shared memory.
#define OUTRIDER_SHARED(type, name) __shared__ std::type_identity_t<type> name
// An array there, as long as the launch says.
#define OUTRIDER_DYNAMIC_SHARED(type, name)                                \
  extern __shared__ __align__(16) unsigned char outrider_dynamic_shared[]; \
  type* const name = reinterpret_cast<type*>(outrider_dynamic_shared)

// kernel<<<grid, block, shared_bytes, stream>>>(args...). Returns errors of the launch itself;
// later errors are reported when the stream is synchronised.
template <class... Params, class... Args>
cudaError_t Launch(void (*kernel)(Params...), dim3 grid, dim3 block, size_t shared_bytes,
                   cudaStream_t stream, Args... args) {
  kernel<<<grid, block, shared_bytes, stream>>>(static_cast<Params>(args)...);
  return cudaGetLastError();
}

template <class... Params, class... Args>
cudaError_t LaunchNext(void (*kernel)(Params...), dim3 grid, dim3 block, size_t shared_bytes,
                       cudaStream_t stream, Args... args) {
  cudaLaunchAttribute overlap = {};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &overlap;
  config.numAttrs = kernels_overlap ? 1 : 0;
  (void)cudaLaunchKernelEx(&config, kernel, static_cast<Params>(args)...);
  return cudaGetLastError();
}

#elif defined(OUTRIDER_CUDA_EMULATION)

inline void AwaitEarlierKernels() { cuda_emulation::Await(); }

#define OUTRIDER_SHARED(type, name)                                             \
  static constexpr char name##_variable = 0;                                    \
  std::type_identity_t<type>& name = *static_cast<std::type_identity_t<type>*>( \
      ::outrider::cuda_emulation::StaticShared(&name##_variable, sizeof(type)))
#define OUTRIDER_DYNAMIC_SHARED(type, name) \
  type* const name = static_cast<type*>(::outrider::cuda_emulation::DynamicShared())

template <class... Params, class... Args>
cudaError_t Launch(void (*kernel)(Params...), dim3 grid, dim3 block, size_t shared_bytes,
                   cudaStream_t stream, Args... args) {
  cuda_emulation::SetKernel(reinterpret_cast<const void*>(kernel));
  return cuda_emulation::LaunchGrid(grid, block, shared_bytes, stream,
                                    [=] { kernel(static_cast<Params>(args)...); });
}

template <class... Params, class... Args>
cudaError_t LaunchNext(void (*kernel)(Params...), dim3 grid, dim3 block, size_t shared_bytes,
                       cudaStream_t stream, Args... args) {
  cuda_emulation::SetKernel(reinterpret_cast<const void*>(kernel));
  if (kernels_overlap) cuda_emulation::CountOverlap();
  return cuda_emulation::LaunchGrid(grid, block, shared_bytes, stream, [=] {
    kernel(static_cast<Params>(args)...);
    cuda_emulation::CheckAwaited();
  });
}

#endif

}  // namespace outrider
