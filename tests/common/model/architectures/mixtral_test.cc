#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/common/model/config_testing.h"

namespace outrider {
namespace {

using nlohmann::json;

// The published file of Mixtral 8x7B, without fields that are not read.
json Mixtral() {
  return {{"architectures", {"MixtralForCausalLM"}},
          {"bos_token_id", 1},
          {"eos_token_id", 2},
          {"hidden_act", "silu"},
          {"hidden_size", 4096},
          {"intermediate_size", 14336},
          {"max_position_embeddings", 32768},
          {"num_attention_heads", 32},
          {"num_experts_per_tok", 2},
          {"num_hidden_layers", 32},
          {"num_key_value_heads", 8},
          {"num_local_experts", 8},
          {"output_router_logits", false},
          {"rms_norm_eps", 1e-05},
          {"rope_theta", 1000000.0},
          {"router_aux_loss_coef", 0.02},
          {"sliding_window", nullptr},
          {"tie_word_embeddings", false},
          {"torch_dtype", "bfloat16"},
          {"vocab_size", 32000}};
}

TEST(Mixtral, IsReadFromItsFile) {
  const Result<ModelConfig> config = Load(Mixtral());
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  ASSERT_EQ(config->num_layers(), 32);
  for (const LayerDescription& layer : config->layers) {
    EXPECT_EQ(layer.attention.window, 0);
    EXPECT_EQ(layer.attention.rope.theta, 1e6f);
    ASSERT_TRUE(layer.mlp.mixture.has_value());
    EXPECT_EQ(layer.mlp.mixture->router.experts, 8);
    EXPECT_EQ(layer.mlp.mixture->router.top_k, 2);
    EXPECT_TRUE(layer.mlp.mixture->router.normalizes);
    EXPECT_EQ(layer.mlp.mixture->intermediate_size, 14336);
  }
}

TEST(Mixtral, FillsInWhatTransformersLetsOut) {
  json absent = Mixtral();
  for (const char* field : {"max_position_embeddings", "num_experts_per_tok", "num_local_experts",
                            "rms_norm_eps", "rope_theta", "sliding_window"}) {
    absent.erase(field);
  }
  const Result<ModelConfig> config = Load(absent);
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->max_position_embeddings, 131072);
  EXPECT_EQ(config->rms_norm_eps, 1e-5f);
  EXPECT_EQ(config->layers[0].mlp.mixture->router.experts, 8);
  EXPECT_EQ(config->layers[0].mlp.mixture->router.top_k, 2);
  EXPECT_EQ(config->layers[0].attention.window, 0);
  EXPECT_EQ(config->layers[0].attention.rope.theta, 1e6f);
}

TEST(Mixtral, NamesWhatIsSenseless) {
  ExpectRefused(Mixtral(),
                {{"num_local_experts", 0, "num_local_experts is 0"},
                 {"num_local_experts", -1, "num_local_experts is -1"},
                 {"num_local_experts", 1025, "num_local_experts is 1025"},
                 {"num_local_experts", "eight", "num_local_experts"},
                 {"num_experts_per_tok", 0, "num_experts_per_tok is 0"},
                 {"num_experts_per_tok", 9, "number of experts, 8"},
                 {"num_experts_per_tok", 65, "num_experts_per_tok is 65"},
                 {"intermediate_size", 1 << 18, "intermediate_size is 262144"}},
                Code::kInvalidArgument);
  ExpectRefused(Mixtral(), {{"hidden_act", "gelu", "hidden_act is \"gelu\""}},
                Code::kUnimplemented);
}

}  // namespace
}  // namespace outrider
