// What the emulator's files share; emulator.h is for tests.
#pragma once

#include <cuda_runtime.h>

#include <functional>

namespace outrider::cuda_emulation {

using Work = std::function<cudaError_t()>;

// Runs `work`, keeps it until somebody waits, or records it. Without a stream: runs it.
cudaError_t Enqueue(cudaStream_t stream, Work work);
// Waits for all streams of this thread. The first thing that went wrong.
cudaError_t DrainAll();

// Whether this thread captures; and what it then gets for what no capture allows.
bool Capturing();
cudaError_t RefuseInCapture(cudaError_t error = cudaErrorStreamCaptureUnsupported);

// Whether `pointer` is device memory or pinned: a copy may be late for it. Other host memory is
// read or written when a copy is asked for.
bool IsTaken(const void* pointer);

// Remembers an error for cudaGetLastError and gives it back.
cudaError_t Failed(cudaError_t error);

}  // namespace outrider::cuda_emulation
