// Widens two codes at a time to 16-bit floats, exactly: every code is representable in bf16 and
// f16. A pair is in the lower and the upper half of a word (code_layout.h). Included by .cu only.
//
// Integers are or-ed into the mantissa of a power of two whose last place is worth 1, which is then
// subtracted. Small floats are shifted to where the wider type has its sign, exponent and mantissa,
// and multiplied by two to the difference of the biases, which makes their subnormals right, too.
#pragma once

#include <cuda_runtime.h>

#include "common/backend/cuda/kernels/tensor_core.h"
#include "common/tensor/quantized_matrix.h"

namespace outrider {

// Constants are twice the same 16 bits.
template <class T>
struct PairConstants;
template <>
struct PairConstants<Bf16> {
  static constexpr int kMantissaBits = 7;
  static constexpr unsigned kOnes = 0x3f803f80;
  static constexpr unsigned kInteger = 0x43004300;           // 128, plus a code of up to 7 bits
  static constexpr unsigned kMinusInteger = 0xc300c300;      // with bit 7: -256
  static constexpr unsigned kMinusIntegerAnd8 = 0xc308c308;  // -136
  static constexpr unsigned kFp8Factor = 0x7b807b80;         // 2^120
  static constexpr unsigned kFp4Factor = 0x7e807e80;         // 2^126
};
template <>
struct PairConstants<F16> {
  static constexpr int kMantissaBits = 10;
  static constexpr unsigned kOnes = 0x3c003c00;
  static constexpr unsigned kInteger = 0x64006400;           // 1024
  static constexpr unsigned kMinusInteger = 0xe400e400;      // with bit 7: -1152
  static constexpr unsigned kMinusIntegerAnd8 = 0xe408e408;  // -1032
  static constexpr unsigned kFp8Factor = 0x5c005c00;         // 2^8
  static constexpr unsigned kFp4Factor = 0x74007400;         // 2^14
};

// Pair j of a word's codes; codes of kInt4 less 8.
template <class T, CodeType kType>
__device__ inline unsigned WidenPair(unsigned word, int j) {
  using Constants = PairConstants<T>;
  constexpr unsigned kSigns = 0x80008000, kMinusZero = 0x80008000;
  if constexpr (kType == CodeType::kInt4) {
    const unsigned sum = (word >> 4 * j & 0x000f000f) | Constants::kInteger;
    return TensorCore<T>::Fma(sum, Constants::kOnes, Constants::kMinusIntegerAnd8);
  } else if constexpr (kType == CodeType::kInt8) {
    // The lower seven bits, less 128 where the eighth is set.
    const unsigned codes = word >> 8 * j;
    const unsigned sum = (codes & 0x007f007f) | Constants::kInteger;
    return TensorCore<T>::Fma(sum, Constants::kOnes,
                              (codes & 0x00800080) | Constants::kMinusInteger);
  } else if constexpr (kType == CodeType::kFp8E4M3) {
    constexpr int kShift = 11 - Constants::kMantissaBits;  // three bits of mantissa
    const unsigned top = word << (8 - 8 * j);
    const unsigned bits = (top & kSigns) | (top >> kShift & 0x7f007f00u >> kShift);
    return TensorCore<T>::Fma(bits, Constants::kFp8Factor, kMinusZero);
  } else {
    static_assert(kType == CodeType::kFp4E2M1);
    constexpr int kShift = 13 - Constants::kMantissaBits;  // one bit of mantissa
    const unsigned top = word << (12 - 4 * j);
    const unsigned bits = (top & kSigns) | (top >> kShift & 0x70007000u >> kShift);
    return TensorCore<T>::Fma(bits, Constants::kFp4Factor, kMinusZero);
  }
}

}  // namespace outrider
