// Tests RopeAndWriteKv, PagedAttention and CopyKvSlots together: the cache is only observed through
// attention, so that a backend may choose the layout of a page.
#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "common/math/fp8.h"
#include "tests/conformance/attention_cases.h"
#include "tests/conformance/paged_cache.h"

namespace outrider {
namespace {

// The norms of heads, in one op or before it.
TEST_P(AttentionTest, NormsHeadsBeforeTheRotation) {
  std::mt19937 random(12);
  for (const auto& [dim, unrotated] : {std::pair(8, 0), std::pair(40, 6), std::pair(128, 0),
                                       std::pair(200, 200), std::pair(256, 32)}) {
    const AttentionShape shape = {.num_heads = 3,
                                  .num_kv_heads = 1,
                                  .head_dim = dim,
                                  .page_tokens = 4,
                                  .unrotated = unrotated};
    constexpr int kRows = 3;
    const int heads = 3 + 2, width = heads * dim, slots = 8;
    const std::vector<int32_t> positions = {5, 0, 2}, where = {1, 4, 7};
    BatchLayout layout;
    layout.rows = layout.sequences = kRows;
    layout.positions = positions.data();
    layout.slots = where.data();
    const std::vector<int32_t> begin = {0, 1, 2, 3}, zeros(kRows);
    layout.row_begin = layout.page_begin = begin.data();
    layout.context = layout.pages = zeros.data();
    float* const angles = Upload(RandomValues(6 * std::max(dim - unrotated, 1), random));
    const HeadNorms norms = {Upload(RandomValues(dim, random)), Upload(RandomValues(dim, random)),
                             1e-5f};
    const std::vector<float> values = RandomValues(kRows * width, random);
    std::vector<std::vector<float>> results;
    for (const bool before : {true, false}) {
      float* const qkv = Upload(values);
      float* const keys = Poisoned(slots * dim);
      float* const cached = Poisoned(slots * dim);
      if (before) {
        backend_->RmsNormHeads(qkv, norms.q, kRows, 3, dim, width, norms.eps);
        backend_->RmsNormHeads(qkv + 3 * dim, norms.k, kRows, 1, dim, width, norms.eps);
      }
      backend_->RopeAndWriteKv(layout, shape, before ? HeadNorms() : norms, angles, qkv,
                               {keys, cached, KvType::kF32});
      std::vector<float>& all = results.emplace_back(Download(qkv, kRows * width));
      for (float* const cache : {keys, cached}) {  // a backend chooses where in a page they are
        const std::vector<float> now = Download(cache, slots * dim);
        all.insert(all.end(), now.begin(), now.end());
      }
    }
    ASSERT_EQ(results[0].size(), results[1].size());
    int written = 0;
    for (size_t i = 0; i < results[0].size(); ++i) {
      const float want = results[0][i], got = results[1][i];
      ASSERT_EQ(std::isnan(got), std::isnan(want)) << dim << " " << i;
      if (std::isnan(want)) continue;
      ASSERT_NEAR(got, want, std::fabs(want) * 1e-5) << dim << " " << i;
      ++written;
    }
    EXPECT_EQ(written, kRows * (width + 2 * dim));
  }
}

// f32: scores of about 6 with errors of a few 2^-24 each, through exp into values of about 4. bf16:
// a key whose rotation is rounded the other way has a relative error of 2^-8, but that is rare.
// f16: 2^-11. FP8: CosSinTable makes all codes unambiguous, but a device's tensor cores, for heads
// that are a multiple of 16, round queries and weights to f16.
double Tolerance(const AttentionCase& c, Backend* backend) {
  const bool is_rounded = backend->device() != nullptr && c.shape.head_dim % 16 == 0;
  switch (c.type) {
    case KvType::kF32: return 2e-5;
    case KvType::kBf16: return 2e-2;
    case KvType::kF16: return 3e-3;
    case KvType::kFp8: return is_rounded ? 1e-3 : 2e-5;
  }
  return 0;
}

void ExpectNear(const std::vector<float>& got, const std::vector<double>& want, double tolerance,
                const std::string& what) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], tolerance) << what << " at " << i;
  }
}

TEST_P(AttentionTest, ChainsEqualDouble) {
  std::mt19937 random(1);
  for (const AttentionCase& c : Cases()) {
    PagedCache cache(backend_.get(), c.shape, c.type, kCacheTokens, 1);
    ReferenceCache reference(c.shape, c.type);
    std::vector<NewRows> prefix, batch;
    for (int s = 0; s < static_cast<int>(c.rows.size()); ++s) {
      if (c.contexts[s] > 0) prefix.push_back(RandomRows(c.shape, s, c.contexts[s], random));
      batch.push_back(RandomRows(c.shape, s, c.rows[s], random));
    }
    for (const auto& step : {prefix, batch}) {
      if (step.empty()) continue;
      const auto got = cache.Append(step);
      for (size_t i = 0; i < step.size(); ++i) {
        ExpectNear(got[i], reference.Append(step[i]), Tolerance(c, backend_.get()), Describe(c));
      }
    }
  }
}

TEST_P(AttentionTest, TreesEqualDouble) {
  std::mt19937 random(2);
  for (const AttentionCase& c : Cases()) {
    PagedCache cache(backend_.get(), c.shape, c.type, kCacheTokens, 2);
    ReferenceCache reference(c.shape, c.type);
    std::vector<NewRows> batch;
    for (int s = 0; s < static_cast<int>(c.rows.size()); ++s) {
      if (c.contexts[s] > 0) {
        const NewRows prefix = RandomRows(c.shape, s, c.contexts[s], random);
        cache.Append({prefix});
        reference.Append(prefix);
      }
      batch.push_back(RandomRows(c.shape, s, c.rows[s], random));
      batch.back().parents = RandomTree(c.rows[s], random);
    }
    const auto got = cache.Append(batch);
    for (size_t i = 0; i < batch.size(); ++i) {
      ExpectNear(got[i], reference.Append(batch[i]), Tolerance(c, backend_.get()), Describe(c));
    }
  }
}

TEST_P(AttentionTest, KeptPathEqualsChainBitwise) {
  std::mt19937 random(6);
  for (const AttentionCase& c : Cases()) {
    const NewRows prefix = RandomRows(c.shape, 0, c.contexts[0] + 1, random);
    NewRows tree = RandomRows(c.shape, 0, 9, random);
    tree.parents = {-1, -1, 0, 1, 1, 4, 2, 5, 7};
    const std::vector<int> path = {1, 4, 5, 7};
    const NewRows next = RandomRows(c.shape, 0, 2, random);
    PagedCache cache(backend_.get(), c.shape, c.type, kCacheTokens, 8);
    cache.Append({prefix});
    cache.Append({tree});
    cache.KeepPath(0, 9, path);
    PagedCache chain(backend_.get(), c.shape, c.type, kCacheTokens, 9);
    chain.Append({prefix});
    chain.Append({TakePath(tree, c.shape, path)});
    EXPECT_EQ(cache.Append({next}), chain.Append({next})) << Describe(c);
  }
}

// A token that sees only itself returns its value. NaN stays NaN.
TEST_P(AttentionTest, EveryFp8CodeComesBack) {
  AttentionShape shape{1, 1, 256, 16, 0};
  shape.unrotated = shape.head_dim;
  NewRows rows{0, std::vector<float>(3 * 256), {}};
  for (int code = 0; code < 256; ++code) {
    rows.qkv[2 * 256 + code] = Fp8ToFloat(static_cast<uint8_t>(code)) * kFp8ValueScale;
  }
  PagedCache cache(backend_.get(), shape, KvType::kFp8, kCacheTokens, 1);
  const std::vector<float> got = cache.Append({rows})[0];
  for (int code = 0; code < 256; ++code) {
    const float want = rows.qkv[2 * 256 + code];
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(got[code])) << code;
    } else {
      EXPECT_FLOAT_EQ(got[code], want) << code;
    }
  }
}

OUTRIDER_FOR_ALL_BACKENDS(AttentionTest);

}  // namespace
}  // namespace outrider
