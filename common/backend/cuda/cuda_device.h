// Selection of a CUDA device.
#pragma once

#include <string>

#include "common/base/status.h"

namespace outrider {

// Makes `device` the calling thread's device. kNotFound when there is no such device (the message
// says how many there are); kFailedPrecondition for a device below compute capability 8.0 or a
// driver that does not work.
Status UseCudaDevice(int device);

// The same for a device for which UseCudaDevice succeeded. CUDA keeps the current device per
// thread, and a backend may be created and used on different threads. Terminates the process on
// failure.
void ReturnToCudaDevice(int device);

// "cuda:0 (NVIDIA H200, 139 GiB, sm_90)". REQUIRES: UseCudaDevice(device) succeeded.
std::string DescribeCudaDevice(int device);
// "NVIDIA H200 with 132 multiprocessors"
std::string DescribeCudaDeviceKind(int device);

}  // namespace outrider
