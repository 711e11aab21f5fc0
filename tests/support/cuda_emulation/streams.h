// How the emulator's launches get to their stream; emulator.h is for tests.
#pragma once

#include <cuda_runtime.h>

#include <functional>

namespace outrider::cuda_emulation {

using Work = std::function<cudaError_t()>;

// Runs `work`, keeps it until somebody waits, or records it. Without a stream: runs it.
cudaError_t Enqueue(cudaStream_t stream, Work work);

// Remembers an error for cudaGetLastError and gives it back.
cudaError_t Failed(cudaError_t error);

}  // namespace outrider::cuda_emulation
