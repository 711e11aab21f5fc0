// A model on several ranks computes what it computes on one, but for the order of sums.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/backend/cpu/cpu_backend.h"
#include "tests/common/model/model_testing.h"
#include "tests/common/ranks/local_ranks.h"
#include "tests/common/ranks/rank_story.h"
#include "tests/support/gguf_conversion.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

Result<std::unique_ptr<Backend>> MakeBackend(int /*rank*/) { return CreateCpuBackend({}); }

Result<std::unique_ptr<Model>> Load(const CheckpointOptions& checkpoint, int ranks,
                                    const ModelOptions& options = kExactOptions) {
  const TempDirectory directory;
  OUTRIDER_TRY(MakeCheckpoint(directory.path(), checkpoint));
  return LoadOnRanks(directory.path(), ranks, options, MakeBackend);
}

struct Kind {
  std::string name;
  CheckpointOptions checkpoint;
};

std::vector<Kind> Kinds() {
  const int inner = 128;  // four parts of a group
  return {
      {"Llama", {.tied_embeddings = false}},
      {"Qwen2", {.family = Family::kQwen2}},
      {"Qwen3", {.family = Family::kQwen3}},
      {"Gemma2", {.family = Family::kGemma2, .sliding_window = 9}},
      {"Gemma3", {.family = Family::kGemma3, .sliding_window = 9}},
      {"Phi3", {.family = Family::kPhi3}},
      {"Mixtral", {.family = Family::kMixtral}},
      {"Qwen3Moe", {.family = Family::kQwen3Moe}},
      {"GptOss", {.family = Family::kGptOss, .sliding_window = 9}},
      {"OddVocabulary", {.vocab_size = 319}},
      {"Int8Rows", {.intermediate_size = inner, .stored_as = StoredAs::kInt8Rows}},
      {"Fp8Block",
       {.hidden_size = inner,
        .intermediate_size = inner,
        .head_dim = 32,
        .stored_as = StoredAs::kFp8Block}},
      {"Fp8Tensor", {.stored_as = StoredAs::kFp8Tensor}},
      {"Fp8Channel", {.stored_as = StoredAs::kFp8Channel}},
      {"Packed4Zeros",
       {.hidden_size = inner,
        .intermediate_size = inner,
        .head_dim = 32,
        .stored_as = StoredAs::kPacked4Zeros}},
      {"Gptq",
       {.hidden_size = inner,
        .intermediate_size = inner,
        .head_dim = 32,
        .stored_as = StoredAs::kGptq}},
      {"Awq",
       {.hidden_size = inner,
        .intermediate_size = inner,
        .head_dim = 32,
        .stored_as = StoredAs::kAwq}},
      {"Mxfp4Experts",
       {.family = Family::kGptOss, .expert_size = inner, .stored_as = StoredAs::kMxfp4}},
  };
}

class Ranks : public ::testing::TestWithParam<Kind> {};

TEST_P(Ranks, LogitsAreThoseOfOne) {
  const std::unique_ptr<Model> alone = MakeModel(GetParam().checkpoint);
  ASSERT_NE(alone, nullptr);
  const Rows expected = Story(*alone);
  for (const int ranks : {2, 4}) {
    SCOPED_TRACE(ranks);
    const auto model = Load(GetParam().checkpoint, ranks);
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    const Rows rows = Story(**model);
    ExpectClose(rows, expected, 2e-5);
    const Rows again = Story(**model);
    for (size_t i = 0; i < rows.size(); ++i) EXPECT_TRUE(BitEqual(again[i], rows[i])) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Ranks, ::testing::ValuesIn(Kinds()),
                         [](const auto& kind) { return kind.param.name; });

// Those of sums over ranks, and those of a rank's own values.
TEST(Ranks, BiasesAreAddedOnce) {
  const CheckpointOptions checkpoint = {.attention_bias = true, .mlp_bias = true};
  const std::unique_ptr<Model> alone = MakeModel(checkpoint);
  const auto divided = Load(checkpoint, 2);
  ASSERT_TRUE(divided.ok()) << divided.status().ToString();
  ExpectClose(Story(**divided), Story(*alone), 2e-5);
}

// Scales of the cache are a layer's, on all ranks. Rounding turns last bits into steps of FP8.
TEST(Ranks, Fp8CachesAreDivided) {
  const CheckpointOptions checkpoint = {.kv_scales = true};
  ModelOptions options = kExactOptions;
  options.kv = KvType::kFp8;
  const std::unique_ptr<Model> alone = MakeModel(checkpoint, options);
  const auto divided = Load(checkpoint, 2, options);
  ASSERT_TRUE(divided.ok()) << divided.status().ToString();
  ExpectClose(Story(**divided), Story(*alone), 5e-2);
}

// The layers' matrices are of two types, stacked where they belong together, and scales have units.
TEST(Ranks, GgufBlocksAreDivided) {
  const TempDirectory directory;
  ASSERT_TRUE(
      MakeCheckpoint(
          directory.path(),
          {.hidden_size = 256, .intermediate_size = 512, .head_dim = 128, .tied_embeddings = false})
          .ok());
  const std::filesystem::path file = directory.path() / "model.gguf";
  ASSERT_TRUE(WriteGguf(directory.path(), file, {.type = "Q4_K", .finer_type = "Q6_K"}).ok());
  const std::unique_ptr<Model> alone = LoadTestModel(file);
  const auto divided = LoadOnRanks(file, 2, kExactOptions, MakeBackend);
  ASSERT_TRUE(divided.ok()) << divided.status().ToString();
  ExpectClose(Story(**divided), Story(*alone), 2e-5);
  EXPECT_EQ(LoadOnRanks(file, 4, kExactOptions, MakeBackend).status().code(), Code::kUnimplemented)
      << "units of 256 columns";
}

TEST(Ranks, GreedyTextIsThatOfOne) {
  const CheckpointOptions checkpoint = {.num_layers = 3};
  const std::unique_ptr<Model> alone = MakeModel(checkpoint);
  const auto divided = Load(checkpoint, 4);
  ASSERT_TRUE(divided.ok()) << divided.status().ToString();
  const auto text = [&](Model& model, uint64_t seed) {
    const SequenceId sequence = model.NewSequence();
    std::vector<TokenId> tokens = RandomTokens(9, checkpoint.vocab_size, seed);
    Rows rows = Extend(model, sequence, tokens);
    for (int i = 0; i < 40; ++i) {
      tokens.push_back(LargestOf(rows.back()));
      rows = Extend(model, sequence, {{tokens.back()}});
    }
    model.Release(sequence);
    return tokens;
  };
  for (uint64_t seed = 1; seed <= 5; ++seed) EXPECT_EQ(text(**divided, seed), text(*alone, seed));
}

TEST(Ranks, EachHoldsPartOfTheCache) {
  ModelOptions options = kExactOptions;
  options.kv_pages = 0;
  options.kv_bytes = 1 << 20;
  const std::unique_ptr<Model> alone = MakeModel({}, options);
  const auto divided = Load({}, 2, options);
  ASSERT_TRUE(divided.ok()) << divided.status().ToString();
  EXPECT_EQ((*divided)->total_pages(), 2 * alone->total_pages());
}

TEST(Ranks, IndivisibleModelsAreRefused) {
  const auto refusal = [](const CheckpointOptions& checkpoint, int ranks) {
    return Load(checkpoint, ranks).status();
  };
  EXPECT_THAT(refusal({}, 3).message(),
              HasSubstr("3 devices do not divide the model's 4 attention"));
  EXPECT_THAT(refusal({.intermediate_size = 90}, 4).message(),
              HasSubstr("90 values of the intermediate size"));
  EXPECT_THAT(refusal({.num_heads = 6, .num_kv_heads = 3}, 2).message(),
              HasSubstr("neither number divides the other"));
  EXPECT_THAT(refusal({}, 17).message(), HasSubstr("1 to 16 devices"));
  const Status norms = refusal({.family = Family::kOlmo2}, 2);
  EXPECT_EQ(norms.code(), Code::kUnimplemented);
  EXPECT_THAT(norms.message(), HasSubstr("normalises all heads together"));
}

TEST(Ranks, IndivisibleGroupsAreRefused) {
  const Status groups = Load({.stored_as = StoredAs::kPacked4}, 4).status();
  EXPECT_EQ(groups.code(), Code::kUnimplemented);
  EXPECT_THAT(groups.message(), HasSubstr("divide groups of 32, which share a scale"));
  const Status order =
      Load({.intermediate_size = 128, .stored_as = StoredAs::kGptqOrder}, 2).status();
  EXPECT_EQ(order.code(), Code::kUnimplemented);
  EXPECT_THAT(order.message(), HasSubstr("act-order"));
}

TEST(Ranks, OtherOptionsAreRefused) {
  const TempDirectory directory;
  ASSERT_TRUE(MakeCheckpoint(directory.path(), {}).ok());
  const Status status =
      LoadOnRanks(directory.path(), 2, kExactOptions, MakeBackend, [](ModelOptions* options) {
        options->page_tokens = 8;
      }).status();
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("rank 1: the leading rank has checkpoint"));
  EXPECT_THAT(status.message(), HasSubstr("pages of 8 tokens"));
}

TEST(Ranks, FailureOfOneIsTold) {
  const TempDirectory directory;
  ASSERT_TRUE(MakeCheckpoint(directory.path(), {}).ok());
  const auto make = [](int rank) -> Result<std::unique_ptr<Backend>> {
    if (rank == 2) return NotFound("there is no such device");
    return CreateCpuBackend({});
  };
  const Status status = LoadOnRanks(directory.path(), 4, kExactOptions, make).status();
  EXPECT_EQ(status.ToString(), "NOT_FOUND: rank 2: there is no such device");
}

}  // namespace
}  // namespace outrider
