#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/conformance/backends.h"

namespace outrider {
namespace {

struct MatMulCase {
  int rows;
  int out;
  int in;
};

// Ones, odd sizes, one less and one more than powers of two: every remainder of a panel, of a
// vector and of a block of rows.
constexpr MatMulCase kCases[] = {
    {1, 1, 1},    {1, 32, 1},   {2, 31, 2},    {3, 33, 3},    {4, 64, 64},   {5, 65, 127},
    {7, 100, 5},  {8, 96, 256}, {8, 7, 129},   {9, 40, 63},   {16, 33, 70},  {17, 128, 31},
    {1, 257, 96}, {33, 48, 40}, {65, 160, 24}, {1, 512, 512}, {6, 130, 1025}};

// A weight as a 16-bit type stores it; other types are exact.
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

// The product of one row and one output in double, with the weights as `type` stores them.
Reference Product(WeightType type, const float* w, const float* x, int n, double bf16_error = 0,
                  bool int8_activations = false) {
  double sum = 0, magnitude = 0, sum_x = 0, sum_w = 0;
  for (int i = 0; i < n; ++i) {
    const double weight = Kept(type, w[i]);
    sum += weight * x[i];
    magnitude += std::fabs(weight * x[i]);
    sum_x += std::fabs(x[i]);
    sum_w += std::fabs(w[i]);
  }
  // n roundings of the sum and the products, each with relative error 2^-24 (Higham, section 3.1).
  double tolerance = (n + 4) * std::ldexp(magnitude, -24) + 1e-30;
  if (type == WeightType::kBf16) tolerance += bf16_error * magnitude;
  // f16 has three bits more, but none below 2^-24.
  if (type == WeightType::kF16) tolerance += bf16_error / 8 * magnitude + std::ldexp(sum_w, -24);
  if (type == WeightType::kW8A16 || type == WeightType::kW8A8 || type == WeightType::kW4A16) {
    // Half a step of each rounded value, and the product of both errors. Steps are max / 127, for 4
    // bits max / 7.
    const double step_w = MaxAbs(w, n) / (type == WeightType::kW4A16 ? 7 : 127) * 0.501;
    const bool rounds_x = type == WeightType::kW8A8 || int8_activations;
    const double step_x = rounds_x ? MaxAbs(x, n) / 127 * 0.501 : 0;
    tolerance += step_w * sum_x + step_x * sum_w + n * step_w * step_x;
    // If they are widened to bf16 for the product, both sides are rounded.
    tolerance += 2 * bf16_error * (magnitude + step_w * sum_x);
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
              Product(type, &w[o * c.in], &x[r * c.in], c.in, GetParam().bf16_activation_error,
                      GetParam().int8_activations);
          ASSERT_NEAR(y[r * c.out + o], want.value, want.tolerance)
              << WeightTypeName(type) << " [" << c.rows << ", " << c.out << ", " << c.in << "] row "
              << r << " output " << o;
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
          // Two more additions, of terms up to about 40.
          ASSERT_NEAR(got[i], want.value + extra, want.tolerance + 1e-5) << "row " << r;
        }
      }
    }
  }
}

TEST_P(MatMulTest, RowBitsIgnoreTheCall) {
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
              << WeightTypeName(type) << " rows " << first << " to " << first + count;
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

struct CodesCase {
  CodeType type;
  int out;
  int in;
  int group_size;
  bool has_offsets = false;
  bool is_reordered = false;
};

void PrintTo(const CodesCase& c, std::ostream* out) {
  *out << "codes " << static_cast<int>(c.type) << " [" << c.out << ", " << c.in << "] in groups of "
       << c.group_size << (c.has_offsets ? " with offsets" : "")
       << (c.is_reordered ? ", reordered" : "");
}

const CodesCase kCodesCases[] = {
    {CodeType::kInt8, 35, 66, 66},        {CodeType::kInt8, 32, 1, 1},
    {CodeType::kInt8, 1, 129, 129},       {CodeType::kInt8, 70, 129, 32, true, true},
    {CodeType::kInt8, 33, 64, 16},        {CodeType::kInt4, 35, 66, 66, true},
    {CodeType::kInt4, 1, 1, 1, true},     {CodeType::kInt4, 65, 256, 128, true},
    {CodeType::kInt4, 96, 300, 32, true}, {CodeType::kInt4, 33, 129, 64, true, true},
    {CodeType::kInt4, 40, 71, 8},         {CodeType::kFp8E4M3, 35, 66, 66},
    {CodeType::kFp8E4M3, 33, 1, 1},       {CodeType::kFp8E4M3, 130, 300, 128},
    {CodeType::kFp4E2M1, 35, 66, 66},     {CodeType::kFp4E2M1, 33, 1, 1},
    {CodeType::kFp4E2M1, 130, 301, 32},   {CodeType::kFp4E2M1, 70, 128, 32, false, true},
};

QuantizedMatrix RandomCodes(const CodesCase& c, std::mt19937& random) {
  QuantizedMatrix matrix = {
      .type = c.type, .rows = c.out, .columns = c.in, .group_size = c.group_size};
  for (int i = 0; i < c.out * c.in; ++i) {
    auto code = static_cast<uint8_t>(random());
    if (c.type == CodeType::kInt4 || c.type == CodeType::kFp4E2M1) code &= 15;
    if (IsNanCode(c.type, code)) code = 1;  // the smallest subnormal
    matrix.codes.push_back(code);
  }
  for (int64_t i = 0; i < c.out * matrix.groups(); ++i) {
    const auto step = static_cast<int>(random() % 9);
    const float power = std::ldexp(1.f, step - 12);
    matrix.scales.push_back(c.type == CodeType::kFp4E2M1 ? power
                                                         : 0.001f * static_cast<float>(1 + step));
    if (c.has_offsets) {
      matrix.offsets.push_back(0.01f * static_cast<float>(static_cast<int>(random() % 9) - 4));
    }
  }
  if (c.is_reordered) {
    matrix.column_order.resize(static_cast<size_t>(c.in));
    std::iota(matrix.column_order.begin(), matrix.column_order.end(), 0);
    std::shuffle(matrix.column_order.begin(), matrix.column_order.end(), random);
  }
  return matrix;
}

WeightType TypeOf(CodeType type) {
  switch (type) {
    case CodeType::kInt4: return WeightType::kW4A16;
    case CodeType::kInt8: return WeightType::kW8A16;
    case CodeType::kFp8E4M3: return WeightType::kFp8;
    case CodeType::kFp4E2M1: return WeightType::kMxfp4;
  }
  return WeightType::kF32;
}

// Codes are given, so only floats are rounded.
TEST_P(MatMulTest, KeepsCodesAsTheyAre) {
  std::mt19937 random(5);
  constexpr int kRows = 11;
  for (const CodesCase& c : kCodesCases) {
    SCOPED_TRACE(::testing::PrintToString(c));
    const QuantizedMatrix matrix = RandomCodes(c, random);
    std::vector<float> weights(static_cast<size_t>(c.out * c.in));
    for (int o = 0; o < c.out; ++o) {
      matrix.WidenRowInOrder(o, std::span(weights).subspan(o * c.in, c.in));
    }
    const auto packed = backend_->Pack(matrix, TypeOf(c.type), WeightType::kF32);
    ASSERT_TRUE(packed.ok()) << packed.status().ToString();
    EXPECT_EQ((*packed)->type(), TypeOf(c.type));
    const std::vector<float> x = RandomValues(kRows * c.in, random);
    const float* on_device = Upload(x);
    float* y = Poisoned(kRows * c.out);
    backend_->MatMul(**packed, on_device, kRows, nullptr, false, y);
    const std::vector<float> got = Download(y, kRows * c.out);
    // An offset and a code may cancel: the error is relative to their magnitudes.
    const auto most_code = static_cast<double>(c.type == CodeType::kFp8E4M3 ? 448 : 128);
    for (int i = 0; i < kRows * c.out; ++i) {
      const float* const x_row = &x[i / c.out * c.in];
      const Reference want = Product(WeightType::kF32, &weights[i % c.out * c.in], x_row, c.in);
      double sum_x = 0;
      for (int k = 0; k < c.in; ++k) sum_x += std::fabs(x_row[k]);
      const double cancelled =
          c.has_offsets ? std::ldexp(sum_x * (0.009 * most_code + 0.04) * (c.in + 4), -24) : 0;
      // Half a step of each activation, times the largest weight that RandomCodes makes.
      const double most = c.type == CodeType::kInt4      ? 15 * 0.009 + 0.04
                          : c.type == CodeType::kFp4E2M1 ? 6 * 0x1p-4
                                                         : 128 * 0.009 + 0.04;
      const bool rounds_x = GetParam().int8_activations && c.type != CodeType::kFp8E4M3;
      const double rounded = rounds_x ? MaxAbs(x_row, c.in) / 127 * 0.501 * c.in * most : 0;
      ASSERT_NEAR(got[i], want.value, 2 * want.tolerance + cancelled + rounded)
          << "row " << i / c.out << " output " << i % c.out;
    }
    float* one = Poisoned(c.out);
    backend_->MatMul(**packed, on_device + c.in, 1, nullptr, false, one);
    EXPECT_EQ(Download(one, c.out),
              std::vector<float>(got.begin() + c.out, got.begin() + 2 * c.out));
  }
}

// A code of 4 bits is worth half of an integer, and scales are powers of two: the arithmetic is
// that of integers. Activations are short integers, so that no sum over a group is rounded: the CPU
// may keep those of integers in fixed point.
TEST_P(MatMulTest, Mxfp4HasTheBitsOfIntegers) {
  std::mt19937 random(8);
  constexpr int kRows = 11;
  for (const CodesCase& c : kCodesCases) {
    if (c.type != CodeType::kFp4E2M1) continue;
    SCOPED_TRACE(::testing::PrintToString(c));
    const QuantizedMatrix matrix = RandomCodes(c, random);
    QuantizedMatrix doubled = matrix;
    doubled.type = CodeType::kInt8;
    for (uint8_t& code : doubled.codes) {
      code = static_cast<uint8_t>(static_cast<int8_t>(2 * CodeValue(CodeType::kFp4E2M1, code)));
    }
    for (float& scale : doubled.scales) scale /= 2;
    std::vector<float> values(static_cast<size_t>(kRows * c.in));
    for (float& value : values) value = static_cast<float>(static_cast<int>(random() % 255) - 127);
    const float* const x = Upload(values);
    const auto product = [&](const QuantizedMatrix& weight, WeightType type) {
      const auto packed = backend_->Pack(weight, type, WeightType::kBf16).value();
      float* y = Poisoned(kRows * c.out);
      backend_->MatMul(*packed, x, kRows, nullptr, false, y);
      return Download(y, kRows * c.out);
    };
    EXPECT_EQ(product(matrix, WeightType::kMxfp4), product(doubled, WeightType::kW8A16));
  }
}

// Scales and offsets that are multiples of units are the same numbers, in less memory.
TEST_P(MatMulTest, UnitsKeepTheBitsOfScales) {
  std::mt19937 random(10);
  constexpr int kRows = 9, kOut = 70, kUnitGroups = 4;
  for (const CodesCase& c : {CodesCase{CodeType::kInt4, kOut, 512, 32, true},
                             CodesCase{CodeType::kInt8, kOut, 192, 16}}) {
    SCOPED_TRACE(::testing::PrintToString(c));
    QuantizedMatrix plain = RandomCodes(c, random);
    QuantizedMatrix united = plain;
    united.unit_groups = kUnitGroups;
    for (size_t i = 0; i < plain.scales.size(); ++i) {
      if (i % kUnitGroups == 0) {
        united.scale_units.push_back(0x1p-9f * static_cast<float>(random() % 100));
        if (c.has_offsets) united.offset_units.push_back(-0x1p-8f);
      }
      const auto multiple = static_cast<float>(static_cast<int>(random() % 256) - 128);
      plain.scales[i] = united.scales[i] = multiple * united.scale_units.back();
      if (c.has_offsets) {
        plain.offsets[i] = united.offsets[i] = static_cast<float>(random() % 64) * -0x1p-8f;
      }
    }
    const float* const x = Upload(RandomValues(kRows * c.in, random));
    const auto product = [&](const PackedMatrix& packed) {
      float* y = Poisoned(kRows * kOut + c.in);
      backend_->MatMul(packed, x, kRows, nullptr, false, y);
      const TokenId row = 33;
      backend_->Embed(packed, &row, 1, y + kRows * kOut);
      return Download(y, kRows * kOut + c.in);
    };
    const auto as_scales = backend_->Pack(plain, TypeOf(c.type), WeightType::kF32).value();
    const auto with_units = backend_->Pack(united, TypeOf(c.type), WeightType::kF32).value();
    EXPECT_EQ(product(*with_units), product(*as_scales));
    EXPECT_EQ(with_units->bytes() < as_scales->bytes(), backend_->device() == nullptr);
    // What are no multiples stays as it is.
    united.scales[7] += 0x1p-12f;
    plain.scales[7] = united.scales[7];
    EXPECT_EQ(product(*backend_->Pack(united, TypeOf(c.type), WeightType::kF32).value()),
              product(*backend_->Pack(plain, TypeOf(c.type), WeightType::kF32).value()));
  }
}

// The same for scales that are exact in f16, with offsets that are small multiples of them.
TEST_P(MatMulTest, ShortScalesKeepTheirValues) {
  std::mt19937 random(11);
  constexpr int kRows = 9, kOut = 70;
  for (const CodesCase& c :
       {CodesCase{CodeType::kInt4, kOut, 256, 32, true}, CodesCase{CodeType::kInt8, kOut, 192, 64},
        CodesCase{CodeType::kInt8, kOut, 129, 16, true}}) {
    SCOPED_TRACE(::testing::PrintToString(c));
    QuantizedMatrix matrix = RandomCodes(c, random);
    for (size_t i = 0; i < matrix.scales.size(); ++i) {
      // Down to f16's smallest subnormal.
      const auto significand = static_cast<float>(1 + random() % 2047);
      matrix.scales[i] = std::ldexp(significand, -static_cast<int>(14 + random() % 11));
      if (!c.has_offsets) continue;
      matrix.offsets[i] = static_cast<float>(static_cast<int>(random() % 256) - 128);
      matrix.offsets[i] *= matrix.scales[i];
    }
    // One more bit than f16 has, or one multiple too many.
    QuantizedMatrix longer = matrix;
    (c.has_offsets ? longer.offsets : longer.scales)[3] =
        c.has_offsets ? 128 * longer.scales[3] : 1 + 0x1p-11f;
    const std::vector<float> values = RandomValues(kRows * c.in, random);
    const float* const x = Upload(values);
    size_t bytes[2];
    for (const bool is_short : {false, true}) {
      const QuantizedMatrix& weight = is_short ? matrix : longer;
      const auto packed = backend_->Pack(weight, TypeOf(c.type), WeightType::kF32).value();
      bytes[is_short] = packed->bytes();
      float* y = Poisoned(kRows * kOut + c.in);
      backend_->MatMul(*packed, x, kRows, nullptr, false, y);
      const TokenId row = 1;
      backend_->Embed(*packed, &row, 1, y + kRows * kOut);
      const std::vector<float> got = Download(y, kRows * kOut + c.in);
      std::vector<float> weights(static_cast<size_t>(c.in));
      for (int o = 0; o < kOut; ++o) {
        weight.WidenRow(o, weights);
        if (o == row) {
          EXPECT_EQ(std::vector<float>(got.end() - c.in, got.end()), weights);
        }
        for (int r = 0; r < kRows; ++r) {
          const float* const x_row = &values[r * c.in];
          double sum = 0, magnitude = 0;  // of codes and offsets, 32 each at most
          for (int k = 0; k < c.in; ++k) {
            sum += double{weights[k]} * x_row[k];
            magnitude += 32 * std::fabs(x_row[k]);
          }
          const double rounded =
              GetParam().int8_activations ? MaxAbs(x_row, c.in) / 254 * c.in * 64 : 0;
          ASSERT_NEAR(got[r * kOut + o], sum, magnitude * c.in * 0x1p-24 + rounded) << o;
        }
      }
    }
    EXPECT_EQ(bytes[true] < bytes[false], backend_->device() == nullptr);
  }
}

// 4.25 bits each: a byte for two codes, and one for the scale of 32.
TEST_P(MatMulTest, Mxfp4TakesWhatItsFileTakes) {
  std::mt19937 random(9);
  const QuantizedMatrix matrix = RandomCodes({CodeType::kFp4E2M1, 64, 256, 32}, random);
  const auto packed = backend_->Pack(matrix, WeightType::kMxfp4, WeightType::kBf16);
  ASSERT_TRUE(packed.ok()) << packed.status().ToString();
  EXPECT_EQ((*packed)->bytes(), 64u * 256 * 17 / 32);
}

// With 8-bit activations the integers are the same, so the only error is half a step of the
// activations.
TEST_P(MatMulTest, KeepsIntegersBesideRoundedActivations) {
  std::mt19937 random(6);
  constexpr int kRows = 9;
  for (const CodesCase& c : kCodesCases) {
    if (c.type != CodeType::kInt8 || c.group_size < c.in || c.has_offsets) continue;
    SCOPED_TRACE(::testing::PrintToString(c));
    const QuantizedMatrix matrix = RandomCodes(c, random);
    const auto exact = backend_->Pack(matrix, WeightType::kW8A16, WeightType::kF32);
    const auto rounded = backend_->Pack(matrix, WeightType::kW8A8, WeightType::kF32);
    ASSERT_TRUE(exact.ok() && rounded.ok()) << rounded.status().ToString();
    EXPECT_EQ((*rounded)->type(), WeightType::kW8A8);
    const std::vector<float> x = RandomValues(kRows * c.in, random);
    const float* on_device = Upload(x);
    float* y = Poisoned(kRows * c.out);
    backend_->MatMul(**exact, on_device, kRows, nullptr, false, y);
    const std::vector<float> want = Download(y, kRows * c.out);
    backend_->MatMul(**rounded, on_device, kRows, nullptr, false, y);
    const std::vector<float> got = Download(y, kRows * c.out);
    std::vector<float> weights(static_cast<size_t>(c.in));
    for (int i = 0; i < kRows * c.out; ++i) {
      matrix.WidenRow(i % c.out, weights);
      double sum = 0;
      for (const float weight : weights) sum += std::fabs(weight);
      const double step = MaxAbs(&x[i / c.out * c.in], c.in) / 127 * 0.501;
      ASSERT_NEAR(got[i], want[i], step * sum + 1e-5) << "row " << i / c.out;
    }
  }
}

TEST_P(MatMulTest, EmbedsRowsOfCodes) {
  std::mt19937 random(7);
  for (const CodesCase& c : kCodesCases) {
    SCOPED_TRACE(::testing::PrintToString(c));
    const QuantizedMatrix matrix = RandomCodes(c, random);
    const auto packed = backend_->Pack(matrix, TypeOf(c.type), WeightType::kF32);
    ASSERT_TRUE(packed.ok()) << packed.status().ToString();
    float* row = Poisoned(c.in);
    const TokenId last = c.out - 1;
    backend_->Embed(**packed, &last, 1, row);
    std::vector<float> want(static_cast<size_t>(c.in));
    matrix.WidenRowInOrder(last, want);
    EXPECT_EQ(Download(row, c.in), want);
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
