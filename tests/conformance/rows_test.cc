// The ops that work on one row at a time: RmsNorm and SwiGlu.
#include <algorithm>
#include <cmath>

#include "tests/conformance/backends.h"

namespace outrider {
namespace {

using RowsTest = ConformanceTest;

constexpr int kWidths[] = {1, 3, 8, 15, 16, 17, 31, 64, 96, 100, 255, 256, 1025};
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
      backend_->RmsNorm(Upload(x), Upload(gain), rows, n, stride, eps, out);
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

TEST_P(RowsTest, RmsNormWorksInPlaceAndARowIsBitEqualInAnyCall) {
  std::mt19937 random(2);
  const int rows = 9, n = 96;
  const std::vector<float> x = RandomValues(rows * n, random);
  const float* gain = Upload(RandomValues(n, random));
  float* all = Upload(x);
  backend_->RmsNorm(all, gain, rows, n, n, 1e-6f, all);
  const std::vector<float> want = Download(all, rows * n);
  const float* source = Upload(x);
  for (int r = 0; r < rows; ++r) {
    float* one = Poisoned(n);
    backend_->RmsNorm(source + r * n, gain, 1, n, n, 1e-6f, one);
    EXPECT_TRUE(std::equal(&want[r * n], &want[r * n] + n, Download(one, n).begin())) << r;
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

TEST_P(RowsTest, SwiGluEqualsDouble) {
  std::mt19937 random(3);
  for (const int n : kWidths) {
    const int rows = 2;
    std::vector<float> x = RandomValues(rows * 2 * n, random);
    // Far out on both sides: exp must neither overflow to NaN nor lose its small end.
    const float edges[] = {-1000.f, -100.f, -88.f, -30.f, 0.f, 30.f, 100.f, 1000.f};
    for (int i = 0; i < std::min(n, 8); ++i) x[i] = edges[i];
    float* out = Poisoned(rows * n);
    backend_->SwiGlu(Upload(x), rows, n, out);
    const std::vector<float> got = Download(out, rows * n);
    for (int r = 0; r < rows; ++r) {
      for (int i = 0; i < n; ++i) {
        const double gate = x[r * 2 * n + i], up = x[r * 2 * n + n + i];
        const double want = gate / (1 + std::exp(-gate)) * up;
        // Far below 0 a backend may stop at its smallest exp.
        ASSERT_NEAR(got[r * n + i], want, std::fabs(want) * kRelative + 1e-30)
            << "gate " << gate << " up " << up;
      }
    }
  }
}

OUTRIDER_FOR_ALL_BACKENDS(RowsTest);

}  // namespace
}  // namespace outrider
