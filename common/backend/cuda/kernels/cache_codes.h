// How the attention kernels on tensor cores read a cache of codes: FP8 is copied as it is and
// widened in shared memory to f16, exactly. Included by .cu only.
#pragma once

#include <cuda_runtime.h>

#include <type_traits>

#include "common/backend/cuda/kernels/device.h"
#include "common/backend/cuda/kernels/tensor_core.h"

namespace outrider {

// The type of queries, keys, weights and values in products, by that of the cache. f16 keeps three
// bits more of queries and weights than bf16 would; queries beyond 65,504 are clamped to that.
template <class Stored>
using ProductType = std::conditional_t<std::is_same_v<Stored, Fp8>, F16, Stored>;

// Two E4M3 codes, in the lowest bytes, as f16 in the halves of a word. NaN stays NaN, other than
// with WidenPair (code_pairs.h).
__device__ inline unsigned WidenFp8Pair(unsigned codes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  unsigned out;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(out) : "h"(static_cast<uint16_t>(codes)));
  return out;
#else
  constexpr unsigned kSigns = 0x80008000, kMinusZero = 0x80008000;
  constexpr unsigned kFactor = 0x5c005c00;  // 2^8, the difference of the biases
  const unsigned tops = (codes & 0xff) << 8 | (codes & 0xff00) << 16;
  const unsigned magnitudes = tops & 0x7f007f00;
  const unsigned nan = (magnitudes + 0x01000100) & kSigns;  // all seven bits are set
  const unsigned bits = (tops & kSigns) | magnitudes >> 1;
  return TensorCore<F16>::Fma(bits, kFactor, kMinusZero) | (nan - (nan >> 15));
#endif
}

// Widens 16 codes, of shared memory as their copy. Both are aligned to 16 bytes.
__device__ inline void WidenPiece(const unsigned char* codes, F16* out) {
  const uint4 words = *reinterpret_cast<const uint4*>(codes);
  const auto widen = [](unsigned low, unsigned high) {
    return make_uint4(WidenFp8Pair(low), WidenFp8Pair(low >> 16), WidenFp8Pair(high),
                      WidenFp8Pair(high >> 16));
  };
  *reinterpret_cast<uint4*>(out) = widen(words.x, words.y);
  *reinterpret_cast<uint4*>(out + 8) = widen(words.z, words.w);
}

// Keys and values of steps in shared memory, [positions, kStride] each as products read them. Codes
// are copied after them, [positions, kDim] each, and widened before their step is processed.
template <int kDim, class Stored, int kPositions, int kStages>
struct StepMemory {
  static constexpr bool kIsWidened = !std::is_same_v<Stored, ProductType<Stored>>;
  // An odd multiple of 16 bytes, so that eight rows of a matrix fall into different banks.
  static constexpr int kStride = kDim + 8;
  static constexpr int kMatrix = kPositions * kStride;
  static constexpr int kReadable = kIsWidened ? 1 : kStages;  // steps
  static constexpr int kCodes = kPositions * kDim;            // of a matrix
  static constexpr int kCodesBegin = kReadable * 2 * kMatrix * static_cast<int>(sizeof(uint16_t));
  static constexpr int kBytes = kCodesBegin + (kIsWidened ? kStages * 2 * kCodes : 0);
  // Elements of a copy, 16 bytes.
  static constexpr int kPiece = 16 / static_cast<int>(sizeof(Stored));
  static constexpr int kPieces = kDim / kPiece;  // of a row

  unsigned char* memory;

  __device__ ProductType<Stored>* rows() const {
    return reinterpret_cast<ProductType<Stored>*>(memory);
  }
  // A stage's keys as products read them, codes once they are widened; values follow, kMatrix
  // further.
  __device__ ProductType<Stored>* Keys(int stage) const {
    return rows() + (kIsWidened ? 0 : stage) * (2 * kMatrix);
  }
  // Where the copies of element `column` of position `row` go.
  struct Place {
    void *key, *value;
  };
  __device__ Place CopyTo(int stage, int row, int column) const {
    if constexpr (kIsWidened) {
      unsigned char* const codes =
          memory + kCodesBegin + stage * (2 * kCodes) + row * kDim + column;
      return {codes, codes + kCodes};
    } else {
      ProductType<Stored>* const element = Keys(stage) + row * kStride + column;
      return {element, element + kMatrix};
    }
  }
  // Widens what was copied there, by the thread that copied it and waited for it.
  __device__ void Widen(int stage, int row, int column) const {
    if constexpr (kIsWidened) {
      const Place from = CopyTo(stage, row, column);
      F16* const to = rows() + row * kStride + column;
      WidenPiece(static_cast<const unsigned char*>(from.key), to);
      WidenPiece(static_cast<const unsigned char*>(from.value), to + kMatrix);
    }
  }
  // Sets the columns beyond the head to zero, by all threads; copies leave them alone.
  __device__ void ClearPadding(int head_dim) const {
    for (int row = static_cast<int>(threadIdx.x); row < kReadable * 2 * kPositions;
         row += static_cast<int>(blockDim.x)) {
      for (int e = head_dim; e < kDim; ++e) rows()[row * kStride + e] = {};
    }
  }
};

}  // namespace outrider
