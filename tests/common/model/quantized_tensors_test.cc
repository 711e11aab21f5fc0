// Damaged and contradictory files of every quantized layout: errors name the tensor and what is
// wrong with it. reference_test checks the logits of valid files.
#include "common/model/quantized_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "common/backend/cpu/cpu_backend.h"
#include "common/model/transformer.h"
#include "tests/common/model/model_testing.h"
#include "tests/support/checkpoint_maker.h"
#include "tests/support/safetensors_writer.h"

namespace outrider {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

using Tensors = std::map<std::string, StoredTensor>;

struct Layout {
  const char* name;
  StoredAs stored_as;
  const char* codes;
  const char* scales;
  const char* zeros = nullptr;
  const char* order = nullptr;
};

void PrintTo(const Layout& layout, std::ostream* out) { *out << layout.name; }

class DamagedCodes : public ::testing::TestWithParam<Layout> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(MakeCheckpoint(directory_.path(), {.stored_as = GetParam().stored_as}).ok());
    tensors_ = ReadSafetensors(directory_.Read("model.safetensors"));
  }

  Status Load() const {
    return LoadModel(directory_.path(), CreateCpuBackend({}).value(), kExactOptions).status();
  }
  // The status of the file after `change` to a tensor of layer 1's down_proj.
  Status LoadWith(const char* tensor, const std::function<void(StoredTensor& tensor)>& change) {
    Tensors changed = tensors_;
    const std::string name = kBase + std::string(tensor);
    change(changed.at(name));
    if (changed.at(name).dtype.empty()) changed.erase(name);
    EXPECT_TRUE(WriteSafetensors(directory_.path() / "model.safetensors", changed).ok());
    return Load();
  }
  // The status of the file whose first scale has these bytes.
  Status LoadWithScale(const char* bytes) {
    return LoadWith(GetParam().scales,
                    [&](StoredTensor& scales) { std::memcpy(scales.bytes.data(), bytes, 2); });
  }
  bool scales_are_f16() const { return tensors_.at(kBase + GetParam().scales).dtype == "F16"; }

  const std::string kBase = "model.layers.1.mlp.down_proj.";
  TempDirectory directory_;
  Tensors tensors_;
};

TEST_P(DamagedCodes, SoundFilesLoad) { EXPECT_TRUE(Load().ok()) << Load().ToString(); }

TEST_P(DamagedCodes, MissingTensorsAreNamed) {
  const auto remove = [](StoredTensor& tensor) { tensor.dtype.clear(); };
  for (const char* name :
       {GetParam().codes, GetParam().scales, GetParam().zeros, GetParam().order}) {
    if (name == nullptr) continue;
    const Status status = LoadWith(name, remove);
    // Without an order, AutoGPTQ's inputs are in order.
    if (name == GetParam().order && GetParam().stored_as != StoredAs::kGptqOrder &&
        GetParam().stored_as != StoredAs::kPacked4Order) {
      EXPECT_TRUE(status.ok());
      continue;
    }
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << name << ": " << status.ToString();
    // Matrices without codes count as floats.
    EXPECT_THAT(status.message(), HasSubstr(name == GetParam().codes ? "down_proj" : name));
  }
}

TEST_P(DamagedCodes, OtherTypesAndShapesAreNamed) {
  for (const char* name :
       {GetParam().codes, GetParam().scales, GetParam().zeros, GetParam().order}) {
    if (name == nullptr) continue;
    const std::string full = kBase + name;
    const auto retype = [](StoredTensor& tensor) {
      tensor.dtype = tensor.dtype == "I32" ? "F32" : tensor.dtype.ends_with("16") ? "I16" : "U8";
    };
    EXPECT_THAT(LoadWith(name, retype).message(), HasSubstr(full)) << name;
    const auto reshape = [](StoredTensor& tensor) {
      tensor.shape = {static_cast<int64_t>(1), 1, tensor.shape[0],
                      tensor.shape.size() > 1 ? tensor.shape[1] : 1};
    };
    if (tensors_.at(full).bytes.size() == 2) continue;  // a single scale may have any rank
    EXPECT_THAT(LoadWith(name, reshape).message(), HasSubstr(full)) << name;
  }
}

TEST_P(DamagedCodes, HugeShapesTakeNoMemory) {
  json config = json::parse(directory_.Read("config.json"));
  config["intermediate_size"] = 1 << 19;
  directory_.Write("config.json", config.dump());
  EXPECT_THAT(Load().message(), HasSubstr(" codes")) << "found before it was read";
}

TEST_P(DamagedCodes, ScalesOfZeroAreNamed) {
  const Status status = LoadWithScale("\0\0");
  EXPECT_EQ(status.code(), Code::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr(kBase + GetParam().scales + "[0, 0] is 0"));
}

TEST_P(DamagedCodes, NonFiniteScalesAreNamed) {
  const Status nan = LoadWithScale("\xff\x7f");
  EXPECT_EQ(nan.code(), Code::kDataLoss);
  EXPECT_THAT(nan.message(), HasSubstr(kBase + GetParam().scales + "[0, 0] is NaN"));
  const Status infinite = LoadWithScale(scales_are_f16() ? "\x00\x7c" : "\x80\x7f");
  EXPECT_EQ(infinite.code(), Code::kDataLoss);
  EXPECT_THAT(infinite.message(), HasSubstr(kBase + GetParam().scales + "[0, 0] is infinite"));
}

TEST_P(DamagedCodes, NanCodesAreNamed) {
  if (tensors_.at(kBase + GetParam().codes).dtype != "F8_E4M3") return;
  const Status status =
      LoadWith(GetParam().codes, [](StoredTensor& codes) { codes.bytes[97] = '\xff'; });
  EXPECT_EQ(status.code(), Code::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr(kBase + "weight[1, 1] is NaN"));
}

TEST_P(DamagedCodes, OrdersOutOfRangeAreNamed) {
  if (GetParam().order == nullptr) return;
  for (const int32_t group : {-1, 3, 1 << 30}) {
    const Status status = LoadWith(GetParam().order, [&](StoredTensor& order) {
      std::memcpy(order.bytes.data() + 20, &group, sizeof group);
    });
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr(kBase + GetParam().order + "[5] is " +
                                            std::to_string(group) + ", but there are 3 groups"));
  }
}

TEST_P(DamagedCodes, UnevenOrdersAreNamed) {
  if (GetParam().order == nullptr) return;
  const Status status = LoadWith(
      GetParam().order, [](StoredTensor& order) { order.bytes.assign(order.bytes.size(), '\0'); });
  EXPECT_THAT(status.message(), HasSubstr("group 0 has 96 inputs, not 32"));
}

TEST_P(DamagedCodes, StackedOrdersMustAgree) {
  if (GetParam().order == nullptr) return;
  Tensors changed = tensors_;
  StoredTensor& order =
      changed.at("model.layers.0.self_attn.k_proj." + std::string(GetParam().order));
  std::swap(order.bytes[0], order.bytes[4]);  // of neighbours in different groups, if ordered
  if (order.bytes ==
      tensors_.at("model.layers.0.self_attn.k_proj." + std::string(GetParam().order)).bytes) {
    return;
  }
  ASSERT_TRUE(WriteSafetensors(directory_.path() / "model.safetensors", changed).ok());
  const Status status = Load();
  EXPECT_EQ(status.code(), Code::kUnimplemented);
  EXPECT_THAT(status.message(), HasSubstr("k_proj"));
}

TEST_P(DamagedCodes, TruncatedFilesAreNamed) {
  const std::string file = directory_.Read("model.safetensors");
  directory_.Write("model.safetensors", file.substr(0, file.size() - 100));
  const Status status = Load();
  EXPECT_EQ(status.code(), Code::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("model.safetensors"));
}

TEST_P(DamagedCodes, ContradictoryShapesAreNamed) {
  if (!tensors_.contains(kBase + "weight_shape")) return;
  const Status status =
      LoadWith("weight_shape", [](StoredTensor& shape) { shape.bytes[8] = '\x61'; });
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(),
              HasSubstr(kBase + "weight_shape is [64, 97], config.json asks for [64, 96]"));
}

TEST_P(DamagedCodes, AnotherGroupSizeIsNamed) {
  json config = json::parse(directory_.Read("config.json"));
  json& quantization = config["quantization_config"];
  if (quantization.contains("group_size")) {
    quantization["group_size"] = 16;
  } else if (quantization.contains("weight_block_size")) {
    quantization["weight_block_size"] = {16, 16};
  } else if (json& weights = quantization["config_groups"]["group_0"]["weights"];
             weights["group_size"].is_number()) {
    weights["group_size"] = 16;
  } else {
    return;
  }
  directory_.Write("config.json", config.dump());
  const Status status = Load();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr(GetParam().scales));
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, DamagedCodes,
    ::testing::Values(Layout{"Int8Rows", StoredAs::kInt8Rows, "weight", "weight_scale"},
                      Layout{"Fp8Tensor", StoredAs::kFp8Tensor, "weight", "weight_scale"},
                      Layout{"Fp8Channel", StoredAs::kFp8Channel, "weight", "weight_scale"},
                      Layout{"Fp8Block", StoredAs::kFp8Block, "weight", "weight_scale_inv"},
                      Layout{"Packed4", StoredAs::kPacked4, "weight_packed", "weight_scale"},
                      Layout{"Packed4Zeros", StoredAs::kPacked4Zeros, "weight_packed",
                             "weight_scale", "weight_zero_point"},
                      Layout{"Packed4Order", StoredAs::kPacked4Order, "weight_packed",
                             "weight_scale", "weight_zero_point", "weight_g_idx"},
                      Layout{"Packed8", StoredAs::kPacked8, "weight_packed", "weight_scale"},
                      Layout{"Gptq", StoredAs::kGptq, "qweight", "scales", "qzeros", "g_idx"},
                      Layout{"GptqOrder", StoredAs::kGptqOrder, "qweight", "scales", "qzeros",
                             "g_idx"},
                      Layout{"Gptq8", StoredAs::kGptq8, "qweight", "scales", "qzeros", "g_idx"},
                      Layout{"Awq", StoredAs::kAwq, "qweight", "scales", "qzeros"}),
    [](const ::testing::TestParamInfo<Layout>& param) { return param.param.name; });

}  // namespace
}  // namespace outrider
