// The ops that process one row at a time: RmsNorm, Glu, Scale and SoftCap.
#include <algorithm>
#include <cmath>
#include <utility>

#include "tests/conformance/backends.h"

namespace outrider {
namespace {

using RowsTest = ConformanceTest;

constexpr int kWidths[] = {1,   3,   8,   15,   16,   17,   31,    64,   96,
                           100, 255, 256, 1025, 4100, 8192, 16384, 20000};
// f32 sums of up to 1025 terms in a few dozen lanes, and the square root: 2^-24 each.
constexpr double kRelative = 2e-6;

TEST_P(RowsTest, RmsNormEqualsDouble) {
  std::mt19937 random(1);
  for (const int n : kWidths) {
    for (const int gap : {0, 5}) {
      const int rows = 3, stride = n + gap;
      const std::vector<float> x = RandomValues(rows * stride, random);
      const std::vector<float> gain = RandomValues(n, random);
      const float eps = 1e-5f;
      float* out = Poisoned(rows * stride);
      backend_->RmsNorm(Upload(x), Upload(gain), rows, n, stride, eps, false, out, Consumers::kAny);
      const std::vector<float> got = Download(out, rows * stride);
      for (int r = 0; r < rows; ++r) {
        double sum = 0;
        for (int i = 0; i < n; ++i) sum += double{x[r * stride + i]} * x[r * stride + i];
        const double scale = 1 / std::sqrt(sum / n + eps);
        for (int i = 0; i < n; ++i) {
          const double want = x[r * stride + i] * scale * gain[i];
          ASSERT_NEAR(got[r * stride + i], want, std::fabs(want) * kRelative) << "n = " << n;
        }
        for (int i = n; i < stride; ++i) ASSERT_TRUE(std::isnan(got[r * stride + i]));
      }
    }
  }
}

TEST_P(RowsTest, RmsNormRowIgnoresOtherRows) {
  std::mt19937 random(2);
  const int rows = 9, n = 96;
  const std::vector<float> x = RandomValues(rows * n, random);
  const float* gain = Upload(RandomValues(n, random));
  float* all = Upload(x);
  backend_->RmsNorm(all, gain, rows, n, n, 1e-6f, false, all, Consumers::kAny);
  const std::vector<float> want = Download(all, rows * n);
  const float* source = Upload(x);
  for (int r = 0; r < rows; ++r) {
    float* one = Poisoned(n);
    backend_->RmsNorm(source + r * n, gain, 1, n, n, 1e-6f, false, one, Consumers::kAny);
    EXPECT_TRUE(std::equal(&want[r * n], &want[r * n] + n, Download(one, n).begin())) << r;
  }
}

TEST_P(RowsTest, RmsNormAddsToOutput) {
  std::mt19937 random(5);
  for (const int n : kWidths) {
    const int rows = 2;
    const std::vector<float> x = RandomValues(rows * n, random);
    const std::vector<float> gain = RandomValues(n, random);
    const std::vector<float> before = RandomValues(rows * n, random);
    float* normed = Poisoned(rows * n);
    backend_->RmsNorm(Upload(x), Upload(gain), rows, n, n, 1e-5f, false, normed, Consumers::kAny);
    float* sum = Upload(before);
    backend_->RmsNorm(Upload(x), Upload(gain), rows, n, n, 1e-5f, true, sum, Consumers::kAny);
    const std::vector<float> want = Download(normed, rows * n), got = Download(sum, rows * n);
    for (int i = 0; i < rows * n; ++i) {
      const double both = std::fabs(before[i]) + std::fabs(want[i]);
      ASSERT_NEAR(got[i], double{before[i]} + want[i], both * kRelative) << "n = " << n;
    }
  }
}

TEST_P(RowsTest, HeadsAreNormedEachByItself) {
  std::mt19937 random(4);
  const int rows = 3, heads = 4, n = 24, stride = 130, first = 7;
  const std::vector<float> x = RandomValues(rows * stride, random);
  const std::vector<float> gain = RandomValues(n, random);
  float* device = Upload(x);
  backend_->RmsNormHeads(device + first, Upload(gain), rows, heads, n, stride, 1e-5f);
  const std::vector<float> got = Download(device, rows * stride);
  for (int r = 0; r < rows; ++r) {
    for (int i = 0; i < stride; ++i) {
      double want = x[r * stride + i];
      if (i >= first && i < first + heads * n) {
        const float* head = &x[r * stride + first + (i - first) / n * n];
        double sum = 0;
        for (int k = 0; k < n; ++k) sum += double{head[k]} * head[k];
        want = want / std::sqrt(sum / n + 1e-5) * gain[(i - first) % n];
      }
      ASSERT_NEAR(got[r * stride + i], want, std::fabs(want) * kRelative) << r << " " << i;
    }
  }
}

double Activate(Activation activation, double x) {
  switch (activation) {
    case Activation::kSilu: return x / (1 + std::exp(-x));
    case Activation::kGeluTanh:
      return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::kClampedSwiglu:
      return std::min(x, 7.) / (1 + std::exp(-1.702 * std::min(x, 7.)));
  }
  return NAN;
}

// The factor of the activated gate.
double UpOf(Activation activation, double up) {
  return activation == Activation::kClampedSwiglu ? std::clamp(up, -7., 7.) + 1 : up;
}

TEST_P(RowsTest, GluEqualsDouble) {
  std::mt19937 random(3);
  std::vector<std::pair<Activation, int>> cases;
  for (const int n : kWidths) {
    cases.emplace_back(Activation::kSilu, n);
    cases.emplace_back(Activation::kGeluTanh, n);
    cases.emplace_back(Activation::kClampedSwiglu, n);
  }
  for (const auto& [activation, n] : cases) {
    const int rows = 2;
    std::vector<float> x = RandomValues(rows * 2 * n, random);
    // Extreme values on both sides: exp must neither overflow to NaN nor lose its small end.
    const float edges[] = {-1000.f, -100.f, -88.f, -30.f, 0.f, 30.f, 100.f, 1000.f};
    for (int i = 0; i < std::min(n, 8); ++i) x[i] = edges[i];
    float* out = Poisoned(rows * n);
    backend_->Glu(activation, Upload(x), rows, n, out, Consumers::kAny);
    const std::vector<float> got = Download(out, rows * n);
    // Far below 0 a backend may clamp to its smallest exp; GELU is practically 0 there, and has the
    // rounding error of its exponent.
    const double least = activation == Activation::kSilu ? 1e-30 : 1e-7;
    for (int r = 0; r < rows; ++r) {
      for (int i = 0; i < n; ++i) {
        const double gate = x[r * 2 * n + i], up = UpOf(activation, x[r * 2 * n + n + i]);
        const double want = Activate(activation, gate) * up;
        ASSERT_NEAR(got[r * n + i], want, std::fabs(want) * kRelative + least * std::fabs(up))
            << "gate " << gate << " up " << up;
      }
    }
  }
}

// Any number of rows, also those for which a backend has a kernel that does both.
TEST_P(RowsTest, GatedProductEqualsItsParts) {
  std::mt19937 random(8);
  const Activation activations[] = {Activation::kSilu, Activation::kGeluTanh,
                                    Activation::kClampedSwiglu};
  for (const WeightType type : GetParam().weights) {
    int kind = 0;
    for (const int rows : {1, 3, 8, 9, 16, 17}) {
      for (const auto& [n, in] : {std::pair(5, 40), std::pair(16, 72), std::pair(40, 200)}) {
        const Activation activation = activations[kind % 3];
        const bool with_bias = kind++ % 2 == 0;
        const std::vector<float> w = RandomValues(2 * n * in, random);
        const auto packed = backend_->Pack({w.data(), Dtype::kF32, {2 * n, in}}, type).value();
        float* const x = Upload(RandomValues(rows * in, random));
        float* const bias = with_bias ? Upload(RandomValues(2 * n, random)) : nullptr;
        float* const gate_up = Poisoned(rows * 2 * n);
        float* const parts = Poisoned(rows * n);
        backend_->MatMul(*packed, x, rows, bias, false, gate_up);
        backend_->Glu(activation, gate_up, rows, n, parts, Consumers::kAny);
        float* const whole = Poisoned(rows * n);
        backend_->GatedMatMul(*packed, x, rows, bias, activation, Poisoned(rows * 2 * n), whole,
                              Consumers::kAny);
        ASSERT_EQ(Download(whole, rows * n), Download(parts, rows * n))
            << rows << " rows of " << n << " from " << in;
        // The copy that the next product reads.
        const std::vector<float> down = RandomValues(7 * n, random);
        const auto next = backend_->Pack({down.data(), Dtype::kF32, {7, n}}, type).value();
        float* const got = Poisoned(rows * 7);
        float* const want = Poisoned(rows * 7);
        backend_->MatMul(*next, whole, rows, nullptr, false, got);
        backend_->MatMul(*next, Upload(Download(parts, rows * n)), rows, nullptr, false, want);
        ASSERT_EQ(Download(got, rows * 7), Download(want, rows * 7)) << rows << " " << n;
      }
    }
  }
}

TEST_P(RowsTest, ScaleAndSoftCapEqualDouble) {
  std::mt19937 random(6);
  for (const int n : kWidths) {
    const int rows = 3;
    const float cap = 1.25f;
    std::vector<float> x = RandomValues(rows * n, random);
    x[0] = 1e30f;
    float* scaled = Upload(x);
    backend_->Scale(scaled, rows, n, 7.5f);
    float* capped = Upload(x);
    backend_->SoftCap(capped, rows, n, cap);
    const std::vector<float> product = Download(scaled, rows * n);
    const std::vector<float> got = Download(capped, rows * n);
    for (int i = 0; i < rows * n; ++i) {
      ASSERT_EQ(product[i], x[i] * 7.5f);
      const double want = cap * std::tanh(double{x[i]} / cap);
      ASSERT_NEAR(got[i], want, std::fabs(want) * kRelative) << "n = " << n << ", " << x[i];
    }
  }
}

TEST_P(RowsTest, SoftCapRowIgnoresOtherRows) {
  std::mt19937 random(7);
  const int rows = 5, n = 67;
  const std::vector<float> x = RandomValues(rows * n, random);
  float* all = Upload(x);
  backend_->SoftCap(all, rows, n, 2.f);
  const std::vector<float> want = Download(all, rows * n);
  for (int r = 0; r < rows; ++r) {
    float* one = Upload({x.begin() + r * n, x.begin() + (r + 1) * n});
    backend_->SoftCap(one, 1, n, 2.f);
    EXPECT_TRUE(std::equal(&want[r * n], &want[r * n] + n, Download(one, n).begin())) << r;
  }
}

OUTRIDER_FOR_ALL_BACKENDS(RowsTest);

}  // namespace
}  // namespace outrider
