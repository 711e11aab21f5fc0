#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/common/model/config_testing.h"

namespace outrider {
namespace {

using nlohmann::json;

// The published file of OLMo 2 7B, without fields that are not read.
json Olmo2() {
  return {{"architectures", {"Olmo2ForCausalLM"}},
          {"attention_bias", false},
          {"eos_token_id", 100257},
          {"hidden_act", "silu"},
          {"hidden_size", 4096},
          {"intermediate_size", 11008},
          {"max_position_embeddings", 4096},
          {"num_attention_heads", 32},
          {"num_hidden_layers", 32},
          {"num_key_value_heads", 32},
          {"rms_norm_eps", 1e-06},
          {"rope_scaling", nullptr},
          {"rope_theta", 500000},
          {"tie_word_embeddings", false},
          {"vocab_size", 100352}};
}

TEST(Olmo2, NormalisesWhatItsLayersReturn) {
  const Result<ModelConfig> config = Load(Olmo2());
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_FALSE(config->tied_embeddings);
  for (const LayerDescription& layer : config->layers) {
    EXPECT_EQ(layer.attention.norm, nullptr);
    EXPECT_STREQ(layer.attention.norm_after, "post_attention_layernorm");
    EXPECT_EQ(layer.attention.qk_norm, QkNorm::kProjection);
    EXPECT_FALSE(layer.attention.qkv_bias);
    EXPECT_EQ(layer.mlp.norm, nullptr);
    EXPECT_STREQ(layer.mlp.norm_after, "post_feedforward_layernorm");
  }
  json absent = Olmo2();
  absent.erase("rms_norm_eps");
  absent.erase("max_position_embeddings");
  EXPECT_EQ(Load(absent)->rms_norm_eps, 1e-5f);
  EXPECT_EQ(Load(absent)->max_position_embeddings, 2048);
  ExpectRefused(Olmo2(),
                {{"hidden_act", "gelu", "hidden_act"},
                 {"mlp_bias", true, "mlp_bias"},
                 {"layer_types", json(std::vector<std::string>(32, "sliding_attention")),
                  "sliding_attention"}},
                Code::kUnimplemented);
}

}  // namespace
}  // namespace outrider
