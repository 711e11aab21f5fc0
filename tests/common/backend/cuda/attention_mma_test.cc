// Tests attention on tensor cores with the kernels' source on the host: against double, and that a
// row's bits are those of the row alone, whatever the batch and the split of the work.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "common/backend/cuda/attention_plan.h"
#include "common/backend/cuda/kernels/attention.h"
#include "common/math/fp8.h"
#include "common/tensor/tensor.h"
#include "tests/support/cuda_emulation/emulator.h"

namespace outrider {
namespace {

// Tokens are numbers that determine keys, values and queries, so that the same token has the same
// ones in every batch.
struct Sequence {
  std::vector<int> held;     // tokens cached before this batch
  std::vector<int> rows;     // new tokens
  std::vector<int> parents;  // of each row; empty: a chain
};

std::vector<int> Tokens(int first, int count) {
  std::vector<int> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

int Parent(const Sequence& s, int row) { return s.parents.empty() ? row - 1 : s.parents[row]; }

// The tokens that a row sees, itself last.
std::vector<int> Path(const Sequence& s, int row) {
  std::vector<int> path;
  for (int node = row; node >= 0; node = Parent(s, node)) path.push_back(s.rows[node]);
  path.insert(path.end(), s.held.rbegin(), s.held.rend());
  std::reverse(path.begin(), path.end());
  return path;
}

struct Cut {
  int tile_queries = 64;
  int blocks = 1;  // many: every chunk becomes a unit
  unsigned page_seed = 1;
  bool takes_turns = false;  // the launch has fewer blocks than units and queries to merge
};

// The arrays that a call of the batch reads; `layout` and `plan` must outlive it.
AttentionCall CallOf(const BatchLayout& layout, const AttentionPlan& plan,
                     const AttentionShape& shape) {
  return {.positions = layout.positions,
          .row_begin = layout.row_begin,
          .context = layout.context,
          .page_begin = layout.page_begin,
          .pages = layout.pages,
          .is_tree = plan.is_tree.data(),
          .path_begin = plan.path_begin.data(),
          .paths = plan.paths.data(),
          .passes = plan.passes.data(),
          .units = plan.units.data(),
          .merges = plan.merges.data(),
          .shape = shape};
}

// A cache of kFp8 has two factors that are no powers of two.
class Attention {
 public:
  explicit Attention(const AttentionShape& shape, KvType type = KvType::kBf16)
      : shape_(shape),
        type_(type),
        key_scale_(type == KvType::kFp8 ? 0.3f : 1.f),
        value_scale_(type == KvType::kFp8 ? 0.7f : 1.f) {
    EXPECT_EQ(PrepareAttention(), cudaSuccess);
  }

  // The values of a token's head: query heads first, then those of keys, then those of values.
  std::vector<float> Head(int token, int head) const {
    uint64_t state = static_cast<uint64_t>(token * 131 + head) * 0x9e3779b97f4a7c15u;
    std::vector<float> values(static_cast<size_t>(shape_.head_dim));
    for (float& x : values) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      x = static_cast<float>(state >> 52) / 1024.f - 2.f;
    }
    return values;
  }

  // The output [rows, heads * head_dim] of all sequences.
  std::vector<float> Run(const std::vector<Sequence>& batch, const Cut& cut) const {
    const int dim = shape_.head_dim, heads = shape_.num_heads, kv_heads = shape_.num_kv_heads;
    std::vector<int32_t> positions, slots, row_begin = {0}, context, page_begin = {0}, parents;
    int pages = 0, rows = 0;
    for (const Sequence& s : batch) {
      const int tokens = static_cast<int>(s.held.size() + s.rows.size());
      pages += (tokens + shape_.page_tokens - 1) / shape_.page_tokens;
      rows += static_cast<int>(s.rows.size());
    }
    std::vector<int32_t> table(static_cast<size_t>(pages));
    std::iota(table.begin(), table.end(), 1);  // page 0 is unused
    std::shuffle(table.begin(), table.end(), std::mt19937(cut.page_seed));
    const size_t cache = static_cast<size_t>(pages + 1) * shape_.page_tokens * kv_heads * dim;
    // NaN in unused slots.
    std::vector<uint8_t> keys(cache * Bytes(), 0xff), values(cache * Bytes(), 0xff);
    std::vector<float> qkv(static_cast<size_t>(rows) * (heads + 2 * kv_heads) * dim, NAN);
    for (const Sequence& s : batch) {
      const int32_t* own = table.data() + page_begin.back();
      const int held = static_cast<int>(s.held.size()), count = static_cast<int>(s.rows.size());
      for (int i = 0; i < held + count; ++i) {
        const int token = i < held ? s.held[i] : s.rows[i - held];
        const int64_t page = own[i / shape_.page_tokens];
        for (int h = 0; h < kv_heads; ++h) {
          const int64_t index =
              ((page * kv_heads + h) * shape_.page_tokens + i % shape_.page_tokens) * dim;
          const std::vector<float> key = Head(token, heads + h);
          const std::vector<float> value = Head(token, heads + kv_heads + h);
          for (int e = 0; e < dim; ++e) {
            Store(key[e] / key_scale_, index + e, &keys);
            Store(value[e] / value_scale_, index + e, &values);
          }
        }
      }
      const size_t first = positions.size();
      for (int i = 0; i < count; ++i) {
        float* row = &qkv[positions.size() * (heads + 2 * kv_heads) * dim];
        for (int h = 0; h < heads; ++h) {
          const std::vector<float> query = Head(s.rows[i], h);
          std::copy(query.begin(), query.end(), row + h * dim);
        }
        const int parent = Parent(s, i);
        parents.push_back(parent);
        positions.push_back(parent < 0 ? held : positions[first + parent] + 1);
      }
      context.push_back(held);
      row_begin.push_back(static_cast<int32_t>(positions.size()));
      page_begin.push_back(page_begin.back() +
                           (held + count + shape_.page_tokens - 1) / shape_.page_tokens);
    }
    BatchLayout layout;
    layout.rows = rows;
    layout.sequences = static_cast<int>(batch.size());
    layout.positions = positions.data();
    layout.row_begin = row_begin.data();
    layout.context = context.data();
    layout.page_begin = page_begin.data();
    layout.pages = table.data();
    layout.parents = parents.data();

    AttentionPlan plan;
    PlanAttention(layout, shape_,
                  {.blocks = cut.blocks, .max_partials = 1 << 20, .tile_queries = cut.tile_queries},
                  &plan);
    const size_t width = static_cast<size_t>(heads) * dim;
    std::vector<float> partials(plan.partials * PartialBytes(shape_) / sizeof(float), NAN);
    std::vector<float> out(rows * width, NAN);
    std::vector<uint16_t> rounded(rows * (width + 8));
    AttentionCall call = CallOf(layout, plan, shape_);
    call.qkv = qkv.data();
    call.partials = partials.data();
    call.out = out.data();
    call.rounded = {rounded.data(), static_cast<int>(width) + 8};
    auto units = static_cast<int32_t>(plan.units.size());
    auto merges = static_cast<int32_t>(plan.merges.size());
    const int32_t counts[] = {units, merges};
    if (cut.takes_turns) {
      call.counts = counts;
      units = (units + 1) / 2;
      merges = (merges + 2) / 3;
    }
    const KvLayer layer = {keys.data(), values.data(), type_, key_scale_, value_scale_};
    EXPECT_EQ(LaunchPagedAttention(call, layer, units, merges, plan.tile_queries, nullptr),
              cudaSuccess)
        << cuda_emulation::LastFailure();
    for (size_t i = 0; i < out.size(); ++i) {
      EXPECT_EQ(rounded[i / width * (width + 8) + i % width], FloatToBf16(out[i]));
    }
    return out;
  }

  std::vector<double> InDouble(const std::vector<int>& path) const {
    const int dim = shape_.head_dim, heads = shape_.num_heads, kv_heads = shape_.num_kv_heads;
    const size_t window = static_cast<size_t>(shape_.sliding_window);
    const size_t first = window > 0 && path.size() > window ? path.size() - window : 0;
    std::vector<double> out;
    for (int h = 0; h < heads; ++h) {
      const int kv = h / (heads / kv_heads);
      const std::vector<float> query = Head(path.back(), h);
      std::vector<double> sums(static_cast<size_t>(dim));
      double weights = 0;
      for (size_t i = first; i < path.size(); ++i) {
        const std::vector<float> key = Head(path[i], heads + kv);
        const std::vector<float> value = Head(path[i], heads + kv_heads + kv);
        double dot = 0;
        for (int e = 0; e < dim; ++e) dot += Rounded(query[e]) * Stored(key[e], key_scale_);
        const double weight = std::exp(dot / std::sqrt(static_cast<double>(dim)));
        weights += weight;
        for (int e = 0; e < dim; ++e) sums[e] += weight * Stored(value[e], value_scale_);
      }
      for (const double sum : sums) out.push_back(sum / weights);
    }
    return out;
  }

  // Every row of a batch, with any split, is bit-identical to the row alone after its path. Under
  // the thread sanitizer, which looks for races and is many times slower, one split is enough.
  void ExpectBitsOfTheRowAlone(const std::vector<Sequence>& batch, const std::vector<Cut>& cuts,
                               const std::string& what) const {
#if defined(OUTRIDER_THREAD_SANITIZER)
    Run(batch, cuts.back());
    return;
#endif
    const size_t width = static_cast<size_t>(shape_.num_heads) * shape_.head_dim;
    std::vector<float> want;
    for (const Sequence& s : batch) {
      for (int row = 0; row < static_cast<int>(s.rows.size()); ++row) {
        std::vector<int> held = Path(s, row);
        held.pop_back();
        const std::vector<float> alone = Run({{held, {s.rows[row]}, {}}}, {});
        want.insert(want.end(), alone.begin(), alone.end());
      }
    }
    for (const Cut& cut : cuts) {
      const std::vector<float> got = Run(batch, cut);
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_EQ(got[i], want[i])
            << what << ", tiles of " << cut.tile_queries << ", " << cut.blocks << " blocks, at "
            << i / width << ", " << i % width;
      }
    }
  }

 private:
  size_t Bytes() const { return type_ == KvType::kFp8 ? 1 : 2; }
  void Store(float x, int64_t index, std::vector<uint8_t>* cache) const {
    if (type_ == KvType::kFp8) {
      (*cache)[static_cast<size_t>(index)] = FloatToFp8(x);
      return;
    }
    const uint16_t bits = FloatToBf16(x);
    std::memcpy(cache->data() + 2 * index, &bits, sizeof bits);
  }
  // What the cache holds, and what queries are rounded to.
  double Stored(float x, float scale) const {
    if (type_ != KvType::kFp8) return static_cast<double>(Bf16ToFloat(FloatToBf16(x)));
    return static_cast<double>(scale) * static_cast<double>(Fp8ToFloat(FloatToFp8(x / scale)));
  }
  double Rounded(float x) const {
    return static_cast<double>(type_ == KvType::kFp8 ? F16ToFloat(FloatToF16(x))
                                                     : Bf16ToFloat(FloatToBf16(x)));
  }

  AttentionShape shape_;
  KvType type_;
  float key_scale_, value_scale_;
};

// parents[i] < i; with `wide`, most nodes are near the root, so that many share a depth.
std::vector<int> RandomTree(int rows, bool wide, std::mt19937& random) {
  std::vector<int> parents;
  for (int i = 0; i < rows; ++i) {
    const int parent = static_cast<int>(random() % (i + 1)) - 1;
    parents.push_back(wide ? std::min(parent, i / 4) : std::max(parent, i - 3));
  }
  parents[0] = -1;
  return parents;
}

const std::vector<Cut> kCuts = {{16, 1, 2},          {32, 1, 3},     {64, 1, 4},
                                {16, 10000, 5},      {64, 10000, 6}, {16, 10000, 7, true},
                                {64, 10000, 8, true}};

// The tests of steps' edges and windows are for bf16 alone: they take long, and concern code that
// no type of the cache changes.
class AttentionMma : public ::testing::TestWithParam<KvType> {};

INSTANTIATE_TEST_SUITE_P(Caches, AttentionMma, ::testing::Values(KvType::kBf16, KvType::kFp8),
                         [](const auto& test) {
                           return test.param == KvType::kFp8 ? "Fp8" : "Bf16";
                         });

TEST_P(AttentionMma, EqualsDouble) {
  struct Case {
    AttentionShape shape;
    int held, rows;
  };
  const Case cases[] = {
      {{1, 1, 16, 16, 0}, 0, 1},    {{4, 1, 48, 16, 0}, 70, 3},   {{4, 4, 64, 16, 0}, 300, 20},
      {{6, 2, 80, 5, 0}, 90, 2},    {{8, 1, 96, 16, 0}, 33, 9},   {{7, 1, 112, 1, 0}, 31, 2},
      {{8, 2, 128, 16, 0}, 257, 5}, {{3, 1, 128, 16, 50}, 90, 7}, {{2, 1, 192, 8, 0}, 17, 3},
      {{4, 2, 256, 32, 0}, 40, 10},
  };
  for (const Case& c : cases) {
    const Attention attention(c.shape, GetParam());
    std::mt19937 random(1);
    for (const bool tree : {false, true}) {
      Sequence s = {Tokens(0, c.held), Tokens(5000, c.rows), {}};
      if (tree) s.parents = RandomTree(c.rows, true, random);
      const std::vector<float> got = attention.Run({s}, {});
      const size_t width = static_cast<size_t>(c.shape.num_heads) * c.shape.head_dim;
      for (int row = 0; row < c.rows; ++row) {
        const std::vector<double> want = attention.InDouble(Path(s, row));
        // Values are at most 2; weights are rounded to 8 bits, or 11.
        const double tolerance = GetParam() == KvType::kFp8 ? 5e-4 : 4e-3;
        for (size_t i = 0; i < width; ++i) {
          ASSERT_NEAR(got[row * width + i], want[i], tolerance)
              << "heads of " << c.shape.head_dim << ", row " << row << " at " << i;
        }
      }
    }
  }
}

TEST_P(AttentionMma, RowBitsIgnoreGroup) {
  std::mt19937 random(2);
  for (const int group : {1, 3, 4, 7, 8}) {
    const Attention attention({2 * group, 2, 64, 16, 0}, GetParam());
    const std::vector<Sequence> batch = {
        {Tokens(0, 60), Tokens(10000, 9), {}},
        {Tokens(1000, 250), Tokens(11000, 1), {}},
        {Tokens(2000, 0), Tokens(12000, 21), {}},
        {Tokens(3000, 70), Tokens(13000, 13), RandomTree(13, group % 2 == 0, random)}};
    attention.ExpectBitsOfTheRowAlone(batch, kCuts, "group " + std::to_string(group));
  }
}

// Steps of 64, 32 and 16 positions: contexts at and next to their boundaries, and those of a chunk.
TEST(AttentionMmaOfBf16, RowBitsHoldAtEveryEdge) {
  std::mt19937 random(3);
  for (const int dim : {64, 128, 256}) {
    const Attention attention({4, 1, dim, 16, 0});
    for (const int held : {0, 1, 15, 16, 17, 31, 32, 63, 64, 65, 254, 256, 511}) {
      const std::vector<Sequence> batch = {
          {Tokens(0, held), Tokens(10000, 4), {}},
          {Tokens(2000, held), Tokens(12000, 6), RandomTree(6, held % 2 == 0, random)}};
      attention.ExpectBitsOfTheRowAlone(
          batch, {{16, 1, 2}, {64, 10000, 3}},
          "heads of " + std::to_string(dim) + ", after " + std::to_string(held));
    }
  }
}

TEST(AttentionMmaOfBf16, RowBitsHoldInWindow) {
  std::mt19937 random(4);
  for (const int window : {1, 5, 33, 64, 200, 300}) {
    const Attention attention({3, 1, 64, 16, window});
    const std::vector<Sequence> batch = {
        {Tokens(0, 320), Tokens(10000, 40), {}},
        {Tokens(1000, 3), Tokens(11000, 12), {}},
        {Tokens(2000, 250), Tokens(12000, 17), RandomTree(17, false, random)},
        {Tokens(3000, 60), Tokens(13000, 17), RandomTree(17, true, random)}};
    attention.ExpectBitsOfTheRowAlone(batch, kCuts, "window " + std::to_string(window));
  }
}

// 33 rows, as in a draft of four sequences of eight tokens, and random trees.
TEST_P(AttentionMma, RowBitsHoldInLargeTree) {
  std::mt19937 random(5);
  std::vector<int> branches = {-1};
  for (int i = 0; i < 32; ++i) branches.push_back(i % 8 == 0 ? 0 : i);
  std::vector<int> roots;  // no common root, depth by depth
  for (int i = 0; i < 33; ++i) roots.push_back(i < 8 ? -1 : i - 8);
  const Attention attention({4, 1, 64, 16, 0}, GetParam());
  for (const int held : {100, 246}) {
    const std::vector<Sequence> batch = {
        {Tokens(0, held), Tokens(10000, 33), branches},
        {Tokens(1000, held), Tokens(11000, 33), roots},
        {Tokens(2000, held), Tokens(12000, 33), RandomTree(33, true, random)},
        {Tokens(3000, held), Tokens(13000, 33), RandomTree(33, false, random)}};
    attention.ExpectBitsOfTheRowAlone(batch, kCuts, "after " + std::to_string(held));
  }
}

// Head sizes that the kernels pad.
TEST_P(AttentionMma, RowBitsHoldForHeadSizes) {
  std::mt19937 random(6);
  for (const int dim : {16, 80, 96, 112, 192}) {
    const Attention attention({6, 2, dim, 7, 0}, GetParam());
    attention.ExpectBitsOfTheRowAlone(
        {{Tokens(0, 70), Tokens(10000, 7), {}},
         {Tokens(1000, 290), Tokens(11000, 7), RandomTree(7, true, random)}},
        {{16, 10000, 2}, {64, 1, 3}}, "heads of " + std::to_string(dim));
  }
}

// A missing barrier shows when threads run from the last to the first.
TEST_P(AttentionMma, BitsIgnoreThreadOrder) {
  std::mt19937 random(7);
  const Attention attention({8, 1, 128, 16, 0}, GetParam());
  const std::vector<Sequence> batch = {
      {Tokens(0, 300), Tokens(10000, 12), {}},
      {Tokens(1000, 90), Tokens(11000, 12), RandomTree(12, true, random)}};
  for (const Cut& cut : kCuts) {
    const std::vector<float> want = attention.Run(batch, cut);
    cuda_emulation::SetReverseOrder(true);
    const std::vector<float> got = attention.Run(batch, cut);
    cuda_emulation::SetReverseOrder(false);
    EXPECT_EQ(got, want);
  }
}

// One position, which gets all the weight: the output is its value.
TEST(AttentionOfCodes, EveryCodeIsItsValue) {
  ASSERT_EQ(PrepareAttention(), cudaSuccess);
  const AttentionShape shape = {1, 1, 256, 16, 0};
  const std::vector<int32_t> zero = {0}, ends = {0, 1}, parents = {-1};
  BatchLayout layout;
  layout.rows = layout.sequences = 1;
  layout.positions = layout.context = layout.pages = zero.data();
  layout.row_begin = layout.page_begin = ends.data();
  layout.parents = parents.data();
  std::vector<uint8_t> keys(16 * 256, 0), values(16 * 256, 0xff);
  std::iota(values.begin(), values.begin() + 256, uint8_t{0});
  const std::vector<float> qkv(3 * 256, 1.f);
  for (const int tile_queries : {16, 64}) {
    AttentionPlan plan;
    PlanAttention(layout, shape,
                  {.blocks = 1, .max_partials = 1 << 10, .tile_queries = tile_queries}, &plan);
    std::vector<float> out(256, 0.f);
    AttentionCall call = CallOf(layout, plan, shape);
    call.qkv = qkv.data();
    call.out = out.data();
    const KvLayer layer = {keys.data(), values.data(), KvType::kFp8, 1.f, 0.25f};
    ASSERT_EQ(LaunchPagedAttention(call, layer, static_cast<int>(plan.units.size()), 0,
                                   tile_queries, nullptr),
              cudaSuccess)
        << cuda_emulation::LastFailure();
    for (int code = 0; code < 256; ++code) {
      const float want = 0.25f * Fp8ToFloat(static_cast<uint8_t>(code));
      const float got = out[static_cast<size_t>(code)];
      EXPECT_TRUE(got == want || (std::isnan(got) && std::isnan(want))) << code << ": " << got;
    }
  }
}

}  // namespace
}  // namespace outrider
