// compressed-tensors checkpoints with 8-bit weights: what is read, kept and rejected.
// reference_test checks their logits.

#include "common/model/quantization.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/backend/cpu/cpu_backend.h"
#include "common/model/safetensors.h"
#include "common/model/weights.h"
#include "tests/common/model/model_testing.h"

namespace outrider {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// Activations dynamically rounded to 8 bits, in the notation of compressed-tensors' W8A8.
json RoundedActivations() {
  return {{"num_bits", 8},   {"type", "int"},         {"symmetric", true},   {"strategy", "token"},
          {"dynamic", true}, {"group_size", nullptr}, {"actorder", nullptr}, {"observer", nullptr}};
}

class Int8Rows : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(MakeCheckpoint(directory_.path(), {.stored_as = StoredAs::kInt8Rows}).ok());
  }

  Status Load(WeightType type = WeightType::kBf16) const {
    ModelOptions options = kExactOptions;
    options.weights = type;
    return LoadModel(directory_.path(), CreateCpuBackend({}).value(), options).status();
  }
  // The types of the embedding and of a layer's matrix.
  std::pair<WeightType, WeightType> KeptAs(WeightType type) const {
    const ModelConfig config = LoadModelConfig(directory_.path()).value();
    const auto backend = CreateCpuBackend({}).value();
    const Weights weights =
        LoadWeights(config, Checkpoint::Open(directory_.path()).value(), type, *backend).value();
    return {weights.embedding->type(), weights.layers[0].down->type()};
  }
  // The status with a config.json in which `change` was made to the quantization.
  Status LoadWith(const std::function<void(json& quantization)>& change) const {
    const std::string before = directory_.Read("config.json");
    json config = json::parse(before);
    change(config["quantization_config"]);
    directory_.Write("config.json", config.dump());
    const Status status = Load();
    directory_.Write("config.json", before);
    return status;
  }
  // Overwrites the first bytes of a tensor with `bytes`, or renames it.
  void ChangeTensor(const std::string& name, const std::string& bytes,
                    const std::string& new_name = "") const {
    std::string file = directory_.Read("model.safetensors");
    uint64_t header_bytes = 0;
    std::memcpy(&header_bytes, file.data(), sizeof header_bytes);
    json header = json::parse(file.substr(8, header_bytes));
    file.replace(8 + header_bytes + header.at(name).at("data_offsets").at(0).get<size_t>(),
                 bytes.size(), bytes);
    if (!new_name.empty()) {
      header[new_name] = header[name];
      header.erase(name);
    }
    const std::string text = header.dump();
    const uint64_t length = text.size();
    directory_.Write("model.safetensors", std::string(reinterpret_cast<const char*>(&length), 8) +
                                              text + file.substr(8 + header_bytes));
  }

  TempDirectory directory_;
};

TEST_F(Int8Rows, KeepTheirIntegers) {
  const ModelConfig config = LoadModelConfig(directory_.path()).value();
  EXPECT_EQ(config.quantization.layout, Quantization::Layout::kInt8Rows);
  const Checkpoint files = Checkpoint::Open(directory_.path()).value();
  const auto backend = CreateCpuBackend({}).value();
  const Weights weights = LoadWeights(config, files, WeightType::kBf16, *backend).value();
  EXPECT_EQ(weights.embedding->type(), WeightType::kBf16);
  for (const PackedMatrix* matrix :
       {weights.layers[0].qkv.get(), weights.layers[0].attention_out.get(),
        weights.layers[0].gate_up.get(), weights.layers[1].down.get()}) {
    EXPECT_EQ(matrix->type(), WeightType::kW8A16);
    const size_t padded = static_cast<size_t>((matrix->out_features() + 31) / 32 * 32);
    EXPECT_EQ(matrix->bytes(), padded * static_cast<size_t>(matrix->in_features() + 4));
  }
  // The last row of v is the last of the matrix shared by q, k and v.
  const SafetensorsEntry* const v = files.Entry("model.layers.0.self_attn.v_proj.weight");
  ASSERT_NE(v, nullptr);
  const float scale = LoadElement(
      files.Find("model.layers.0.self_attn.v_proj.weight_scale").value(), v->shape[0] - 1);
  std::vector<float> row(static_cast<size_t>(v->shape[1]));
  const TokenId last = weights.layers[0].qkv->out_features() - 1;
  backend->Embed(*weights.layers[0].qkv, &last, 1, row.data());
  for (size_t i = 0; i < row.size(); ++i) {
    const auto integer = static_cast<int8_t>(v->bytes[v->bytes.size() - row.size() + i]);
    EXPECT_EQ(row[i], static_cast<float>(integer) * scale) << i;
  }
}

TEST_F(Int8Rows, QuantizeActivationsIfConfigured) {
  json config = json::parse(directory_.Read("config.json"));
  config["quantization_config"]["config_groups"]["group_0"]["input_activations"] =
      RoundedActivations();
  directory_.Write("config.json", config.dump());
  EXPECT_EQ(KeptAs(WeightType::kF32), std::pair(WeightType::kF32, WeightType::kW8A8));
}

TEST_F(Int8Rows, TakeActivationsIn8BitsWhereAsked) {
  EXPECT_EQ(KeptAs(WeightType::kW8A8), std::pair(WeightType::kW8A8, WeightType::kW8A8));
  EXPECT_EQ(KeptAs(WeightType::kF32), std::pair(WeightType::kF32, WeightType::kW8A16));
}

TEST_F(Int8Rows, RefuseOtherFormsByName) {
  struct Refusal {
    std::function<void(json& quantization)> change;
    std::string words;
  };
  const auto weights = [](json& quantization) -> json& {
    return quantization["config_groups"]["group_0"]["weights"];
  };
  const auto activations = [](json& quantization) -> json& {
    json& group = quantization["config_groups"]["group_0"];
    group["input_activations"] = RoundedActivations();
    return group["input_activations"];
  };
  const auto kv_cache = [](json& quantization) -> json& {
    json& scheme = quantization["kv_cache_scheme"];
    scheme = {{"num_bits", 8}, {"type", "float"}, {"strategy", "tensor"}};
    return scheme;
  };
  for (const Refusal& refusal : std::vector<Refusal>{
           {[](json& q) { q["format"] = "nvfp4-pack-quantized"; }, "nvfp4-pack-quantized"},
           {[](json& q) { q["quant_method"] = "bitsandbytes"; }, "\"bitsandbytes\""},
           {[](json& q) { q["quantization_status"] = "calibration"; }, "\"calibration\""},
           {[](json& q) {
              q["transform_config"] = {{"config_groups", {{"R1", 1}}}};
            },
            "transform_config"},
           {[&](json& q) { kv_cache(q)["num_bits"] = 4; }, "kv_cache_scheme.num_bits is 4"},
           {[&](json& q) { kv_cache(q)["type"] = "int"; }, "kv_cache_scheme.type is \"int\""},
           {[&](json& q) { kv_cache(q)["strategy"] = "attn_head"; }, "strategy is \"attn_head\""},
           {[&](json& q) { kv_cache(q)["dynamic"] = true; }, "kv_cache_scheme.dynamic is true"},
           {[&](json& q) { kv_cache(q)["symmetric"] = false; }, "kv_cache_scheme.symmetric is"},
           {[](json& q) {
              q["sparsity_config"] = {{"format", "sparse-bitmask"}};
            },
            "sparse-bitmask"},
           {[](json& q) { q["config_groups"] = json::object(); }, "config_groups"},
           {[](json& q) { q["config_groups"]["group_0"]["targets"] = {"re:.*q_proj"}; }, "targets"},
           {[](json& q) { q["config_groups"]["group_1"] = q["config_groups"]["group_0"]; },
            "config_groups"},
           {[&](json& q) { activations(q)["num_bits"] = 4; }, "num_bits is 4"},
           {[&](json& q) { activations(q)["strategy"] = "tensor"; }, "strategy is \"tensor\""},
           {[&](json& q) { activations(q)["dynamic"] = false; }, "dynamic is false"},
           {[&](json& q) { activations(q)["dynamic"] = "local"; }, "dynamic is \"local\""},
           {[&](json& q) { activations(q)["symmetric"] = false; }, "symmetric is false"},
           {[&](json& q) { weights(q)["num_bits"] = 4; }, "num_bits is 4"},
           {[&](json& q) { weights(q)["type"] = "float"; }, "type is \"float\""},
           {[&](json& q) { weights(q)["strategy"] = "group"; }, "strategy is \"group\""},
           {[&](json& q) { weights(q)["symmetric"] = false; }, "symmetric is false"},
           {[&](json& q) { weights(q)["actorder"] = "group"; }, "actorder"},
           {[&](json& q) { weights(q)["group_size"] = 128; }, "group_size"}}) {
    EXPECT_THAT(LoadWith(refusal.change).message(), HasSubstr(refusal.words));
  }
  EXPECT_TRUE(LoadWith([](json& q) { q["sparsity_config"] = json::object(); }).ok());
  EXPECT_TRUE(LoadWith([](json& q) { q["quantization_status"] = "frozen"; }).ok());
  EXPECT_TRUE(LoadWith([&](json& q) { kv_cache(q)["dynamic"] = false; }).ok());
}

TEST_F(Int8Rows, RefuseContradictionOfConfig) {
  const std::string q = "model.layers.0.self_attn.q_proj.weight";
  ChangeTensor(q + "_scale", std::string("\x80\x7f", 2));  // infinity in bf16
  EXPECT_THAT(Load().message(), HasSubstr("q_proj.weight_scale[0, 0] is infinite"));
  SetUp();
  ChangeTensor(q + "_scale", "", "elsewhere");
  EXPECT_THAT(Load().message(), HasSubstr("no tensor " + q + "_scale"));
  SetUp();
  ChangeTensor("model.layers.0.mlp.down_proj.weight_scale", "", "elsewhere");
  EXPECT_THAT(Load().message(), HasSubstr("no tensor model.layers.0.mlp.down_proj.weight_scale"));
  SetUp();
  json config = json::parse(directory_.Read("config.json"));
  config["intermediate_size"] = 97;
  directory_.Write("config.json", config.dump());
  EXPECT_THAT(Load().message(),
              HasSubstr("gate_proj.weight is [96, 64] I8, config.json asks for [97, 64] I8"));
  SetUp();
  EXPECT_THAT(LoadWith([](json& quantization) { quantization = nullptr; }).message(),
              HasSubstr("q_proj.weight is I8; weights are read as"));
}

struct Method {
  const char* quantization;
  const char* refusal;
};

TEST(Quantization, OtherMethodsAreRefusedByName) {
  TempDirectory directory;
  ASSERT_TRUE(MakeCheckpoint(directory.path(), {}).ok());
  const std::string config = directory.Read("config.json");
  for (const Method& method : {
           Method{R"({"quant_method": "gptq", "bits": 3})", "bits is 3"},
           Method{R"({"quant_method": "gptq", "bits": 4, "group_size": 0})", "group_size is 0"},
           Method{R"({"quant_method": "gptq", "bits": 4, "checkpoint_format": "marlin"})",
                  "\"marlin\""},
           Method{R"({"quant_method": "gptq", "bits": 4, "format": "marlin"})", "\"marlin\""},
           Method{R"({"quant_method": "gptq", "bits": 4, "dynamic": {"-:lm_head": {}}})",
                  "dynamic"},
           Method{R"({"quant_method": "awq", "bits": 8})", "bits is 8"},
           Method{R"({"quant_method": "awq", "bits": 4, "version": "gemv"})", "\"gemv\""},
           Method{R"({"quant_method": "awq", "bits": 4, "zero_point": false})", "zero_point"},
           Method{R"({"quant_method": "fp8", "fmt": "e5m2"})", "\"e5m2\""},
           Method{R"({"quant_method": "fp8", "weight_block_size": [128]})", "weight_block_size"},
           Method{R"({"quant_method": "mxfp4"})", "\"mxfp4\""},
           Method{R"({"bits": 4})", "quantization_config"},
       }) {
    json changed = json::parse(config);
    changed["quantization_config"] = json::parse(method.quantization);
    directory.Write("config.json", changed.dump());
    const Status status = LoadModelConfig(directory.path()).status();
    EXPECT_FALSE(status.ok()) << method.quantization;
    EXPECT_THAT(status.message(), HasSubstr(method.refusal));
  }
}

}  // namespace
}  // namespace outrider
