// Kernels over kernels/tensor_core.h, for the test of its emulation.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace outrider {

// How a warp comes by its fragments: each lane takes its elements by itself, or by ldmatrix, b from
// rows of n (as it is) or of k (transposed).
enum class Fragments { kByHand, kLoaded, kLoadedTransposed };

// d [16, 8] = c + a [16, 16] b [16, 8], all row-major, a and b the bits of bf16.
cudaError_t LaunchMatrixProduct(Fragments how, const uint16_t* a, const uint16_t* b, const float* c,
                                float* d);
// Half of the lanes take part.
cudaError_t LaunchHalfAProduct();
cudaError_t LaunchHalfALoad();
// Two groups of 16 bytes each are begun into shared memory of 0xff; of the second, zeros. `early`
// and `late` [16]: what stands there when one group, then both have been waited for.
cudaError_t LaunchCopies(const uint16_t* from, uint16_t* early, uint16_t* late);
// Where an address is no multiple of 16. `from`: 32 bytes, aligned.
enum class Misaligned { kCopySource, kCopyTarget, kMatrixRow };
cudaError_t LaunchMisaligned(Misaligned what, const uint16_t* from);
// As many bytes of dynamic shared memory, allowed before or not.
cudaError_t LaunchWithShared(int bytes, bool allow);

}  // namespace outrider
