// Products of FP8 weights with activations rounded to FP8: few rows by our own kernels, many by the
// tests' double of cublasLt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/backend/cuda/cuda_matrix.h"
#include "common/backend/cuda/kernels/code_product.h"
#include "common/backend/cuda/kernels/fp8_rows.h"
#include "common/backend/cuda/large_product.h"
#include "common/math/fp8.h"
#include "common/tensor/tensor.h"
#include "tests/support/cuda_emulation/emulated_backend.h"
#include "tests/support/cuda_emulation/fake_cublas.h"

namespace outrider {
namespace {

using namespace cuda_emulation;
using ::testing::IsEmpty;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The values that a row of bf16 is rounded to.
std::vector<float> RoundedRow(const std::vector<float>& row) {
  float most = 0;
  for (const float x : row) most = std::fmax(most, std::fabs(x));
  int exponent = -117;
  while (std::ldexp(448.f, exponent) < most) ++exponent;
  std::vector<float> rounded;
  for (const float x : row) {
    rounded.push_back(std::ldexp(Fp8ToFloat(FloatToFp8(std::ldexp(x, -exponent))), exponent));
  }
  return rounded;
}

std::vector<float> Bf16Row(int n, float size, std::mt19937& random) {
  std::normal_distribution<float> normal(0.f, size);
  std::vector<float> row;
  for (int i = 0; i < n; ++i) row.push_back(Bf16ToFloat(FloatToBf16(normal(random))));
  return row;
}

struct RoundedTo {
  std::vector<float> values;  // as bf16
  std::vector<uint8_t> codes;
  float scale = 0;
};
RoundedTo RoundOnDevice(const std::vector<float>& row) {
  const auto n = static_cast<int>(row.size());
  std::vector<uint16_t> x, bits(row.size());
  for (const float value : row) x.push_back(FloatToBf16(value));
  RoundedTo to = {.codes = std::vector<uint8_t>(row.size())};
  EXPECT_EQ(LaunchRoundToFp8(x.data(), 1, n, bits.data(), nullptr), cudaSuccess);
  EXPECT_EQ(LaunchRoundToFp8(x.data(), 1, n, {to.codes.data(), &to.scale}, nullptr), cudaSuccess);
  for (const uint16_t b : bits) to.values.push_back(Bf16ToFloat(b));
  return to;
}

TEST(Fp8Rows, AreNearestByPowerOfTwo) {
  std::mt19937 random(1);
  for (const int n : {8, 40, 4096 + 8}) {
    for (const float size : {1e-38f, 1e-30f, 1e-3f, 1.f, 447.f, 1e4f, 1e37f}) {
      std::vector<float> row = Bf16Row(n, size, random);
      row[static_cast<size_t>(n) / 2] = 0.f;
      const RoundedTo to = RoundOnDevice(row);
      EXPECT_EQ(to.values, RoundedRow(row)) << n << " values of " << size;
      for (size_t i = 0; i < row.size(); ++i) {
        ASSERT_EQ(Fp8ToFloat(to.codes[i]) * to.scale, to.values[i]);
      }
    }
  }
}

TEST(Fp8Rows, LargestValuesFitExactly) {
  for (const float most : {448.f, 448.f * 1024, 452.f, 256.f, 0.f}) {
    const std::vector<float> row = {most, -most, 1.f, 0.f, 0.f, 0.f, 0.f, 0.f};
    EXPECT_EQ(RoundOnDevice(row).values, RoundedRow(row)) << most;
  }
  EXPECT_EQ(RoundOnDevice({448.f, 0, 0, 0, 0, 0, 0, 0}).scale, 1.f);
  EXPECT_EQ(RoundOnDevice({450.f, 0, 0, 0, 0, 0, 0, 0}).scale, 2.f);
}

// A broken row must not look like one that is not.
TEST(Fp8Rows, NonFiniteValuesStayBroken) {
  for (const float broken : {kInfinity, -kInfinity, std::nanf("")}) {
    const RoundedTo to = RoundOnDevice({1.f, broken, 2.f, 0, 0, 0, 0, 0});
    for (size_t i = 0; i < to.values.size(); ++i) {
      if (i != 1 && std::isnan(broken)) continue;
      EXPECT_TRUE(std::isnan(to.values[i])) << broken << " at " << i;
      EXPECT_TRUE(std::isnan(Fp8ToFloat(to.codes[i]))) << broken << " at " << i;
    }
  }
}

// Blocks have the scale of their row, in the order of a library's.
TEST(Fp8Rows, BlocksHaveTheRowsScale) {
  constexpr int kRows = 3, kStride = 384, kBlocks = kStride / kScaleBlock;
  std::mt19937 random(2);
  std::vector<uint16_t> x;
  for (const float size : {1.f, 1e3f, 1e-3f}) {
    for (const float value : Bf16Row(kStride, size, random)) x.push_back(FloatToBf16(value));
  }
  std::vector<uint8_t> codes(x.size()), of_blocks(x.size());
  std::vector<float> scales(kRows), block_scales(size_t{kRows} * kBlocks);
  EXPECT_EQ(LaunchRoundToFp8(x.data(), kRows, kStride, {codes.data(), scales.data()}, nullptr),
            cudaSuccess);
  EXPECT_EQ(LaunchRoundToFp8(x.data(), kRows, kStride,
                             {of_blocks.data(), block_scales.data(), /*in_blocks=*/true}, nullptr),
            cudaSuccess);
  EXPECT_EQ(of_blocks, codes);
  for (size_t i = 0; i < block_scales.size(); ++i) EXPECT_EQ(block_scales[i], scales[i % kRows]);
}

constexpr int kNoBlocks = 0;

// Random codes with a scale for each row, or for each of the blocks of so many rows and columns.
QuantizedMatrix Weights(int out, int in, int block, std::mt19937& random) {
  QuantizedMatrix matrix = {.type = CodeType::kFp8E4M3,
                            .rows = out,
                            .columns = in,
                            .group_size = block == kNoBlocks ? in : block};
  for (int i = 0; i < out * in; ++i) {
    const auto code = static_cast<uint8_t>(random());
    matrix.codes.push_back((code & 0x7f) == 0x7f ? 0 : code);
  }
  const auto groups = static_cast<size_t>(matrix.groups());
  for (size_t i = 0; i < static_cast<size_t>(out) * groups; ++i) {
    const size_t row = i / groups;
    const bool is_first = block == kNoBlocks || row % static_cast<size_t>(block) == 0;
    matrix.scales.push_back(is_first ? 1e-3f * static_cast<float>(1 + random() % 100)
                                     : matrix.scales[i - groups]);
  }
  return matrix;
}

// As a library takes it: padded with zeros to a multiple of 4 in a row.
TEST(Fp8Weights, ScalesOfBlocksArePadded) {
  constexpr int kOut = 256, kIn = 640, kPadded = 8;
  std::mt19937 random(4);
  const QuantizedMatrix matrix = Weights(kOut, kIn, kScaleBlock, random);
  const auto backend = CreateEmulatedCudaBackend({}, nullptr).value();
  const auto packed = backend->Pack(matrix, WeightType::kFp8, WeightType::kBf16).value();
  const DeviceCodes& codes = static_cast<const CudaMatrix&>(*packed).codes()->view();
  ASSERT_TRUE(codes.in_blocks);
  std::vector<uint8_t> plain(matrix.codes.size());
  std::vector<float> scales(size_t{kOut} / kScaleBlock * kPadded, -1.f);
  EXPECT_EQ(LaunchPlainCodes(codes, kOut, kIn, {plain.data(), scales.data(), /*in_blocks=*/true},
                             nullptr),
            cudaSuccess);
  EXPECT_EQ(plain, matrix.codes);
  for (size_t i = 0; i < scales.size(); ++i) {
    const size_t row = i / kPadded * kScaleBlock, group = i % kPadded;
    const auto groups = static_cast<size_t>(matrix.groups());
    EXPECT_EQ(scales[i], group < groups ? matrix.scales[row * groups + group] : 0.f) << i;
  }
}

class Fp8Product : public ::testing::Test {
 protected:
  // Products of `in` inputs and `out` outputs, whose library has these algorithms.
  void Make(int out, int in, std::vector<FakeAlgorithm> algorithms, int block = kNoBlocks) {
    SetAlgorithms(std::move(algorithms));
    warnings_ = 0;
    backend_ = CreateEmulatedCudaBackend(
                   {.fp8_activations = true, .warn = [this](const std::string&) { ++warnings_; }},
                   CreateCublasProduct().value())
                   .value();
    Pack(Weights(out, in, block, random_));
  }
  void Pack(QuantizedMatrix weights) {
    weights_ = std::move(weights);
    packed_ = backend_->Pack(weights_, WeightType::kFp8, WeightType::kBf16).value();
  }
  ~Fp8Product() override {
    packed_.reset();
    backend_.reset();
    EXPECT_THAT(TakeMisuses(), IsEmpty());
  }

  std::unique_ptr<Buffer> Upload(const std::vector<float>& values) {
    auto buffer = backend_->Allocate(values.size() * sizeof(float)).value();
    backend_->CopyIn(buffer->data(), values.data(), values.size() * sizeof(float));
    return buffer;
  }

  // The product of x [rows, in], added to ones, with a bias.
  std::vector<float> Multiply(const std::vector<float>& x) {
    const auto out = static_cast<size_t>(weights_.rows);
    const size_t rows = x.size() / static_cast<size_t>(weights_.columns);
    std::vector<float> bias, got(rows * out, 1.f);
    for (size_t o = 0; o < out; ++o) bias.push_back(BiasOf(static_cast<int>(o)));
    const auto device_x = Upload(x), device_bias = Upload(bias), y = Upload(got);
    backend_->MatMul(*packed_, device_x->floats(), static_cast<int>(rows), device_bias->floats(),
                     /*accumulate=*/true, y->floats());
    backend_->CopyOut(got.data(), y->data(), got.size() * sizeof(float));
    backend_->Wait();
    return got;
  }
  static float BiasOf(int output) { return static_cast<float>(output % 7); }

  // The largest error of such a product of so many random rows, by the sum of its terms'
  // magnitudes. `rounds`: with activations rounded to FP8.
  double Error(int rows, bool rounds = true) {
    const auto out = static_cast<int>(weights_.rows), in = static_cast<int>(weights_.columns);
    std::vector<float> x;
    std::vector<std::vector<float>> read;
    for (int r = 0; r < rows; ++r) {
      const std::vector<float> row = Bf16Row(in, std::ldexp(1.f, r % 9 - 4), random_);
      x.insert(x.end(), row.begin(), row.end());
      read.push_back(rounds ? RoundedRow(row) : row);
    }
    const std::vector<float> got = Multiply(x);
    const auto groups = static_cast<size_t>(weights_.groups());
    double worst = 0;
    for (int r = 0; r < rows; ++r) {
      for (int o = 0; o < out; ++o) {
        double sum = 1 + static_cast<double>(BiasOf(o)), size = sum;
        for (int i = 0; i < in; ++i) {
          const double term =
              static_cast<double>(Fp8ToFloat(weights_.codes[static_cast<size_t>(o) * in + i])) *
              static_cast<double>(weights_.scales[o * groups + i / weights_.group_size]) *
              static_cast<double>(read[static_cast<size_t>(r)][i]);
          sum += term;
          size += std::fabs(term);
        }
        const auto value = static_cast<double>(got[static_cast<size_t>(r) * out + o]);
        if (!std::isfinite(value)) return kInfinity;
        worst = std::max(worst, std::fabs(value - sum) / size);
      }
    }
    return worst;
  }

  int64_t Products() const { return backend_->device()->fp8_counts().products; }

  std::mt19937 random_{3};
  int warnings_ = 0;
  std::unique_ptr<Backend> backend_;
  QuantizedMatrix weights_;
  std::unique_ptr<PackedMatrix> packed_;
};

TEST_F(Fp8Product, FewAndManyRowsAgree) {
  for (const auto& [out, in] : {std::pair(16, 32), std::pair(48, 272), std::pair(32, 1040)}) {
    Make(out, in, {{}});
    for (const int rows : {1, 16, kCodeProductRows}) {
      EXPECT_LT(Error(rows), 1e-6) << rows << " rows, " << out << " x " << in;
    }
    EXPECT_THAT(ProductsTried(), IsEmpty());
    for (const int rows : {kCodeProductRows + 1, 130}) {
      EXPECT_LT(Error(rows), 1e-6) << rows << " rows, " << out << " x " << in;
    }
    EXPECT_EQ(Products(), 2);
    EXPECT_EQ(backend_->device()->fp8_counts().matrices, 1);
    EXPECT_EQ(warnings_, 0);
  }
}

// Our own kernel takes the rows beyond a multiple of 4.
TEST_F(Fp8Product, BlocksFewAndManyRowsAgree) {
  for (const auto& [out, in] : {std::pair(128, 256), std::pair(256, 384)}) {
    Make(out, in, {{}}, kScaleBlock);
    // The library would be left 48 rows of 51, for which the warm-up chooses no algorithm.
    for (const int rows : {1, kCodeProductRows, kCodeProductRows + 1, kCodeProductRows + 3}) {
      EXPECT_LT(Error(rows), 1e-6) << rows << " rows, " << out << " x " << in;
    }
    EXPECT_THAT(ProductsTried(), IsEmpty());
    for (const int rows :
         {kCodeProductRows + 4, kCodeProductRows + 5, kCodeProductRows + 6, 70, 71}) {
      EXPECT_LT(Error(rows), 1e-6) << rows << " rows, " << out << " x " << in;
    }
    EXPECT_EQ(Products(), 5);
    EXPECT_EQ(backend_->device()->fp8_counts().matrices, 1);
    EXPECT_EQ(warnings_, 0);
  }
}

TEST_F(Fp8Product, BlocksLeaveBrokenRowsApart) {
  constexpr int kIn = 256, kRows = 54, kZero = 5;
  Make(128, kIn, {{}}, kScaleBlock);
  const std::vector<int> broken = {7, kRows - 1};  // of the library's rows, and of ours
  std::vector<float> x;
  for (int r = 0; r < kRows; ++r) {
    std::vector<float> row(kIn);
    if (r != kZero) row = Bf16Row(kIn, 1.f, random_);
    if (r == broken[0]) row[200] = std::nanf("");
    if (r == broken[1]) row[3] = kInfinity;
    x.insert(x.end(), row.begin(), row.end());
  }
  const std::vector<float> got = Multiply(x);
  EXPECT_EQ(Products(), 1);
  for (int r = 0; r < kRows; ++r) {
    for (int o = 0; o < 128; ++o) {
      const float value = got[static_cast<size_t>(r) * 128 + static_cast<size_t>(o)];
      ASSERT_EQ(std::isnan(value), r == broken[0] || r == broken[1]) << "row " << r;
      if (r == kZero) {
        ASSERT_EQ(value, 1.f + BiasOf(o));
      }
    }
  }
}

// The activation of the first half of the outputs, times the second.
TEST_F(Fp8Product, GatedProductsReadTheSame) {
  constexpr int kIn = 64, kOut = 32, kHalf = kOut / 2;
  Make(kOut, kIn, {{}});
  for (const int rows : {1, 16, kCodeProductRows, kCodeProductRows + 12}) {
    std::vector<float> x;
    for (int r = 0; r < rows; ++r) {
      const std::vector<float> row = Bf16Row(kIn, 0.01f, random_);
      x.insert(x.end(), row.begin(), row.end());
    }
    const auto device_x = Upload(x);
    const auto both = Upload(std::vector<float>(static_cast<size_t>(rows) * kOut, 0.f));
    const auto gated = Upload(std::vector<float>(static_cast<size_t>(rows) * kHalf, 0.f));
    const auto apart = Upload(std::vector<float>(static_cast<size_t>(rows) * kHalf, 0.f));
    backend_->GatedMatMul(*packed_, device_x->floats(), rows, nullptr, Activation::kSilu,
                          both->floats(), gated->floats(), Consumers::kAny);
    backend_->MatMul(*packed_, device_x->floats(), rows, nullptr, false, both->floats());
    backend_->Glu(Activation::kSilu, both->floats(), rows, kHalf, apart->floats(), Consumers::kAny);
    std::vector<float> got(static_cast<size_t>(rows) * kHalf), want(got.size());
    backend_->CopyOut(got.data(), gated->data(), got.size() * sizeof(float));
    backend_->CopyOut(want.data(), apart->data(), want.size() * sizeof(float));
    backend_->Wait();
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(got[i], want[i], 1e-5f * std::fabs(want[i]) + 1e-9f) << rows << " rows";
    }
  }
}

// Then weights are widened to bf16, which rounds them with their scales.
TEST_F(Fp8Product, OtherProductsTakeOver) {
  Make(32, 48, {{.takes_fp8 = false}});
  for (int i = 0; i < 2; ++i) EXPECT_LT(Error(60), 4e-3);
  EXPECT_EQ(warnings_, 1);
  EXPECT_THAT(ProductsTried(), testing::SizeIs(2));
  EXPECT_EQ(Searches(), 2) << "once for FP8, once for bf16";
  for (const auto& [out, in] : {std::pair(33, 48), std::pair(32, 40)}) {
    Make(out, in, {{}});
    EXPECT_LT(Error(60), 4e-3) << out << " x " << in << ": sides that FP8 products do not take";
    EXPECT_LT(Error(20), 1e-6);
  }
  Make(128, 256, {{.takes_fp8 = false}}, kScaleBlock);
  for (int i = 0; i < 2; ++i) EXPECT_LT(Error(54), 4e-3);
  EXPECT_LT(Error(20), 1e-6);
  EXPECT_EQ(warnings_, 1);
  EXPECT_EQ(Products(), 0);
}

// Codes in other groups, and blocks that are not whole or have several scales.
TEST_F(Fp8Product, OthersKeepTheirActivations) {
  Make(32, 64, {{}}, 32);
  QuantizedMatrix narrow = Weights(128, 256, 64, random_);
  for (size_t i = 4; i < narrow.scales.size(); ++i) narrow.scales[i] = narrow.scales[i % 4];
  std::vector<QuantizedMatrix> others = {weights_, Weights(192, 256, kScaleBlock, random_),
                                         Weights(128, 320, kScaleBlock, random_), narrow};
  for (const size_t differing : {size_t{200}, size_t{2 * 256 - 1}}) {
    others.push_back(Weights(256, 256, kScaleBlock, random_));
    others.back().scales[differing] *= 2;
  }
  // Two matrices, of which the first ends within a block.
  others.push_back(Weights(256, 256, kScaleBlock, random_));
  for (size_t i = 192 * 2; i < 256 * 2; ++i) others.back().scales[i] *= 2;
  for (size_t i = 0; i < others.size(); ++i) {
    Pack(others[i]);
    EXPECT_LT(Error(3, /*rounds=*/false), 1e-6) << "matrix " << i;
    EXPECT_LT(Error(52, /*rounds=*/false), 4e-3) << "matrix " << i;
  }
  EXPECT_EQ(Products(), 0);
  EXPECT_EQ(backend_->device()->fp8_counts().matrices, 0);
}

}  // namespace
}  // namespace outrider
