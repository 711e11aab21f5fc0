// Runs CUDA kernels on the host, so that their source can be tested without a device.
//
// How to write a kernel: put it in a .cu file of its library, include only <cuda_runtime.h>, launch
// it with Launch() of common/backend/cuda/launch.h, and declare its shared memory with
// OUTRIDER_SHARED and OUTRIDER_DYNAMIC_SHARED; for a device, add the file to the module of
// common/backend/CMakeLists.txt. How to test it: outrider_emulated_cuda_library(name SRCS x.cu y.cc
// DEPS z) (cmake/OutriderTargets.cmake) compiles the same files as C++; link it into an
// outrider_test, allocate with cudaMalloc (plain host memory here), call the launcher, compare.
// What a test detects:
//   - Every thread of a block is a fiber; blocks run one after another. Wrong indices, missing
//     bounds and unwritten results show as on a device: new memory, and a block's shared memory, is
//     all NaN, and under the address sanitizer each allocation and variable has exact ends.
//   - A barrier or a warp operation that not all threads reach fails the launch: Launch returns
//     cudaErrorLaunchFailure and LastFailure() says which thread waits where.
//   - Warp operations are those of full warps: mask 0xffffffff, blocks of a multiple of 32. They
//     include the products and loads of kernels/tensor_core.h, whose asynchronous copies into
//     shared memory take effect only when they are waited for, and whose addresses must be
//     multiples of 16.
//   - A kernel launched with LaunchNext fails if a thread exits without AwaitEarlierKernels.
//   - A block has 48 KB of shared memory, variables included, or 99 KB after AllowShared.
//   - A missing barrier shows as a data race under the thread sanitizer (preset tsan), which is
//     told that only barriers, warp operations and launches order the threads. Without it, try
//     SetReverseOrder: threads then run from the last to the first between two barriers.
//   - A stream runs work immediately, or with SetLate as late as possible: only work that was
//     waited for has then happened, and copies read their pinned memory at the end. Each query of
//     a stream runs one piece of it.
//   - While a stream captures, launches, copies and memsets are recorded and do not run; a graph
//     repeats them with the recorded arguments, but its copies read the memory's current contents.
//     What a device refuses during a capture (allocating or freeing memory, waiting, copying
//     pageable host memory) is refused and invalidates the capture, and FailNext makes one of a
//     graph's calls fail.
//   - Freed memory is all NaN, and is not reused for a while.
// What it cannot show: memory order between blocks, bank conflicts, speed, and nvcc's code.
//
// Thread: one launch at a time per thread of the machine.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <string>
#include <vector>

namespace outrider::cuda_emulation {

// The error of the last launch that failed.
const std::string& LastFailure();

void SetReverseOrder(bool reverse);

// Whether this thread's streams run their work only when somebody waits.
void SetLate(bool late);

// Calls that this thread can make fail, once each, with the error.
enum class GraphCall { kBeginCapture, kEndCapture, kInstantiate, kLaunch };
void FailNext(GraphCall call, cudaError_t error);
std::string GraphCallName(GraphCall call);  // for the names of tests

struct EmulatedDevice {
  std::string name = "emulated on the host";
  int major = 9;  // of its compute capability
  int multiprocessors = 4;
  int compiled_for = 90;  // the capability for which the kernels' code was compiled
};
// The devices that this thread sees, one at first; their memory is the same. The current one
// becomes the first.
void SetDevices(std::vector<EmulatedDevice> devices);
void SetDevices(int count);  // of one kind

// Kernels that this thread has launched or captured so far, and those among them that a device may
// start before earlier ones have ended.
int64_t Launches();
int64_t Overlaps();

// Allocations so far, of device memory and of pinned memory, over all threads.
int64_t Allocations();

// Graphs that exist, over all threads.
int LiveGraphs();

}  // namespace outrider::cuda_emulation
