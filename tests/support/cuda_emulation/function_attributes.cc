// The limits of a kernel's shared memory, which cudaFuncSetAttribute sets.
#include <cuda_runtime.h>

#include <map>
#include <mutex>

namespace {

constexpr int kMaxToldOf = 99 << 10;  // the smallest maximum among devices of 8.0 or later

std::mutex mutex;
std::map<const void*, int>& Told() {
  static std::map<const void*, int> told;
  return told;
}
thread_local const void* launched = nullptr;

}  // namespace

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  if (value < 0 || value > kMaxToldOf) return cudaErrorInvalidValue;
  const std::lock_guard<std::mutex> lock(mutex);
  Told()[kernel] = value;
  return cudaSuccess;
}

namespace outrider::cuda_emulation {

void SetKernel(const void* kernel) { launched = kernel; }

SharedMemoryLimit SharedLimit() {
  const std::lock_guard<std::mutex> lock(mutex);
  const auto it = Told().find(launched);
  if (it == Told().end()) return {.dynamic = kMaxShared, .all = kMaxShared};
  return {.dynamic = static_cast<size_t>(it->second), .all = kMaxToldOf};
}

}  // namespace outrider::cuda_emulation
