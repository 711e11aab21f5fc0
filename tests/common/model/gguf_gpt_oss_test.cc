// gpt-oss from GGUF files: what is read and rejected. reference_test checks the logits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "common/backend/cpu/cpu_backend.h"
#include "common/gguf/gguf_file.h"
#include "common/model/architectures/gguf_config.h"
#include "common/model/model_directory.h"
#include "common/model/weights.h"
#include "tests/common/model/gguf_damage.h"
#include "tests/common/model/model_testing.h"
#include "tests/support/ggml_types.h"
#include "tests/support/gguf_conversion.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/quantized_writer.h"
#include "tests/support/safetensors_writer.h"

namespace outrider {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class GgufGptOss : public ::testing::Test {
 protected:
  void Make(const CheckpointOptions& checkpoint = {.family = Family::kGptOss}) {
    ASSERT_TRUE(MakeCheckpoint(directory_.path(), checkpoint).ok());
    ASSERT_TRUE(WriteGguf(directory_.path(), file(),
                          {.tokenizer = checkpoint.tokenizer, .experts = "MXFP4"})
                    .ok());
  }
  std::filesystem::path file() const { return directory_.path() / "small.gguf"; }
  // Writes the experts of model.safetensors, whose values are those of 4-bit floats, as MXFP4.
  void StoreExpertsAsMxfp4() {
    const std::string bytes = directory_.Read("model.safetensors");
    uint64_t header_bytes = 0;
    std::memcpy(&header_bytes, bytes.data(), sizeof header_bytes);
    std::map<std::string, StoredTensor> tensors;
    const json header = json::parse(bytes.substr(8, header_bytes));
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") continue;
      const size_t begin = entry["data_offsets"][0], end = entry["data_offsets"][1];
      const std::string values = bytes.substr(8 + header_bytes + begin, end - begin);
      const auto shape = entry["shape"].get<std::vector<int64_t>>();
      if (name.ends_with("experts.gate_up_proj") || name.ends_with("experts.down_proj")) {
        tensors.merge(Mxfp4TensorsOf(name, GgmlDecode("F32", values), shape));
      } else {
        tensors[name] = {entry["dtype"], shape, values};
      }
    }
    ASSERT_TRUE(WriteSafetensors(directory_.path() / "model.safetensors", tensors).ok());
    json config = json::parse(directory_.Read("config.json"));
    config["quantization_config"] = QuantizationConfig(StoredAs::kMxfp4);
    directory_.Write("config.json", config.dump());
  }
  Status LoadWith(const std::function<void(std::string& bytes)>& change) {
    return LoadChanged(file(), change);
  }
  std::string ErrorAfterReplacing(const std::string& from, const std::string& to) {
    return WordsOf(file(), from, to);
  }

  TempDirectory directory_;
};

TEST_F(GgufGptOss, ConfigIsThatOfItsCheckpoint) {
  Make();
  const ModelConfig expected = LoadModelConfig(directory_.path() / "").value();
  const ModelConfig config = LoadModelConfig(file()).value();
  EXPECT_EQ(config.architecture, "GptOssForCausalLM");
  EXPECT_EQ(config.max_position_embeddings, expected.max_position_embeddings);
  for (size_t i = 0; i < 2; ++i) {
    const LayerDescription &layer = config.layers[i], &other = expected.layers[i];
    EXPECT_EQ(layer.attention.rope, other.attention.rope);
    EXPECT_EQ(layer.attention.window, other.attention.window);
    EXPECT_TRUE(layer.attention.sinks && layer.attention.qkv_bias && layer.attention.out_bias);
    EXPECT_EQ(layer.mlp.activation, Activation::kClampedSwiglu);
    EXPECT_EQ(layer.mlp.mixture->router.experts, 6);
    EXPECT_EQ(layer.mlp.mixture->router.top_k, other.mlp.mixture->router.top_k);
    EXPECT_EQ(layer.mlp.mixture->intermediate_size, other.mlp.mixture->intermediate_size);
  }
}

// A file names one end; the published generation_config.json has two more.
TEST(GgufConfig, EndsGptOssAtItsCalls) {
  GgufWriter writer;
  writer.Text("general.architecture", "gpt-oss");
  for (const char* key : {"embedding_length", "feed_forward_length", "expert_feed_forward_length",
                          "block_count", "context_length", "attention.head_count", "expert_count",
                          "expert_used_count", "attention.sliding_window"}) {
    writer.Uint32(std::string("gpt-oss.") + key, 64);
  }
  writer.Uint32("tokenizer.ggml.eos_token_id", 2);
  writer.Texts("tokenizer.ggml.tokens",
               {"a", "<|endoftext|>", "<|return|>", "<|end|>", "<|call|>"});
  writer.Tensor("token_embd.weight", 0, {5, 1}, std::string(20, '\0'));
  const std::string bytes = writer.File();
  const GgufFile file = GgufFile::Parse(std::as_bytes(std::span(bytes)), "a.gguf").value();
  EXPECT_THAT(GgufConfigJson(file).value(), HasSubstr(R"("eos_token_id":[2,2,4,1])"));
}

TEST_F(GgufGptOss, LogitsEqualThoseOfSafetensors) {
  Make();
  StoreExpertsAsMxfp4();
  const auto from_file = LoadTestModel(file(), kExactOptions);
  const auto from_directory = LoadTestModel(directory_.path(), kExactOptions);
  ASSERT_TRUE(from_file != nullptr && from_directory != nullptr);
  const std::vector<TokenId> tokens = RandomTokens(70, from_file->config().vocab_size, 3);
  const Rows rows = RunFresh(*from_file, tokens), expected = RunFresh(*from_directory, tokens);
  for (size_t i = 0; i < tokens.size(); ++i) EXPECT_EQ(rows[i], expected[i]) << i;
}

TEST_F(GgufGptOss, KeepsExpertsAsStored) {
  Make();
  const auto backend = CreateCpuBackend({}).value();
  const Weights weights = LoadWeights(LoadModelConfig(file()).value(),
                                      Checkpoint::Open(file()).value(), WeightType::kBf16, *backend)
                              .value();
  const MixtureWeights& mixture = weights.layers[1].mixture;
  EXPECT_EQ((*mixture.gate_up)[5].type(), WeightType::kMxfp4);
  EXPECT_EQ((*mixture.down)[0].type(), WeightType::kMxfp4);
  EXPECT_EQ((*mixture.down)[0].bytes(), 64u * 64 * 17 / 32);
}

TEST_F(GgufGptOss, NamesDamagedTensors) {
  Make();
  EXPECT_TRUE(LoadWith([](std::string& /*unchanged*/) {}).ok());
  const Status nan = LoadWith([](std::string& bytes) {
    bytes[PlaceOf(bytes, "blk.1.ffn_up_exps.weight") + (2 * 64 + 7) * 34 + 17] = '\xff';
  });
  EXPECT_EQ(nan.code(), Code::kDataLoss);
  EXPECT_THAT(nan.message(), HasSubstr("blk.1.ffn_up_exps.weight, expert 2: a scale of block 1 of "
                                       "row 7 is not finite"));
  const Status bias = LoadWith([](std::string& bytes) {
    bytes.replace(PlaceOf(bytes, "blk.0.ffn_gate_exps.bias"), 4, LittleEndian(0x7fc00000u));
  });
  EXPECT_EQ(bias.code(), Code::kDataLoss);
  EXPECT_THAT(bias.message(), HasSubstr("experts.0.gate_proj.bias[0] is NaN"));
  for (const size_t kept : {size_t{20}, size_t{3000}, directory_.Read("small.gguf").size() - 1}) {
    const Status cut = LoadWith([&](std::string& bytes) { bytes.resize(kept); });
    EXPECT_EQ(cut.code(), Code::kDataLoss) << kept << ": " << cut.message();
  }
}

TEST_F(GgufGptOss, RefusesWhatIsMissingByName) {
  Make();
  EXPECT_THAT(ErrorAfterReplacing("blk.1.attn_sinks.weight", "blk.1.attn_drain.weight"),
              HasSubstr("blk.1.attn_drain.weight is a tensor that gpt-oss models of 2 layers"));
  EXPECT_THAT(
      ErrorAfterReplacing("gpt-oss.attention.sliding_window", "gpt-oss.attention.sliding_panels"),
      HasSubstr("gpt-oss.attention.sliding_panels is not supported"));
  EXPECT_THAT(ErrorAfterReplacing("blk.1.ffn_up_exps.bias", "blk.0.ffn_up_exps.bias"),
              HasSubstr("ffn_up_exps"));
  const Status experts = LoadWith([](std::string& bytes) {
    const std::string key = "gpt-oss.expert_count";
    bytes[bytes.find(key) + key.size() + 4] = 5;
  });
  EXPECT_THAT(experts.message(), HasSubstr("dimensions, the last of 5 experts"));
}

}  // namespace
}  // namespace outrider
