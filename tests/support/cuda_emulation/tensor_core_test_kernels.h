// Kernels that use kernels/tensor_core.h, for the test of its emulation.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace outrider {

// How a warp gets its fragments: each lane loads its elements by itself, or ldmatrix does, with b
// from rows of n (as it is) or of k (transposed).
enum class Fragments { kByHand, kLoaded, kLoadedTransposed };

// d [16, 8] = c + a [16, 16] b [16, 8], all row-major, a and b as bits of bf16.
cudaError_t LaunchMatrixProduct(Fragments how, const uint16_t* a, const uint16_t* b, const float* c,
                                float* d);
// Only half of the lanes take part.
cudaError_t LaunchHalfAProduct();
cudaError_t LaunchHalfALoad();
// Starts two groups of 16 bytes each into shared memory filled with 0xff; the second group is
// zeros. `early` and `late` [16] are its contents after waiting for one group, and for both.
cudaError_t LaunchCopies(const uint16_t* from, uint16_t* early, uint16_t* late);
// Uses an address that is not a multiple of 16. `from`: 32 bytes, aligned.
enum class Misaligned { kCopySource, kCopyTarget, kMatrixRow };
cudaError_t LaunchMisaligned(Misaligned what, const uint16_t* from);
// Launches with this many bytes of dynamic shared memory, allowed before or not.
cudaError_t LaunchWithShared(int bytes, bool allow);

}  // namespace outrider
