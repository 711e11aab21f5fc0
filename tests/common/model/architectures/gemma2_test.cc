#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/common/model/config_testing.h"

namespace outrider {
namespace {

using nlohmann::json;

// The published file of Gemma 2 27B, without fields that are not read.
json Gemma2() {
  return {{"architectures", {"Gemma2ForCausalLM"}},
          {"attention_bias", false},
          {"attn_logit_softcapping", 50.0},
          {"bos_token_id", 2},
          {"eos_token_id", 1},
          {"final_logit_softcapping", 30.0},
          {"head_dim", 128},
          {"hidden_act", "gelu_pytorch_tanh"},
          {"hidden_activation", "gelu_pytorch_tanh"},
          {"hidden_size", 4608},
          {"intermediate_size", 36864},
          {"max_position_embeddings", 8192},
          {"num_attention_heads", 32},
          {"num_hidden_layers", 46},
          {"num_key_value_heads", 16},
          {"query_pre_attn_scalar", 144},
          {"rms_norm_eps", 1e-06},
          {"rope_theta", 10000.0},
          {"sliding_window", 4096},
          {"torch_dtype", "bfloat16"},
          {"vocab_size", 256000}};
}

TEST(Gemma2, IsReadFromItsFile) {
  const Result<ModelConfig> config = Load(Gemma2());
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_TRUE(config->tied_embeddings);
  EXPECT_EQ(config->norm_gain_offset, 1.f);
  EXPECT_EQ(config->logit_soft_cap, 30.f);
  EXPECT_EQ(config->embedding_scale, 68.f);  // sqrt(4608) = 67.88, in bf16
  ASSERT_EQ(config->num_layers(), 46);
  for (size_t i = 0; i < 46; ++i) {
    const LayerDescription& layer = config->layers[i];
    EXPECT_EQ(layer.attention.window, i % 2 == 0 ? 4096 : 0);
    EXPECT_EQ(layer.attention.soft_cap, 50.f);
    EXPECT_EQ(layer.attention.query_scalar, 144.f);
    EXPECT_STREQ(layer.attention.norm_after, "post_attention_layernorm");
    EXPECT_STREQ(layer.mlp.norm, "pre_feedforward_layernorm");
    EXPECT_STREQ(layer.mlp.norm_after, "post_feedforward_layernorm");
    EXPECT_EQ(layer.mlp.activation, Activation::kGeluTanh);
  }
}

TEST(Gemma2, FillsInWhatTransformersLetsOut) {
  json absent = Gemma2();
  for (const char* field : {"attn_logit_softcapping", "final_logit_softcapping", "head_dim",
                            "query_pre_attn_scalar", "sliding_window", "torch_dtype"}) {
    absent.erase(field);
  }
  const Result<ModelConfig> config = Load(absent);
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->head_dim, 256);
  EXPECT_EQ(config->logit_soft_cap, 30.f);
  EXPECT_FLOAT_EQ(config->embedding_scale, 67.882251f);
  EXPECT_EQ(config->layers[0].attention.window, 4096);
  EXPECT_EQ(config->layers[0].attention.soft_cap, 50.f);
  EXPECT_EQ(config->layers[0].attention.query_scalar, 256.f);
  // Null means none, not the default; and layers may specify their types.
  json none = Gemma2();
  none["attn_logit_softcapping"] = none["final_logit_softcapping"] = nullptr;
  none["sliding_window"] = nullptr;
  const Result<ModelConfig> plain = Load(none);
  ASSERT_TRUE(plain.ok()) << plain.status().ToString();
  EXPECT_EQ(plain->logit_soft_cap, 0.f);
  EXPECT_EQ(plain->layers[0].attention.soft_cap, 0.f);
  EXPECT_EQ(plain->layers[0].attention.window, 0);
  json typed = Gemma2();
  typed["num_hidden_layers"] = 3;
  typed["layer_types"] = {"full_attention", "full_attention", "sliding_attention"};
  const Result<ModelConfig> last = Load(typed);
  ASSERT_TRUE(last.ok()) << last.status().ToString();
  EXPECT_EQ(last->layers[0].attention.window, 0);
  EXPECT_EQ(last->layers[2].attention.window, 4096);
}

TEST(Gemma2, NamesWhatIsNotSupported) {
  ExpectRefused(Gemma2(),
                {{"hidden_activation", "gelu", "hidden_activation is \"gelu\""},
                 {"use_bidirectional_attention", true, "use_bidirectional_attention"},
                 {"torch_dtype", "float64", "torch_dtype"},
                 {"layer_types", json(std::vector<std::string>(46, "chunked")), "layer_types"}},
                Code::kUnimplemented);
  ExpectRefused(Gemma2(),
                {{"attn_logit_softcapping", 0, "attn_logit_softcapping"},
                 {"final_logit_softcapping", -1, "final_logit_softcapping"},
                 {"query_pre_attn_scalar", "144", "query_pre_attn_scalar"},
                 {"sliding_window", -1, "sliding_window"},
                 {"layer_types", {"full_attention"}, "layer_types"}},
                Code::kInvalidArgument);
}

}  // namespace
}  // namespace outrider
