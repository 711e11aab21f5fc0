#include <algorithm>
#include <cmath>

#include "tests/conformance/backends.h"

namespace outrider {
namespace {

using EmbedTest = ConformanceTest;

TEST_P(EmbedTest, GivesTheRowsOfTheTable) {
  std::mt19937 random(1);
  for (const int n : {1, 2, 7, 64, 129}) {
    const int vocab = 77;
    const std::vector<float> table = RandomValues(vocab * n, random);
    const std::vector<TokenId> tokens = {0, 76, 31, 32, 33, 31, 64, 1};
    const int rows = static_cast<int>(tokens.size());
    for (const WeightType type : GetParam().weights) {
      const auto packed = backend_->Pack({table.data(), Dtype::kF32, {vocab, n}}, type);
      ASSERT_TRUE(packed.ok());
      float* out = Poisoned(rows * n);
      backend_->Embed(**packed, tokens.data(), rows, out);
      const std::vector<float> got = Download(out, rows * n);
      for (int r = 0; r < rows; ++r) {
        const float* want = &table[tokens[r] * n];
        float max = 0.f;
        for (int i = 0; i < n; ++i) max = std::max(max, std::fabs(want[i]));
        for (int i = 0; i < n; ++i) {
          const float value = got[r * n + i];
          if (type == WeightType::kF32) {
            ASSERT_EQ(value, want[i]);
          } else if (type == WeightType::kBf16) {
            ASSERT_EQ(value, Bf16ToFloat(FloatToBf16(want[i])));
          } else if (type == WeightType::kF16) {
            ASSERT_EQ(value, F16ToFloat(FloatToF16(want[i])));
          } else {
            const float steps = type == WeightType::kW4A16 ? 7 : 127;
            ASSERT_NEAR(value, want[i], max / steps * 0.501f);  // half a step
          }
        }
      }
    }
  }
}

TEST_P(EmbedTest, GathersRows) {
  std::mt19937 random(2);
  for (const int n : {1, 5, 32, 100}) {
    const std::vector<float> x = RandomValues(9 * n, random);
    const std::vector<int32_t> rows = {8, 0, 3, 3, 7};
    float* out = Poisoned(rows.size() * n);
    backend_->GatherRows(Upload(x), rows.data(), static_cast<int>(rows.size()), n, out);
    const std::vector<float> got = Download(out, rows.size() * n);
    for (size_t r = 0; r < rows.size(); ++r) {
      EXPECT_TRUE(std::equal(&got[r * n], &got[r * n] + n, &x[rows[r] * n])) << "row " << r;
    }
  }
}

OUTRIDER_FOR_ALL_BACKENDS(EmbedTest);

}  // namespace
}  // namespace outrider
