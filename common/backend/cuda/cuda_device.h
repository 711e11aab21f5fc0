// Which CUDA devices there are.
#pragma once

#include <string>

#include "common/base/status.h"

namespace outrider {

// Makes `device` the calling thread's. kNotFound when there is no such device, with how many there
// are; kFailedPrecondition for one below compute capability 8.0 or a driver that does not work.
Status UseCudaDevice(int device);

// The same of a device that this went well for. CUDA remembers the device by thread, and who makes
// a backend need not be who runs it. Ends the process when it fails.
void ReturnToCudaDevice(int device);

// "cuda:0 (NVIDIA H200, 139 GiB, sm_90)". REQUIRES: UseCudaDevice(device) went well.
std::string DescribeCudaDevice(int device);

}  // namespace outrider
