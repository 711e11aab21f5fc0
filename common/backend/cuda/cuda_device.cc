#include "common/backend/cuda/cuda_device.h"

#include <cuda_runtime.h>

#include "common/backend/cuda/device_memory.h"

namespace outrider {
namespace {

thread_local int current_device = -1;  // avoids a cudaSetDevice per op, which would be measurable

cudaDeviceProp Properties(int device) {
  cudaDeviceProp properties;
  MustSucceed(cudaGetDeviceProperties(&properties, device), "asking for the device");
  return properties;
}

}  // namespace

Status UseCudaDevice(int device) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess && error != cudaErrorNoDevice) {
    return FailedPrecondition(std::string("CUDA: ") + cudaGetErrorString(error) +
                              ": is the NVIDIA driver installed?");
  }
  if (device < 0 || device >= count) {
    return NotFound(
        "there is no cuda:" + std::to_string(device) + ", this machine has " +
        (count == 0   ? std::string("no CUDA device")
         : count == 1 ? std::string("one, cuda:0")
                      : std::to_string(count) + ", cuda:0 to cuda:" + std::to_string(count - 1)));
  }
  const cudaDeviceProp properties = Properties(device);
  if (properties.major < 8) {
    return FailedPrecondition("cuda:" + std::to_string(device) + " (" + properties.name +
                              ") has compute capability " + std::to_string(properties.major) + "." +
                              std::to_string(properties.minor) + ", 8.0 is the least");
  }
  if (const cudaError_t use = cudaSetDevice(device); use != cudaSuccess) {
    return FailedPrecondition("cuda:" + std::to_string(device) + ": " + cudaGetErrorString(use));
  }
  current_device = device;
  return Status();
}

void ReturnToCudaDevice(int device) {
  if (current_device == device) return;
  MustSucceed(cudaSetDevice(device), "choosing the device");
  current_device = device;
}

std::string DescribeCudaDevice(int device) {
  const cudaDeviceProp properties = Properties(device);
  return "cuda:" + std::to_string(device) + " (" + properties.name + ", " +
         std::to_string(properties.totalGlobalMem >> 30) + " GiB, sm_" +
         std::to_string(properties.major) + std::to_string(properties.minor) + ")";
}

std::string DescribeCudaDeviceKind(int device) {
  const cudaDeviceProp properties = Properties(device);
  return properties.name + (" with " + std::to_string(properties.multiProcessorCount)) +
         " multiprocessors";
}

}  // namespace outrider
