#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/common/model/config_testing.h"

namespace outrider {
namespace {

using nlohmann::json;

// The published file of gpt-oss 20b, without fields that are not read.
json GptOss() {
  json types = json::array();
  for (int i = 0; i < 24; ++i) types.push_back(i % 2 == 0 ? "sliding_attention" : "full_attention");
  return {{"architectures", {"GptOssForCausalLM"}},
          {"attention_bias", true},
          {"eos_token_id", 200002},
          {"experts_per_token", 4},
          {"head_dim", 64},
          {"hidden_act", "silu"},
          {"hidden_size", 2880},
          {"initial_context_length", 4096},
          {"intermediate_size", 2880},
          {"layer_types", types},
          {"max_position_embeddings", 131072},
          {"num_attention_heads", 64},
          {"num_experts_per_tok", 4},
          {"num_hidden_layers", 24},
          {"num_key_value_heads", 8},
          {"num_local_experts", 32},
          {"quantization_config",
           {{"modules_to_not_convert", {"model.layers.*.self_attn", "model.layers.*.mlp.router"}},
            {"quant_method", "mxfp4"}}},
          {"rms_norm_eps", 1e-05},
          {"rope_scaling",
           {{"beta_fast", 32.0},
            {"beta_slow", 1.0},
            {"factor", 32.0},
            {"original_max_position_embeddings", 4096},
            {"rope_type", "yarn"},
            {"truncate", false}}},
          {"rope_theta", 150000},
          {"sliding_window", 128},
          {"swiglu_limit", 7.0},
          {"tie_word_embeddings", false},
          {"vocab_size", 201088}};
}

TEST(GptOss, IsReadFromItsFile) {
  const Result<ModelConfig> config = Load(GptOss());
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  ASSERT_EQ(config->num_layers(), 24);
  EXPECT_EQ(config->max_position_embeddings, 131072);
  EXPECT_EQ(config->quantization.layout, Quantization::Layout::kMxfp4);
  for (size_t i = 0; i < 24; ++i) {
    const LayerDescription& layer = config->layers[i];
    EXPECT_EQ(layer.attention.window, i % 2 == 0 ? 128 : 0);
    EXPECT_TRUE(layer.attention.sinks);
    EXPECT_TRUE(layer.attention.qkv_bias && layer.attention.out_bias);
    EXPECT_EQ(layer.attention.rope.theta, 150000.f);
    EXPECT_NEAR(layer.attention.rope.attention_factor, 1.3465736, 1e-6);
    EXPECT_EQ(layer.mlp.activation, Activation::kClampedSwiglu);
    ASSERT_TRUE(layer.mlp.mixture.has_value());
    EXPECT_TRUE(layer.mlp.mixture->stacked);
    EXPECT_TRUE(layer.mlp.mixture->router.normalizes);
    EXPECT_EQ(layer.mlp.mixture->router.experts, 32);
    EXPECT_EQ(layer.mlp.mixture->router.top_k, 4);
    EXPECT_EQ(layer.mlp.mixture->intermediate_size, 2880);
  }
}

TEST(GptOss, FillsInWhatTransformersLetsOut) {
  json absent = GptOss();
  for (const char* field :
       {"attention_bias", "experts_per_token", "head_dim", "layer_types", "max_position_embeddings",
        "num_experts_per_tok", "num_local_experts", "quantization_config", "rms_norm_eps",
        "rope_theta", "sliding_window", "swiglu_limit"}) {
    absent.erase(field);
  }
  const Result<ModelConfig> config = Load(absent);
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->head_dim, 64);
  EXPECT_EQ(config->max_position_embeddings, 131072);
  EXPECT_EQ(config->rms_norm_eps, 1e-5f);
  EXPECT_EQ(config->layers[0].attention.window, 128);
  EXPECT_EQ(config->layers[1].attention.window, 0);
  EXPECT_TRUE(config->layers[0].attention.qkv_bias && config->layers[0].attention.out_bias);
  EXPECT_EQ(config->layers[0].attention.rope.theta, 150000.f);
  EXPECT_EQ(config->layers[0].mlp.mixture->router.experts, 128);
}

TEST(GptOss, NamesInvalidOrUnsupportedFields) {
  ExpectRefused(GptOss(),
                {{"num_local_experts", 0, "num_local_experts is 0"},
                 {"num_local_experts", 3, "number of experts, 3"},
                 {"rope_scaling", nullptr, "rope_scaling"}},
                Code::kInvalidArgument);
  ExpectRefused(GptOss(),
                {{"swiglu_limit", 8.0, "swiglu_limit is 8"},
                 {"experts_per_token", 2, "experts_per_token is 2"},
                 {"hidden_act", "gelu", "hidden_act is \"gelu\""},
                 {"quantization_config",
                  {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 32}},
                  "which is not supported for GptOssForCausalLM"}},
                Code::kUnimplemented);
}

}  // namespace
}  // namespace outrider
