#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/common/model/config_testing.h"

namespace outrider {
namespace {

using nlohmann::json;

// The published file of SmolLM3 3B, without fields that are not read, and with eight layers.
json SmolLm3() {
  return {{"architectures", {"SmolLM3ForCausalLM"}},
          {"attention_bias", false},
          {"bos_token_id", 128000},
          {"eos_token_id", 128012},
          {"hidden_act", "silu"},
          {"hidden_size", 2048},
          {"intermediate_size", 11008},
          {"layer_types", json(std::vector<std::string>(8, "full_attention"))},
          {"max_position_embeddings", 65536},
          {"max_window_layers", 28},
          {"mlp_bias", false},
          {"no_rope_layer_interval", 4},
          {"no_rope_layers", {1, 1, 1, 0, 1, 1, 1, 0}},
          {"num_attention_heads", 16},
          {"num_hidden_layers", 8},
          {"num_key_value_heads", 4},
          {"rms_norm_eps", 1e-06},
          {"rope_scaling", nullptr},
          {"rope_theta", 5000000.0},
          {"sliding_window", nullptr},
          {"use_sliding_window", false},
          {"vocab_size", 128256}};
}

TEST(SmolLm3, RotatesNothingInEveryFourthLayer) {
  json interval = SmolLm3();
  interval.erase("no_rope_layers");
  for (const json& file : {SmolLm3(), interval}) {
    const Result<ModelConfig> config = Load(file);
    ASSERT_TRUE(config.ok()) << config.status().ToString();
    EXPECT_TRUE(config->tied_embeddings);
    for (size_t i = 0; i < 8; ++i) {
      EXPECT_EQ(config->layers[i].attention.rope,
                i % 4 == 3 ? RopeDescription() : (RopeDescription{.dims = 128, .theta = 5e6f}));
      EXPECT_EQ(config->layers[i].attention.window, 0);
    }
  }
  interval.erase("rope_theta");
  interval["no_rope_layer_interval"] = 2;
  EXPECT_EQ(Load(interval)->layers[0].attention.rope.theta, 2e6f);
  EXPECT_EQ(Load(interval)->layers[1].attention.rope.dims, 0);
}

TEST(SmolLm3, HasWindowsInUnrotatedLayers) {
  json config = SmolLm3();
  config["use_sliding_window"] = true;
  config["sliding_window"] = 2048;
  config.erase("layer_types");
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(Load(config)->layers[i].attention.window, i % 4 == 3 ? 2048 : 0);
  }
}

TEST(SmolLm3, NamesTheFieldThatIsWrong) {
  ExpectRefused(SmolLm3(),
                {{"no_rope_layers", {1, 0}, "no_rope_layers"},
                 {"no_rope_layers", 1, "no_rope_layers"},
                 {"no_rope_layers", {1, 1, 1, 2, 1, 1, 1, 0}, "no_rope_layers[3]"},
                 {"no_rope_layer_interval", 0, "no_rope_layer_interval"},
                 {"layer_types", {"full_attention"}, "layer_types"}},
                Code::kInvalidArgument);
  ExpectRefused(SmolLm3(),
                {{"layer_types", json(std::vector<std::string>(8, "sliding_attention")),
                  "without use_sliding_window"}},
                Code::kUnimplemented);
}

}  // namespace
}  // namespace outrider
