// Which batch a row is in, and on which pages, does not change a bit of its attention.
#include <algorithm>
#include <random>

#include "tests/conformance/attention_cases.h"
#include "tests/conformance/paged_cache.h"

namespace outrider {
namespace {

class AttentionBitsTest : public AttentionTest {};

// A prompt in one call or token by token, alone or with other sequences: the same bits.
TEST_P(AttentionBitsTest, RowBitsIgnoreTheBatch) {
  std::mt19937 random(3);
  for (const AttentionCase& c : Cases()) {
    const int sequences = static_cast<int>(c.rows.size());
    std::vector<NewRows> prefix, batch;
    for (int s = 0; s < sequences; ++s) {
      prefix.push_back(RandomRows(c.shape, s, c.contexts[s] + 1, random));
      batch.push_back(RandomRows(c.shape, s, c.rows[s], random));
    }
    PagedCache together(backend_.get(), c.shape, c.type, kCacheTokens, 3);
    together.Append(prefix);
    const auto want = together.Append(batch);
    PagedCache alone(backend_.get(), c.shape, c.type, kCacheTokens, 4);
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

TEST_P(AttentionBitsTest, TreePathsEqualChainsBitwise) {
  std::mt19937 random(5);
  for (const AttentionCase& c : Cases()) {
    const int rows = 13;
    const int context = c.contexts[0];
    const NewRows prefix = RandomRows(c.shape, 0, context + 1, random);
    NewRows tree = RandomRows(c.shape, 0, rows, random);
    tree.parents = RandomTree(rows, random);
    // A chain next to the tree uses the layout of trees.
    const NewRows beside = RandomRows(c.shape, 1, 3, random);
    PagedCache cache(backend_.get(), c.shape, c.type, kCacheTokens, 5);
    cache.Append({prefix});
    const auto all = cache.Append({tree, beside});
    const size_t width = static_cast<size_t>(c.shape.num_heads) * c.shape.head_dim;
    for (int node = 0; node < rows; ++node) {
      const std::vector<int> path = PathTo(tree.parents, node);
      PagedCache chain(backend_.get(), c.shape, c.type, kCacheTokens, 6);
      chain.Append({prefix});
      const auto got = chain.Append({TakePath(tree, c.shape, path)})[0];
      EXPECT_TRUE(std::equal(got.end() - width, got.end(), all[0].begin() + node * width))
          << Describe(c) << " node " << node;
    }
    PagedCache chain(backend_.get(), c.shape, c.type, kCacheTokens, 7);
    EXPECT_EQ(chain.Append({{0, beside.qkv, {}}})[0], all[1]);
  }
}

TEST_P(AttentionBitsTest, BitsAreIndependentOfPages) {
  std::mt19937 random(7);
  for (const AttentionCase& c : Cases()) {
    const NewRows prefix = RandomRows(c.shape, 0, c.contexts[0] + 80, random);
    const NewRows next = RandomRows(c.shape, 0, 5, random);
    std::vector<std::vector<float>> want;
    for (const int page_tokens : {c.shape.page_tokens, 1, 5, 8, 16, 32}) {
      AttentionShape shape = c.shape;
      shape.page_tokens = page_tokens;
      PagedCache cache(backend_.get(), shape, c.type, kCacheTokens, 10 + page_tokens);
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

OUTRIDER_FOR_ALL_BACKENDS(AttentionBitsTest);

}  // namespace
}  // namespace outrider
