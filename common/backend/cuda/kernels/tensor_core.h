// A warp's use of tensor cores (compute capability 8.0 and later): 8x8 matrices of 16-bit elements
// from shared memory into fragments, products of 16x16 by 16x8, and asynchronous copies into shared
// memory. Included by .cu only.
//
// Fragments, of lane l with g = l / 4 and t = l % 4, two elements to a register, the first in its
// low half:
//   A 16x16: a[0] (g, 2t), a[1] (g + 8, 2t), a[2] (g, 2t + 8), a[3] (g + 8, 2t + 8), and each one's
//            right neighbour
//   B 16x8:  b0 (2t, g), b1 (2t + 8, g), and each one's neighbour below
//   C 16x8:  c[0] (g, 2t), c[1] its right neighbour, c[2] and c[3] the same of row g + 8
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "common/backend/cuda/kernels/device.h"

#if defined(OUTRIDER_CUDA_EMULATION)
#include <tensor_core_emulation.h>
#endif

namespace outrider {

// The operations that depend on the element type; one specialisation each.
//   Pack: two values, rounded, the first in the low half.
//   PackWeights: the same for values of at most 1, or NaN.
//   Fma: a * b + c of both halves, each rounded once; subnormal numbers are not flushed.
//   MultiplyAdd: c += a b. The order of its sum depends on the index within k alone, and a product
//     with a zero does not affect any bit.
template <class T>
struct TensorCore;

#if defined(__CUDACC__)

template <>
struct TensorCore<Bf16> {
  __device__ static unsigned Pack(float low, float high) {
    unsigned out;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
    return out;
  }
  __device__ static unsigned PackWeights(float low, float high) { return Pack(low, high); }
  __device__ static unsigned Fma(unsigned a, unsigned b, unsigned c) {
    unsigned out;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(c));
    return out;
  }
  __device__ static void MultiplyAdd(const unsigned (&a)[4], unsigned b0, unsigned b1,
                                     float (&c)[4]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
};

template <>
struct TensorCore<F16> {
  __device__ static unsigned Pack(float low, float high) {
    return Narrow<F16>(low).bits | static_cast<unsigned>(Narrow<F16>(high).bits) << 16;
  }
  __device__ static unsigned PackWeights(float low, float high) {
    unsigned out;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
    return out;
  }
  __device__ static unsigned Fma(unsigned a, unsigned b, unsigned c) {
    unsigned out;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(c));
    return out;
  }
  __device__ static void MultiplyAdd(const unsigned (&a)[4], unsigned b0, unsigned b1,
                                     float (&c)[4]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
};

__device__ inline unsigned SharedAddress(const void* shared) {
  return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}

// Loads four matrices. Lane l passes the address of row l % 8 of matrix l / 8: eight elements,
// aligned to 16 bytes. In out[m] a lane gets the elements (g, 2t) and (g, 2t + 1) of matrix m.
__device__ inline void LoadMatrices(const void* row, unsigned (&out)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(SharedAddress(row))
               : "memory");
}

// The same for the matrices' transposes: (2t, g) and (2t + 1, g).
__device__ inline void LoadTransposed(const void* row, unsigned (&out)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(SharedAddress(row))
               : "memory");
}

// Starts copying 16 bytes, with both addresses aligned to 16, or writing zeros if there is nothing
// to read: `source` is then any address of device memory.
__device__ inline void BeginCopy(void* shared, const void* source, bool is_valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(SharedAddress(shared)), "l"(__cvta_generic_to_global(source)),
                 "r"(is_valid ? 16 : 0)
               : "memory");
}

// Closes the group of copies that this thread has started since the last one.
__device__ inline void CloseCopies() { asm volatile("cp.async.commit_group;" : : : "memory"); }

// Waits for all but the last kPending of this thread's groups. Other threads see them after a
// barrier.
template <int kPending>
__device__ inline void WaitForCopies() {
  asm volatile("cp.async.wait_group %0;" : : "n"(kPending) : "memory");
}

// 2^x; results below 2^-126 become 0.
__device__ inline float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

#elif defined(OUTRIDER_CUDA_EMULATION)

// Exact where the results are representable, as those of code_pairs.h are.
template <class Of>
unsigned FmaOfHalves(unsigned a, unsigned b, unsigned c, const Of& of) {
  return of(a & 0xffff, b & 0xffff, c & 0xffff) | of(a >> 16, b >> 16, c >> 16) << 16;
}

template <>
struct TensorCore<Bf16> {
  static unsigned Pack(float low, float high) {
    return Narrow<Bf16>(low) | static_cast<unsigned>(Narrow<Bf16>(high)) << 16;
  }
  static unsigned PackWeights(float low, float high) { return Pack(low, high); }
  static unsigned Fma(unsigned a, unsigned b, unsigned c) {
    return FmaOfHalves(a, b, c, [](unsigned x, unsigned y, unsigned z) -> unsigned {
      const auto widen = [](unsigned bits) { return Widen(static_cast<Bf16>(bits)); };
      return Narrow<Bf16>(fmaf(widen(x), widen(y), widen(z)));
    });
  }
  static void MultiplyAdd(const unsigned (&a)[4], unsigned b0, unsigned b1, float (&c)[4]) {
    cuda_emulation::MultiplyAdd(
        a, b0, b1, [](uint16_t bits) { return Widen(bits); }, c);
  }
};

template <>
struct TensorCore<F16> {
  static unsigned Pack(float low, float high) {
    return Narrow<F16>(low).bits | static_cast<unsigned>(Narrow<F16>(high).bits) << 16;
  }
  static unsigned PackWeights(float low, float high) { return Pack(low, high); }
  static unsigned Fma(unsigned a, unsigned b, unsigned c) {
    return FmaOfHalves(a, b, c, [](unsigned x, unsigned y, unsigned z) -> unsigned {
      const auto widen = [](unsigned bits) { return Widen(F16{static_cast<uint16_t>(bits)}); };
      return Narrow<F16>(fmaf(widen(x), widen(y), widen(z))).bits;
    });
  }
  static void MultiplyAdd(const unsigned (&a)[4], unsigned b0, unsigned b1, float (&c)[4]) {
    cuda_emulation::MultiplyAdd(
        a, b0, b1, [](uint16_t bits) { return Widen(F16{bits}); }, c);
  }
};

inline void LoadMatrices(const void* row, unsigned (&out)[4]) {
  cuda_emulation::LoadMatrices(row, /*transposed=*/false, out);
}
inline void LoadTransposed(const void* row, unsigned (&out)[4]) {
  cuda_emulation::LoadMatrices(row, /*transposed=*/true, out);
}
inline void BeginCopy(void* shared, const void* source, bool is_valid) {
  cuda_emulation::CheckAligned(shared, "cp.async");
  cuda_emulation::CheckAligned(source, "cp.async");
  cuda_emulation::BeginCopy({shared, is_valid ? source : nullptr});
}
inline void CloseCopies() { cuda_emulation::CloseCopies(); }
template <int kPending>
void WaitForCopies() {
  cuda_emulation::WaitForCopies(kPending);
}
inline float Exp2(float x) { return exp2f(x); }

#endif

}  // namespace outrider
