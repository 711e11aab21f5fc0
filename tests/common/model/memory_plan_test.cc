#include "common/model/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace outrider {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kGiB = int64_t{1} << 30;

TEST(MemoryPlan, CacheGetsRemainingWholePages) {
  // 80 GiB, of which 16 are weights and 1 is used by another process: 0.9 * 80 - 17 - 3.
  const auto bytes = PlanKvBytes({.free = 63 * kGiB,
                                  .total = 80 * kGiB,
                                  .fraction = 0.9,
                                  .workspace = 3 * kGiB,
                                  .page = 2 << 20});
  ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
  EXPECT_EQ(*bytes % (2 << 20), 0);
  EXPECT_LE(*bytes, 52 * kGiB);
  EXPECT_GT(*bytes, 52 * kGiB - (4 << 20));
}

TEST(MemoryPlan, OnePageIsTheLeast) {
  MemoryRequest request = {.free = 100, .total = 100, .fraction = 1, .workspace = 60, .page = 40};
  ASSERT_TRUE(PlanKvBytes(request).ok());
  EXPECT_EQ(*PlanKvBytes(request), 40);
  request.page = 41;
  const auto none = PlanKvBytes(request);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().code(), Code::kResourceExhausted);
  EXPECT_THAT(none.status().message(), HasSubstr("one page of KV would take 41 bytes"));
}

TEST(MemoryPlan, OthersOnTheDeviceCount) {
  const auto none = PlanKvBytes(
      {.free = 2 * kGiB, .total = 80 * kGiB, .fraction = 0.9, .workspace = 0, .page = 1});
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.status().message(), HasSubstr("take 79872 MiB"));
}

TEST(MemoryPlan, FractionMustBeFraction) {
  for (const double fraction : {0., -1., 1.01}) {
    EXPECT_EQ(PlanKvBytes({.free = 1, .total = 1, .fraction = fraction, .page = 1}).status().code(),
              Code::kInvalidArgument);
  }
}

// Llama 3.1 8B: 32 layers, 8 KV heads of 128: 128 KiB per token in bf16, half of that in FP8.
TEST(MemoryPlan, PagesOfAKnownModel) {
  ModelConfig config;
  config.layers.resize(32);
  config.num_kv_heads = 8;
  config.head_dim = 128;
  EXPECT_EQ(PageBytes(config, 16, KvType::kBf16), 16 * (128 << 10));
  EXPECT_EQ(PageBytes(config, 16, KvType::kFp8), 16 * (64 << 10));
}

// Qwen3 30B A3B, compared with the same model with one MLP of the size of the chosen experts.
TEST(MemoryPlan, MixtureTakesMoreThanActiveSize) {
  ModelConfig dense;
  dense.hidden_size = 2048;
  dense.intermediate_size = 8 * 768;
  dense.layers.resize(2);
  ModelConfig mixture = dense;
  mixture.layers[1].mlp.mixture = {.router = {.experts = 128, .top_k = 8},
                                   .intermediate_size = 768};
  const ModelOptions options{.max_batch_tokens = 512};
  // Per row: 128 logits, 7 words of routing and 2048 values for each of 8 experts; and one more
  // offset.
  EXPECT_EQ(WorkspaceBytes(mixture, options) - WorkspaceBytes(dense, options),
            4 * (512 * (128 + 8 * (7 + 2048)) + 129));
}

// Llama 3.1 8B on a device of 24 GiB, 15 of which are weights.
TEST(MemoryPlan, GraphsAndLoadedCodeCount) {
  ModelConfig config;
  config.hidden_size = 4096;
  config.layers.resize(32);
  config.num_kv_heads = 8;
  config.head_dim = 128;
  const ModelOptions options{.memory_fraction = 0.9, .max_batch_tokens = 512};
  EXPECT_EQ(GraphBytes(config, options), 128 << 20);
  ModelConfig nothing;
  EXPECT_GE(WorkspaceBytes(nothing, options), 416 << 20) << "with code that is loaded later";

  const DeviceMemory memory = {.free = 9 * kGiB, .total = 24 * kGiB};
  const int without = PlanKvPages(config, options, memory).value();
  const int with = PlanKvPages(config, options, memory, {}, /*graphs=*/true).value();
  const int64_t page = PageBytes(config, options.page_tokens, options.kv);
  EXPECT_EQ((without - with) * page, GraphBytes(config, options));
  // One page is for rows that pad a pass.
  const int64_t used = memory.total - memory.free + (with + 1) * page +
                       WorkspaceBytes(config, options) + GraphBytes(config, options);
  EXPECT_LE(static_cast<double>(used), 0.9 * static_cast<double>(memory.total));
}

// One more rounded copy of a product's widest input, 512 rows of 4096 in 16 bits or twice as much,
// and more launches of a layer.
TEST(MemoryPlan, RoundingToFp8Counts) {
  ModelConfig config;
  config.hidden_size = 4096;
  config.layers.resize(32);
  const ModelOptions floats{.max_batch_tokens = 512};
  ModelOptions fp8 = floats;
  fp8.fp8_activations = true;
  EXPECT_EQ(WorkspaceBytes(config, fp8) - WorkspaceBytes(config, floats), 512 * 4096 * 4);
  EXPECT_EQ(GraphBytes(config, fp8), 192 << 20);
}

// A context of a million tokens: its table of 0.5 GiB is as long as the cache lets a sequence be.
TEST(MemoryPlan, TablesReachAsFarAsCache) {
  ModelConfig config;
  config.max_position_embeddings = 1 << 20;
  config.layers.resize(2);
  for (LayerDescription& layer : config.layers) layer.attention.rope.dims = 128;
  config.num_kv_heads = 8;
  config.head_dim = 128;
  EXPECT_EQ(RopeBytes(config, config.max_position_embeddings), kGiB / 2);
  const ModelOptions options{.memory_fraction = 1, .max_batch_tokens = 512};
  const int64_t page = PageBytes(config, options.page_tokens, options.kv);
  const auto used = [&](int pages) {
    const int64_t slots = (int64_t{pages} + 1) * options.page_tokens;
    return WorkspaceBytes(config, options) + (pages + 1) * page +
           RopeBytes(config, std::min<int64_t>(slots, config.max_position_embeddings));
  };
  for (const int64_t room : {int64_t{1} << 20, kGiB / 4, 15 * kGiB, 40 * kGiB}) {
    const DeviceMemory memory = {.free = WorkspaceBytes(config, options) + room,
                                 .total = 80 * kGiB};
    const Result<int> pages = PlanKvPages(config, options, memory);
    ASSERT_TRUE(pages.ok()) << pages.status().ToString();
    EXPECT_LE(used(*pages), memory.free) << room;
    EXPECT_GT(used(*pages + 1) + RopeBytes(config, options.page_tokens), memory.free) << room;
  }
}

TEST(MemoryPlan, RefusesCacheBeyondHostMemory) {
  ModelConfig config;
  config.layers.resize(32);
  config.num_kv_heads = 8;
  config.head_dim = 128;
  const ModelOptions options{.kv = KvType::kBf16};
  const int64_t page = PageBytes(config, options.page_tokens, options.kv);
  EXPECT_TRUE(CheckKvFits(config, options, 1000, 1000 * page).ok());
  const Status status = CheckKvFits(config, options, 1000, 1000 * page - 1);
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_EQ(status.message(),
            "a KV cache of 2000 MiB does not fit into the 1999 MiB of memory that are available; "
            "lower --kv-tokens");
}

}  // namespace
}  // namespace outrider
