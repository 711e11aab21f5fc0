// Runs CUDA kernels on the host, so that their source can be tested where there is no device.
//
// How to write a kernel: in a .cu file of its library, against <cuda_runtime.h> alone, launched by
// Launch() of common/backend/cuda/launch.h, its dynamic shared memory declared with
// OUTRIDER_DYNAMIC_SHARED; for a device, add the file to the module of
// common/backend/CMakeLists.txt. How to test it: outrider_emulated_cuda_library(name SRCS x.cu y.cc
// DEPS z) (cmake/OutriderTargets.cmake) compiles the same files as C++; link it into an
// outrider_test, take memory with cudaMalloc (plain host memory here), call the launcher, compare.
// What a test can see:
//   - Every thread of a block is a fiber; blocks run one after another. Wrong indices, missing
//     bounds and unwritten results show as on a device: all memory is NaN when new, and under the
//     address sanitizer global and dynamic shared memory end where they end.
//   - A barrier or a warp operation that not all threads reach fails the launch: Launch returns
//     cudaErrorLaunchFailure and LastFailure() says which thread waits where.
//   - Warp operations are those of full warps: mask 0xffffffff, blocks of a multiple of 32. Among
//     them are the products and loads of kernels/tensor_core.h, whose copies into shared memory
//     are there when they are waited for, not before, and whose addresses must be multiples of 16.
//   - A kernel that LaunchNext launches fails if a thread ends without AwaitEarlierKernels.
//   - A block has 48 KB of dynamic shared memory, 99 KB where AllowShared asked for them.
//   - A missing barrier shows as a data race under the thread sanitizer (preset tsan), which is
//     told that only barriers, warp operations and launches order the threads. Without it, try
//     SetReverseOrder: threads then run from the last to the first between two barriers.
//   - A stream does everything at once, or with SetLate all as late as it may: what is waited for
//     is then all that is there, and copies read their pinned memory at the end.
//   - While a stream captures, launches, copies and memsets are recorded and do not run; a graph
//     repeats them with the arguments of then, its copies reading the memory of now. What a device
//     refuses in a capture (memory that comes or goes, waits, copies of host memory that is not
//     pinned) is refused and spoils the capture,
//     and FailNext makes one of a graph's calls fail.
//   - Memory that was freed is all NaN, and for a while nobody else's.
// What it cannot show: memory order between blocks, bank conflicts, speed, what nvcc makes of it.
//
// Thread: one launch at a time per thread of the machine.
#pragma once

#include <cuda_runtime.h>

#include <string>

namespace outrider::cuda_emulation {

// What went wrong in the last launch that failed.
const std::string& LastFailure();

void SetReverseOrder(bool reverse);

// Whether this thread's streams run their work only when somebody waits.
void SetLate(bool late);

// Calls that this thread can make fail, once each, with the error.
enum class GraphCall { kBeginCapture, kEndCapture, kInstantiate, kLaunch };
void FailNext(GraphCall call, cudaError_t error);

// Graphs that there are, over all threads.
int LiveGraphs();

}  // namespace outrider::cuda_emulation
