// Loading: its progress, what LoadModel rejects, and with which messages.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/backend/cpu/cpu_backend.h"
#include "tests/common/model/model_testing.h"

namespace outrider {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

class LoadModelTest : public ::testing::Test {
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
                        [&](int64_t done, int64_t total) {
                          told.push_back(done);
                          all = total;
                        })
                  .ok());
  ASSERT_GT(told.size(), 4u);
  EXPECT_TRUE(std::is_sorted(told.begin(), told.end()));
  EXPECT_GT(told.front(), 0);
  // There is one vector after the last matrix.
  const int64_t norm = CheckpointOptions().hidden_size * int64_t{sizeof(uint16_t)};
  EXPECT_EQ(told.back(), all - norm);
}

TEST_F(LoadModelTest, NamesAMissingTensor) {
  SetConfig("num_hidden_layers", 3);
  const Status status = Load();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("no tensor model.layers.2.input_layernorm.weight"));
}

TEST_F(LoadModelTest, NamesMissingHeadOfUntiedModel) {
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

TEST_F(LoadModelTest, NeedsBiasesAndNormsOfFamily) {
  SetConfig("architectures", {"Qwen2ForCausalLM"});
  EXPECT_THAT(Load().message(), HasSubstr("no tensor model.layers.0.self_attn.q_proj.bias"));
  SetConfig("architectures", {"Qwen3ForCausalLM"});
  EXPECT_THAT(Load().message(), HasSubstr("no tensor model.layers.0.self_attn.q_norm.weight"));
}

TEST_F(LoadModelTest, RefusesHeadSizesWithoutKernel) {
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

TEST_F(LoadModelTest, RefusesHugeShapeBeforeAllocation) {
  SetConfig("vocab_size", 1000000);
  SetConfig("hidden_size", 65536);
  EXPECT_THAT(Load().message(), HasSubstr("model.embed_tokens.weight is"));
}

TEST_F(LoadModelTest, TurnsKvBytesIntoPages) {
  // 2 layers x 2 (K and V) x 16 tokens x 2 heads x 16 x 4 bytes = 8192 bytes per page.
  ModelOptions options = kExactOptions;
  options.kv_pages = 0;
  options.kv_bytes = 10 * 8192 + 1;
  const std::unique_ptr<Model> model = LoadTestModel(directory_.path(), options);
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->total_pages(), 10);
  options.kv = KvType::kBf16;
  EXPECT_EQ(LoadTestModel(directory_.path(), options)->total_pages(), 20);
  options.kv = KvType::kFp8;
  EXPECT_EQ(LoadTestModel(directory_.path(), options)->total_pages(), 40);
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
  EXPECT_EQ(Load(with([](ModelOptions& o) { o.kv = KvType::kF16; })).code(),
            Code::kInvalidArgument);
  EXPECT_EQ(Load(with([](ModelOptions& o) { o.weights = WeightType::kF16; })).code(),
            Code::kUnimplemented);
}

// With 131,072 positions, the table is only as large as the pages can reach.
TEST_F(LoadModelTest, TakesLongContextsWithFewPages) {
  SetConfig("max_position_embeddings", 131072);
  const std::unique_ptr<Model> model = LoadTestModel(directory_.path());
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->config().max_position_embeddings, 131072);
  EXPECT_EQ(RunFresh(*model, RandomTokens(100, 320, 1)).size(), 100U);
}

// A checkpoint in f32 whose elements the test may change.
class WeightValues : public LoadModelTest {
 protected:
  void SetUp() override {
    ASSERT_TRUE(MakeCheckpoint(directory_.path(), {.dtype = Dtype::kF32}).ok());
  }
  void SetElement(const std::string& tensor, size_t index, float value) const {
    std::string file = directory_.Read("model.safetensors");
    uint64_t header_bytes = 0;
    std::memcpy(&header_bytes, file.data(), sizeof header_bytes);
    const json header = json::parse(file.substr(8, header_bytes));
    const size_t begin = header.at(tensor).at("data_offsets").at(0).get<size_t>();
    std::memcpy(file.data() + 8 + header_bytes + begin + index * sizeof value, &value,
                sizeof value);
    directory_.Write("model.safetensors", file);
  }
  static ModelOptions OptionsFor(WeightType type) {
    ModelOptions options = kExactOptions;
    options.weights = type;
    return options;
  }
};

TEST_F(WeightValues, NonFiniteValuesAreRefused) {
  const std::string stacked = "model.layers.1.self_attn.k_proj.weight";
  const std::string norm = "model.norm.weight";
  struct Case {
    std::string tensor;
    size_t index;
    float value;
    std::string words;
  };
  for (const Case& c :
       {Case{"model.embed_tokens.weight", 64 * 7 + 5, NAN, "[7, 5] is NaN"},
        Case{stacked, 64 * 31 + 63, INFINITY, "[31, 63] is infinite"},
        Case{stacked, 0, -INFINITY, "[0, 0] is infinite"}, Case{norm, 63, NAN, "[63] is NaN"}}) {
    SetUp();
    SetElement(c.tensor, c.index, c.value);
    for (const WeightType type : {WeightType::kF32, WeightType::kBf16, WeightType::kW8A8}) {
      const Status status = Load(OptionsFor(type));
      EXPECT_EQ(status.code(), Code::kDataLoss);
      EXPECT_THAT(status.message(), HasSubstr(c.tensor + c.words));
    }
  }
}

TEST_F(WeightValues, MustFitStoredType) {
  SetElement("model.embed_tokens.weight", 1, 70000.f);
  EXPECT_TRUE(Load(OptionsFor(WeightType::kF32)).ok());
  EXPECT_TRUE(Load(OptionsFor(WeightType::kBf16)).ok());
  EXPECT_THAT(Load(OptionsFor(WeightType::kF16)).message(),
              AllOf(HasSubstr("embed_tokens.weight[0, 1] is 70000"), HasSubstr("--weights bf16")));
  SetElement("model.embed_tokens.weight", 1, 3.4e38f);
  EXPECT_TRUE(Load(OptionsFor(WeightType::kF32)).ok());
  EXPECT_THAT(Load(OptionsFor(WeightType::kBf16)).message(), HasSubstr("more than bf16 can hold"));
}

TEST_F(WeightValues, AreSaidToBeRounded) {
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(Load(OptionsFor(WeightType::kBf16)).ok());
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("--weights f32 keeps them as they are stored stored=f32 kept=bf16"));
}

}  // namespace
}  // namespace outrider
