// Scales of an FP8 KV cache: their names, and errors for damaged ones. reference_test checks that
// they are applied correctly.
#include "common/model/kv_scales.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/common/model/model_testing.h"
#include "tests/support/safetensors_writer.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

class KvScalesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(MakeCheckpoint(directory_.path(), {.dtype = Dtype::kF32, .kv_scales = true}).ok());
    tensors_ = ReadSafetensors(directory_.Read("model.safetensors"));
  }

  static StoredTensor Scale(float value) {
    std::string bytes(sizeof value, '\0');
    std::memcpy(bytes.data(), &value, sizeof value);
    return {"F32", {1}, bytes};
  }
  // Moves the scales of a layer to other names.
  void Rename(int layer, const std::string& key, const std::string& value) {
    for (const auto& [from, to] : {std::pair(std::string("k_scale"), key), {"v_scale", value}}) {
      auto node = tensors_.extract(Name(layer, from));
      node.key() = Name(layer, to);
      tensors_.insert(std::move(node));
    }
  }
  static std::string Name(int layer, const std::string& name) {
    return "model.layers." + std::to_string(layer) + ".self_attn." + name;
  }
  Result<std::vector<KvScales>> Read() const {
    EXPECT_TRUE(WriteSafetensors(directory_.path() / "model.safetensors", tensors_).ok());
    const Checkpoint checkpoint = Checkpoint::Open(directory_.path()).value();
    return LoadKvScales(LoadModelConfig(directory_.path()).value(), checkpoint);
  }
  Status LoadWith(KvType kv) const {
    EXPECT_TRUE(WriteSafetensors(directory_.path() / "model.safetensors", tensors_).ok());
    ModelOptions options = kExactOptions;
    options.kv = kv;
    return LoadModel(directory_.path(), CreateTestBackend().value(), options).status();
  }
  // Removes the entry of config.json that promises scales for each layer.
  void ForgetScheme() const {
    auto config = nlohmann::json::parse(directory_.Read("config.json"));
    config.erase("quantization_config");
    directory_.Write("config.json", config.dump());
  }

  TempDirectory directory_;
  std::map<std::string, StoredTensor> tensors_;
};

TEST_F(KvScalesTest, HaveSeveralNames) {
  for (const auto& [key, value] : {std::pair("k_scale", "v_scale"),
                                   {"k_proj.k_scale", "v_proj.v_scale"},
                                   {"k_proj.output_scale", "v_proj.output_scale"}}) {
    SetUp();
    for (const int layer : {0, 1}) Rename(layer, key, value);
    const auto scales = Read();
    ASSERT_TRUE(scales.ok()) << scales.status().ToString();
    ASSERT_EQ(scales->size(), 2u);
    EXPECT_EQ((*scales)[0].key, 0.004f);
    EXPECT_EQ((*scales)[0].value, 0.006f);
    EXPECT_EQ((*scales)[1].key, 0.005f);
    EXPECT_EQ((*scales)[1].value, 0.005f);
  }
}

TEST_F(KvScalesTest, OneMayServeKeysAndValues) {
  tensors_.erase(Name(1, "k_scale"));
  tensors_.erase(Name(1, "v_scale"));
  tensors_[Name(1, "kv_scale")] = Scale(0.25f);
  tensors_[Name(1, "kv_scale")].shape = {};
  const auto scales = Read();
  ASSERT_TRUE(scales.ok()) << scales.status().ToString();
  EXPECT_EQ((*scales)[1].key, 0.25f);
  EXPECT_EQ((*scales)[1].value, 0.25f);
  EXPECT_EQ((*scales)[0].key, 0.004f);
}

TEST_F(KvScalesTest, AreOneWhereThereAreNone) {
  ForgetScheme();
  tensors_.erase(Name(1, "k_scale"));
  tensors_.erase(Name(1, "v_scale"));
  const auto scales = Read();
  ASSERT_TRUE(scales.ok()) << scales.status().ToString();
  EXPECT_EQ((*scales)[1].key, 1.f);
  EXPECT_EQ((*scales)[1].value, 1.f);
}

TEST_F(KvScalesTest, MissingOnesAreNamed) {
  auto erased = tensors_.extract(Name(1, "v_scale"));
  EXPECT_EQ(Read().status().code(), Code::kInvalidArgument);
  EXPECT_THAT(Read().status().message(), HasSubstr("no tensor " + Name(1, "v_scale")));
  tensors_.erase(Name(1, "k_scale"));
  EXPECT_EQ(Read().status().code(), Code::kInvalidArgument);
  EXPECT_THAT(Read().status().message(), HasSubstr(Name(1, "k_scale") + ", although config.json"));
  EXPECT_TRUE(LoadWith(KvType::kF32).ok());
}

TEST_F(KvScalesTest, DamagedOnesAreNamed) {
  for (const float value : {0.f, -0.5f, 1e-40f, NAN, HUGE_VALF, -HUGE_VALF}) {
    tensors_[Name(1, "v_scale")] = Scale(value);
    const Status status = LoadWith(KvType::kFp8);
    EXPECT_EQ(status.code(), Code::kDataLoss) << value;
    EXPECT_THAT(status.message(), HasSubstr(Name(1, "v_scale") + " is "));
    EXPECT_TRUE(LoadWith(KvType::kBf16).ok()) << "a cache of floats does not read them";
  }
}

TEST_F(KvScalesTest, OtherShapesAndTypesAreNamed) {
  const StoredTensor one = Scale(0.5f);
  tensors_[Name(0, "k_scale")] = {"F32", {2}, one.bytes + one.bytes};
  EXPECT_EQ(LoadWith(KvType::kFp8).code(), Code::kInvalidArgument);
  EXPECT_THAT(LoadWith(KvType::kFp8).message(), HasSubstr(Name(0, "k_scale") + " is [2] f32"));
  tensors_[Name(0, "k_scale")] = {"F32", {0}, ""};
  EXPECT_THAT(LoadWith(KvType::kFp8).message(), HasSubstr(Name(0, "k_scale")));
  tensors_[Name(0, "k_scale")] = {"I32", {1}, one.bytes};
  EXPECT_EQ(LoadWith(KvType::kFp8).code(), Code::kUnimplemented);
  EXPECT_THAT(LoadWith(KvType::kFp8).message(), HasSubstr(Name(0, "k_scale")));
}

}  // namespace
}  // namespace outrider
