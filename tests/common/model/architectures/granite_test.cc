#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/common/model/config_testing.h"

namespace outrider {
namespace {

using nlohmann::json;

// The published file of Granite 3.1 2B, without fields that are not read.
json Granite() {
  return {{"architectures", {"GraniteForCausalLM"}},
          {"attention_bias", false},
          {"attention_multiplier", 0.015625},
          {"bos_token_id", 0},
          {"embedding_multiplier", 12.0},
          {"eos_token_id", 0},
          {"hidden_act", "silu"},
          {"hidden_size", 2048},
          {"intermediate_size", 8192},
          {"logits_scaling", 8.0},
          {"max_position_embeddings", 131072},
          {"mlp_bias", false},
          {"num_attention_heads", 32},
          {"num_hidden_layers", 40},
          {"num_key_value_heads", 8},
          {"residual_multiplier", 0.22},
          {"rms_norm_eps", 1e-05},
          {"rope_scaling", nullptr},
          {"rope_theta", 5000000.0},
          {"tie_word_embeddings", true},
          {"vocab_size", 49155}};
}

TEST(Granite, DividesResidualStreamByItsMultiplier) {
  const Result<ModelConfig> config = Load(Granite());
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_FLOAT_EQ(config->embedding_scale, static_cast<float>(12 / 0.22));
  EXPECT_FLOAT_EQ(config->rms_norm_eps, static_cast<float>(1e-5 / (0.22 * 0.22)));
  EXPECT_EQ(config->logit_scale, 0.125f);
  EXPECT_EQ(config->layers[39].attention.query_scalar, 4096.f);
  json plain = Granite();
  for (const char* field :
       {"attention_multiplier", "embedding_multiplier", "logits_scaling", "residual_multiplier"}) {
    plain.erase(field);
  }
  const Result<ModelConfig> without = Load(plain);
  ASSERT_TRUE(without.ok()) << without.status().ToString();
  EXPECT_EQ(without->embedding_scale, 1.f);
  EXPECT_EQ(without->rms_norm_eps, 1e-5f);
  EXPECT_EQ(without->logit_scale, 1.f);
  EXPECT_EQ(without->layers[0].attention.query_scalar, 1.f);
}

TEST(Granite, RefusesMultipliersOutOfRange) {
  for (const char* field :
       {"attention_multiplier", "embedding_multiplier", "logits_scaling", "residual_multiplier"}) {
    ExpectRefused(Granite(), {{field, 0, field}, {field, 1e-30, field}, {field, 1e30, field}},
                  Code::kInvalidArgument);
  }
}

}  // namespace
}  // namespace outrider
