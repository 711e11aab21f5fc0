// Loading mixtures of experts: what is rejected, and with which messages. reference_test checks the
// logits of valid files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "common/backend/cpu/cpu_backend.h"
#include "common/model/stacked_experts.h"
#include "tests/common/model/model_testing.h"
#include "tests/support/safetensors_writer.h"

namespace outrider {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

class LoadMixtureTest : public ::testing::Test {
 protected:
  void WriteCheckpoint(CheckpointOptions options) {
    options.dtype = Dtype::kF32;
    ASSERT_TRUE(MakeCheckpoint(directory_.path(), options).ok());
    const std::string file = directory_.Read("model.safetensors");
    uint64_t header_bytes = 0;
    std::memcpy(&header_bytes, file.data(), sizeof header_bytes);
    const json header = json::parse(file.substr(8, header_bytes));
    tensors_.clear();
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") continue;
      const size_t begin = entry["data_offsets"][0], end = entry["data_offsets"][1];
      tensors_[name] = {entry["dtype"], entry["shape"],
                        file.substr(8 + header_bytes + begin, end - begin)};
    }
  }
  Status Load(WeightType weights = WeightType::kF32) const {
    ModelOptions options = kExactOptions;
    options.weights = weights;
    return LoadModel(directory_.path(), CreateCpuBackend({}).value(), options).status();
  }
  // The status of the file after `change` to the tensor; a tensor without a type is omitted.
  Status LoadWith(const std::string& name, const std::function<void(StoredTensor&)>& change) {
    std::map<std::string, StoredTensor> changed = tensors_;
    change(changed.at(name));
    if (changed.at(name).dtype.empty()) changed.erase(name);
    EXPECT_TRUE(WriteSafetensors(directory_.path() / "model.safetensors", changed).ok());
    return Load();
  }

  static void Remove(StoredTensor& tensor) { tensor.dtype.clear(); }
  static void SetNan(StoredTensor& tensor) {
    const float nan = NAN;
    std::memcpy(tensor.bytes.data() + tensor.bytes.size() - sizeof nan, &nan, sizeof nan);
  }
  // The same bytes, without the last row.
  static void DropRow(StoredTensor& tensor) {
    tensor.bytes.resize(tensor.bytes.size() / static_cast<size_t>(tensor.shape[0]) *
                        static_cast<size_t>(tensor.shape[0] - 1));
    --tensor.shape[0];
  }

  void ExpectNamed(const std::string& tensor, const std::string& misshapen) {
    const Status whole = LoadWith(tensor, [](StoredTensor& /*unchanged*/) {});
    EXPECT_TRUE(whole.ok()) << whole.ToString();
    const Status missing = LoadWith(tensor, Remove);
    EXPECT_EQ(missing.code(), Code::kInvalidArgument);
    EXPECT_THAT(missing.message(), HasSubstr("no tensor " + tensor));
    const Status shaped = LoadWith(tensor, DropRow);
    EXPECT_EQ(shaped.code(), Code::kInvalidArgument) << tensor;
    EXPECT_THAT(shaped.message(), AllOf(HasSubstr(tensor + " is ["), HasSubstr(misshapen)));
    const Status nan = LoadWith(tensor, SetNan);
    EXPECT_EQ(nan.code(), Code::kDataLoss) << tensor;
    EXPECT_THAT(nan.message(), AllOf(HasSubstr(tensor + "["), HasSubstr(" is NaN")));
  }

  TempDirectory directory_;
  std::map<std::string, StoredTensor> tensors_;
};

TEST_F(LoadMixtureTest, NamesDamagedTensorsOfMixtral) {
  WriteCheckpoint({.family = Family::kMixtral});
  const std::string block = "model.layers.1.block_sparse_moe.";
  ExpectNamed(block + "gate.weight", "asks for [6, 64]");
  ExpectNamed(block + "experts.5.w1.weight", "asks for [64, 64]");
  ExpectNamed(block + "experts.0.w2.weight", "asks for [64, 64]");
  ExpectNamed(block + "experts.3.w3.weight", "asks for [64, 64]");
}

TEST_F(LoadMixtureTest, NamesDamagedTensorsOfQwen) {
  WriteCheckpoint({.family = Family::kQwen3Moe});
  ExpectNamed("model.layers.0.mlp.gate.weight", "asks for [6, 64]");
  ExpectNamed("model.layers.0.mlp.experts.2.down_proj.weight", "asks for [64, 64]");
}

TEST_F(LoadMixtureTest, NamesDamagedTensorsOfGptOss) {
  WriteCheckpoint({.family = Family::kGptOss});
  const std::string layer = "model.layers.1.";
  ExpectNamed(layer + "mlp.router.weight", "asks for [6, 64]");
  ExpectNamed(layer + "mlp.router.bias", "asks for [6]");
  ExpectNamed(layer + "mlp.experts.gate_up_proj", "asks for [6, 64, 128]");
  ExpectNamed(layer + "mlp.experts.gate_up_proj_bias", "asks for [6, 128]");
  ExpectNamed(layer + "mlp.experts.down_proj", "asks for [6, 64, 64]");
  ExpectNamed(layer + "mlp.experts.down_proj_bias", "asks for [6, 64]");
  ExpectNamed(layer + "self_attn.sinks", "asks for [4]");
}

TEST_F(LoadMixtureTest, NamesDamagedBlocksOfMxfp4) {
  WriteCheckpoint({.family = Family::kGptOss, .stored_as = StoredAs::kMxfp4});
  EXPECT_TRUE(Load().ok()) << Load().ToString();
  const std::string down = "model.layers.1.mlp.experts.down_proj";
  for (const char* suffix : {"_blocks", "_scales"}) {
    EXPECT_THAT(LoadWith(down + suffix, Remove).message(), HasSubstr("no tensor " + down + suffix));
    EXPECT_THAT(LoadWith(down + suffix, DropRow).message(),
                AllOf(HasSubstr(down + suffix + " is [5, 64, 2"), HasSubstr("asks for [6, 64, 2")));
    EXPECT_THAT(
        LoadWith(down + suffix, [](StoredTensor& tensor) { tensor.dtype = "I8"; }).message(),
        HasSubstr(" I8, config.json asks for [6, 64, 2"));
  }
  const Status nan = LoadWith(
      down + "_scales", [](StoredTensor& tensor) { tensor.bytes[(3 * 64 + 7) * 2 + 1] = '\xff'; });
  EXPECT_EQ(nan.code(), Code::kDataLoss);
  EXPECT_THAT(nan.message(), HasSubstr(down + "_scales[3, 7, 1] is NaN"));
}

TEST_F(LoadMixtureTest, RefusesIncompleteMxfp4Blocks) {
  WriteCheckpoint({.family = Family::kGptOss, .stored_as = StoredAs::kMxfp4});
  const Checkpoint checkpoint = Checkpoint::Open(directory_.path()).value();
  const Status status = StackedExperts::Find(checkpoint, "model.layers.0.mlp.experts.down_proj",
                                             {.experts = 6, .rows = 64, .columns = 40})
                            .status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("40 inputs do not fill blocks of 32"));
}

TEST_F(LoadMixtureTest, RefusesAQuantizedRouter) {
  WriteCheckpoint({.family = Family::kMixtral, .stored_as = StoredAs::kInt8Rows});
  const Status status =
      LoadWith("model.layers.0.block_sparse_moe.gate.weight", [](StoredTensor& tensor) {
        tensor.dtype = "I8";
        tensor.bytes.resize(tensor.bytes.size() / 4);
      });
  EXPECT_EQ(status.code(), Code::kUnimplemented);
  EXPECT_THAT(status.message(), HasSubstr("the router of a mixture must be floats"));
}

// Every format that --weights accepts.
TEST_F(LoadMixtureTest, TakesEveryFormat) {
  for (const Family family : {Family::kMixtral, Family::kGptOss}) {
    for (const StoredAs stored : {StoredAs::kFloats, StoredAs::kMxfp4}) {
      if (stored == StoredAs::kMxfp4 && family != Family::kGptOss) continue;
      WriteCheckpoint({.family = family, .stored_as = stored});
      for (const WeightType type : {WeightType::kF32, WeightType::kBf16, WeightType::kW8A8,
                                    WeightType::kW8A16, WeightType::kW4A16}) {
        EXPECT_TRUE(Load(type).ok()) << static_cast<int>(type) << Load(type).ToString();
      }
    }
  }
}

}  // namespace
}  // namespace outrider
