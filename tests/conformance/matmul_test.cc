#include <algorithm>
#include <cmath>

#include "tests/conformance/backends.h"

namespace outrider {
namespace {

struct MatMulCase {
  int rows;
  int out;
  int in;
};

// Ones, odd sizes, one less and one more than powers of two: every tail of a panel, of a vector and
// of a block of rows.
constexpr MatMulCase kCases[] = {
    {1, 1, 1},    {1, 32, 1},   {2, 31, 2},    {3, 33, 3},    {4, 64, 64},   {5, 65, 127},
    {7, 100, 5},  {8, 96, 256}, {8, 7, 129},   {9, 40, 63},   {16, 33, 70},  {17, 128, 31},
    {1, 257, 96}, {33, 48, 40}, {65, 160, 24}, {1, 512, 512}, {6, 130, 1025}};

const char* Name(WeightType type) {
  switch (type) {
    case WeightType::kBf16: return "bf16";
    case WeightType::kF16: return "f16";
    case WeightType::kF32: return "f32";
    case WeightType::kW8A16: return "w8a16";
    case WeightType::kW8A8: return "w8a8";
  }
  return "";
}

// A weight as a 16-bit type keeps it; others as they are.
double Kept(WeightType type, float value) {
  if (type == WeightType::kBf16) return Bf16ToFloat(FloatToBf16(value));
  if (type == WeightType::kF16) return F16ToFloat(FloatToF16(value));
  return value;
}

float MaxAbs(const float* values, int n) {
  float max = 0.f;
  for (int i = 0; i < n; ++i) max = std::max(max, std::fabs(values[i]));
  return max;
}

struct Reference {
  double value;
  double tolerance;
};

// The product of one row and one output in double, of the weights as `type` keeps them.
Reference Product(WeightType type, const float* w, const float* x, int n, double bf16_error = 0) {
  double sum = 0, magnitude = 0, sum_x = 0, sum_w = 0;
  for (int i = 0; i < n; ++i) {
    const double weight = Kept(type, w[i]);
    sum += weight * x[i];
    magnitude += std::fabs(weight * x[i]);
    sum_x += std::fabs(x[i]);
    sum_w += std::fabs(w[i]);
  }
  // n roundings of the sum and the products, each of relative 2^-24 (Higham, section 3.1).
  double tolerance = (n + 4) * std::ldexp(magnitude, -24) + 1e-30;
  if (type == WeightType::kBf16) tolerance += bf16_error * magnitude;
  // f16 has three bits more, but none below 2^-24.
  if (type == WeightType::kF16) tolerance += bf16_error / 8 * magnitude + std::ldexp(sum_w, -24);
  if (type == WeightType::kW8A16 || type == WeightType::kW8A8) {
    // Half a step of what is rounded, and the product of both errors. Steps are max / 127.
    const double step_w = MaxAbs(w, n) / 127 * 0.501;
    const double step_x = type == WeightType::kW8A8 ? MaxAbs(x, n) / 127 * 0.501 : 0;
    tolerance += step_w * sum_x + step_x * sum_w + n * step_w * step_x;
  }
  return {sum, tolerance};
}

class MatMulTest : public ConformanceTest {
 protected:
  std::unique_ptr<PackedMatrix> Pack(const std::vector<float>& w, int out, int in,
                                     WeightType type) {
    Result<std::unique_ptr<PackedMatrix>> packed =
        backend_->Pack({w.data(), Dtype::kF32, {out, in}}, type);
    EXPECT_TRUE(packed.ok()) << packed.status().ToString();
    return std::move(packed).value();
  }
};

TEST_P(MatMulTest, EqualsTheProductInDouble) {
  std::mt19937 random(1);
  for (const WeightType type : GetParam().weights) {
    for (const MatMulCase& c : kCases) {
      const std::vector<float> w = RandomValues(c.out * c.in, random);
      const std::vector<float> x = RandomValues(c.rows * c.in, random);
      const auto packed = Pack(w, c.out, c.in, type);
      EXPECT_EQ(packed->out_features(), c.out);
      EXPECT_EQ(packed->in_features(), c.in);
      float* out = Poisoned(c.rows * c.out);
      backend_->MatMul(*packed, Upload(x), c.rows, nullptr, false, out);
      const std::vector<float> y = Download(out, c.rows * c.out);
      for (int r = 0; r < c.rows; ++r) {
        for (int o = 0; o < c.out; ++o) {
          const Reference want =
              Product(type, &w[o * c.in], &x[r * c.in], c.in, GetParam().bf16_activation_error);
          ASSERT_NEAR(y[r * c.out + o], want.value, want.tolerance)
              << Name(type) << " [" << c.rows << ", " << c.out << ", " << c.in << "] row " << r
              << " output " << o;
        }
      }
    }
  }
}

TEST_P(MatMulTest, AddsTheBiasAndAccumulates) {
  std::mt19937 random(2);
  for (const int rows : {1, 3, 8, 11}) {
    const int out = 45, in = 37;
    const std::vector<float> w = RandomValues(out * in, random);
    const std::vector<float> x = RandomValues(rows * in, random);
    const std::vector<float> bias = RandomValues(out, random);
    const std::vector<float> before = RandomValues(rows * out, random);
    const auto packed = Pack(w, out, in, WeightType::kF32);
    for (const bool with_bias : {false, true}) {
      for (const bool accumulate : {false, true}) {
        float* y = accumulate ? Upload(before) : Poisoned(rows * out);
        backend_->MatMul(*packed, Upload(x), rows, with_bias ? Upload(bias) : nullptr, accumulate,
                         y);
        const std::vector<float> got = Download(y, rows * out);
        for (int i = 0; i < rows * out; ++i) {
          const int r = i / out, o = i % out;
          const Reference want = Product(WeightType::kF32, &w[o * in], &x[r * in], in);
          const double extra = (with_bias ? bias[o] : 0.) + (accumulate ? before[i] : 0.);
          // Two more additions, of terms up to 40 or so.
          ASSERT_NEAR(got[i], want.value + extra, want.tolerance + 1e-5) << "row " << r;
        }
      }
    }
  }
}

TEST_P(MatMulTest, ARowIsBitEqualInAnyCall) {
  if (!GetParam().batch_invariant_products) GTEST_SKIP() << "not promised";
  std::mt19937 random(3);
  constexpr int kRows = 37;
  for (const WeightType type : GetParam().weights) {
    for (const auto& [out, in] : {std::pair(70, 129), std::pair(32, 64), std::pair(300, 256)}) {
      const auto packed = Pack(RandomValues(out * in, random), out, in, type);
      const float* x = Upload(RandomValues(kRows * in, random));
      float* all = Poisoned(kRows * out);
      backend_->MatMul(*packed, x, kRows, nullptr, false, all);
      const std::vector<float> want = Download(all, kRows * out);
      for (int count = 1; count <= 20; ++count) {
        for (const int first : {0, 1, kRows - count}) {
          float* some = Poisoned(count * out);
          backend_->MatMul(*packed, x + first * in, count, nullptr, false, some);
          const std::vector<float> got = Download(some, count * out);
          ASSERT_TRUE(std::equal(got.begin(), got.end(), want.begin() + first * out))
              << Name(type) << " rows " << first << " to " << first + count;
        }
      }
    }
  }
}

TEST_P(MatMulTest, PacksEveryStoredType) {
  std::mt19937 random(4);
  const int out = 35, in = 66;
  std::vector<uint16_t> half(out * in), bf16(out * in);
  std::vector<float> from_half(out * in), from_bf16(out * in);
  const std::vector<float> values = RandomValues(out * in, random);
  for (int i = 0; i < out * in; ++i) {
    half[i] = FloatToF16(values[i]);
    from_half[i] = F16ToFloat(half[i]);
    bf16[i] = FloatToBf16(values[i]);
    from_bf16[i] = Bf16ToFloat(bf16[i]);
  }
  const float* x = Upload(RandomValues(in, random));
  const auto product = [&](const void* data, Dtype dtype, WeightType type) {
    Result<std::unique_ptr<PackedMatrix>> packed = backend_->Pack({data, dtype, {out, in}}, type);
    EXPECT_TRUE(packed.ok());
    float* y = Poisoned(out);
    backend_->MatMul(**packed, x, 1, nullptr, false, y);
    return Download(y, out);
  };
  for (const WeightType type : GetParam().weights) {
    EXPECT_EQ(product(half.data(), Dtype::kF16, type),
              product(from_half.data(), Dtype::kF32, type));
    EXPECT_EQ(product(bf16.data(), Dtype::kBf16, type),
              product(from_bf16.data(), Dtype::kF32, type));
  }
}

// Of integers that are given: no rounding but that of floats.
TEST_P(MatMulTest, KeepsIntegersAsTheyAre) {
  std::mt19937 random(5);
  for (const auto& [out, in] : {std::pair(35, 66), std::pair(32, 1), std::pair(1, 129)}) {
    std::vector<int8_t> integers(out * in);
    for (int8_t& integer : integers) integer = static_cast<int8_t>(random() % 256);
    std::vector<float> scales(out), weights(out * in);
    for (float& scale : scales) scale = 0.001f * static_cast<float>(1 + random() % 9);
    for (int i = 0; i < out * in; ++i) {
      weights[i] = static_cast<float>(integers[i]) * scales[i / in];
    }
    const Int8Matrix matrix = {integers.data(), scales.data(), out, in};
    const auto packed = backend_->Pack(matrix, WeightType::kW8A16);
    if (packed.status().code() == Code::kUnimplemented) GTEST_SKIP() << "no such product";
    ASSERT_TRUE(packed.ok()) << packed.status().ToString();
    EXPECT_EQ((*packed)->type(), WeightType::kW8A16);
    constexpr int kRows = 9;
    const std::vector<float> x = RandomValues(kRows * in, random);
    float* y = Poisoned(kRows * out);
    backend_->MatMul(**packed, Upload(x), kRows, nullptr, false, y);
    const std::vector<float> got = Download(y, kRows * out);
    for (int i = 0; i < kRows * out; ++i) {
      const Reference want =
          Product(WeightType::kF32, &weights[i % out * in], &x[i / out * in], in);
      ASSERT_NEAR(got[i], want.value, 2 * want.tolerance) << "row " << i / out << " of " << out;
    }
    float* row = Poisoned(in);
    const TokenId last = out - 1;
    backend_->Embed(**packed, &last, 1, row);
    EXPECT_EQ(Download(row, in), std::vector<float>(weights.end() - in, weights.end()));
    // With activations in 8 bits the same integers, so half a step of the activations is all.
    const auto rounded = backend_->Pack(matrix, WeightType::kW8A8);
    ASSERT_TRUE(rounded.ok()) << rounded.status().ToString();
    backend_->MatMul(**rounded, Upload(x), kRows, nullptr, false, y);
    const std::vector<float> near = Download(y, kRows * out);
    for (int i = 0; i < kRows * out; ++i) {
      double sum = 0;
      for (int k = 0; k < in; ++k) sum += std::fabs(weights[i % out * in + k]);
      const double step = MaxAbs(&x[i / out * in], in) / 127 * 0.501;
      ASSERT_NEAR(near[i], got[i], step * sum + 1e-5) << "row " << i / out << " of " << out;
    }
  }
}

TEST_P(MatMulTest, IllShapedWeightsAreAnError) {
  const std::vector<float> w(64);
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{},
                                            {64},
                                            {4, 4, 4},
                                            {0, 64},
                                            {64, 0},
                                            {-1, 64},
                                            {1, int64_t{1} << 40}}) {
    const auto packed = backend_->Pack({w.data(), Dtype::kF32, shape}, WeightType::kBf16);
    ASSERT_FALSE(packed.ok());
    EXPECT_EQ(packed.status().code(), Code::kInvalidArgument);
  }
}

TEST_P(MatMulTest, TooMuchMemoryIsAnError) {
  const auto buffer = backend_->Allocate(size_t{1} << 56);
  ASSERT_FALSE(buffer.ok());
  EXPECT_EQ(buffer.status().code(), Code::kResourceExhausted);
}

OUTRIDER_FOR_ALL_BACKENDS(MatMulTest);

}  // namespace
}  // namespace outrider
