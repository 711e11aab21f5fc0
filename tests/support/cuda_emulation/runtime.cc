// The host API of CUDA except streams: memory is host memory.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "tests/support/cuda_emulation/emulator.h"
#include "tests/support/cuda_emulation/streams.h"

using namespace outrider::cuda_emulation;

namespace {

constexpr size_t kDeviceBytes = size_t{16} << 30;  // memory that the emulated device reports
constexpr int kCacheBytes = 1 << 20;               // of its L2 cache
constexpr size_t kAlignment = 256;                 // of allocations, as the programming guide says
constexpr size_t kQuarantineBytes = size_t{64} << 20;  // freed memory that is not reused

thread_local std::vector<EmulatedDevice> devices(1);
thread_local int current_device = 0;

struct Allocation {
  size_t bytes = 0;
  bool pinned = false;
};

// Shared by all threads.
struct Memory {
  std::mutex mutex;
  std::map<const char*, Allocation> taken;
  std::deque<std::pair<char*, size_t>> freed;
  size_t freed_bytes = 0;
  int64_t allocations = 0;
};
Memory& TheMemory() {
  static Memory memory;
  return memory;
}

bool Exists(int device) { return device >= 0 && static_cast<size_t>(device) < devices.size(); }

cudaError_t Take(void** pointer, size_t bytes, bool pinned) {
  if (Capturing()) return RefuseInCapture();
  if (bytes > kDeviceBytes) return Failed(cudaErrorMemoryAllocation);
  if (posix_memalign(pointer, kAlignment, bytes) != 0) return Failed(cudaErrorMemoryAllocation);
  std::memset(*pointer, 0xff, bytes);
  Memory& memory = TheMemory();
  const std::lock_guard<std::mutex> lock(memory.mutex);
  memory.taken[static_cast<char*>(*pointer)] = {bytes, pinned};
  ++memory.allocations;
  return cudaSuccess;
}

// Waits for the device, like cudaFree.
cudaError_t GiveBack(void* pointer, bool pinned) {
  if (pointer == nullptr) return cudaSuccess;
  if (Capturing()) return RefuseInCapture();
  if (const cudaError_t error = DrainAll(); error != cudaSuccess) return error;
  Memory& memory = TheMemory();
  const std::lock_guard<std::mutex> lock(memory.mutex);
  const auto it = memory.taken.find(static_cast<char*>(pointer));
  if (it == memory.taken.end() || it->second.pinned != pinned) {
    return Failed(cudaErrorInvalidValue);
  }
#if defined(OUTRIDER_ADDRESS_SANITIZER)
  std::free(pointer);  // has a quarantine of its own
#else
  const size_t bytes = it->second.bytes;
  std::memset(pointer, 0xff, bytes);
  memory.freed.emplace_back(static_cast<char*>(pointer), bytes);
  memory.freed_bytes += bytes;
  while (memory.freed_bytes > kQuarantineBytes) {
    std::free(memory.freed.front().first);
    memory.freed_bytes -= memory.freed.front().second;
    memory.freed.pop_front();
  }
#endif
  memory.taken.erase(it);
  return cudaSuccess;
}

}  // namespace

namespace outrider::cuda_emulation {

void SetDevices(std::vector<EmulatedDevice> seen) {
  devices = std::move(seen);
  current_device = 0;
}
void SetDevices(int count) { SetDevices(std::vector<EmulatedDevice>(static_cast<size_t>(count))); }

int64_t Allocations() {
  Memory& memory = TheMemory();
  const std::lock_guard<std::mutex> lock(memory.mutex);
  return memory.allocations;
}

bool IsTaken(const void* pointer, size_t bytes) {
  Memory& memory = TheMemory();
  const std::lock_guard<std::mutex> lock(memory.mutex);
  const char* address = static_cast<const char*>(pointer);
  auto next = memory.taken.upper_bound(address);
  if (next == memory.taken.begin()) return false;
  --next;
  return address + bytes <= next->first + next->second.bytes;
}

}  // namespace outrider::cuda_emulation

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInvalidConfiguration: return "invalid configuration argument";
    case cudaErrorInvalidDeviceFunction: return "invalid device function";
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    case cudaErrorNoKernelImageForDevice:
      return "no kernel image is available for execution on the device";
    case cudaErrorIllegalState: return "the operation cannot be performed in the present state";
    case cudaErrorNotReady: return "device not ready";
    case cudaErrorLaunchFailure: return "unspecified launch failure";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
    case cudaErrorStreamCaptureUnjoined: return "capturing stream has unjoined work";
    case cudaErrorStreamCaptureIsolation:
      return "dependency created on uncaptured work in another stream";
  }
  return "unknown error";
}

cudaError_t cudaMalloc(void** pointer, size_t bytes) { return Take(pointer, bytes, false); }
cudaError_t cudaMallocHost(void** pointer, size_t bytes) { return Take(pointer, bytes, true); }
cudaError_t cudaFree(void* pointer) { return GiveBack(pointer, false); }
cudaError_t cudaFreeHost(void* pointer) { return GiveBack(pointer, true); }

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *free = *total = kDeviceBytes;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = static_cast<int>(devices.size());
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (!Exists(device)) return Failed(cudaErrorInvalidDevice);
  current_device = device;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (!Exists(device)) return Failed(cudaErrorInvalidDevice);
  const EmulatedDevice& emulated = devices[static_cast<size_t>(device)];
  *properties = {};
  std::snprintf(properties->name, sizeof(properties->name), "%s", emulated.name.c_str());
  properties->totalGlobalMem = kDeviceBytes;
  properties->major = emulated.major;
  properties->multiProcessorCount = emulated.multiprocessors;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int device) {
  if (!Exists(device)) return Failed(cudaErrorInvalidDevice);
  *value = kCacheBytes;
  return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  if (!Exists(current_device)) return Failed(cudaErrorInvalidDevice);
  attributes->ptxVersion = devices[static_cast<size_t>(current_device)].compiled_for;
  return cudaSuccess;
}
