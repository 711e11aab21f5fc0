// Shared by the emulator's files; emulator.h is for tests.
#pragma once

#include <cuda_runtime.h>

#include <functional>

namespace outrider::cuda_emulation {

using Work = std::function<cudaError_t()>;

// Runs `work`, defers it until somebody waits, or records it. Without a stream: runs it.
cudaError_t Enqueue(cudaStream_t stream, Work work);
// Called by work: it takes so long, as events of its stream measure it. Other work takes no time.
void SpendMilliseconds(float milliseconds);
// Waits for all streams of this thread. Returns the first error.
cudaError_t DrainAll();

// Whether this thread is capturing; and the error for calls that a capture does not allow.
bool Capturing();
cudaError_t RefuseInCapture(cudaError_t error = cudaErrorStreamCaptureUnsupported);

// Whether `bytes` bytes, at least one, are part of one allocation of device memory or pinned
// memory, so that a copy may be deferred. Other host memory is read or written immediately.
bool IsTaken(const void* pointer, size_t bytes = 1);

// Stores an error for cudaGetLastError and returns it.
cudaError_t Failed(cudaError_t error);

}  // namespace outrider::cuda_emulation
