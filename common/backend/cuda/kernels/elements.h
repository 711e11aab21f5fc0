// The 16-bit floats of weights, caches and rounded activations, and the FP8 codes of caches, as
// their bits: for the kernels and their launchers.
#pragma once

#include <cstdint>

namespace outrider {

using Bf16 = uint16_t;
struct F16 {
  uint16_t bits;
};
struct Fp8 {
  uint8_t code;
};

}  // namespace outrider
