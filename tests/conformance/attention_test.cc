// Tests RopeAndWriteKv, PagedAttention and CopyKvSlots together: the cache is only observed through
// attention, so that a backend may choose the layout of a page.
#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "common/math/fp8.h"
#include "tests/conformance/paged_cache.h"
#include "tests/conformance/backends.h"

namespace outrider {
namespace {

constexpr int kTokens = 512;  // more than any case needs

// For up to eight heads: below, among and above the scores.
constexpr float kSinks[] = {0.5f, -4.f, 3.f, 9.f, -1.f, 1.5f, 0.f, -90.f};

struct Case {
  // heads, kv heads, head_dim, page_tokens, window, soft cap, query scalar, unrotated, sinks
  AttentionShape shape;
  KvType type;
  std::vector<int> contexts;  // per sequence
  std::vector<int> rows;
};

const Case kAllCases[] = {
    {{1, 1, 8, 1, 0}, KvType::kF32, {0}, {1}},
    {{2, 1, 8, 3, 0}, KvType::kF32, {5}, {4}},
    {{4, 2, 16, 4, 0}, KvType::kF32, {0, 17}, {5, 1}},
    {{4, 4, 24, 5, 0}, KvType::kF32, {31, 0, 2}, {1, 33, 7}},
    {{6, 2, 32, 16, 0}, KvType::kF32, {63, 64, 65}, {1, 1, 1}},
    {{4, 2, 64, 16, 0}, KvType::kF32, {200, 7}, {8, 70}},
    {{8, 1, 72, 8, 0}, KvType::kF32, {100}, {9}},
    {{3, 3, 128, 16, 0}, KvType::kF32, {129}, {17}},
    {{2, 1, 256, 32, 0}, KvType::kF32, {40, 300}, {3, 2}},
    {{4, 2, 32, 16, 7}, KvType::kF32, {3, 100}, {20, 5}},
    {{4, 2, 32, 16, 70}, KvType::kF32, {200}, {90}},
    {{2, 2, 16, 4, 1}, KvType::kF32, {9}, {6}},
    {{4, 2, 32, 16, 70, 1.5f, 20.f}, KvType::kF32, {200, 3}, {9, 30}},
    {{4, 2, 64, 16, 0}, KvType::kBf16, {200, 7}, {8, 70}},
    {{4, 2, 64, 16, 30, 1.5f, 100.f}, KvType::kBf16, {200, 7}, {8, 70}},
    {{2, 1, 40, 16, 0, 1.f, 0}, KvType::kBf16, {20}, {9}},
    {{4, 1, 40, 7, 33}, KvType::kBf16, {50, 0}, {12, 3}},
    {{3, 1, 128, 16, 0}, KvType::kBf16, {31, 5}, {3, 20}},
    {{7, 1, 80, 16, 20}, KvType::kBf16, {40}, {11}},
    {{2, 2, 256, 16, 0}, KvType::kBf16, {17}, {4}},
    {{4, 2, 32, 16, 0, 0, 0, 8}, KvType::kF32, {40, 3}, {9, 30}},
    {{2, 1, 40, 7, 33, 0, 0, 30}, KvType::kF32, {50}, {12}},
    {{4, 2, 64, 16, 0, 0, 0, 64}, KvType::kF32, {70}, {20}},
    {{3, 1, 128, 16, 0, 0, 0, 32}, KvType::kBf16, {31, 5}, {3, 20}},
    {{2, 2, 80, 16, 0, 0, 0, 80}, KvType::kBf16, {40}, {11}},
    {{8, 2, 64, 16, 0, 0, 0, 0, kSinks}, KvType::kF32, {300, 7}, {8, 70}},
    {{4, 2, 40, 5, 24, 1.5f, 0, 0, kSinks}, KvType::kF32, {50}, {12}},
    {{8, 1, 64, 16, 30, 0, 0, 0, kSinks}, KvType::kBf16, {300, 0}, {9, 3}},
    {{4, 2, 64, 16, 0}, KvType::kF16, {200, 7}, {8, 70}},
    {{6, 2, 40, 7, 33}, KvType::kF16, {50, 0}, {12, 3}},
    {{1, 1, 8, 1, 0}, KvType::kFp8, {0}, {1}},
    {{4, 4, 24, 5, 0}, KvType::kFp8, {31, 0, 2}, {1, 33, 7}},
    {{4, 2, 64, 16, 0}, KvType::kFp8, {200, 7}, {8, 70}},
    {{4, 2, 64, 16, 30, 1.5f, 100.f}, KvType::kFp8, {200, 7}, {8, 70}},
    {{2, 1, 40, 7, 33, 0, 0, 30}, KvType::kFp8, {50}, {12}},
    {{8, 2, 128, 16, 0, 0, 0, 0, kSinks}, KvType::kFp8, {300, 7}, {3, 20}},
    {{2, 1, 256, 32, 0}, KvType::kFp8, {40, 300}, {3, 2}},
};

// An f16 cache requires f16 weights.
class AttentionTest : public ConformanceTest {
 protected:
  static std::vector<Case> Cases() {
    const std::vector<WeightType>& weights = GetParam().weights;
    const bool f16 = std::find(weights.begin(), weights.end(), WeightType::kF16) != weights.end();
    std::vector<Case> cases(std::begin(kAllCases), std::end(kAllCases));
    if (!f16) std::erase_if(cases, [](const Case& c) { return c.type == KvType::kF16; });
    return cases;
  }
};

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

std::string Describe(const Case& c) {
  const AttentionShape& s = c.shape;
  return std::to_string(s.num_heads) + " heads, " + std::to_string(s.num_kv_heads) +
         " kv heads of " + std::to_string(s.head_dim) + ", pages of " +
         std::to_string(s.page_tokens) + ", window " + std::to_string(s.sliding_window) +
         ", soft cap " + std::to_string(s.soft_cap) + ", unrotated " + std::to_string(s.unrotated) +
         (s.sinks != nullptr ? ", sinks, " : ", ") + KvTypeName(c.type);
}

void ExpectNear(const std::vector<float>& got, const std::vector<double>& want, KvType type,
                const std::string& what) {
  ASSERT_EQ(got.size(), want.size());
  // f32: scores of about 6 with errors of a few 2^-24 each, through exp into values of about 4.
  // FP8: the same, since CosSinTable makes all codes unambiguous. bf16: a key whose rotation is
  // rounded the other way has a relative error of 2^-8, but that is rare. f16: 2^-11.
  const double tolerance = type == KvType::kF16 ? 3e-3 : type == KvType::kBf16 ? 2e-2 : 2e-5;
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], tolerance) << what << " at " << i;
  }
}

TEST_P(AttentionTest, ChainsEqualDouble) {
  std::mt19937 random(1);
  for (const Case& c : Cases()) {
    PagedCache cache(backend_.get(), c.shape, c.type, kTokens, 1);
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
        ExpectNear(got[i], reference.Append(step[i]), c.type, Describe(c));
      }
    }
  }
}

TEST_P(AttentionTest, TreesEqualDouble) {
  std::mt19937 random(2);
  for (const Case& c : Cases()) {
    PagedCache cache(backend_.get(), c.shape, c.type, kTokens, 2);
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
      ExpectNear(got[i], reference.Append(batch[i]), c.type, Describe(c));
    }
  }
}

// A prompt in one call or token by token, alone or with other sequences: the same bits.
TEST_P(AttentionTest, RowBitsIgnoreTheBatch) {
  std::mt19937 random(3);
  for (const Case& c : Cases()) {
    const int sequences = static_cast<int>(c.rows.size());
    std::vector<NewRows> prefix, batch;
    for (int s = 0; s < sequences; ++s) {
      prefix.push_back(RandomRows(c.shape, s, c.contexts[s] + 1, random));
      batch.push_back(RandomRows(c.shape, s, c.rows[s], random));
    }
    PagedCache together(backend_.get(), c.shape, c.type, kTokens, 3);
    together.Append(prefix);
    const auto want = together.Append(batch);
    PagedCache alone(backend_.get(), c.shape, c.type, kTokens, 4);
    for (int s = 0; s < sequences; ++s) {
      for (int r = 0; r <= c.contexts[s]; ++r) {
        alone.Append({TakePath(prefix[s], c.shape, {r})});
      }
      std::vector<float> got;
      for (int r = 0; r < c.rows[s]; ++r) {
        const auto row = alone.Append({TakePath(batch[s], c.shape, {r})});
        got.insert(got.end(), row[0].begin(), row[0].end());
      }
      EXPECT_EQ(got, want[s]) << Describe(c) << " sequence " << s;
    }
  }
}

TEST_P(AttentionTest, TreePathsEqualChainsBitwise) {
  std::mt19937 random(5);
  for (const Case& c : Cases()) {
    const int rows = 13;
    const int context = c.contexts[0];
    const NewRows prefix = RandomRows(c.shape, 0, context + 1, random);
    NewRows tree = RandomRows(c.shape, 0, rows, random);
    tree.parents = RandomTree(rows, random);
    // A chain next to the tree uses the layout of trees.
    const NewRows beside = RandomRows(c.shape, 1, 3, random);
    PagedCache cache(backend_.get(), c.shape, c.type, kTokens, 5);
    cache.Append({prefix});
    const auto all = cache.Append({tree, beside});
    const size_t width = static_cast<size_t>(c.shape.num_heads) * c.shape.head_dim;
    for (int node = 0; node < rows; ++node) {
      const std::vector<int> path = PathTo(tree.parents, node);
      PagedCache chain(backend_.get(), c.shape, c.type, kTokens, 6);
      chain.Append({prefix});
      const auto got = chain.Append({TakePath(tree, c.shape, path)})[0];
      EXPECT_TRUE(std::equal(got.end() - width, got.end(), all[0].begin() + node * width))
          << Describe(c) << " node " << node;
    }
    PagedCache chain(backend_.get(), c.shape, c.type, kTokens, 7);
    EXPECT_EQ(chain.Append({{0, beside.qkv, {}}})[0], all[1]);
  }
}

TEST_P(AttentionTest, KeptPathEqualsChainBitwise) {
  std::mt19937 random(6);
  for (const Case& c : Cases()) {
    const NewRows prefix = RandomRows(c.shape, 0, c.contexts[0] + 1, random);
    NewRows tree = RandomRows(c.shape, 0, 9, random);
    tree.parents = {-1, -1, 0, 1, 1, 4, 2, 5, 7};
    const std::vector<int> path = {1, 4, 5, 7};
    const NewRows next = RandomRows(c.shape, 0, 2, random);
    PagedCache cache(backend_.get(), c.shape, c.type, kTokens, 8);
    cache.Append({prefix});
    cache.Append({tree});
    cache.KeepPath(0, 9, path);
    PagedCache chain(backend_.get(), c.shape, c.type, kTokens, 9);
    chain.Append({prefix});
    chain.Append({TakePath(tree, c.shape, path)});
    EXPECT_EQ(cache.Append({next}), chain.Append({next})) << Describe(c);
  }
}

TEST_P(AttentionTest, BitsAreIndependentOfPages) {
  std::mt19937 random(7);
  for (const Case& c : Cases()) {
    const NewRows prefix = RandomRows(c.shape, 0, c.contexts[0] + 80, random);
    const NewRows next = RandomRows(c.shape, 0, 5, random);
    std::vector<std::vector<float>> want;
    for (const int page_tokens : {c.shape.page_tokens, 1, 5, 8, 16, 32}) {
      AttentionShape shape = c.shape;
      shape.page_tokens = page_tokens;
      PagedCache cache(backend_.get(), shape, c.type, kTokens, 10 + page_tokens);
      const auto first = cache.Append({prefix})[0];
      const auto second = cache.Append({next})[0];
      if (want.empty()) {
        want = {first, second};
      } else {
        EXPECT_EQ(first, want[0]) << Describe(c) << " in pages of " << page_tokens;
        EXPECT_EQ(second, want[1]) << Describe(c) << " in pages of " << page_tokens;
      }
    }
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
  PagedCache cache(backend_.get(), shape, KvType::kFp8, kTokens, 1);
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
