// GGUF files as models: what is read, kept and rejected. reference_test checks their logits.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "common/backend/cpu/cpu_backend.h"
#include "common/model/architectures/gguf_config.h"
#include "common/model/ggml_blocks.h"
#include "common/model/gguf_tensors.h"
#include "common/model/model_directory.h"
#include "common/model/model_fingerprint.h"
#include "common/model/safetensors.h"
#include "common/model/weights.h"
#include "tests/common/model/gguf_damage.h"
#include "tests/common/model/model_testing.h"
#include "tests/support/ggml_types.h"
#include "tests/support/gguf_conversion.h"
#include "tests/support/gguf_writer.h"

namespace outrider {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Values of both signs, including some at the end of a range.
std::vector<float> SomeValues(size_t count) {
  std::vector<float> values;
  for (size_t i = 0; i < count; ++i) {
    values.push_back(static_cast<float>(std::sin(static_cast<double>(i) * 1.7)) *
                     static_cast<float>(1 + i % 7));
  }
  return values;
}

constexpr GgmlType kTypesOfCodes[] = {GgmlType::kQ80,  GgmlType::kQ40, GgmlType::kQ50,
                                      GgmlType::kQ4K,  GgmlType::kQ5K, GgmlType::kQ6K,
                                      GgmlType::kMxfp4};

// Equal as numbers, and so except for the sign of 0.
TEST(GgmlBlocks, AreWhatTheLayoutsSay) {
  for (const GgmlType type : kTypesOfCodes) {
    const std::string bytes = GgmlEncode(GgmlTypeName(type), SomeValues(512));
    std::vector<float> values(512);
    Dequantize(type, reinterpret_cast<const std::byte*>(bytes.data()), values);
    EXPECT_EQ(values, GgmlDecode(GgmlTypeName(type), bytes)) << GgmlTypeName(type);
  }
}

TEST(GgmlBlocks, CodesTimesScalesAreTheValues) {
  for (const GgmlType type : kTypesOfCodes) {
    const std::string bytes = GgmlEncode(GgmlTypeName(type), SomeValues(1536));
    const GgufTensor tensor = {
        .name = "t", .type = type, .shape = {3, 512}, .bytes = std::as_bytes(std::span(bytes))};
    QuantizedMatrix matrix;
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(AppendCodes({.name = "t", .tensor = tensor}, &matrix).ok());
    }
    const std::vector<float> expected = GgmlDecode(GgmlTypeName(type), bytes);
    std::vector<float> row(512);
    for (int64_t i = 0; i < 6; ++i) {
      matrix.WidenRow(i, row);
      EXPECT_TRUE(std::equal(row.begin(), row.end(), expected.begin() + i % 3 * 512))
          << GgmlTypeName(type) << " row " << i;
    }
  }
}

TEST(GgmlBlocks, StackedTypesKeepTheirValues) {
  for (const auto& [first, second, group, unit_groups] :
       {std::tuple(GgmlType::kQ4K, GgmlType::kQ6K, 16, 16),
        {GgmlType::kQ6K, GgmlType::kQ4K, 16, 16},
        {GgmlType::kQ4K, GgmlType::kQ5K, 32, 8},
        {GgmlType::kQ50, GgmlType::kQ80, 32, 0},
        {GgmlType::kQ40, GgmlType::kQ80, 32, 0},
        {GgmlType::kQ80, GgmlType::kQ6K, 16, 0},
        {GgmlType::kQ4K, GgmlType::kQ40, 32, 0}}) {
    std::vector<QuantizedMatrix> parts;
    std::vector<float> expected;
    for (const GgmlType type : {first, second}) {
      const std::string bytes = GgmlEncode(GgmlTypeName(type), SomeValues(1536));
      const GgufTensor tensor = {
          .name = "t", .type = type, .shape = {3, 512}, .bytes = std::as_bytes(std::span(bytes))};
      ASSERT_TRUE(AppendCodes({.name = "t", .tensor = tensor}, &parts.emplace_back()).ok());
      const std::vector<float> values = GgmlDecode(GgmlTypeName(type), bytes);
      expected.insert(expected.end(), values.begin(), values.end());
    }
    const QuantizedMatrix stacked = StackRows(parts);
    EXPECT_EQ(stacked.rows, 6);
    EXPECT_EQ(stacked.group_size, group);
    EXPECT_EQ(stacked.unit_groups, unit_groups);
    EXPECT_EQ(stacked.offset_units.empty(), unit_groups == 0);
    std::vector<float> row(512);
    for (int64_t i = 0; i < 6; ++i) {
      stacked.WidenRow(i, row);
      EXPECT_TRUE(std::equal(row.begin(), row.end(), expected.begin() + i * 512))
          << GgmlTypeName(first) << " and " << GgmlTypeName(second) << " row " << i;
    }
  }
}

class GgufModel : public ::testing::Test {
 protected:
  void WriteModel(const CheckpointOptions& checkpoint, const GgufOptions& gguf) {
    ASSERT_TRUE(MakeCheckpoint(directory_.path(), checkpoint).ok());
    ASSERT_TRUE(WriteGguf(directory_.path(), file(), gguf).ok());
  }
  std::filesystem::path file() const { return directory_.path() / "small.gguf"; }
  Status LoadWith(const std::function<void(std::string& bytes)>& change) {
    return LoadChanged(file(), change);
  }
  std::string ErrorAfterReplacing(const std::string& from, const std::string& to) {
    return WordsOf(file(), from, to);
  }

  TempDirectory directory_;
};

TEST_F(GgufModel, IsReadAsItsCheckpointIs) {
  WriteModel({.eos_token_ids = {7}, .tokenizer = true}, {.type = "F16", .tokenizer = true});
  const ModelConfig config = LoadModelConfig(file()).value();
  EXPECT_EQ(config.architecture, "LlamaForCausalLM");
  EXPECT_EQ(config.name, "small");
  EXPECT_EQ(config.vocab_size, 320);
  EXPECT_EQ(config.num_kv_heads, 2);
  EXPECT_EQ(config.rms_norm_eps, 1e-5f);
  EXPECT_TRUE(config.tied_embeddings);
  EXPECT_EQ(config.eos_token_ids, std::vector<TokenId>{7});
  EXPECT_TRUE(CheckModelDirectory(file()).ok());
  // The folder means the file once it is the only model in it.
  const uint64_t fingerprint = ModelFingerprint(file()).value();
  EXPECT_NE(ModelFingerprint(directory_.path()).value(), fingerprint);
  std::filesystem::remove(directory_.path() / "model.safetensors");
  EXPECT_EQ(ModelFingerprint(directory_.path()).value(), fingerprint);
  EXPECT_TRUE(CheckModelDirectory(directory_.path()).ok());
  EXPECT_NE(LoadTestModel(directory_.path()), nullptr);
}

TEST_F(GgufModel, TakesExpertsApart) {
  WriteModel({.family = Family::kMixtral}, {.type = "Q8_0"});
  const ModelConfig config = LoadModelConfig(file()).value();
  EXPECT_EQ(config.architecture, "MixtralForCausalLM");
  ASSERT_TRUE(config.layers[1].mlp.mixture.has_value());
  EXPECT_EQ(config.layers[1].mlp.mixture->router.experts, 6);
  EXPECT_EQ(config.layers[1].mlp.mixture->router.top_k, 2);
  EXPECT_EQ(config.layers[1].mlp.mixture->intermediate_size, 64);
  const Checkpoint checkpoint = Checkpoint::Open(file()).value();
  EXPECT_TRUE(checkpoint.Has("model.layers.1.block_sparse_moe.experts.5.w2.weight"));
  EXPECT_FALSE(checkpoint.Has("model.layers.1.block_sparse_moe.experts.6.w2.weight"));
  WriteModel({.family = Family::kQwen3Moe}, {.type = "F16"});
  const ModelConfig qwen = LoadModelConfig(file()).value();
  EXPECT_EQ(qwen.architecture, "Qwen3MoeForCausalLM");
  EXPECT_TRUE(qwen.layers[0].mlp.mixture->router.normalizes);
  EXPECT_EQ(qwen.layers[0].mlp.mixture->intermediate_size, 64);
}

TEST_F(GgufModel, RefusesExpertsThatItCannotRead) {
  WriteModel({.family = Family::kMixtral}, {.type = "Q8_0"});
  // A file from the time before experts became one tensor.
  EXPECT_THAT(ErrorAfterReplacing("blk.1.ffn_gate_exps.weight", "blk.1.ffn_gate.0005.weight"),
              HasSubstr("ffn_gate.0005.weight is a tensor that llama models of 2 layers do not"));
  EXPECT_THAT(ErrorAfterReplacing("llama.expert_used_count", "llama.expert_used_coins"),
              HasSubstr("llama.expert_used_coins is not supported"));
  const auto with_experts = [&](char count) {
    return LoadWith([&](std::string& bytes) {
             const std::string key = "llama.expert_count";
             bytes[bytes.find(key) + key.size() + 4] = count;
           })
        .message();
  };
  EXPECT_THAT(with_experts(5), HasSubstr("must have three dimensions, the last of 5 experts"));
  EXPECT_THAT(with_experts(0), HasSubstr("ffn_gate_inp.weight is a tensor that llama models"));
}

TEST_F(GgufModel, KeepsEightAndFourBitCodes) {
  const auto kept = [&](const GgufOptions& options) {
    WriteModel({.hidden_size = 256, .intermediate_size = 256, .head_dim = 64}, options);
    const auto backend = CreateCpuBackend({}).value();
    const Weights weights =
        LoadWeights(LoadModelConfig(file()).value(), Checkpoint::Open(file()).value(),
                    WeightType::kBf16, *backend)
            .value();
    return std::vector<WeightType>{weights.embedding->type(), weights.layers[0].qkv->type(),
                                   weights.layers[0].gate_up->type(),
                                   weights.layers[0].down->type()};
  };
  using Types = std::vector<WeightType>;
  EXPECT_EQ(kept({.type = "Q8_0"}), Types(4, WeightType::kW8A16));
  EXPECT_EQ(kept({.type = "Q4_0"}), Types(4, WeightType::kW4A16));
  EXPECT_EQ(kept({.type = "Q4_K"}), Types(4, WeightType::kW4A16));
  EXPECT_EQ(kept({.type = "Q5_0"}), Types(4, WeightType::kW8A16));
  EXPECT_EQ(kept({.type = "Q5_K"}), Types(4, WeightType::kW8A16));
  EXPECT_EQ(kept({.type = "Q6_K"}), Types(4, WeightType::kW8A16));
  EXPECT_EQ(kept({.type = "F16"}), Types(4, WeightType::kBf16));
  // One of q, k and v has another type, so all three get a byte for each code.
  EXPECT_EQ(
      kept({.type = "Q4_0", .finer_type = "Q8_0"}),
      Types({WeightType::kW8A16, WeightType::kW8A16, WeightType::kW4A16, WeightType::kW8A16}));
  EXPECT_EQ(
      kept({.type = "Q4_K", .finer_type = "Q6_K"}),
      Types({WeightType::kW8A16, WeightType::kW8A16, WeightType::kW4A16, WeightType::kW8A16}));
}

TEST_F(GgufModel, NamesNonFiniteScale) {
  struct Scale {
    const char* type;
    size_t offset;  // in the block
  };
  // Of Q4_K, the scale and the minimum.
  for (const Scale& scale : {Scale{"Q8_0", 0}, Scale{"Q4_0", 0}, Scale{"Q4_K", 0}, Scale{"Q4_K", 2},
                             Scale{"Q5_0", 0}, Scale{"Q5_K", 2}, Scale{"Q6_K", 208}}) {
    WriteModel({.hidden_size = 256, .intermediate_size = 256, .head_dim = 64},
               {.type = scale.type});
    const Status status = LoadWith([&](std::string& bytes) {
      const size_t block = PlaceOf(bytes, "blk.1.ffn_down.weight");
      bytes.replace(block + scale.offset, 2, "\xff\x7f");  // a NaN
    });
    EXPECT_EQ(status.code(), Code::kDataLoss) << scale.type;
    EXPECT_THAT(status.message(), HasSubstr("down")) << scale.type;
  }
}

TEST_F(GgufModel, RefusesUnknownKeysByName) {
  WriteModel({.tokenizer = true}, {.type = "F16", .tokenizer = true});
  EXPECT_THAT(ErrorAfterReplacing(GgufString("llama"), GgufString("gptj2")),
              AllOf(HasSubstr("small.gguf: general.architecture is gptj2"), HasSubstr("gemma3")));
  EXPECT_THAT(ErrorAfterReplacing(GgufString("model"), GgufString("lorax")),
              HasSubstr("general.type is lorax, not a model"));
  EXPECT_THAT(ErrorAfterReplacing("llama.vocab_size", "llama.expert_use"),
              HasSubstr("llama.expert_use is not supported"));
  EXPECT_THAT(ErrorAfterReplacing("blk.1.ffn_up.weight", "blk.1.ffn_ab.weight"),
              HasSubstr("blk.1.ffn_ab.weight is a tensor that llama models of 2 layers do not"));
  EXPECT_THAT(ErrorAfterReplacing("blk.1.ffn_up.weight", "blk.2.ffn_up.weight"),
              HasSubstr("blk.2.ffn_up.weight is a tensor"));
  EXPECT_THAT(ErrorAfterReplacing("blk.1.ffn_up.weight", "blk.1.ffn_up.wei\n\1t"),
              HasSubstr("is a tensor"));
  EXPECT_THAT(ErrorAfterReplacing("llama.block_count", "Llama.block_count"),
              HasSubstr("llama.block_count is missing"));
  EXPECT_THAT(ErrorAfterReplacing("llama.context_length", "Llama.context_length"),
              HasSubstr("llama.context_length is missing"));
}

TEST_F(GgufModel, ChecksSizesLikeConfig) {
  WriteModel({}, {.type = "F16"});
  const auto with = [&](const std::string& key, uint32_t from, uint32_t to) {
    return ErrorAfterReplacing(key + LittleEndian(uint32_t{4}) + LittleEndian(from),
                               key + LittleEndian(uint32_t{4}) + LittleEndian(to));
  };
  EXPECT_THAT(with("llama.embedding_length", 64, 1u << 20),
              HasSubstr("small.gguf (as config.json): hidden_size is 1048576"));
  EXPECT_THAT(with("llama.block_count", 2, 0), HasSubstr("llama.block_count is 0"));
  EXPECT_THAT(with("llama.block_count", 2, 3), HasSubstr("no tensor"));
  EXPECT_THAT(with("llama.attention.head_count_kv", 2, 3), HasSubstr("a divisor of"));
  EXPECT_THAT(with("llama.attention.value_length", 16, 32),
              HasSubstr("llama.attention.value_length is 32, heads of q and k have 16"));
  EXPECT_THAT(with("llama.rope.dimension_count", 16, 8),
              HasSubstr("llama.rope.dimension_count is 8, heads have 16"));
  EXPECT_THAT(with("llama.feed_forward_length", 96, 80), HasSubstr("config.json asks for"));
}

TEST_F(GgufModel, RefusesSeveralFilesOfAFolder) {
  WriteModel({}, {.type = "F16"});
  std::filesystem::remove(directory_.path() / "model.safetensors");
  std::filesystem::remove(directory_.path() / "config.json");
  directory_.Write("other.gguf", "x");
  EXPECT_THAT(CheckModelDirectory(directory_.path()).message(),
              HasSubstr("other.gguf: is one of several GGUF files of its folder"));
}

TEST(GgufConfig, RefusesPartsOfASplitModel) {
  GgufWriter writer;
  writer.Text("general.architecture", "llama");
  writer.Uint32("split.count", 2);
  const std::string bytes = writer.File();
  const GgufFile file = GgufFile::Parse(std::as_bytes(std::span(bytes)), "a.gguf").value();
  EXPECT_THAT(GgufConfigJson(file).status().message(), HasSubstr("llama-gguf-split --merge"));
}

TEST(GgufConfig, TakesOneNumberForAllLayers) {
  const auto config = [](const std::vector<int32_t>& heads) {
    GgufWriter writer;
    writer.Text("general.architecture", "qwen2");
    for (const char* key :
         {"embedding_length", "feed_forward_length", "block_count", "context_length"}) {
      writer.Uint32(std::string("qwen2.") + key, 64);
    }
    writer.Int32s("qwen2.attention.head_count", heads);
    writer.Tensor("token_embd.weight", 0, {4, 1}, std::string(16, '\0'));
    const std::string bytes = writer.File();
    const GgufFile file = GgufFile::Parse(std::as_bytes(std::span(bytes)), "a.gguf").value();
    const auto written = GgufConfigJson(file);
    return written.ok() ? *written : written.status().message();
  };
  EXPECT_THAT(config({4, 4}), HasSubstr(R"("num_attention_heads":4)"));
  EXPECT_THAT(config({4, 2}), HasSubstr("qwen2.attention.head_count differs from layer to layer"));
  EXPECT_THAT(config({}), HasSubstr("must be positive integers"));
}

TEST(GgufConfig, RefusesOtherNumbersOfRopeFactors) {
  // The config of a model with heads of `key_length` dimensions.
  const auto config = [](int64_t factors, uint32_t key_length) {
    GgufWriter writer;
    writer.Text("general.architecture", "llama");
    for (const char* key :
         {"embedding_length", "feed_forward_length", "block_count", "context_length"}) {
      writer.Uint32(std::string("llama.") + key, 64);
    }
    writer.Uint32("llama.attention.head_count", 4);
    writer.Uint32("llama.attention.key_length", key_length);
    writer.Tensor("token_embd.weight", 0, {4, 1}, std::string(16, '\0'));
    writer.Tensor("rope_freqs.weight", 0, {factors},
                  std::string(static_cast<size_t>(factors) * sizeof(float), '\0'));
    const std::string bytes = writer.File();
    const GgufFile file = GgufFile::Parse(std::as_bytes(std::span(bytes)), "a.gguf").value();
    const auto written = GgufConfigJson(file);
    return written.ok() ? *written : written.status().message();
  };
  EXPECT_THAT(config(8, 16), HasSubstr("long_factor"));
  EXPECT_THAT(config(9, 16),
              HasSubstr("a.gguf: rope_freqs.weight has 9 factors, must have 8, one for two"));
  EXPECT_THAT(config(1'000'000, 16), HasSubstr("has 1000000 factors, must have 8"));
  // The config refuses such heads later.
  EXPECT_THAT(config(1'000'000, 2'000'000), HasSubstr("has 1000000 factors, must have 512"));
}

}  // namespace
}  // namespace outrider
