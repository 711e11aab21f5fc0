// Compares the model's logits with an independent float64 forward pass on the same files.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <sstream>
#include <string>
#include <vector>

#include "common/model/safetensors.h"
#include "common/model/weights.h"
#include "tests/common/model/model_testing.h"
#include "tests/common/model/rounded_weights.h"
#include "tests/support/gguf_conversion.h"
#include "tests/support/reference_model.h"

namespace outrider {
namespace {

// Float arithmetic through a few layers has errors of about 1e-6; a wrong formula 1e-2 and more.
constexpr double kFloatTolerance = 1e-4;
// bf16 keeps 8 bits of K and V (2^-9 relative per element); random signs mostly cancel these
// errors. RoPE's attention factor makes scores, and their errors, up to a third larger.
constexpr double kBf16KvTolerance = 2.5e-2;

// 8-bit activations have steps of 1/127 of a row's largest, in every product.
constexpr double kInt8ActivationsTolerance = 0.1;

struct Case {
  std::string name;
  CheckpointOptions checkpoint;
  GgufOptions gguf = {.type = ""};  // with a type: the model is loaded from such a file
  // kW8A8 and kW4A16: floats are rounded at load.
  WeightType rounded_to = WeightType::kF32;
  bool int8_activations = false;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class ModelAgainstReference : public ::testing::TestWithParam<Case> {};

std::string NameOf(const ::testing::TestParamInfo<Case>& param) { return param.param.name; }

// Llama with this "rope_scaling".
CheckpointOptions Scaled(const std::string& scaling) {
  return {.family = Family::kLlama, .config = R"({"rope_scaling": )" + scaling + "}"};
}

bool IsMixture(Family family) {
  return family == Family::kMixtral || family == Family::kQwen3Moe || family == Family::kGptOss;
}

// The error at each position of a prompt, relative to the largest logit of its row, in ascending
// order.
std::vector<double> SortedErrors(const Case& c, const CheckpointOptions& checkpoint,
                                 ModelOptions options) {
  const GgufOptions& gguf = c.gguf;
  if (c.rounded_to != WeightType::kF32) options.weights = c.rounded_to;
  const TempDirectory directory;
  EXPECT_TRUE(MakeCheckpoint(directory.path(), checkpoint).ok());
  std::filesystem::path model_path = directory.path();
  if (!gguf.type.empty()) {
    model_path /= "model.gguf";
    EXPECT_TRUE(WriteGguf(directory.path(), model_path, gguf).ok());
  }
  const std::vector<TokenId> tokens = RandomTokens(70, checkpoint.vocab_size, 5);
  const std::unique_ptr<Model> model = LoadTestModel(model_path, options);
  if (model == nullptr) return {HUGE_VAL};
  if (c.rounded_to != WeightType::kF32)
    RoundMatrices(directory.path() / "model.safetensors", c.rounded_to);
  const auto expected = ReferenceModel(directory.path()).Logits(tokens);
  const Rows rows = RunFresh(*model, tokens);
  EXPECT_EQ(rows.size(), tokens.size());
  std::vector<double> errors;
  for (size_t i = 0; i < rows.size(); ++i) errors.push_back(RelativeError(rows[i], expected[i]));
  std::sort(errors.begin(), errors.end());
  return errors;
}

// For tools/error_tables.py.
double Recorded(double error) {
  std::ostringstream text;
  text << std::scientific << std::setprecision(1) << error;
  ::testing::Test::RecordProperty("error", text.str());
  return error;
}

double WorstError(const Case& c, const CheckpointOptions& checkpoint, const ModelOptions& options) {
  return Recorded(SortedErrors(c, checkpoint, options).back());
}

// The same, but for a mixture the median error: if a row's last expert and the next one are about
// equally likely, rounding may select another one, and later positions see that.
double WorstErrorOfRounded(const Case& c, const CheckpointOptions& checkpoint,
                           const ModelOptions& options) {
  if (!IsMixture(checkpoint.family)) return WorstError(c, checkpoint, options);
  const std::vector<double> errors = SortedErrors(c, checkpoint, options);
  return Recorded(errors[errors.size() / 2]);
}

TEST_P(ModelAgainstReference, LogitsAgreeInFloat) {
  const Case& c = GetParam();
  // What is rounded at load is multiplied as bf16 on a device.
  double tolerance =
      c.rounded_to == WeightType::kF32 ? kFloatTolerance : 2 * Bf16WeightsTolerance();
  if (c.int8_activations) tolerance = kInt8ActivationsTolerance;
  const bool rounds = c.int8_activations || c.rounded_to != WeightType::kF32;
  EXPECT_LT(rounds ? WorstErrorOfRounded(c, c.checkpoint, kExactOptions)
                   : WorstError(c, c.checkpoint, kExactOptions),
            tolerance);
}

// The files are in bf16, so bf16 weights lose nothing: only the cache rounds, and activations if a
// backend multiplies those in bf16, too.
TEST_P(ModelAgainstReference, AgreesWithBf16WeightsAndCache) {
  CheckpointOptions checkpoint = GetParam().checkpoint;
  checkpoint.dtype = Dtype::kBf16;
  ModelOptions options = kExactOptions;
  options.weights = WeightType::kBf16;
  // Except for codes and blocks, which a device widens to bf16, and mixtures, where rounding may
  // select another expert: twice the error of K and V.
  const Case& c = GetParam();
  const bool twice = checkpoint.stored_as != StoredAs::kFloats || c.gguf.type.starts_with("Q") ||
                     IsMixture(checkpoint.family) || c.rounded_to != WeightType::kF32;
  const double rounded = c.int8_activations ? kInt8ActivationsTolerance : 2 * kBf16KvTolerance;
  EXPECT_LT(WorstErrorOfRounded(c, checkpoint, options), twice ? rounded : Bf16WeightsTolerance());
  options.kv = KvType::kBf16;
  EXPECT_LT(WorstErrorOfRounded(c, checkpoint, options), twice ? rounded : kBf16KvTolerance);
}

INSTANTIATE_TEST_SUITE_P(
    Families, ModelAgainstReference,
    ::testing::Values(
        Case{"Llama", {.family = Family::kLlama}},
        Case{"LlamaUntied", {.family = Family::kLlama, .tied_embeddings = false}},
        Case{"LlamaMultiHead", {.family = Family::kLlama, .num_kv_heads = 4}},
        Case{"LlamaOddSizes",
             {.family = Family::kLlama,
              .vocab_size = 259,
              .hidden_size = 54,
              .intermediate_size = 75,
              .num_layers = 3,
              .num_heads = 3,
              .num_kv_heads = 1,
              .head_dim = 24}},
        Case{"LlamaF16", {.family = Family::kLlama, .dtype = Dtype::kF16}},
        Case{"LlamaF32", {.family = Family::kLlama, .dtype = Dtype::kF32}},
        Case{"LlamaInt8Rows", {.family = Family::kLlama, .stored_as = StoredAs::kInt8Rows}},
        Case{"Qwen2Int8RowsSharded",
             {.family = Family::kQwen2, .stored_as = StoredAs::kInt8Rows, .shards = 2}},
        Case{"LlamaFp8Tensor", {.stored_as = StoredAs::kFp8Tensor}},
        Case{"LlamaFp8Channel", {.stored_as = StoredAs::kFp8Channel}},
        Case{"LlamaFp8Block", {.stored_as = StoredAs::kFp8Block}},
        Case{"LlamaPacked4", {.stored_as = StoredAs::kPacked4}},
        Case{"LlamaPacked4Zeros", {.stored_as = StoredAs::kPacked4Zeros}},
        Case{"LlamaPacked4Order", {.stored_as = StoredAs::kPacked4Order}},
        Case{"LlamaPacked8", {.stored_as = StoredAs::kPacked8}},
        Case{"LlamaGptq", {.stored_as = StoredAs::kGptq}},
        Case{"Qwen2GptqSharded",
             {.family = Family::kQwen2, .stored_as = StoredAs::kGptq, .shards = 2}},
        Case{"LlamaGptqOrder", {.stored_as = StoredAs::kGptqOrder}},
        Case{"LlamaGptq8", {.stored_as = StoredAs::kGptq8}},
        Case{"LlamaAwq", {.stored_as = StoredAs::kAwq}},
        Case{"LlamaSharded", {.family = Family::kLlama, .dtype = Dtype::kF32, .shards = 3}},
        Case{"Llama3", {.family = Family::kLlama3, .head_dim = 64}},
        Case{"Llama3RopeParameters",
             {.family = Family::kLlama3, .head_dim = 64, .rope_parameters = true}},
        Case{"LlamaRopeParameters", {.family = Family::kLlama, .rope_parameters = true}},
        Case{"Mistral", {.family = Family::kMistral}},
        Case{"MistralSlidingWindow", {.family = Family::kMistral, .sliding_window = 24}},
        Case{"Gemma2", {.family = Family::kGemma2, .hidden_size = 72, .num_layers = 3}},
        Case{"Gemma2WideHeads",
             {.family = Family::kGemma2, .num_heads = 2, .num_kv_heads = 1, .head_dim = 256}},
        Case{"Qwen2", {.family = Family::kQwen2}},
        Case{"Qwen3", {.family = Family::kQwen3, .head_dim = 32, .tied_embeddings = false}},
        Case{"LlamaBiases", {.family = Family::kLlama, .attention_bias = true, .mlp_bias = true}},
        Case{"Qwen3Biases", {.family = Family::kQwen3, .attention_bias = true}},
        Case{"Qwen2SlidingWindow",
             {.family = Family::kQwen2, .num_layers = 3, .sliding_window = 24}},
        Case{"Qwen3LayerTypes",
             {.family = Family::kQwen3,
              .num_layers = 3,
              .sliding_window = 24,
              .config = R"({"layer_types":
                   ["sliding_attention", "full_attention", "sliding_attention"]})"}}),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    Architectures, ModelAgainstReference,
    ::testing::Values(
        Case{"Olmo2", {.family = Family::kOlmo2, .num_layers = 3, .tied_embeddings = false}},
        Case{"Olmo2Biases", {.family = Family::kOlmo2, .hidden_size = 72, .attention_bias = true}},
        Case{"Granite", {.family = Family::kGranite, .num_layers = 3}},
        Case{"GraniteBiases",
             {.family = Family::kGranite,
              .tied_embeddings = false,
              .attention_bias = true,
              .mlp_bias = true}},
        Case{"SmolLm3", {.family = Family::kSmolLm3, .num_layers = 3}},
        Case{"SmolLm3Biases",
             {.family = Family::kSmolLm3, .attention_bias = true, .mlp_bias = true}},
        Case{"SmolLm3SlidingWindow", {.family = Family::kSmolLm3, .num_layers = 3, .config = R"({
                  "use_sliding_window": true, "sliding_window": 24, "layer_types":
                  ["sliding_attention", "full_attention", "full_attention"]})"}},
        Case{"Phi3", {.family = Family::kPhi3, .tied_embeddings = false}},
        Case{"Phi3SlidingWindow", {.family = Family::kPhi3, .sliding_window = 24}},
        Case{"Phi4Mini", {.family = Family::kPhi3, .config = R"({"partial_rotary_factor": 0.75,
                  "original_max_position_embeddings": 64,
                  "rope_scaling": {"type": "longrope",
                                   "short_factor": [1, 1.1, 1.2, 1.3, 1.4, 1.5],
                                   "long_factor": [1, 1.5, 2, 3, 5, 8]}})"}},
        Case{"Phi3Int8Rows", {.family = Family::kPhi3, .stored_as = StoredAs::kInt8Rows}},
        Case{"Phi3Gptq", {.family = Family::kPhi3, .stored_as = StoredAs::kGptq}},
        Case{"Gemma3", {.family = Family::kGemma3, .hidden_size = 72, .num_layers = 4}},
        Case{"Gemma3RopeParameters",
             {.family = Family::kGemma3, .num_layers = 3, .rope_parameters = true}},
        Case{"Gemma3LayerTypes", {.family = Family::kGemma3, .num_layers = 2, .config = R"({
                  "layer_types": ["full_attention", "sliding_attention"],
                  "sliding_window_pattern": null, "final_logit_softcapping": 4.0})"}}),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    Mixtures, ModelAgainstReference,
    ::testing::Values(
        Case{"Mixtral", {.family = Family::kMixtral, .num_layers = 3, .tied_embeddings = false}},
        Case{"MixtralSlidingWindow", {.family = Family::kMixtral, .sliding_window = 24}},
        Case{"MixtralOddSizes",
             {.family = Family::kMixtral,
              .hidden_size = 54,
              .num_heads = 3,
              .num_kv_heads = 1,
              .head_dim = 24,
              .num_experts = 5,
              .experts_per_token = 3,
              .expert_size = 37}},
        Case{"MixtralAllExperts",
             {.family = Family::kMixtral, .num_experts = 3, .experts_per_token = 3}},
        Case{"MixtralOneExpert",
             {.family = Family::kMixtral, .num_experts = 40, .experts_per_token = 1}},
        Case{"MixtralF32", {.family = Family::kMixtral, .dtype = Dtype::kF32, .shards = 3}},
        Case{"MixtralInt8Rows", {.family = Family::kMixtral, .stored_as = StoredAs::kInt8Rows}},
        Case{"MixtralFp8Block", {.family = Family::kMixtral, .stored_as = StoredAs::kFp8Block}},
        Case{"MixtralPacked4Zeros",
             {.family = Family::kMixtral, .stored_as = StoredAs::kPacked4Zeros}},
        Case{"MixtralGptqOrder", {.family = Family::kMixtral, .stored_as = StoredAs::kGptqOrder}},
        Case{"MixtralAwq", {.family = Family::kMixtral, .stored_as = StoredAs::kAwq}},
        Case{"Qwen3Moe", {.family = Family::kQwen3Moe, .num_experts = 20, .experts_per_token = 4}},
        Case{"Qwen3MoeUnnormalized",
             {.family = Family::kQwen3Moe, .config = R"({"norm_topk_prob": false})"}},
        Case{"Qwen3MoeDenseLayers", {.family = Family::kQwen3Moe, .num_layers = 4, .config = R"({
                  "decoder_sparse_step": 2, "mlp_only_layers": [3]})"}},
        Case{"Qwen3MoeFp8Block", {.family = Family::kQwen3Moe, .stored_as = StoredAs::kFp8Block}},
        Case{"Qwen3MoeSlidingWindow", {.family = Family::kQwen3Moe, .config = R"({
                  "use_sliding_window": true, "sliding_window": 24, "max_window_layers": 0})"}},
        Case{"Qwen3MoeBiases", {.family = Family::kQwen3Moe, .attention_bias = true}},
        Case{"GptOss", {.family = Family::kGptOss, .num_layers = 3, .tied_embeddings = false}},
        Case{"GptOssWideHeads", {.family = Family::kGptOss, .head_dim = 64}},
        Case{"GptOssOddSizes",
             {.family = Family::kGptOss,
              .hidden_size = 54,
              .num_heads = 3,
              .num_kv_heads = 1,
              .head_dim = 24,
              .num_experts = 5,
              .experts_per_token = 3,
              .expert_size = 37}},
        Case{"GptOssMxfp4", {.family = Family::kGptOss, .stored_as = StoredAs::kMxfp4}},
        Case{"GptOssMxfp4Sharded",
             {.family = Family::kGptOss, .stored_as = StoredAs::kMxfp4, .shards = 2}}),
    NameOf);

// As large as a block of 256 requires.
CheckpointOptions Wide(Family family, CheckpointOptions options = {}) {
  options.family = family;
  options.hidden_size = options.intermediate_size = 256;
  options.head_dim = 64;
  return options;
}

INSTANTIATE_TEST_SUITE_P(
    Gguf, ModelAgainstReference,
    ::testing::Values(
        Case{"GgufF32", {.dtype = Dtype::kF32}, {.type = "F32"}},
        Case{"GgufF16", {.dtype = Dtype::kF16}, {.type = "F16"}},
        Case{"GgufBf16", {.tied_embeddings = false}, {.type = "BF16"}},
        Case{"GgufQ8", Wide(Family::kLlama), {.type = "Q8_0"}},
        Case{"GgufQ4", Wide(Family::kLlama), {.type = "Q4_0"}},
        Case{"GgufQ5", Wide(Family::kLlama), {.type = "Q5_0"}},
        Case{"GgufQ4K", Wide(Family::kLlama), {.type = "Q4_K"}},
        Case{"GgufQ5K", Wide(Family::kLlama), {.type = "Q5_K"}},
        Case{"GgufQ4KSmall", Wide(Family::kQwen2), {.type = "Q4_K", .finer_type = "Q5_K"}},
        Case{"GgufQ6K", Wide(Family::kLlama), {.type = "Q6_K"}},
        Case{"GgufQ4KMixed", Wide(Family::kLlama), {.type = "Q4_K", .finer_type = "Q6_K"}},
        Case{"GgufQ4Mixed", Wide(Family::kQwen2), {.type = "Q4_0", .finer_type = "Q8_0"}},
        Case{"GgufMultiHead", Wide(Family::kLlama, {.num_kv_heads = 4}), {.type = "Q8_0"}},
        Case{"GgufLlama3", {.family = Family::kLlama3, .head_dim = 64}, {.type = "BF16"}},
        Case{"GgufLlamaBiases", {.attention_bias = true, .mlp_bias = true}, {.type = "BF16"}},
        Case{"GgufLlamaLinear", Scaled(R"({"type": "linear", "factor": 4.0})"), {.type = "BF16"}},
        Case{"GgufQwen2Yarn",
             {.family = Family::kQwen2, .config = R"({"rope_scaling": {"rope_type": "yarn",
                  "factor": 4.0, "original_max_position_embeddings": 64}})"},
             {.type = "BF16"}},
        Case{"GgufQwen3",
             {.family = Family::kQwen3, .head_dim = 32, .tied_embeddings = false},
             {.type = "BF16"}},
        Case{"GgufQwen3Biases",
             {.family = Family::kQwen3, .attention_bias = true},
             {.type = "BF16"}},
        Case{"GgufGemma2",
             {.family = Family::kGemma2,
              .hidden_size = 72,
              .num_layers = 3,
              .config = R"({"query_pre_attn_scalar": 16})"},
             {.type = "BF16"}},
        Case{"GgufGemma3",
             {.family = Family::kGemma3,
              .hidden_size = 72,
              .num_layers = 4,
              .config = R"({"query_pre_attn_scalar": 16})"},
             {.type = "BF16"}},
        Case{"GgufOlmo2", {.family = Family::kOlmo2, .tied_embeddings = false}, {.type = "BF16"}},
        Case{"GgufGranite", {.family = Family::kGranite, .num_layers = 3}, {.type = "BF16"}},
        Case{"GgufSmolLm3",
             {.family = Family::kSmolLm3, .num_layers = 5, .config = R"({"no_rope_layers": null})"},
             {.type = "BF16"}},
        Case{"GgufMixtral",
             {.family = Family::kMixtral, .num_layers = 3, .tied_embeddings = false},
             {.type = "BF16"}},
        Case{"GgufMixtralQ8", Wide(Family::kMixtral), {.type = "Q8_0"}},
        Case{"GgufMixtralQ4", Wide(Family::kMixtral), {.type = "Q4_0", .finer_type = "Q8_0"}},
        Case{"GgufQwen3Moe",
             {.family = Family::kQwen3Moe, .num_experts = 20, .experts_per_token = 4},
             {.type = "F16"}},
        Case{"GgufQwen3MoeQ4K",
             Wide(Family::kQwen3Moe, {.expert_size = 256}),
             {.type = "Q4_K", .finer_type = "Q6_K"}},
        Case{"GgufMixtralQ4K", Wide(Family::kMixtral, {.expert_size = 256}), {.type = "Q4_K"}},
        Case{"GgufGptOss",
             {.family = Family::kGptOss, .num_layers = 3, .tied_embeddings = false},
             {.type = "BF16"}},
        Case{"GgufGptOssMxfp4",
             {.family = Family::kGptOss, .num_layers = 3},
             {.type = "BF16", .experts = "MXFP4"}},
        Case{"GgufGptOssQ8",
             {.family = Family::kGptOss, .expert_size = 96},
             {.type = "Q8_0", .experts = "MXFP4"}},
        Case{"GgufPhi3",
             Wide(Family::kPhi3, {.sliding_window = 24, .tied_embeddings = false}),
             {.type = "Q4_K"}},
        Case{"GgufPhi4Mini",
             {.family = Family::kPhi3, .config = R"({"partial_rotary_factor": 0.75,
                  "original_max_position_embeddings": 64,
                  "rope_scaling": {"type": "longrope",
                                   "short_factor": [1, 1.1, 1.2, 1.3, 1.4, 1.5],
                                   "long_factor": [1, 1.5, 2, 3, 5, 8]}})"},
             {.type = "BF16"}}),
    NameOf);

// compressed-tensors' W8A8, and floats that --weights rounds.
constexpr const char* kInt8Activations = R"({"quantization_config": {"config_groups": {"group_0": {
    "input_activations": {"num_bits": 8, "type": "int", "symmetric": true, "strategy": "token",
                          "dynamic": true}}}}})";

INSTANTIATE_TEST_SUITE_P(
    Rounded, ModelAgainstReference,
    ::testing::Values(Case{.name = "W8A8",
                           .checkpoint = {.config = kInt8Activations,
                                          .stored_as = StoredAs::kInt8Rows},
                           .int8_activations = true},
                      Case{.name = "W8A8Mixtral",
                           .checkpoint = {.family = Family::kMixtral,
                                          .config = kInt8Activations,
                                          .stored_as = StoredAs::kInt8Rows},
                           .int8_activations = true},
                      Case{.name = "WeightsInt8",
                           .checkpoint = {.tied_embeddings = false},
                           .rounded_to = WeightType::kW8A8,
                           .int8_activations = true},
                      Case{.name = "WeightsInt4",
                           .checkpoint = {.hidden_size = 160, .tied_embeddings = false},
                           .rounded_to = WeightType::kW4A16},
                      Case{.name = "WeightsInt4Qwen3",
                           .checkpoint = {.family = Family::kQwen3, .head_dim = 32},
                           .rounded_to = WeightType::kW4A16},
                      Case{.name = "WeightsInt4Mixtral",
                           .checkpoint = {.family = Family::kMixtral},
                           .rounded_to = WeightType::kW4A16}),
    NameOf);

// Original contexts shorter than the 70 tokens of the test, for scalings that depend on one.
INSTANTIATE_TEST_SUITE_P(
    Ropes, ModelAgainstReference,
    ::testing::Values(
        Case{"Linear", Scaled(R"({"rope_type": "linear", "factor": 4.0})")},
        // Has no effect within max_position_embeddings.
        Case{"Dynamic", Scaled(R"({"type": "dynamic", "factor": 4.0})")},
        Case{"Yarn", Scaled(R"({"rope_type": "yarn", "factor": 4.0,
                                "original_max_position_embeddings": 64})")},
        Case{"YarnOfDeepSeek",
             Scaled(R"({"rope_type": "yarn", "factor": 40.0, "beta_fast": 8, "beta_slow": 2,
                        "mscale": 1.5, "mscale_all_dim": 0.7, "truncate": false,
                        "original_max_position_embeddings": 32})")},
        Case{"YarnAttentionFactor",
             Scaled(R"({"rope_type": "yarn", "factor": 2.0, "attention_factor": 0.8})")},
        Case{"LongRopeShort",
             Scaled(R"({"rope_type": "longrope", "original_max_position_embeddings": 512,
                        "short_factor": [1, 1.5, 2, 3, 4, 5, 6, 7],
                        "long_factor": [9, 9, 9, 9, 9, 9, 9, 9]})")},
        Case{"LongRopeLong",
             Scaled(R"({"rope_type": "longrope", "original_max_position_embeddings": 32,
                        "short_factor": [9, 9, 9, 9, 9, 9, 9, 9], "factor": 4.0,
                        "long_factor": [1, 1.5, 2, 3, 4, 5, 6, 7]})")},
        // 10 of 16 values, an odd number of pairs.
        Case{"Partial",
             {.family = Family::kLlama, .config = R"({"partial_rotary_factor": 0.625})"}},
        Case{"PartialRopeParameters",
             {.family = Family::kQwen3,
              .head_dim = 64,
              .config = R"({"rope_parameters": {"rope_type": "default", "rope_theta": 100,
                                                "partial_rotary_factor": 0.25}})"}}),
    NameOf);

// Whether the model rounds queries and weights to f16 for products with the codes of an FP8 cache,
// as tensor cores do for heads that are a multiple of 16.
bool RoundsQueriesToF16(const CheckpointOptions& checkpoint) {
  return CreateTestBackend().value()->device() != nullptr && checkpoint.head_dim % 16 == 0;
}

// Keys and values in FP8 against the same rounding in double. A key with an error of 1e-6 can
// become another code, which is 6 % away, so the test uses the first tokens of which no key or
// value is that close to a boundary.
class ModelWithFp8Cache : public ::testing::TestWithParam<Case> {
 protected:
  static void ExpectNear(const CheckpointOptions& checkpoint, double tolerance) {
    constexpr double kSafeMargin = 3e-6;
    constexpr int kTokens = 10, kTries = 300;
    const TempDirectory directory;
    ASSERT_TRUE(MakeCheckpoint(directory.path(), checkpoint).ok());
    ReferenceModel reference(directory.path());
    reference.RoundKvToFp8();
    std::vector<TokenId> tokens;
    std::vector<std::vector<double>> expected;
    for (uint64_t seed = 0; seed < kTries && reference.code_margin() < kSafeMargin; ++seed) {
      tokens = RandomTokens(kTokens, checkpoint.vocab_size, seed);
      expected = reference.Logits(tokens);
    }
    ASSERT_GE(reference.code_margin(), kSafeMargin);

    ModelOptions options = kExactOptions;
    const std::unique_ptr<Model> exact = LoadTestModel(directory.path(), options);
    options.kv = KvType::kFp8;
    const std::unique_ptr<Model> rounded = LoadTestModel(directory.path(), options);
    ASSERT_TRUE(exact != nullptr && rounded != nullptr);
    const Rows rows = RunFresh(*rounded, tokens);
    for (size_t i = 0; i < rows.size(); ++i) {
      EXPECT_LT(RelativeError(rows[i], expected[i]), tolerance) << i;
    }
    const double of_floats = RelativeError(RunFresh(*exact, tokens).back(), expected.back());
    EXPECT_GT(of_floats, 10 * std::min(tolerance, kOneLayerTolerance));
  }

  // With queries in f16, which makes later layers' codes differ.
  static constexpr double kOneLayerTolerance = 1e-3, kRoundedTolerance = 5e-2;
};

TEST_P(ModelWithFp8Cache, LogitsAgreeInFloat) {
  CheckpointOptions checkpoint = GetParam().checkpoint;
  if (!RoundsQueriesToF16(checkpoint)) return ExpectNear(checkpoint, kFloatTolerance);
  ExpectNear(checkpoint, kRoundedTolerance);
  checkpoint.num_layers = 1;
  ExpectNear(checkpoint, kOneLayerTolerance);
}

INSTANTIATE_TEST_SUITE_P(
    Families, ModelWithFp8Cache,
    ::testing::Values(
        Case{"LlamaWithoutScales", {.family = Family::kLlama}},
        Case{"Llama", {.family = Family::kLlama, .kv_scales = true}},
        Case{"LlamaFp8Tensor", {.stored_as = StoredAs::kFp8Tensor, .kv_scales = true}},
        Case{"Qwen2GptqSharded",
             {.family = Family::kQwen2,
              .stored_as = StoredAs::kGptq,
              .kv_scales = true,
              .shards = 2}},
        Case{"Qwen3", {.family = Family::kQwen3, .head_dim = 32, .kv_scales = true}},
        Case{"Gemma2", {.family = Family::kGemma2, .hidden_size = 72, .kv_scales = true}},
        Case{"GptOss", {.family = Family::kGptOss, .kv_scales = true}},
        Case{"LlamaOddSizes",
             {.family = Family::kLlama,
              .hidden_size = 54,
              .num_heads = 3,
              .num_kv_heads = 1,
              .head_dim = 24,
              .kv_scales = true}}),
    NameOf);

// Each layer uses the RoPE of its own description.
TEST(Model, LogitsAgreeWithRopePerLayer) {
  const CheckpointOptions checkpoint = {.family = Family::kLlama, .num_layers = 3};
  const TempDirectory directory;
  ASSERT_TRUE(MakeCheckpoint(directory.path(), checkpoint).ok());
  ModelConfig config = LoadModelConfig(directory.path()).value();
  config.layers[1].attention.rope.theta = 100.f;
  ReferenceModel reference(directory.path());
  reference.SetRopeTheta(1, 100);
  auto backend = CreateTestBackend().value();
  const Checkpoint files = Checkpoint::Open(directory.path()).value();
  Weights weights = LoadWeights(config, files, WeightType::kF32, *backend).value();
  const std::unique_ptr<Model> model =
      BuildModel(config, std::move(weights), std::move(backend), kExactOptions).value();
  const std::vector<TokenId> tokens = RandomTokens(40, checkpoint.vocab_size, 5);
  const auto expected = reference.Logits(tokens);
  const Rows rows = RunFresh(*model, tokens);
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_LT(RelativeError(rows[i], expected[i]), kFloatTolerance) << i;
  }
}

// Long positions: beyond the first thousand angles, where a table computed in float would drift.
TEST(Model, LogitsAgreeAfterALongContext) {
  const CheckpointOptions checkpoint = {.family = Family::kLlama3,
                                        .hidden_size = 32,
                                        .intermediate_size = 32,
                                        .num_heads = 2,
                                        .num_kv_heads = 1,
                                        .max_position_embeddings = 2048};
  const TempDirectory directory;
  ASSERT_TRUE(MakeCheckpoint(directory.path(), checkpoint).ok());
  const std::vector<TokenId> tokens = RandomTokens(1100, checkpoint.vocab_size, 6);
  const auto expected = ReferenceModel(directory.path()).Logits(tokens);
  ModelOptions options = kExactOptions;
  options.kv_pages = 128;
  options.max_batch_tokens = 2048;
  const std::unique_ptr<Model> model = LoadTestModel(directory.path(), options);
  ASSERT_NE(model, nullptr);
  const Rows rows = RunFresh(*model, tokens);
  EXPECT_LT(RelativeError(rows.back(), expected.back()), kFloatTolerance);
}

}  // namespace
}  // namespace outrider
