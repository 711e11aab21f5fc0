// Loading: how far it is, what LoadModel refuses, and in which words.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "tests/common/model/model_testing.h"

namespace outrider {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

class LoadModelTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(MakeCheckpoint(directory_.path(), {}).ok()); }

  void SetConfig(const char* field, const json& value) const {
    json config = json::parse(directory_.Read("config.json"));
    config[field] = value;
    directory_.Write("config.json", config.dump());
  }
  Status Load(const ModelOptions& options = kExactOptions) const {
    return LoadModel(directory_.path(), CreateCpuBackend({}).value(), options).status();
  }

  TempDirectory directory_;
};

TEST_F(LoadModelTest, AcceptsWhatTheMakerWrites) { EXPECT_TRUE(Load().ok()); }

TEST_F(LoadModelTest, TellsHowFarItIs) {
  std::vector<int64_t> told;
  int64_t all = 0;
  ASSERT_TRUE(LoadModel(directory_.path(), CreateCpuBackend({}).value(), kExactOptions,
                        [&](int64_t done, int64_t of) {
                          told.push_back(done);
                          all = of;
                        })
                  .ok());
  ASSERT_GT(told.size(), 4u);
  EXPECT_TRUE(std::is_sorted(told.begin(), told.end()));
  EXPECT_GT(told.front(), 0);
  // Behind the last matrix there is one vector.
  const int64_t norm = CheckpointOptions().hidden_size * int64_t{sizeof(uint16_t)};
  EXPECT_EQ(told.back(), all - norm);
}

TEST_F(LoadModelTest, NamesAMissingTensor) {
  SetConfig("num_hidden_layers", 3);
  const Status status = Load();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("no tensor model.layers.2.input_layernorm.weight"));
}

TEST_F(LoadModelTest, NamesAMissingHeadOfAnUntiedModel) {
  SetConfig("tie_word_embeddings", false);
  EXPECT_THAT(Load().message(), HasSubstr("no tensor lm_head.weight"));
}

TEST_F(LoadModelTest, NamesTensorAndShapesThatDisagree) {
  SetConfig("intermediate_size", 97);
  const Status status = Load();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("model.layers.0.mlp.gate_proj.weight is [96, 64] bf16"),
                    HasSubstr("[97, 64]")));
}

TEST_F(LoadModelTest, NeedsTheBiasesAndNormsOfItsFamily) {
  SetConfig("architectures", {"Qwen2ForCausalLM"});
  EXPECT_THAT(Load().message(), HasSubstr("no tensor model.layers.0.self_attn.q_proj.bias"));
  SetConfig("architectures", {"Qwen3ForCausalLM"});
  EXPECT_THAT(Load().message(), HasSubstr("no tensor model.layers.0.self_attn.q_norm.weight"));
}

TEST_F(LoadModelTest, RefusesHeadsThatTheKernelsCannotTake) {
  SetConfig("head_dim", 20);
  const Status status = Load();
  EXPECT_EQ(status.code(), Code::kUnimplemented);
  EXPECT_THAT(status.message(), HasSubstr("head_dim 20"));
}

TEST_F(LoadModelTest, RefusesATruncatedFile) {
  const std::string file = directory_.Read("model.safetensors");
  directory_.Write("model.safetensors", std::string_view(file).substr(0, file.size() - 1));
  EXPECT_EQ(Load().code(), Code::kDataLoss);
}

TEST_F(LoadModelTest, RefusesAHugeShapeBeforeAllocatingForIt) {
  SetConfig("vocab_size", 2000000);
  SetConfig("hidden_size", 65536);
  EXPECT_THAT(Load().message(), HasSubstr("model.embed_tokens.weight is"));
}

TEST_F(LoadModelTest, TurnsKvBytesIntoPages) {
  // 2 layers x 2 (K and V) x 16 tokens x 2 heads x 16 x 4 bytes = 8192 bytes a page.
  ModelOptions options = kExactOptions;
  options.kv_pages = 0;
  options.kv_bytes = 10 * 8192 + 1;
  const std::unique_ptr<Model> model = LoadTestModel(directory_.path(), options);
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->total_pages(), 10);
  options.kv = Dtype::kBf16;
  EXPECT_EQ(LoadTestModel(directory_.path(), options)->total_pages(), 20);
}

TEST_F(LoadModelTest, RefusesSenselessOptions) {
  const auto with = [](auto change) {
    ModelOptions options = kExactOptions;
    change(options);
    return options;
  };
  EXPECT_THAT(Load(with([](ModelOptions& o) { o.page_tokens = 0; })).message(),
              HasSubstr("page_tokens"));
  EXPECT_THAT(Load(with([](ModelOptions& o) { o.max_batch_tokens = 0; })).message(),
              HasSubstr("max_batch_tokens"));
  EXPECT_THAT(Load(with([](ModelOptions& o) {
                o.kv_pages = 0;
                o.kv_bytes = 8191;
              })).message(),
              AllOf(HasSubstr("kv_bytes is 8191"), HasSubstr("8192")));
  EXPECT_THAT(Load(with([](ModelOptions& o) { o.kv_pages = 1 << 30; })).message(),
              HasSubstr("kv_pages"));
  EXPECT_EQ(Load(with([](ModelOptions& o) { o.kv = Dtype::kF16; })).code(), Code::kInvalidArgument);
  EXPECT_EQ(Load(with([](ModelOptions& o) { o.weights = WeightType::kF16; })).code(),
            Code::kUnimplemented);
}

// 131,072 positions cost a table only as far as pages can reach.
TEST_F(LoadModelTest, TakesLongContextsWithFewPages) {
  SetConfig("max_position_embeddings", 131072);
  const std::unique_ptr<Model> model = LoadTestModel(directory_.path());
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->config().max_position_embeddings, 131072);
  EXPECT_EQ(RunFresh(*model, RandomTokens(100, 320, 1)).size(), 100U);
}

}  // namespace
}  // namespace outrider
