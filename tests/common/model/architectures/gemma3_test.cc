#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/common/model/config_testing.h"

namespace outrider {
namespace {

using nlohmann::json;

// The published file of Gemma 3 1B, without fields that are not read.
json Gemma3() {
  return {{"architectures", {"Gemma3ForCausalLM"}},
          {"attention_bias", false},
          {"attn_logit_softcapping", nullptr},
          {"bos_token_id", 2},
          {"eos_token_id", {1, 106}},
          {"final_logit_softcapping", nullptr},
          {"head_dim", 256},
          {"hidden_activation", "gelu_pytorch_tanh"},
          {"hidden_size", 1152},
          {"intermediate_size", 6912},
          {"max_position_embeddings", 32768},
          {"num_attention_heads", 4},
          {"num_hidden_layers", 26},
          {"num_key_value_heads", 1},
          {"query_pre_attn_scalar", 256},
          {"rms_norm_eps", 1e-06},
          {"rope_local_base_freq", 10000},
          {"rope_scaling", nullptr},
          {"rope_theta", 1000000},
          {"sliding_window", 512},
          {"sliding_window_pattern", 6},
          {"torch_dtype", "bfloat16"},
          {"vocab_size", 262144}};
}

TEST(Gemma3, IsReadFromItsFile) {
  const Result<ModelConfig> config = Load(Gemma3());
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_TRUE(config->tied_embeddings);
  EXPECT_EQ(config->norm_gain_offset, 1.f);
  EXPECT_EQ(config->logit_soft_cap, 0.f);
  EXPECT_EQ(config->embedding_scale, 34.f);  // sqrt(1152) = 33.94, in bf16
  EXPECT_EQ(config->eos_token_ids, (std::vector<TokenId>{1, 106}));
  ASSERT_EQ(config->num_layers(), 26);
  for (size_t i = 0; i < 26; ++i) {
    const LayerDescription& layer = config->layers[i];
    const bool local = i % 6 != 5;
    EXPECT_EQ(layer.attention.window, local ? 512 : 0);
    EXPECT_EQ(layer.attention.rope, (RopeDescription{.dims = 256, .theta = local ? 1e4f : 1e6f}));
    EXPECT_EQ(layer.attention.qk_norm, QkNorm::kHeads);
    EXPECT_EQ(layer.attention.soft_cap, 0.f);
    EXPECT_EQ(layer.attention.query_scalar, 256.f);
    EXPECT_STREQ(layer.attention.norm_after, "post_attention_layernorm");
    EXPECT_STREQ(layer.mlp.norm, "pre_feedforward_layernorm");
    EXPECT_STREQ(layer.mlp.norm_after, "post_feedforward_layernorm");
    EXPECT_EQ(layer.mlp.activation, Activation::kGeluTanh);
  }
}

TEST(Gemma3, ScalesRopeOfGlobalLayersOnly) {
  json old = Gemma3();
  old["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 8.0}};
  json parameters = Gemma3();
  for (const char* field : {"rope_local_base_freq", "rope_scaling", "rope_theta"}) {
    parameters.erase(field);
  }
  parameters["rope_parameters"] = {
      {"full_attention", {{"rope_type", "linear"}, {"factor", 8.0}, {"rope_theta", 1e6}}},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 1e4}}}};
  for (const json& config : {old, parameters}) {
    const Result<ModelConfig> loaded = Load(config);
    ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
    EXPECT_EQ(loaded->layers[0].attention.rope, (RopeDescription{.dims = 256, .theta = 1e4f}));
    EXPECT_EQ(loaded->layers[5].attention.rope,
              (RopeDescription{.dims = 256, .theta = 1e6f, .scaling = LinearRopeScaling{8.f}}));
  }
}

TEST(Gemma3, FillsInWhatTransformersLetsOut) {
  json absent = Gemma3();
  for (const char* field :
       {"attn_logit_softcapping", "final_logit_softcapping", "head_dim", "max_position_embeddings",
        "query_pre_attn_scalar", "rms_norm_eps", "rope_local_base_freq", "rope_theta",
        "sliding_window", "sliding_window_pattern", "torch_dtype"}) {
    absent.erase(field);
  }
  const Result<ModelConfig> config = Load(absent);
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->head_dim, 256);
  EXPECT_EQ(config->max_position_embeddings, 131072);
  EXPECT_EQ(config->logit_soft_cap, 0.f);
  EXPECT_EQ(config->layers[0].attention.window, 4096);
  EXPECT_EQ(config->layers[0].attention.rope.theta, 1e4f);
  EXPECT_EQ(config->layers[5].attention.window, 0);
  EXPECT_EQ(config->layers[5].attention.rope.theta, 1e6f);
  EXPECT_EQ(config->layers[5].attention.query_scalar, 256.f);
}

TEST(Gemma3, NamesWhatIsNotSupported) {
  ExpectRefused(Gemma3(),
                {{"architectures", {"Gemma3ForConditionalGeneration"}, "Gemma3ForCausalLM"},
                 {"hidden_activation", "gelu", "hidden_activation is \"gelu\""},
                 {"attn_logit_softcapping", 50.0, "attn_logit_softcapping"},
                 {"use_bidirectional_attention", true, "use_bidirectional_attention"},
                 {"torch_dtype", "float64", "torch_dtype"},
                 {"layer_types", json(std::vector<std::string>(26, "chunked")), "layer_types"}},
                Code::kUnimplemented);
  ExpectRefused(Gemma3(),
                {{"sliding_window_pattern", 0, "sliding_window_pattern"},
                 {"rope_local_base_freq", 0, "rope_local_base_freq"},
                 {"rope_parameters", {{"rope_type", "default"}}, "rope_parameters"},
                 {"rope_parameters", {{"full_attention", 3}}, "full_attention"},
                 {"layer_types", {"full_attention"}, "layer_types"}},
                Code::kInvalidArgument);
}

}  // namespace
}  // namespace outrider
