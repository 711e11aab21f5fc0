#include "common/model/model_fingerprint.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "common/model/acceptance_head.h"
#include "tests/support/temp_dir.h"

namespace outrider {
namespace {

namespace fs = std::filesystem;

class Fingerprints : public ::testing::Test {
 protected:
  Fingerprints() {
    Put("config.json", "{}");
    for (size_t i = 0; i < weights_.size(); ++i) weights_[i] = static_cast<char>(i * 31 + i / 256);
    Put("model.safetensors", weights_);
  }

  void Put(const std::string& name, const std::string& bytes) const {
    std::ofstream(directory_ / name, std::ios::binary | std::ios::trunc) << bytes;
  }
  uint64_t Of() const {
    const Result<uint64_t> fingerprint = ModelFingerprint(directory_);
    EXPECT_TRUE(fingerprint.ok()) << fingerprint.status().ToString();
    return fingerprint.ok() ? *fingerprint : 0;
  }

  const testing::TempDir dir_;
  const fs::path directory_ = dir_.path();
  std::string weights_ = std::string(3 << 20, '\0');
};

TEST_F(Fingerprints, FollowConfigAndWeights) {
  const uint64_t first = Of();
  EXPECT_EQ(Of(), first);
  Put("config.json", "{ }");
  EXPECT_NE(Of(), first);
  Put("config.json", "{}");
  EXPECT_EQ(Of(), first);
  weights_[1000] = static_cast<char>(weights_[1000] + 1);  // at the beginning, each byte counts
  Put("model.safetensors", weights_);
  EXPECT_NE(Of(), first);
  weights_[1000] = static_cast<char>(weights_[1000] - 1);
  // After that, 64 bytes of every 512 count: a file that differs in a whole piece of 512 is
  // different.
  const std::string piece = weights_.substr(2 << 20, 512);
  weights_.replace(2 << 20, 512, std::string(512, 'x'));
  Put("model.safetensors", weights_);
  EXPECT_NE(Of(), first);
  weights_.replace(2 << 20, 512, piece);
  Put("model.safetensors", weights_ + "x");
  EXPECT_NE(Of(), first);
  Put("model.safetensors", weights_);
  EXPECT_EQ(Of(), first);
  Put("more.safetensors", "x");
  EXPECT_NE(Of(), first);
}

TEST_F(Fingerprints, HeadChangesNothing) {
  const uint64_t first = Of();
  Put(kAcceptanceHeadFile, "a head");
  Put("tokenizer.json", "{}");
  EXPECT_EQ(Of(), first);
}

TEST_F(Fingerprints, AreOfModels) {
  fs::remove(directory_ / "model.safetensors");
  EXPECT_EQ(ModelFingerprint(directory_).status().code(), Code::kNotFound);
  EXPECT_EQ(ModelFingerprint(directory_ / "not").status().code(), Code::kNotFound);
  Put("model.safetensors", weights_);
  fs::remove(directory_ / "config.json");
  EXPECT_EQ(ModelFingerprint(directory_).status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace outrider
