#include "common/model/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/common/model/config_testing.h"
#include "tests/common/model/model_testing.h"

namespace outrider {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The published shape of a small Llama 3.2.
json Llama() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"attention_bias", false},
          {"bos_token_id", 128000},
          {"eos_token_id", {128001, 128008, 128009}},
          {"head_dim", 64},
          {"hidden_act", "silu"},
          {"hidden_size", 2048},
          {"intermediate_size", 8192},
          {"max_position_embeddings", 131072},
          {"mlp_bias", false},
          {"num_attention_heads", 32},
          {"num_hidden_layers", 16},
          {"num_key_value_heads", 8},
          {"pretraining_tp", 1},
          {"rms_norm_eps", 1e-05},
          {"rope_scaling",
           {{"factor", 32.0},
            {"high_freq_factor", 4.0},
            {"low_freq_factor", 1.0},
            {"original_max_position_embeddings", 8192},
            {"rope_type", "llama3"}}},
          {"rope_theta", 500000.0},
          {"tie_word_embeddings", true},
          {"vocab_size", 128256}};
}

constexpr Llama3RopeScaling kLlama3Values = {.factor = 32.f,
                                             .low_freq_factor = 1.f,
                                             .high_freq_factor = 4.f,
                                             .original_max_position_embeddings = 8192};
const decltype(RopeDescription::scaling) kLlama3Scaling = kLlama3Values;

json Plain(const std::string& architecture) {
  return {{"architectures", {architecture}},
          {"hidden_size", 64},
          {"intermediate_size", 128},
          {"max_position_embeddings", 512},
          {"num_attention_heads", 4},
          {"num_hidden_layers", 2},
          {"rms_norm_eps", 1e-6},
          {"vocab_size", 300}};
}

TEST(ModelConfig, ReadsLlama3) {
  const Result<ModelConfig> config = Load(Llama());
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->architecture, "LlamaForCausalLM");
  EXPECT_EQ(config->vocab_size, 128256);
  EXPECT_EQ(config->hidden_size, 2048);
  EXPECT_EQ(config->intermediate_size, 8192);
  EXPECT_EQ(config->num_layers(), 16);
  EXPECT_EQ(config->num_heads, 32);
  EXPECT_EQ(config->num_kv_heads, 8);
  EXPECT_EQ(config->head_dim, 64);
  EXPECT_EQ(config->max_position_embeddings, 131072);
  EXPECT_FLOAT_EQ(config->rms_norm_eps, 1e-5f);
  for (const LayerDescription& layer : config->layers) {
    const RopeDescription& rope = layer.attention.rope;
    EXPECT_FLOAT_EQ(rope.theta, 500000.f);
    EXPECT_EQ(rope.scaling, kLlama3Scaling);
    EXPECT_FALSE(layer.attention.qkv_bias);
    EXPECT_FALSE(layer.attention.out_bias);
    EXPECT_FALSE(layer.mlp.bias);
    EXPECT_EQ(layer.attention.qk_norm, QkNorm::kNone);
  }
  EXPECT_TRUE(config->tied_embeddings);
  EXPECT_THAT(config->eos_token_ids, ElementsAre(128001, 128008, 128009));
}

TEST(ModelConfig, ReadsBothSpellingsOfRope) {
  json old = Llama();
  old["rope_scaling"]["type"] = old["rope_scaling"]["rope_type"];
  old["rope_scaling"].erase("rope_type");
  json parameters = Llama();
  parameters["rope_parameters"] = parameters["rope_scaling"];
  parameters["rope_parameters"]["rope_theta"] = parameters["rope_theta"];
  parameters.erase("rope_scaling");
  parameters.erase("rope_theta");
  for (const json& j : {old, parameters}) {
    const Result<ModelConfig> config = Load(j);
    ASSERT_TRUE(config.ok()) << config.status().ToString();
    const RopeDescription& rope = config->layers.back().attention.rope;
    EXPECT_EQ(rope.scaling, kLlama3Scaling);
    EXPECT_EQ(rope.theta, 500000.f);
  }
  json plain = Plain("Qwen3ForCausalLM");
  plain["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 1000000}};
  const Result<ModelConfig> config = Load(plain);
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->layers.back().attention.rope, (RopeDescription{.dims = 128, .theta = 1e6f}));
}

TEST(ModelConfig, FillsInWhatTransformersLetsOut) {
  const Result<ModelConfig> llama = Load(Plain("LlamaForCausalLM"));
  ASSERT_TRUE(llama.ok()) << llama.status().ToString();
  EXPECT_EQ(llama->num_kv_heads, 4);
  EXPECT_EQ(llama->head_dim, 16);
  EXPECT_EQ(llama->layers[0].attention.rope, RopeDescription{.dims = 16});
  EXPECT_FALSE(llama->tied_embeddings);
  EXPECT_TRUE(llama->eos_token_ids.empty());
  const Result<ModelConfig> qwen3 = Load(Plain("Qwen3ForCausalLM"));
  ASSERT_TRUE(qwen3.ok());
  EXPECT_EQ(qwen3->head_dim, 128);
}

TEST(ModelConfig, HasEachArchitecturesContextAndEpsilon) {
  for (const auto& [name, context] : {std::pair{"LlamaForCausalLM", 2048},
                                      {"MistralForCausalLM", 131072},
                                      {"Qwen2ForCausalLM", 32768},
                                      {"Qwen3ForCausalLM", 32768},
                                      {"Gemma2ForCausalLM", 8192}}) {
    json config = Plain(name);
    config.erase("hidden_act");
    config.erase("max_position_embeddings");
    config["rms_norm_eps"] = nullptr;
    const Result<ModelConfig> loaded = Load(config);
    ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
    EXPECT_EQ(loaded->max_position_embeddings, context) << name;
    EXPECT_EQ(loaded->rms_norm_eps, 1e-6f) << name;
  }
}

TEST(ModelConfig, QwenHasWindowsInSomeLayers) {
  const auto windows = [](const json& config) {
    std::vector<int> all;
    const Result<ModelConfig> loaded = Load(config);
    if (!loaded.ok()) ADD_FAILURE() << loaded.status().ToString();
    for (const LayerDescription& layer : loaded->layers) all.push_back(layer.attention.window);
    return all;
  };
  for (const char* name : {"Qwen2ForCausalLM", "Qwen3ForCausalLM"}) {
    json config = Plain(name);
    config["num_hidden_layers"] = 30;
    config["use_sliding_window"] = true;
    std::vector<int> expected(30, 0);
    expected[28] = expected[29] = 4096;
    EXPECT_EQ(windows(config), expected);
    config["num_hidden_layers"] = 3;
    config["sliding_window"] = 100;
    config["max_window_layers"] = 2;
    EXPECT_THAT(windows(config), ElementsAre(0, 0, 100));
    config["layer_types"] = {"sliding_attention", "full_attention", "sliding_attention"};
    EXPECT_THAT(windows(config), ElementsAre(100, 0, 100));
    config["layer_types"] = nullptr;
    config["sliding_window"] = nullptr;
    EXPECT_THAT(windows(config), ElementsAre(0, 0, 0));
  }
}

TEST(ModelConfig, ReadsBiases) {
  json llama = Plain("LlamaForCausalLM");
  llama["attention_bias"] = llama["mlp_bias"] = true;
  const Result<ModelConfig> config = Load(llama);
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_TRUE(config->layers[0].attention.qkv_bias);
  EXPECT_TRUE(config->layers[0].attention.out_bias);
  EXPECT_TRUE(config->layers[0].mlp.bias);
  EXPECT_FALSE(Load(Plain("Qwen2ForCausalLM"))->layers[0].attention.out_bias);
}

TEST(ModelConfig, KnowsEachFamilysAttention) {
  json qwen2 = Plain("Qwen2ForCausalLM");
  qwen2["use_sliding_window"] = false;
  qwen2["sliding_window"] = 32768;
  qwen2["layer_types"] = {"full_attention", "full_attention"};
  const Result<ModelConfig> two = Load(qwen2);
  ASSERT_TRUE(two.ok()) << two.status().ToString();
  EXPECT_TRUE(two->layers[1].attention.qkv_bias);
  EXPECT_EQ(two->layers[1].attention.qk_norm, QkNorm::kNone);
  EXPECT_EQ(two->layers[1].attention.window, 0);

  const Result<ModelConfig> three = Load(Plain("Qwen3ForCausalLM"));
  ASSERT_TRUE(three.ok());
  EXPECT_FALSE(three->layers[1].attention.qkv_bias);
  EXPECT_EQ(three->layers[1].attention.qk_norm, QkNorm::kHeads);

  json mistral = Plain("MistralForCausalLM");
  mistral["sliding_window"] = 4096;
  EXPECT_EQ(Load(mistral)->layers[1].attention.window, 4096);
  mistral["sliding_window"] = nullptr;
  EXPECT_EQ(Load(mistral)->layers[1].attention.window, 0);
  mistral.erase("sliding_window");
  EXPECT_EQ(Load(mistral)->layers[1].attention.window, 4096);
}

TEST(ModelConfig, MergesStopTokensOfBothFiles) {
  json config = Plain("LlamaForCausalLM");
  config["eos_token_id"] = 2;
  const Result<ModelConfig> both = Load(config, R"({"eos_token_id": [2, 7], "temperature": 0.6})");
  ASSERT_TRUE(both.ok()) << both.status().ToString();
  EXPECT_THAT(both->eos_token_ids, ElementsAre(2, 7));
}

TEST(ModelConfig, MinusOneMeansNoStopToken) {
  json config = Plain("LlamaForCausalLM");
  config["eos_token_id"] = -1;
  const Result<ModelConfig> none = Load(config);
  ASSERT_TRUE(none.ok()) << none.status().ToString();
  EXPECT_TRUE(none->eos_token_ids.empty());
  EXPECT_THAT(Load(config, R"({"eos_token_id": [-1, 7]})")->eos_token_ids, ElementsAre(7));
}

TEST(ModelConfig, IsNamedAfterItsDirectory) {
  const TempDirectory directory;
  directory.Write("config.json", Plain("LlamaForCausalLM").dump());
  const std::string name = directory.path().filename().string();
  EXPECT_EQ(LoadModelConfig(directory.path())->name, name);
  EXPECT_EQ(LoadModelConfig(directory.path() / "")->name, name);
}

TEST(ModelConfig, NamesWhatIsNotSupported) {
  ExpectRefused(Llama(),
                {{"architectures", {"DbrxForCausalLM"}, "DbrxForCausalLM"},
                 {"hidden_act", "gelu_pytorch_tanh",
                  "hidden_act is \"gelu_pytorch_tanh\", which is not supported"},
                 {"quantization_config", {{"quant_method", "quip"}, {"bits", 4}}, "quip"},
                 {"quantization_config", json::object(), "quantization_config"},
                 {"rope_scaling", {{"rope_type", "mrope"}, {"factor", 4.0}}, "mrope"},
                 {"rope_parameters", {{"full_attention", json::object()}}, "full_attention"},
                 {"use_sliding_window", true, "use_sliding_window"},
                 {"layer_types", {"full_attention", "sliding_attention"}, "layer_types"}},
                Code::kUnimplemented);
  ExpectRefused(Plain("MistralForCausalLM"), {{"attention_bias", true, "attention_bias"}},
                Code::kUnimplemented);
  for (const char* name : {"Qwen2ForCausalLM", "Qwen3ForCausalLM"}) {
    ExpectRefused(Plain(name),
                  {{"mlp_bias", true, "mlp_bias"},
                   {"layer_types", {"full_attention", "sliding_attention"}, "use_sliding_window"}},
                  Code::kUnimplemented);
  }
}

TEST(ModelConfig, NamesMissingOrInvalidField) {
  std::vector<RefusedField> refusals = {
      {"architectures", nullptr, "architectures"},
      {"architectures", json::array(), "architectures"},
      {"architectures", {"LlamaForCausalLM", "Other"}, "architectures"},
      {"architectures", "LlamaForCausalLM", "architectures"},
      {"num_attention_heads", 5, "must be a divisor of num_attention_heads"},
      {"num_key_value_heads", 64, "must be a divisor of num_attention_heads"},
      {"head_dim", 63, "head_dim is 63"},
      {"head_dim", 1025, "head_dim is 1025"},
      {"rms_norm_eps", 0, "rms_norm_eps"},
      {"rms_norm_eps", 1e-300, "rms_norm_eps"},
      {"rms_norm_eps", "1e-5", "rms_norm_eps"},
      {"rope_theta", -1, "rope_theta"},
      {"rope_theta", 1e300, "rope_theta"},
      {"rope_scaling", 3, "rope_scaling is 3, must be an object"},
      {"rope_scaling", {{"factor", 8.0}}, "rope_scaling.rope_type is missing"},
      {"rope_scaling", {{"rope_type", "llama3"}}, "rope_scaling.factor is missing"},
      {"rope_scaling",
       {{"rope_type", "llama3"},
        {"factor", 8},
        {"low_freq_factor", 4},
        {"high_freq_factor", 4},
        {"original_max_position_embeddings", 8192}},
       "low_freq_factor"},
      {"tie_word_embeddings", 1, "tie_word_embeddings"},
      {"mlp_bias", "no", "mlp_bias"},
      {"eos_token_id", {1, "x"}, "eos_token_id"},
      {"eos_token_id", 128256, "eos_token_id"},
      {"eos_token_id", -2, "eos_token_id"},
      {"layer_types", "full_attention", "layer_types"}};
  for (const char* size : {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
                           "num_attention_heads", "max_position_embeddings"}) {
    if (std::string_view(size) != "max_position_embeddings")
      refusals.push_back({size, nullptr, size});
    for (const json& value : {json(0), json(-1), json(2147483647), json(4294967297),
                              json(18446744073709551615U), json(64.0), json("64"), json(1e30)}) {
      refusals.push_back({size, value, size});
    }
  }
  ExpectRefused(Llama(), refusals, Code::kInvalidArgument);

  json odd = Plain("LlamaForCausalLM");
  odd["hidden_size"] = 66;
  ExpectRefused(odd, {{"head_dim", nullptr, "hidden_size"}}, Code::kInvalidArgument);
  ExpectRefused(Plain("MistralForCausalLM"), {{"sliding_window", 0, "sliding_window"}},
                Code::kInvalidArgument);
}

TEST(ModelConfig, RefusesFilesWithoutJsonObject) {
  const TempDirectory directory;
  EXPECT_EQ(LoadModelConfig(directory.path()).status().code(), Code::kNotFound);
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[1]"), std::string("\xff"),
        std::string("{\"vocab_size\": 1, \"vocab_size\": 2}"), std::string(5 << 20, ' '),
        "{\"quantization_config\": " + std::string(10000, '[') + std::string(10000, ']') + "}"}) {
    directory.Write("config.json", text);
    EXPECT_EQ(LoadModelConfig(directory.path()).status().code(), Code::kInvalidArgument)
        << text.substr(0, 40);
  }
  directory.Write("config.json", Plain("LlamaForCausalLM").dump());
  directory.Write("generation_config.json", "{");
  const Status status = LoadModelConfig(directory.path()).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("generation_config.json"));
}

}  // namespace
}  // namespace outrider
