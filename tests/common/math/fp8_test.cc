#include "common/math/fp8.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

namespace outrider {
namespace {

constexpr bool IsNanOfFp8(int code) { return (code & 0x7f) == 0x7f; }

// The table of the specification, section 5.1: S.EEEE.MMM.
double ValueOfFp8(int code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa / 8.0, -6) : std::ldexp(1 + mantissa / 8.0, exponent - 7);
  return (code & 0x80) != 0 ? -magnitude : magnitude;
}

TEST(Fp8, EveryCodeRoundTrips) {
  for (int code = 0; code < 256; ++code) {
    const float value = Fp8ToFloat(static_cast<uint8_t>(code));
    EXPECT_EQ(FloatToFp8(value), code);
    if (IsNanOfFp8(code)) {
      EXPECT_TRUE(std::isnan(value)) << code;
    } else {
      EXPECT_EQ(value, ValueOfFp8(code));
      EXPECT_EQ(std::signbit(value), code >= 0x80);
    }
  }
}

// Between two neighbours: the nearer one; on a tie, the one with an even mantissa.
TEST(Fp8, RoundsToNearestEven) {
  for (int low = 0; low < 0x7e; ++low) {
    const auto a = static_cast<float>(ValueOfFp8(low)), b = static_cast<float>(ValueOfFp8(low + 1));
    const float middle = (a + b) / 2;
    const int even = low % 2 == 0 ? low : low + 1;
    EXPECT_EQ(FloatToFp8(middle), even) << low;
    EXPECT_EQ(FloatToFp8(std::nextafter(middle, a)), low) << low;
    EXPECT_EQ(FloatToFp8(std::nextafter(middle, b)), low + 1) << low;
    EXPECT_EQ(FloatToFp8(-middle), even | 0x80) << low;
  }
}

TEST(Fp8, RandomFloatsBecomeTheNearestCode) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> exponents(-14, 9);
  for (int i = 0; i < 20000; ++i) {
    const auto value = static_cast<float>(std::exp2(exponents(random)));
    double least = HUGE_VAL;
    for (int code = 0; code < 0x7f; ++code) {
      least = std::min(least, std::fabs(ValueOfFp8(code) - static_cast<double>(value)));
    }
    const double error = static_cast<double>(Fp8ToFloat(FloatToFp8(value)) - value);
    EXPECT_EQ(std::fabs(error), least) << value;
  }
}

TEST(Fp8, SaturatesAndKeepsNan) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float value : {448.f, 449.f, 464.f, 480.f, 1e30f, kInfinity}) {
    EXPECT_EQ(FloatToFp8(value), 0x7e) << value;
    EXPECT_EQ(FloatToFp8(-value), 0xfe) << value;
  }
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(FloatToFp8(nan), 0x7f);
  EXPECT_EQ(FloatToFp8(-nan), 0xff);
}

TEST(Fp8, SmallFloatsBecomeZero) {
  for (const float value : {0.f, 1e-45f, 1e-30f, 0x1p-10f}) {  // the last is a tie with zero
    EXPECT_EQ(FloatToFp8(value), 0) << value;
    EXPECT_EQ(FloatToFp8(-value), 0x80) << value;
  }
  EXPECT_EQ(FloatToFp8(0x1.000002p-10f), 1);
}

}  // namespace
}  // namespace outrider
