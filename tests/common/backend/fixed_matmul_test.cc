// Products of 4-bit codes, 8-bit codes and MXFP4, whose activations the CPU may keep in fixed
// point: what the conformance tests' random values do not show. Every case also holds for sums in
// floats.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/backend/cpu/cpu_backend.h"
#include "common/backend/cpu/packed_panels.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNanValue = std::numeric_limits<float>::quiet_NaN();

class FixedMatMul : public ::testing::TestWithParam<CodeType> {};

// MXFP4's codes are halves of integers, which scales of 2 make whole.
float ScaleFor(CodeType type) { return type == CodeType::kFp4E2M1 ? 2.f : 1.f; }

QuantizedMatrix RandomCodes(CodeType type, int out, int in, int group_size, std::mt19937& random) {
  QuantizedMatrix matrix = {.type = type, .rows = out, .columns = in, .group_size = group_size};
  const unsigned codes = type == CodeType::kInt8 ? 256 : 16;
  for (int i = 0; i < out * in; ++i) matrix.codes.push_back(static_cast<uint8_t>(random() % codes));
  matrix.scales.assign(static_cast<size_t>(out * matrix.groups()), ScaleFor(type));
  return matrix;
}

WeightType TypeOf(CodeType type) {
  return type == CodeType::kInt4      ? WeightType::kW4A16
         : type == CodeType::kFp4E2M1 ? WeightType::kMxfp4
                                      : WeightType::kW8A16;
}

std::vector<float> MultiplyCodes(const QuantizedMatrix& matrix, const std::vector<float>& x,
                                 bool int8_activations = false) {
  const CpuBackendOptions options = {
      .threads = 1, .cores = {}, .int8_activations = int8_activations};
  const std::unique_ptr<Backend> backend = CreateCpuBackend(options).value();
  const auto packed = backend->Pack(matrix, TypeOf(matrix.type), WeightType::kF32).value();
  const auto rows = static_cast<int>(static_cast<int64_t>(x.size()) / matrix.columns);
  std::vector<float> y(static_cast<size_t>(rows * matrix.rows), kNanValue);
  backend->MatMul(*packed, x.data(), rows, nullptr, false, y.data());
  return y;
}

double CodeAt(const QuantizedMatrix& matrix, int output, int k) {
  return CodeValue(matrix.type, matrix.codes[output * matrix.columns + k]) * ScaleFor(matrix.type);
}

double ExactProduct(const QuantizedMatrix& matrix, int output, const float* x) {
  double sum = 0;
  for (int k = 0; k < matrix.columns; ++k) sum += CodeAt(matrix, output, k) * x[k];
  return sum;
}

// The sum of the magnitudes of an output's codes.
double Magnitude(const QuantizedMatrix& matrix, int output) {
  double sum = 0;
  for (int k = 0; k < matrix.columns; ++k) sum += std::fabs(CodeAt(matrix, output, k));
  return sum;
}

TEST_P(FixedMatMul, KeepsTwentyThreeBitsOfActivations) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  constexpr int kOut = 33, kIn = 8, kRows = 50;
  const QuantizedMatrix matrix = RandomCodes(GetParam(), kOut, kIn, kIn, random);
  std::vector<float> x(kRows * kIn);
  for (float& value : x) value = normal(random);
  const std::vector<float> y = MultiplyCodes(matrix, x);
  for (int i = 0; i < kRows * kOut; ++i) {
    const float* const x_row = &x[i / kOut * kIn];
    float largest = 0;
    for (int k = 0; k < kIn; ++k) largest = std::max(largest, std::fabs(x_row[k]));
    // Half a step of each activation, and the roundings of the sum.
    const double bound = 0x1p-22 * largest * Magnitude(matrix, i % kOut);
    ASSERT_NEAR(y[i], ExactProduct(matrix, i % kOut, x_row), bound) << i;
  }
}

TEST_P(FixedMatMul, IsExactForShortIntegers) {
  std::mt19937 random(2);
  constexpr int kOut = 40, kIn = 72, kRows = 5;
  const QuantizedMatrix matrix = RandomCodes(GetParam(), kOut, kIn, 24, random);
  std::vector<float> x(kRows * kIn);
  for (float& value : x) value = static_cast<float>(static_cast<int>(random() % 8191) - 4095);
  const std::vector<float> y = MultiplyCodes(matrix, x);
  for (int i = 0; i < kRows * kOut; ++i) {
    EXPECT_EQ(y[i], ExactProduct(matrix, i % kOut, &x[i / kOut * kIn])) << i;
  }
}

TEST_P(FixedMatMul, HoldsLargestStepsOfBothSigns) {
  // On both sides of where the step doubles, the first of which has the most steps there are.
  for (const float value : {127.f, 127.00001f, 128.f, 255.99998f, 254.f, 254.00002f}) {
    for (const float sign : {1.f, -1.f}) {
      std::mt19937 random(3);
      const QuantizedMatrix matrix = RandomCodes(GetParam(), 1, 8, 8, random);
      const std::vector<float> x(8, sign * value);
      const double want = ExactProduct(matrix, 0, x.data());
      const double bound = 0x1p-22 * value * Magnitude(matrix, 0);
      EXPECT_NEAR(MultiplyCodes(matrix, x)[0], want, bound) << sign * value;
    }
  }
}

// A digit of all activations is -128, so its sum is the largest there is: one input more would need
// more than 32 bits. Every partial sum has few enough bits for a float.
TEST_P(FixedMatMul, HoldsSumsOfWidestGroups) {
  for (const int in : {kMaxFixedGroup, kMaxFixedGroup + 1}) {
    QuantizedMatrix matrix = {.type = GetParam(), .rows = 1, .columns = in, .group_size = in};
    matrix.scales = {ScaleFor(GetParam())};
    for (const int code : {0x80, 0x7f}) {
      const int kept = GetParam() == CodeType::kInt8 ? code : code & 0x0f;
      matrix.codes.assign(static_cast<size_t>(in), static_cast<uint8_t>(kept));
      for (const float digit : {-128.f, -128.f * 256.f}) {
        std::vector<float> x(static_cast<size_t>(in), digit);
        x[0] += 0x7fp16f;  // makes a step 1
        EXPECT_EQ(MultiplyCodes(matrix, x)[0], ExactProduct(matrix, 0, x.data())) << in;
      }
    }
  }
}

TEST_P(FixedMatMul, KeepsGroupsApart) {
  std::mt19937 random(4);
  QuantizedMatrix matrix = RandomCodes(GetParam(), 3, 32, 16, random);
  for (int output = 0; output < 3; ++output) {
    std::fill_n(matrix.codes.begin() + output * 32, 16, 0);
  }
  std::vector<float> x(32, 1e30f);
  for (int k = 16; k < 32; ++k) x[k] = static_cast<float>(k);
  const std::vector<float> y = MultiplyCodes(matrix, x);
  for (int output = 0; output < 3; ++output) {
    EXPECT_EQ(y[output], ExactProduct(matrix, output, x.data()));
  }
}

TEST_P(FixedMatMul, MultipliesTheSmallestNormalValues) {
  std::mt19937 random(5);
  QuantizedMatrix matrix = RandomCodes(GetParam(), 3, 16, 16, random);
  for (const float value : {0x1p-126f, 0x1p-120f, 0x1p-104f, 0x1p-103f}) {
    const std::vector<float> x(16, value);
    const std::vector<float> y = MultiplyCodes(matrix, x);
    for (int output = 0; output < 3; ++output) {
      EXPECT_EQ(y[output], static_cast<float>(ExactProduct(matrix, output, x.data()))) << value;
    }
  }
  EXPECT_EQ(MultiplyCodes(matrix, std::vector<float>(16, 0.f)), std::vector<float>(3, 0.f));
}

TEST_P(FixedMatMul, ShowsWhatIsNotFinite) {
  std::mt19937 random(6);
  QuantizedMatrix matrix = RandomCodes(GetParam(), 3, 64, 32, random);
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

TEST_P(FixedMatMul, RoundsByGroupToEightBits) {
  std::mt19937 random(7);
  constexpr int kOut = 35, kIn = 136, kGroup = 24, kRows = 14;
  const QuantizedMatrix matrix = RandomCodes(GetParam(), kOut, kIn, kGroup, random);
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
    const float* const x_row = &rounded[i / kOut * kIn];
    double magnitude = 0;
    for (int k = 0; k < kIn; ++k) {
      magnitude += std::fabs(CodeAt(matrix, i % kOut, k) * x_row[k]);
    }
    EXPECT_NEAR(y[i], ExactProduct(matrix, i % kOut, x_row), 0x1p-22 * magnitude) << i;
  }
}

TEST_P(FixedMatMul, RoundsTheOffsetsFactorToo) {
  if (GetParam() == CodeType::kFp4E2M1) return;  // has no offsets
  std::mt19937 random(8);
  std::normal_distribution<float> normal;
  QuantizedMatrix matrix = RandomCodes(GetParam(), 3, 64, 32, random);
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

INSTANTIATE_TEST_SUITE_P(Codes, FixedMatMul,
                         ::testing::Values(CodeType::kInt4, CodeType::kInt8, CodeType::kFp4E2M1),
                         [](const ::testing::TestParamInfo<CodeType>& type) {
                           return std::string(CodeTypeName(type.param));
                         });

}  // namespace
}  // namespace outrider
