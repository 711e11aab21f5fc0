#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/common/model/config_testing.h"

namespace outrider {
namespace {

using nlohmann::json;

// The published file of Qwen3 30B A3B, without fields that are not read.
json Qwen3Moe() {
  return {{"architectures", {"Qwen3MoeForCausalLM"}},
          {"attention_bias", false},
          {"decoder_sparse_step", 1},
          {"eos_token_id", 151645},
          {"head_dim", 128},
          {"hidden_act", "silu"},
          {"hidden_size", 2048},
          {"intermediate_size", 6144},
          {"max_position_embeddings", 40960},
          {"max_window_layers", 48},
          {"mlp_only_layers", json::array()},
          {"moe_intermediate_size", 768},
          {"norm_topk_prob", true},
          {"num_attention_heads", 32},
          {"num_experts", 128},
          {"num_experts_per_tok", 8},
          {"num_hidden_layers", 48},
          {"num_key_value_heads", 4},
          {"rms_norm_eps", 1e-06},
          {"rope_scaling", nullptr},
          {"rope_theta", 1000000.0},
          {"sliding_window", nullptr},
          {"tie_word_embeddings", false},
          {"torch_dtype", "bfloat16"},
          {"use_sliding_window", false},
          {"vocab_size", 151936}};
}

TEST(Qwen3Moe, IsReadFromItsFile) {
  const Result<ModelConfig> config = Load(Qwen3Moe());
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  ASSERT_EQ(config->num_layers(), 48);
  for (const LayerDescription& layer : config->layers) {
    EXPECT_EQ(layer.attention.qk_norm, QkNorm::kHeads);
    ASSERT_TRUE(layer.mlp.mixture.has_value());
    EXPECT_EQ(layer.mlp.mixture->router.experts, 128);
    EXPECT_EQ(layer.mlp.mixture->router.top_k, 8);
    EXPECT_TRUE(layer.mlp.mixture->router.normalizes);
    EXPECT_EQ(layer.mlp.mixture->intermediate_size, 768);
  }
}

TEST(Qwen3Moe, SomeLayersAreDense) {
  json config = Qwen3Moe();
  config["decoder_sparse_step"] = 3;
  config["mlp_only_layers"] = {5, 0, 47};
  const Result<ModelConfig> loaded = Load(config);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  for (size_t i = 0; i < 48; ++i) {
    const bool sparse = i % 3 == 2 && i != 5 && i != 47;
    EXPECT_EQ(loaded->layers[i].mlp.mixture.has_value(), sparse) << i;
  }
}

TEST(Qwen3Moe, FillsInWhatTransformersLetsOut) {
  json absent = Qwen3Moe();
  for (const char* field :
       {"decoder_sparse_step", "mlp_only_layers", "moe_intermediate_size", "norm_topk_prob",
        "num_experts", "num_experts_per_tok", "max_position_embeddings"}) {
    absent.erase(field);
  }
  const Result<ModelConfig> config = Load(absent);
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->max_position_embeddings, 32768);
  const MixtureDescription& mixture = *config->layers[0].mlp.mixture;
  EXPECT_EQ(mixture.router.experts, 128);
  EXPECT_EQ(mixture.router.top_k, 8);
  EXPECT_FALSE(mixture.router.normalizes);
  EXPECT_EQ(mixture.intermediate_size, 768);
}

TEST(Qwen3Moe, WindowsMustCoverAllLayers) {
  json config = Qwen3Moe();
  config["use_sliding_window"] = true;
  EXPECT_TRUE(Load(config).ok()) << "sliding_window is null: there is none";
  config["sliding_window"] = 512;
  ExpectRefused(config,
                {{"max_window_layers", 24, "max_window_layers of 24"},
                 {"max_window_layers", nullptr, "max_window_layers of 28"}},
                Code::kUnimplemented);
  config["max_window_layers"] = 0;
  const Result<ModelConfig> loaded = Load(config);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  for (const LayerDescription& layer : loaded->layers) EXPECT_EQ(layer.attention.window, 512);
  config["use_sliding_window"] = false;
  EXPECT_EQ(Load(config)->layers[0].attention.window, 0);
}

TEST(Qwen3Moe, NamesInvalidOrUnsupportedFields) {
  ExpectRefused(Qwen3Moe(),
                {{"num_experts", 0, "num_experts is 0"},
                 {"num_experts_per_tok", 129, "num_experts_per_tok is 129"},
                 {"num_experts", 7, "number of experts, 7"},
                 {"decoder_sparse_step", 0, "decoder_sparse_step is 0"},
                 {"mlp_only_layers", {48}, "mlp_only_layers[0] is 48"},
                 {"mlp_only_layers", {-1}, "mlp_only_layers[0] is -1"},
                 {"mlp_only_layers", 3, "mlp_only_layers"},
                 {"norm_topk_prob", 1, "norm_topk_prob"},
                 {"moe_intermediate_size", 0, "moe_intermediate_size is 0"}},
                Code::kInvalidArgument);
  ExpectRefused(Qwen3Moe(), {{"mlp_bias", true, "mlp_bias"}}, Code::kUnimplemented);
}

}  // namespace
}  // namespace outrider
