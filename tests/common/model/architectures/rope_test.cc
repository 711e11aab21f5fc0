// RoPE settings in config.json, in the formats of Transformers 4 and 5.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "common/model/rope_table.h"
#include "tests/common/model/config_testing.h"

namespace outrider {
namespace {

using nlohmann::json;

// A context of 1024, heads of 16.
json Base() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"hidden_size", 64},
          {"intermediate_size", 128},
          {"max_position_embeddings", 1024},
          {"num_attention_heads", 4},
          {"num_hidden_layers", 1},
          {"vocab_size", 300}};
}

json With(const char* field, const json& value) {
  json config = Base();
  config[field] = value;
  return config;
}

RopeDescription RopeOf(const json& config) {
  const Result<ModelConfig> loaded = Load(config);
  if (!loaded.ok()) {
    ADD_FAILURE() << loaded.status().ToString();
    return {};
  }
  return loaded->layers[0].attention.rope;
}

template <class Scaling>
Scaling ScalingOf(const RopeDescription& rope) {
  const auto* const scaling = std::get_if<Scaling>(&rope.scaling);
  if (scaling != nullptr) return *scaling;
  ADD_FAILURE() << "another scaling";
  return {};
}

TEST(Rope, IsReadInBothSpellings) {
  const json scaling = {{"rope_type", "linear"}, {"factor", 4.0}};
  json old = With("rope_scaling", scaling);
  old["rope_theta"] = 500000.0;
  old["partial_rotary_factor"] = 0.5;
  json parameters = With("rope_parameters", scaling);
  parameters["rope_parameters"]["rope_theta"] = 500000.0;
  parameters["rope_parameters"]["partial_rotary_factor"] = 0.5;
  for (const json& config : {old, parameters}) {
    const RopeDescription rope = RopeOf(config);
    EXPECT_EQ(rope.dims, 8);
    EXPECT_EQ(rope.theta, 500000.f);
    EXPECT_EQ(ScalingOf<LinearRopeScaling>(rope).factor, 4.f);
    EXPECT_EQ(rope.attention_factor, 1.f);
  }
}

TEST(Rope, DynamicScalesNothingWithinTheContext) {
  const json config = With("rope_scaling", {{"type", "dynamic"}, {"factor", 8.0}});
  EXPECT_EQ(RopeOf(config), RopeDescription{.dims = 16});
  EXPECT_EQ(Load(config)->max_position_embeddings, 1024);
}

TEST(Rope, YarnFillsInItsDefaults) {
  const RopeDescription rope =
      RopeOf(With("rope_scaling", {{"rope_type", "yarn"}, {"factor", 4.0}}));
  const auto scaling = ScalingOf<YarnRopeScaling>(rope);
  EXPECT_EQ(scaling.beta_fast, 32.f);
  EXPECT_EQ(scaling.beta_slow, 1.f);
  EXPECT_EQ(scaling.original_max_position_embeddings, 1024);
  EXPECT_TRUE(scaling.truncate);
  EXPECT_FLOAT_EQ(rope.attention_factor, static_cast<float>(0.1 * std::log(4) + 1));
}

TEST(Rope, YarnExtendsOriginalContextByFactor) {
  json config =
      With("rope_scaling",
           {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 512}});
  EXPECT_EQ(Load(config)->max_position_embeddings, 2048);
  config["max_position_embeddings"] = 4096;
  EXPECT_EQ(Load(config)->max_position_embeddings, 4096);
}

TEST(Rope, YarnReadsItsAttentionFactor) {
  json scaling = {
      {"rope_type", "yarn"}, {"factor", 40.0}, {"mscale", 1.0}, {"mscale_all_dim", 1.0}};
  EXPECT_EQ(RopeOf(With("rope_scaling", scaling)).attention_factor, 1.f);
  scaling["mscale_all_dim"] = 0.5;
  const double log = 0.1 * std::log(40.0);
  EXPECT_FLOAT_EQ(RopeOf(With("rope_scaling", scaling)).attention_factor,
                  static_cast<float>((1 + log) / (1 + 0.5 * log)));
  scaling["attention_factor"] = 0.75;
  EXPECT_EQ(RopeOf(With("rope_scaling", scaling)).attention_factor, 0.75f);
}

// Which of the two a model uses depends on config.json alone, never on a sequence's length.
TEST(Rope, LongRopeChoosesFactorsByContext) {
  const json scaling = {{"type", "longrope"},
                        {"short_factor", json(std::vector<int>(8, 2))},
                        {"long_factor", json(std::vector<int>(8, 3))}};
  json config = With("rope_scaling", scaling);
  config["original_max_position_embeddings"] = 256;
  const RopeDescription longer = RopeOf(config);
  EXPECT_EQ(ScalingOf<LongRopeScaling>(longer).factors, std::vector<float>(8, 3.f));
  EXPECT_FLOAT_EQ(longer.attention_factor,
                  static_cast<float>(std::sqrt(1 + std::log(4.0) / std::log(256.0))));
  config["max_position_embeddings"] = 256;
  const RopeDescription shorter = RopeOf(config);
  EXPECT_EQ(ScalingOf<LongRopeScaling>(shorter).factors, std::vector<float>(8, 2.f));
  EXPECT_EQ(shorter.attention_factor, 1.f);
  config["rope_scaling"]["type"] = "su";
  EXPECT_EQ(RopeOf(config), shorter);
}

TEST(Rope, TableIncludesAttentionFactor) {
  const RopeDescription rope = {.dims = 4, .theta = 100.f, .attention_factor = 2.f};
  const std::vector<float> table = RopeTable(rope, 3);
  ASSERT_EQ(table.size(), 12u);
  for (int position = 0; position < 3; ++position) {
    const float* row = &table[static_cast<size_t>(position) * 4];
    EXPECT_FLOAT_EQ(row[0], static_cast<float>(2 * std::cos(position)));
    EXPECT_FLOAT_EQ(row[1], static_cast<float>(2 * std::cos(position * 0.1)));
    EXPECT_FLOAT_EQ(row[2], static_cast<float>(2 * std::sin(position)));
    EXPECT_FLOAT_EQ(row[3], static_cast<float>(2 * std::sin(position * 0.1)));
  }
  EXPECT_TRUE(RopeTable(RopeDescription(), 100).empty());
}

TEST(Rope, NamesTheFieldThatIsWrong) {
  const auto yarn = [](const char* field, const json& value) {
    json scaling = {{"rope_type", "yarn"}, {"factor", 4.0}};
    scaling[field] = value;
    return scaling;
  };
  const auto longrope = [](const char* field, const json& value) {
    json scaling = {{"rope_type", "longrope"},
                    {"original_max_position_embeddings", 256},
                    {"short_factor", json(std::vector<int>(8, 2))},
                    {"long_factor", json(std::vector<int>(8, 3))}};
    scaling[field] = value;
    return scaling;
  };
  ExpectRefused(
      Base(),
      {{"partial_rotary_factor", 0, "partial_rotary_factor"},
       {"partial_rotary_factor", 1.5, "partial_rotary_factor"},
       {"partial_rotary_factor", 0.2, "an even number of the 16 values"},
       {"partial_rotary_factor", "half", "partial_rotary_factor"},
       {"rope_parameters", 3, "rope_parameters is 3, must be an object"},
       {"rope_scaling", {{"rope_type", "linear"}}, "rope_scaling.factor is missing"},
       {"rope_scaling", {{"rope_type", "linear"}, {"factor", 0}}, "rope_scaling.factor"},
       {"rope_scaling", {{"rope_type", "dynamic"}, {"factor", -1}}, "rope_scaling.factor"},
       {"rope_scaling", {{"rope_type", "yarn"}}, "rope_scaling.factor is missing"},
       {"rope_scaling", yarn("beta_fast", 0), "beta_fast"},
       {"rope_scaling", yarn("beta_slow", -1), "beta_slow"},
       {"rope_scaling", yarn("attention_factor", 0), "attention_factor"},
       {"rope_scaling", yarn("truncate", 1), "truncate"},
       {"rope_scaling", yarn("rope_theta", 1), "above 1 where rope_type is yarn"},
       {"rope_scaling", yarn("original_max_position_embeddings", 0),
        "original_max_position_embeddings"},
       {"rope_scaling", longrope("original_max_position_embeddings", nullptr),
        "original_max_position_embeddings is null"},
       {"rope_scaling", longrope("original_max_position_embeddings", 1),
        "original_max_position_embeddings"},
       {"rope_scaling", longrope("short_factor", {1, 2}), "must be a list of 8 numbers"},
       {"rope_scaling", longrope("long_factor", json(std::vector<int>(8, 0))), "long_factor[0]"},
       {"rope_scaling", longrope("long_factor", nullptr), "long_factor"}},
      Code::kInvalidArgument);
  json mscale = yarn("mscale", -100);
  mscale["mscale_all_dim"] = 1;
  ExpectRefused(Base(), {{"rope_scaling", mscale, "mscale"}}, Code::kInvalidArgument);
}

}  // namespace
}  // namespace outrider
