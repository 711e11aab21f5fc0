// Products with quantized weights that stay codes: the kernels' source on the host, against double
// and against each other.
#include "common/backend/cuda/kernels/code_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/backend/cuda/cuda_codes.h"
#include "common/backend/cuda/kernels/tensor_product.h"
#include "common/tensor/tensor.h"
#include "tests/support/cuda_emulation/emulated_backend.h"
#include "tests/support/cuda_emulation/emulator.h"

namespace outrider {
namespace {

constexpr CodeType kTypes[] = {CodeType::kInt4, CodeType::kInt8, CodeType::kFp8E4M3,
                               CodeType::kFp4E2M1};

bool IsInteger(CodeType type) { return type == CodeType::kInt4 || type == CodeType::kInt8; }

enum class Offsets { kNone, kSymmetric, kAny };  // kSymmetric: -8 scales

struct Case {
  CodeType type;
  int out, in;
  int group_size;  // 0: a scale a row
  Offsets offsets = Offsets::kNone;
};

std::string Describe(const Case& c) {
  return std::string(CodeTypeName(c.type)) + " [" + std::to_string(c.out) + ", " +
         std::to_string(c.in) + "] in groups of " + std::to_string(c.group_size) + ", offsets " +
         std::to_string(static_cast<int>(c.offsets));
}

// Ragged and whole tiles, and rows longer than what all warps load at once.
std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const CodeType type : kTypes) {
    for (const int group_size : {0, 32, 64, 128, 256}) {
      for (const auto& [out, in] : {std::pair(5, 40), std::pair(33, 300), std::pair(64, 1024),
                                    std::pair(16, 3 * 1024 + 129)}) {
        cases.push_back({type, out, in, group_size});
        if (!IsInteger(type) || out == 64) continue;
        cases.push_back({type, out, in, group_size, Offsets::kAny});
        if (type == CodeType::kInt4) {
          cases.push_back({type, out, in, group_size, Offsets::kSymmetric});
        }
      }
    }
  }
  return cases;
}

QuantizedMatrix RandomCodes(const Case& c, std::mt19937& random) {
  QuantizedMatrix matrix = {.type = c.type, .rows = c.out, .columns = c.in};
  matrix.group_size = c.group_size == 0 ? c.in : std::min(c.group_size, c.in);
  const bool has_four_bits = c.type == CodeType::kInt4 || c.type == CodeType::kFp4E2M1;
  for (int i = 0; i < c.out * c.in; ++i) {
    auto code = static_cast<uint8_t>(has_four_bits ? random() % 16 : random());
    if (IsNanCode(c.type, code)) code = 1;  // the smallest subnormal
    matrix.codes.push_back(code);
  }
  std::uniform_real_distribution<float> uniform(0.1f, 1.f);
  for (int64_t i = 0; i < c.out * matrix.groups(); ++i) {
    const float power = std::ldexp(1.f, static_cast<int>(random() % 9) - 12);
    matrix.scales.push_back(c.type == CodeType::kFp4E2M1 ? power : uniform(random));
    if (c.offsets == Offsets::kSymmetric) matrix.offsets.push_back(-8 * matrix.scales.back());
    if (c.offsets == Offsets::kAny) matrix.offsets.push_back(3 * uniform(random) - 6);
  }
  return matrix;
}

uint16_t BitsOf(Bf16 x) { return x; }
uint16_t BitsOf(F16 x) { return x.bits; }
template <class T>
T Rounded(float x) {
  if constexpr (std::is_same_v<T, F16>) {
    return {FloatToF16(x)};
  } else {
    return FloatToBf16(x);
  }
}
template <class T>
double Widened(T x) {
  return std::is_same_v<T, F16> ? F16ToFloat(BitsOf(x)) : Bf16ToFloat(BitsOf(x));
}

std::vector<float> RandomFloats(int count, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

class CodeProduct : public ::testing::Test {
 protected:
  // Valid until the next call.
  const DeviceCodes& Upload(const QuantizedMatrix& matrix) {
    codes_ = CudaCodes::Upload(matrix, staging_.get()).value();
    stream_.Wait();
    return codes_->view();
  }

  // [rows, stride], random, with outliers, zero-padded.
  template <class T>
  static std::vector<T> RandomInputs(int rows, int in, std::mt19937& random) {
    const int stride = (in + 7) / 8 * 8;
    const std::vector<float> values = RandomFloats(rows * in, random);
    std::vector<T> x(static_cast<size_t>(rows * stride), Rounded<T>(0));
    for (int i = 0; i < rows * in; ++i) {
      x[i / in * stride + i % in] = Rounded<T>(random() % 64 == 0 ? 50 * values[i] : values[i]);
    }
    return x;
  }

  template <class T>
  std::vector<float> Product(const DeviceCodes& codes, const T* x, int out, int rows,
                             const float* bias = nullptr,
                             const std::vector<float>& before = {}) const {
    std::vector<float> y(static_cast<size_t>(rows * out), NAN);
    if (!before.empty()) y = before;
    EXPECT_EQ(LaunchCodeProduct(codes, x, (codes.columns + 7) / 8 * 8, out, rows, bias,
                                !before.empty(), y.data(), stream_.get()),
              cudaSuccess)
        << cuda_emulation::LastFailure();
    stream_.Wait();
    return y;
  }

  const Stream stream_;
  const std::unique_ptr<StagedCopy> staging_ = StagedCopy::Create(&stream_).value();
  std::unique_ptr<CudaCodes> codes_;
};

struct Expected {
  double value = 0, tolerance = 0;
};

// Codes and inputs are exact, so only sums are rounded: a term is part of at most 128 sums within
// its group, one of a warp for each kilobyte of inputs, eight of the warps, and those with offset,
// bias and earlier result.
template <class T>
Expected InDouble(const QuantizedMatrix& matrix, int output, const T* x, double added) {
  double sum = 0, magnitude = 0;
  for (int64_t i = 0; i < matrix.columns; ++i) {
    const int64_t group = output * matrix.groups() + i / matrix.group_size;
    const double scale = matrix.scales[group];
    const double code = CodeValue(matrix.type, matrix.codes[output * matrix.columns + i]);
    const double offset = matrix.offsets.empty() ? 0 : matrix.offsets[group];
    const double input = Widened(x[i]);
    sum += (code * scale + offset) * input;
    const double zero = matrix.type == CodeType::kInt4 ? 8 : 0;
    magnitude +=
        (std::fabs(code - zero) * scale + std::fabs(offset + zero * scale)) * std::fabs(input);
  }
  const double roundings = 128 + static_cast<double>(matrix.columns) / 1024 + 16;
  return {sum + added, std::ldexp(roundings * (magnitude + std::fabs(added)), -24)};
}

template <class Run>
void ForAllCases(std::mt19937& random, const Run& run) {
  int kind = 0;
  for (const Case& c : AllCases()) {
    SCOPED_TRACE(Describe(c));
    // All numbers of rows in turns.
    const int rows = 1 + 5 * kind % 16;
    const bool has_bias = kind % 2 == 1, accumulates = kind % 4 >= 2;
    ++kind;
    run(c, rows, has_bias ? RandomFloats(c.out, random) : std::vector<float>(),
        accumulates ? RandomFloats(rows * c.out, random) : std::vector<float>());
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST_F(CodeProduct, EqualsTheProductInDouble) {
  std::mt19937 random(1);
  const auto check = [&](auto element) {
    using T = decltype(element);
    ForAllCases(random, [&](const Case& c, int rows, const std::vector<float>& bias,
                            const std::vector<float>& before) {
      const QuantizedMatrix matrix = RandomCodes(c, random);
      const DeviceCodes& codes = Upload(matrix);
      ASSERT_TRUE(HasCodeProduct(codes));
      ASSERT_EQ(
          codes.offsets != nullptr,
          c.offsets == Offsets::kAny || (c.type == CodeType::kInt4 && c.offsets == Offsets::kNone));
      const std::vector<T> x = RandomInputs<T>(rows, c.in, random);
      const size_t stride = x.size() / static_cast<size_t>(rows);
      const std::vector<float> y =
          Product(codes, x.data(), c.out, rows, bias.empty() ? nullptr : bias.data(), before);
      for (int i = 0; i < rows * c.out; ++i) {
        const double added =
            (bias.empty() ? 0. : bias[i % c.out]) + (before.empty() ? 0. : before[i]);
        const Expected want = InDouble(matrix, i % c.out, &x[i / c.out * stride], added);
        ASSERT_NEAR(y[i], want.value, want.tolerance)
            << "row " << i / c.out << " of " << rows << ", output " << i % c.out;
      }
    });
  };
  check(Bf16{});
  check(F16{});
}

// Input i alone selects the codes of column i.
TEST_F(CodeProduct, EveryCodeIsWidenedExactly) {
  constexpr int kColumns = 256, kOut = 17;
  for (const CodeType type : kTypes) {
    QuantizedMatrix matrix = {
        .type = type, .rows = kOut, .columns = kColumns, .group_size = kColumns};
    const bool has_four_bits = type == CodeType::kInt4 || type == CodeType::kFp4E2M1;
    for (int i = 0; i < kOut * kColumns; ++i) {
      auto code = static_cast<uint8_t>((i + i / kColumns) % (has_four_bits ? 16 : 256));
      if (IsNanCode(type, code)) code = 0;
      matrix.codes.push_back(code);
    }
    matrix.scales.assign(kOut, 1.f);
    if (type == CodeType::kInt4) matrix.offsets.assign(kOut, -8.f);
    const DeviceCodes& codes = Upload(matrix);
    const auto check = [&](auto element) {
      using T = decltype(element);
      for (int first = 0; first < kColumns; first += kTensorProductRows) {
        std::vector<T> x(kTensorProductRows * kColumns, Rounded<T>(0));
        for (int r = 0; r < kTensorProductRows; ++r) x[r * kColumns + first + r] = Rounded<T>(1);
        const std::vector<float> y = Product(codes, x.data(), kOut, kTensorProductRows);
        for (int i = 0; i < kTensorProductRows * kOut; ++i) {
          const int column = first + i / kOut;
          const uint8_t code = matrix.codes[i % kOut * kColumns + column];
          ASSERT_EQ(y[i], CodeValue(type, code) - (type == CodeType::kInt4 ? 8 : 0))
              << CodeTypeName(type) << " code " << int{code};
        }
      }
    };
    check(Bf16{});
    check(F16{});
  }
}

TEST_F(CodeProduct, RowBitsIgnoreOtherRows) {
  std::mt19937 random(2);
  for (const Case& c : AllCases()) {
    if (c.out != 33) continue;
    SCOPED_TRACE(Describe(c));
    const DeviceCodes& codes = Upload(RandomCodes(c, random));
    const std::vector<Bf16> x = RandomInputs<Bf16>(kCodeProductRows, c.in, random);
    const size_t stride = x.size() / kCodeProductRows;
    std::vector<float> each;
    for (int r = 0; r < kCodeProductRows; ++r) {
      const std::vector<float> y = Product(codes, &x[r * stride], c.out, 1);
      each.insert(each.end(), y.begin(), y.end());
    }
    // Tiles of 8 and of 16 rows, whole and begun.
    for (const int rows : {2, 7, 8, 9, 15, 16, 17, 24, 32, 33, kCodeProductRows}) {
      const std::vector<float> y = Product(codes, x.data(), c.out, rows);
      ASSERT_EQ(0, std::memcmp(y.data(), each.data(), y.size() * sizeof(float))) << rows;
    }
  }
}

// With the copy for the next product, rounded and zero-padded.
TEST_F(CodeProduct, GatedOneEqualsItsParts) {
  std::mt19937 random(3);
  int kind = 0;
  for (const Case& c : AllCases()) {
    if (c.out != 64) continue;
    const int n = kind % 2 == 0 ? 16 : 32;  // the second has two blocks
    const int rows = 1 + 7 * kind++ % kCodeProductRows;
    const DeviceCodes& codes =
        Upload(RandomCodes({c.type, 2 * n, c.in, c.group_size, c.offsets}, random));
    SCOPED_TRACE(Describe(c) + " rows " + std::to_string(rows));
    ASSERT_TRUE(HasGatedCodeProduct(codes, n));
    ASSERT_FALSE(HasGatedCodeProduct(codes, n - 1));
    const std::vector<Bf16> x = RandomInputs<Bf16>(rows, c.in, random);
    const std::vector<float> bias = RandomFloats(2 * n, random);
    const std::vector<float> gate_up = Product(codes, x.data(), 2 * n, rows, bias.data());
    const auto count = static_cast<size_t>(rows * n);
    std::vector<float> want(count), got(count);
    std::vector<uint16_t> want_rounded(count), got_rounded(count);
    ASSERT_EQ(LaunchGlu(Activation::kSilu, gate_up.data(), rows, n, want.data(),
                        {want_rounded.data(), n, Dtype::kBf16}, stream_.get()),
              cudaSuccess);
    ASSERT_EQ(
        LaunchGatedCodeProduct(codes, x.data(), c.in, n, rows, bias.data(), Activation::kSilu,
                               got.data(), {got_rounded.data(), n, Dtype::kBf16}, stream_.get()),
        cudaSuccess)
        << cuda_emulation::LastFailure();
    stream_.Wait();
    EXPECT_EQ(got, want);
    EXPECT_EQ(got_rounded, want_rounded);
  }
}

// What the products of many rows read, any rows of it.
TEST_F(CodeProduct, WidenedRowsAreTheMatrix) {
  std::mt19937 random(4);
  std::vector<Case> cases = AllCases();
  cases.push_back({CodeType::kInt8, 33, 100, 12, Offsets::kAny});  // groups end amid eight columns
  for (const Case& c : cases) {
    if (c.in > 300) continue;
    SCOPED_TRACE(Describe(c));
    const QuantizedMatrix matrix = RandomCodes(c, random);
    const DeviceCodes& codes = Upload(matrix);
    const std::vector<int32_t> rows = {c.out - 1, 0, c.out / 2};
    const int stride = (c.in + 7) / 8 * 8;
    std::vector<Bf16> got(rows.size() * static_cast<size_t>(stride), 1);
    ASSERT_EQ(LaunchWidenCodes(codes, rows.data(), static_cast<int>(rows.size()), stride,
                               got.data(), stream_.get()),
              cudaSuccess);
    stream_.Wait();
    std::vector<float> want(static_cast<size_t>(c.in));
    for (size_t r = 0; r < rows.size(); ++r) {
      matrix.WidenRow(rows[r], want);
      for (int i = 0; i < stride; ++i) {
        ASSERT_EQ(got[r * static_cast<size_t>(stride) + i], i < c.in ? FloatToBf16(want[i]) : 0)
            << "row " << rows[r] << " input " << i;
      }
    }
  }
}

TEST_F(CodeProduct, OtherGroupsHaveNone) {
  std::mt19937 random(5);
  for (const int group_size : {8, 16, 48, 96}) {
    EXPECT_FALSE(
        HasCodeProduct(Upload(RandomCodes({CodeType::kInt8, 16, 192, group_size}, random))));
  }
}

// Groups of inputs in any order (act-order of GPTQ), in products of few rows and with the
// activation.
TEST(CodeProductOrder, ReorderedColumnsKeepTheBits) {
  std::mt19937 random(6);
  const auto backend = CreateEmulatedCudaBackend().value();
  constexpr int kOut = 96, kIn = 256 + 20, kRows = 18, kGates = kOut / 2;
  QuantizedMatrix plain = RandomCodes({CodeType::kInt4, kOut, kIn, 64, Offsets::kAny}, random);
  QuantizedMatrix reordered = plain;
  reordered.column_order.resize(kIn);
  std::iota(reordered.column_order.begin(), reordered.column_order.end(), 0);
  std::shuffle(reordered.column_order.begin(), reordered.column_order.end(), random);
  const std::vector<float> x = RandomFloats(kRows * kIn, random);
  std::vector<float> x_of_columns;
  for (int r = 0; r < kRows; ++r) {
    for (const int32_t input : reordered.column_order) x_of_columns.push_back(x[r * kIn + input]);
  }
  const auto products = [&](const QuantizedMatrix& matrix, const std::vector<float>& inputs) {
    const auto packed = backend->Pack(matrix, WeightType::kW4A16, WeightType::kBf16).value();
    const auto on_device = backend->Allocate(inputs.size() * sizeof(float)).value();
    backend->CopyIn(on_device->data(), inputs.data(), inputs.size() * sizeof(float));
    std::vector<float> all;
    for (const int rows : {1, 9, kRows}) {
      const auto y = backend->Allocate(kRows * kOut * sizeof(float)).value();
      const auto gated = backend->Allocate(kRows * kGates * sizeof(float)).value();
      backend->MatMul(*packed, on_device->floats(), rows, nullptr, false, y->floats());
      backend->GatedMatMul(*packed, on_device->floats(), rows, nullptr, Activation::kSilu,
                           backend->Allocate(kRows * kOut * sizeof(float)).value()->floats(),
                           gated->floats(), Consumers::kAny);
      std::vector<float> got(kRows * (kOut + kGates));
      backend->CopyOut(got.data(), y->data(), kRows * kOut * sizeof(float));
      backend->CopyOut(&got[kRows * kOut], gated->data(), kRows * kGates * sizeof(float));
      backend->Wait();
      all.insert(all.end(), got.begin(), got.end());
    }
    return all;
  };
  EXPECT_EQ(products(reordered, x), products(plain, x_of_columns));
}

}  // namespace
}  // namespace outrider
