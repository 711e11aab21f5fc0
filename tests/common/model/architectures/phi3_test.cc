#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/common/model/config_testing.h"

namespace outrider {
namespace {

using nlohmann::json;

// The published file of Phi-4 mini, without fields that are not read.
json Phi4Mini() {
  return {{"architectures", {"Phi3ForCausalLM"}},
          {"attention_bias", false},
          {"bos_token_id", 199999},
          {"eos_token_id", 199999},
          {"hidden_act", "silu"},
          {"hidden_size", 3072},
          {"intermediate_size", 8192},
          {"max_position_embeddings", 131072},
          {"mlp_bias", false},
          {"num_attention_heads", 24},
          {"num_hidden_layers", 32},
          {"num_key_value_heads", 8},
          {"original_max_position_embeddings", 4096},
          {"partial_rotary_factor", 0.75},
          {"rms_norm_eps", 1e-05},
          {"rope_scaling",
           {{"type", "longrope"},
            {"short_factor", json(std::vector<double>(48, 1.0))},
            {"long_factor", json(std::vector<double>(48, 1.5))}}},
          {"rope_theta", 10000.0},
          {"sliding_window", 262144},
          {"tie_word_embeddings", true},
          {"vocab_size", 200064}};
}

TEST(Phi3, ReadsPhi4Mini) {
  const Result<ModelConfig> config = Load(Phi4Mini());
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_TRUE(config->tied_embeddings);
  const LayerDescription& layer = config->layers[31];
  EXPECT_TRUE(layer.attention.fused_qkv);
  EXPECT_TRUE(layer.mlp.fused_gate_up);
  EXPECT_EQ(layer.attention.window, 262144);
  const RopeDescription& rope = layer.attention.rope;
  EXPECT_EQ(rope.dims, 96);
  EXPECT_EQ(rope.scaling, (decltype(rope.scaling)(LongRopeScaling{std::vector<float>(48, 1.5f)})));
  EXPECT_FLOAT_EQ(rope.attention_factor, static_cast<float>(std::sqrt(1 + 5.0 / 12)));
}

TEST(Phi3, FillsInWhatTransformersLetsOut) {
  json plain = Phi4Mini();
  for (const char* field : {"max_position_embeddings", "partial_rotary_factor", "rms_norm_eps",
                            "rope_scaling", "sliding_window", "tie_word_embeddings"}) {
    plain.erase(field);
  }
  const Result<ModelConfig> config = Load(plain);
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->max_position_embeddings, 4096);
  EXPECT_EQ(config->rms_norm_eps, 1e-5f);
  EXPECT_FALSE(config->tied_embeddings);
  EXPECT_EQ(config->layers[0].attention.window, 0);
  EXPECT_EQ(config->layers[0].attention.rope, RopeDescription{.dims = 128});
}

TEST(Phi3, NamesWhatIsNotSupported) {
  ExpectRefused(Phi4Mini(),
                {{"attention_bias", true, "attention_bias"},
                 {"mlp_bias", true, "mlp_bias"},
                 {"hidden_act", "gelu", "hidden_act"},
                 {"rope_scaling", {{"type", "yarn"}, {"factor", 4.0}}, "yarn"}},
                Code::kUnimplemented);
  ExpectRefused(Phi4Mini(),
                {{"original_max_position_embeddings", nullptr, "original_max_position_embeddings"},
                 {"partial_rotary_factor", 0.5, "must be a list of 32 numbers"}},
                Code::kInvalidArgument);
}

}  // namespace
}  // namespace outrider
