#include "common/tensor/tensor.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace outrider {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The nearest value of a 16-bit format by search: the required result of rounding. `widen` must be
// monotonic over the non-negative finite codes [0, last].
uint16_t NearestByScan(float value, uint16_t last, float (*widen)(uint16_t)) {
  uint16_t best = 0;
  double best_distance = HUGE_VAL;
  for (uint32_t code = 0; code <= last; ++code) {
    const double distance =
        std::fabs(static_cast<double>(widen(static_cast<uint16_t>(code))) - value);
    // A tie goes to the even code, which an upward scan meets first or second.
    if (distance < best_distance || (distance == best_distance && code % 2 == 0)) {
      best = static_cast<uint16_t>(code);
      best_distance = distance;
    }
  }
  return best;
}

TEST(F16, EveryFiniteCodeRoundTrips) {
  for (uint32_t code = 0; code <= 0xffff; ++code) {
    const auto bits = static_cast<uint16_t>(code);
    const float value = F16ToFloat(bits);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(F16ToFloat(FloatToF16(value)))) << code;
    } else {
      EXPECT_EQ(FloatToF16(value), bits);
    }
  }
}

TEST(F16, WidensToTheValuesOfIeee754) {
  EXPECT_EQ(F16ToFloat(0x3c00), 1.f);
  EXPECT_EQ(F16ToFloat(0xc000), -2.f);
  EXPECT_EQ(F16ToFloat(0x7bff), 65504.f);
  EXPECT_EQ(F16ToFloat(0x0400), std::ldexp(1.f, -14));     // smallest normal
  EXPECT_EQ(F16ToFloat(0x0001), std::ldexp(1.f, -24));     // smallest subnormal
  EXPECT_EQ(F16ToFloat(0x03ff), std::ldexp(1023.f, -24));  // largest subnormal
  EXPECT_EQ(F16ToFloat(0x7c00), kInfinity);
  EXPECT_EQ(F16ToFloat(0xfc00), -kInfinity);
  EXPECT_TRUE(std::isnan(F16ToFloat(0x7c01)));
  EXPECT_TRUE(std::signbit(F16ToFloat(0x8000)));
}

TEST(F16, RoundsToNearestEven) {
  // Halfway between two codes, slightly below and above, over subnormal and normal binades.
  for (const uint16_t code : {0x0000, 0x0001, 0x0002, 0x03fe, 0x03ff, 0x0400, 0x0401, 0x07ff,
                              0x3c00, 0x3c01, 0x3fff, 0x7bfe}) {
    const float low = F16ToFloat(code);
    const float high = F16ToFloat(static_cast<uint16_t>(code + 1));
    const float middle = low + (high - low) / 2;
    for (const float value : {middle, std::nextafter(middle, low), std::nextafter(middle, high)}) {
      const uint16_t expected = NearestByScan(value, 0x7bff, F16ToFloat);
      EXPECT_EQ(FloatToF16(value), expected) << code;
      EXPECT_EQ(FloatToF16(-value), expected | 0x8000) << code;
    }
  }
}

TEST(F16, OverflowsToInfinity) {
  EXPECT_EQ(FloatToF16(65504.f), 0x7bff);
  EXPECT_EQ(FloatToF16(std::nextafter(65520.f, 0.f)), 0x7bff);
  EXPECT_EQ(FloatToF16(65520.f), 0x7c00);
  EXPECT_EQ(FloatToF16(-65520.f), 0xfc00);
  EXPECT_EQ(FloatToF16(kInfinity), 0x7c00);
}

TEST(Bf16, EveryFiniteCodeRoundTrips) {
  for (uint32_t code = 0; code <= 0xffff; ++code) {
    const auto bits = static_cast<uint16_t>(code);
    const float value = Bf16ToFloat(bits);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(Bf16ToFloat(FloatToBf16(value)))) << code;
    } else {
      EXPECT_EQ(FloatToBf16(value), bits);
    }
  }
}

TEST(Bf16, RoundsToNearestEven) {
  for (const uint16_t code : {0x0000, 0x0001, 0x007f, 0x0080, 0x3f80, 0x3f81, 0x3fff, 0x7f7e}) {
    const float low = Bf16ToFloat(code);
    const float high = Bf16ToFloat(static_cast<uint16_t>(code + 1));
    const float middle = low + (high - low) / 2;
    for (const float value : {middle, std::nextafter(middle, low), std::nextafter(middle, high)}) {
      const uint16_t expected = NearestByScan(value, 0x7f7f, Bf16ToFloat);
      EXPECT_EQ(FloatToBf16(value), expected) << code;
      EXPECT_EQ(FloatToBf16(-value), expected | 0x8000) << code;
    }
  }
}

TEST(Bf16, KeepsInfinityAndNan) {
  EXPECT_EQ(FloatToBf16(kInfinity), 0x7f80);
  EXPECT_EQ(FloatToBf16(-kInfinity), 0xff80);
  EXPECT_EQ(FloatToBf16(std::numeric_limits<float>::max()), 0x7f80);
  // A NaN whose payload is in the bits that are cut off.
  EXPECT_TRUE(std::isnan(Bf16ToFloat(FloatToBf16(std::bit_cast<float>(0x7f800001U)))));
  EXPECT_TRUE(std::isnan(Bf16ToFloat(FloatToBf16(std::bit_cast<float>(0xffffffffU)))));
}

TEST(TensorView, LoadsEveryTypeFromUnalignedMemory) {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kF16, Dtype::kBf16}) {
    char bytes[16] = {};
    for (int i = 0; i < 3; ++i) {
      const float value = 1.5f * static_cast<float>(i) - 1.f;
      const uint16_t half = dtype == Dtype::kF16 ? FloatToF16(value) : FloatToBf16(value);
      if (dtype == Dtype::kF32) {
        std::memcpy(bytes + 1 + 4 * i, &value, 4);
      } else {
        std::memcpy(bytes + 1 + 2 * i, &half, 2);
      }
    }
    const TensorView view = {bytes + 1, dtype, {3}};
    EXPECT_EQ(LoadElement(view, 0), -1.f) << DtypeName(dtype);
    EXPECT_EQ(LoadElement(view, 2), 2.f) << DtypeName(dtype);
  }
}

TEST(TensorView, DescribesShapeAndType) {
  const TensorView view = {nullptr, Dtype::kBf16, {2048, 512}};
  EXPECT_EQ(view.Describe(), "[2048, 512] bf16");
  EXPECT_EQ(view.elements(), 2048U * 512U);
  const TensorView scalar = {nullptr, Dtype::kF32, {}};
  EXPECT_EQ(scalar.elements(), 1U);
}

TEST(FindUnfit, FindsTheFirstWhereverItIs) {
  constexpr size_t kSize = 2600;  // two blocks and a part
  for (const size_t index : {size_t{0}, size_t{1023}, size_t{1024}, size_t{2599}, kSize}) {
    std::vector<float> f32(kSize, -2.f);
    std::vector<uint16_t> bf16(kSize, FloatToBf16(3e38f)), f16(kSize, FloatToF16(-65504.f));
    if (index < kSize) {
      f32[index] = -INFINITY;
      bf16[index] = FloatToBf16(NAN);
      f16[index] = FloatToF16(INFINITY);
      f32.back() = NAN;
    }
    const std::vector<int64_t> shape = {26, 100};
    EXPECT_EQ(FindUnfit({f32.data(), Dtype::kF32, shape}), index);
    EXPECT_EQ(FindUnfit({bf16.data(), Dtype::kBf16, shape}), index);
    EXPECT_EQ(FindUnfit({f16.data(), Dtype::kF16, shape}), index);
  }
  const std::vector<float> large = {1.f, 65519.f, -65520.f};
  EXPECT_EQ(FindUnfit({large.data(), Dtype::kF32, {3}}, 65520.f), 2u);
}

}  // namespace
}  // namespace outrider
