// Products of 4-bit codes, whose activations the CPU may keep in fixed point: what the conformance
// tests' random values do not show. Every case also holds for sums in floats.
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/backend/cpu/cpu_backend.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNanValue = std::numeric_limits<float>::quiet_NaN();

QuantizedMatrix RandomInt4(int out, int in, int group_size, std::mt19937& random) {
  QuantizedMatrix matrix = {
      .type = CodeType::kInt4, .rows = out, .columns = in, .group_size = group_size};
  for (int i = 0; i < out * in; ++i) matrix.codes.push_back(static_cast<uint8_t>(random() % 16));
  matrix.scales.assign(static_cast<size_t>(out * matrix.groups()), 1.f);
  return matrix;
}

std::vector<float> MultiplyCodes(const QuantizedMatrix& matrix, const std::vector<float>& x,
                                 bool int8_activations = false) {
  const CpuBackendOptions options = {
      .threads = 1, .cores = {}, .int8_activations = int8_activations};
  const std::unique_ptr<Backend> backend = CreateCpuBackend(options).value();
  const auto packed = backend->Pack(matrix, WeightType::kW4A16, WeightType::kF32).value();
  const auto rows = static_cast<int>(static_cast<int64_t>(x.size()) / matrix.columns);
  std::vector<float> y(static_cast<size_t>(rows * matrix.rows), kNanValue);
  backend->MatMul(*packed, x.data(), rows, nullptr, false, y.data());
  return y;
}

double ExactProduct(const QuantizedMatrix& matrix, int output, const float* x) {
  double sum = 0;
  for (int k = 0; k < matrix.columns; ++k) {
    sum += static_cast<double>(matrix.codes[output * matrix.columns + k]) * x[k];
  }
  return sum;
}

TEST(FixedMatMul, KeepsTwentyThreeBitsOfActivations) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  constexpr int kOut = 33, kIn = 8, kRows = 50;
  const QuantizedMatrix matrix = RandomInt4(kOut, kIn, kIn, random);
  std::vector<float> x(kRows * kIn);
  for (float& value : x) value = normal(random);
  const std::vector<float> y = MultiplyCodes(matrix, x);
  for (int i = 0; i < kRows * kOut; ++i) {
    const float* const of_row = &x[i / kOut * kIn];
    float largest = 0;
    for (int k = 0; k < kIn; ++k) largest = std::max(largest, std::fabs(of_row[k]));
    double codes = 0;
    for (int k = 0; k < kIn; ++k) codes += matrix.codes[i % kOut * kIn + k];
    // Half a step of each activation, and the roundings of the sum.
    const double bound = 0x1p-22 * largest * codes;
    ASSERT_NEAR(y[i], ExactProduct(matrix, i % kOut, of_row), bound) << i;
  }
}

TEST(FixedMatMul, IsExactForShortIntegers) {
  std::mt19937 random(2);
  constexpr int kOut = 40, kIn = 72, kRows = 5;
  const QuantizedMatrix matrix = RandomInt4(kOut, kIn, 24, random);
  std::vector<float> x(kRows * kIn);
  for (float& value : x) value = static_cast<float>(static_cast<int>(random() % 8191) - 4095);
  const std::vector<float> y = MultiplyCodes(matrix, x);
  for (int i = 0; i < kRows * kOut; ++i) {
    EXPECT_EQ(y[i], ExactProduct(matrix, i % kOut, &x[i / kOut * kIn])) << i;
  }
}

TEST(FixedMatMul, HoldsLargestStepsOfBothSigns) {
  // On both sides of where the step doubles, the first of which has the most steps there are.
  for (const float value : {127.f, 127.00001f, 128.f, 255.99998f, 254.f, 254.00002f}) {
    for (const float sign : {1.f, -1.f}) {
      std::mt19937 random(3);
      const QuantizedMatrix matrix = RandomInt4(1, 8, 8, random);
      const std::vector<float> x(8, sign * value);
      const double want = ExactProduct(matrix, 0, x.data());
      EXPECT_NEAR(MultiplyCodes(matrix, x)[0], want, 0x1p-22 * std::fabs(want)) << sign * value;
    }
  }
}

TEST(FixedMatMul, KeepsGroupsApart) {
  std::mt19937 random(4);
  QuantizedMatrix matrix = RandomInt4(3, 32, 16, random);
  for (int output = 0; output < 3; ++output) {
    for (int k = 0; k < 16; ++k) matrix.codes[output * 32 + k] = 0;
  }
  std::vector<float> x(32, 1e30f);
  for (int k = 16; k < 32; ++k) x[k] = static_cast<float>(k);
  const std::vector<float> y = MultiplyCodes(matrix, x);
  for (int output = 0; output < 3; ++output) {
    EXPECT_EQ(y[output], ExactProduct(matrix, output, x.data()));
  }
}

TEST(FixedMatMul, MultipliesTheSmallestNormalValues) {
  std::mt19937 random(5);
  QuantizedMatrix matrix = RandomInt4(3, 16, 16, random);
  for (const float value : {0x1p-126f, 0x1p-120f, 0x1p-104f, 0x1p-103f}) {
    const std::vector<float> x(16, value);
    const std::vector<float> y = MultiplyCodes(matrix, x);
    for (int output = 0; output < 3; ++output) {
      EXPECT_EQ(y[output], static_cast<float>(ExactProduct(matrix, output, x.data()))) << value;
    }
  }
  EXPECT_EQ(MultiplyCodes(matrix, std::vector<float>(16, 0.f)), std::vector<float>(3, 0.f));
}

TEST(FixedMatMul, ShowsWhatIsNotFinite) {
  std::mt19937 random(6);
  QuantizedMatrix matrix = RandomInt4(3, 64, 32, random);
  for (uint8_t& code : matrix.codes) code = std::max<uint8_t>(code, 1);
  for (const float value : {kNanValue, kInfinity, -kInfinity}) {
    for (const auto& [k, int8] : {std::pair(0, false), {31, true}, {63, false}, {63, true}}) {
      std::vector<float> x(2 * 64, 127.f);
      x[k] = value;
      const std::vector<float> y = MultiplyCodes(matrix, x, int8);
      for (int output = 0; output < 3; ++output) {
        EXPECT_FALSE(std::isfinite(y[output])) << value << " at " << k;
        EXPECT_EQ(y[3 + output], ExactProduct(matrix, output, &x[64]));
      }
    }
  }
}

TEST(FixedMatMul, RoundsToInt8ByGroup) {
  std::mt19937 random(7);
  constexpr int kOut = 35, kIn = 136, kGroup = 24, kRows = 14;
  const QuantizedMatrix matrix = RandomInt4(kOut, kIn, kGroup, random);
  std::vector<float> x(kRows * kIn), rounded(kRows * kIn);
  for (size_t i = 0; i < x.size(); ++i) {
    // Steps of a power of two that differs by group: 127 of them are the largest value.
    const auto step = std::ldexp(1.f, static_cast<int>(i % kIn) / kGroup * 5);
    const int steps = i % kIn % kGroup == 3 ? 127 : static_cast<int>(random() % 255) - 127;
    rounded[i] = static_cast<float>(steps) * step;
    x[i] = rounded[i] + (std::abs(steps) < 127 ? step * 0.25f : 0.f);
  }
  const std::unique_ptr<Backend> backend =
      CreateCpuBackend({.threads = 1, .cores = {}, .int8_activations = true}).value();
  if (backend->Describe().find("int8 activations") == std::string::npos) {
    GTEST_SKIP() << backend->Describe() << " does not round";
  }
  const std::vector<float> y = MultiplyCodes(matrix, x, true);
  for (int i = 0; i < kRows * kOut; ++i) {
    const float* const of_row = &rounded[i / kOut * kIn];
    double magnitude = 0;
    for (int k = 0; k < kIn; ++k) {
      magnitude += matrix.codes[i % kOut * kIn + k] * std::fabs(of_row[k]);
    }
    EXPECT_NEAR(y[i], ExactProduct(matrix, i % kOut, of_row), 0x1p-22 * magnitude) << i;
  }
}

TEST(FixedMatMul, RoundsTheOffsetsFactorToo) {
  std::mt19937 random(8);
  std::normal_distribution<float> normal;
  QuantizedMatrix matrix = RandomInt4(3, 64, 32, random);
  for (uint8_t& code : matrix.codes) code = 8;
  matrix.offsets.assign(matrix.scales.size(), -8.f);
  std::vector<float> x(64);
  for (float& value : x) value = normal(random);
  for (const bool int8_activations : {false, true}) {
    for (const float value : MultiplyCodes(matrix, x, int8_activations)) {
      EXPECT_NEAR(value, 0, 1e-4);
    }
  }
}

}  // namespace
}  // namespace outrider
