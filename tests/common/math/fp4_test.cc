#include "common/math/fp4.h"

#include <gtest/gtest.h>

#include <cmath>

namespace outrider {
namespace {

// The table of the specification, section 5.3.3: S.EE.M.
double ValueOfFp4(int code) {
  const int exponent = code >> 1 & 3, mantissa = code & 1;
  const double magnitude =
      exponent == 0 ? mantissa / 2.0 : std::ldexp(1 + mantissa / 2.0, exponent - 1);
  return (code & 8) != 0 ? -magnitude : magnitude;
}

TEST(Fp4, EveryCodeHasItsValue) {
  for (int code = 0; code < 16; ++code) {
    EXPECT_EQ(Fp4ToFloat(static_cast<unsigned>(code)), ValueOfFp4(code)) << code;
    EXPECT_EQ(TwiceFp4(static_cast<unsigned>(code)), 2 * ValueOfFp4(code)) << code;
  }
}

TEST(Fp4, ExponentsArePowersOfTwo) {
  for (int exponent = 0; exponent < 255; ++exponent) {
    const float scale = ExponentToFloat(static_cast<uint8_t>(exponent));
    EXPECT_EQ(scale, std::ldexp(1.0, exponent - 127)) << exponent;
    EXPECT_EQ(ExponentOf(scale), exponent);
  }
  EXPECT_TRUE(std::isnan(ExponentToFloat(kNanExponent)));
}

}  // namespace
}  // namespace outrider
