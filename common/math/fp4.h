// 4-bit floats E2M1 and their scales E8M0 (Open Compute Project, "OCP Microscaling Formats (MX)
// Specification" 1.0, 2023): a code is a sign, two bits of exponent with a bias of 1, one of
// mantissa, without infinities and NaN; a scale is the power of two of its exponent, with a bias of
// 127, or NaN. One source for host and device.
#pragma once

#include <cstdint>
#include <cstring>

#include "common/math/host_device.h"

namespace outrider {

inline constexpr int kMxGroup = 32;                 // values that share a scale
inline constexpr uint8_t kNanExponent = 0xff;       // the scale that is NaN
inline constexpr int kMxGroupBytes = kMxGroup / 2;  // of codes

// Twice the value of a code, an integer: +-0, 1, 2, 3, 4, 6, 8 or 12.
OUTRIDER_HD inline constexpr int TwiceFp4(unsigned code) {
  const unsigned magnitude = code & 7u;
  const unsigned twice = magnitude < 2 ? magnitude : (2u | (magnitude & 1u)) << (magnitude / 2 - 1);
  return (code & 8u) != 0 ? -static_cast<int>(twice) : static_cast<int>(twice);
}

OUTRIDER_HD inline float Fp4ToFloat(unsigned code) {
  return 0.5f * static_cast<float>(TwiceFp4(code));
}

// 2^(exponent - 127), NaN for kNanExponent.
OUTRIDER_HD inline float ExponentToFloat(uint8_t exponent) {
  // 2^-127 is subnormal.
  const uint32_t bits = exponent == 0              ? 0x400000u
                        : exponent == kNanExponent ? 0x7fc00000u
                                                   : static_cast<uint32_t>(exponent) << 23;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// The exponent of a power of two. REQUIRES: it is one, from 2^-127 on.
inline uint8_t ExponentOf(float scale) {
  uint32_t bits;
  std::memcpy(&bits, &scale, sizeof bits);
  return static_cast<uint8_t>(bits >> 23);
}

}  // namespace outrider
