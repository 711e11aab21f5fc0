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
    WriteFile("config.json", "{}");
    for (size_t i = 0; i < weights_.size(); ++i) weights_[i] = static_cast<char>(i * 31 + i / 256);
    WriteFile("model.safetensors", weights_);
  }

  void WriteFile(const std::string& name, const std::string& bytes) const {
    std::ofstream(directory_ / name, std::ios::binary | std::ios::trunc) << bytes;
  }
  uint64_t Fingerprint() const {
    const Result<uint64_t> fingerprint = ModelFingerprint(directory_);
    EXPECT_TRUE(fingerprint.ok()) << fingerprint.status().ToString();
    return fingerprint.ok() ? *fingerprint : 0;
  }

  const testing::TempDir dir_;
  const fs::path directory_ = dir_.path();
  std::string weights_ = std::string(3 << 20, '\0');
};

TEST_F(Fingerprints, FollowConfigAndWeights) {
  const uint64_t first = Fingerprint();
  EXPECT_EQ(Fingerprint(), first);
  WriteFile("config.json", "{ }");
  EXPECT_NE(Fingerprint(), first);
  WriteFile("config.json", "{}");
  EXPECT_EQ(Fingerprint(), first);
  weights_[1000] = static_cast<char>(weights_[1000] + 1);  // at the beginning, each byte counts
  WriteFile("model.safetensors", weights_);
  EXPECT_NE(Fingerprint(), first);
  weights_[1000] = static_cast<char>(weights_[1000] - 1);
  // After that, 64 bytes of every 512 count: a file that differs in a whole piece of 512 is
  // different.
  const std::string piece = weights_.substr(2 << 20, 512);
  weights_.replace(2 << 20, 512, std::string(512, 'x'));
  WriteFile("model.safetensors", weights_);
  EXPECT_NE(Fingerprint(), first);
  weights_.replace(2 << 20, 512, piece);
  WriteFile("model.safetensors", weights_ + "x");
  EXPECT_NE(Fingerprint(), first);
  WriteFile("model.safetensors", weights_);
  EXPECT_EQ(Fingerprint(), first);
  WriteFile("more.safetensors", "x");
  EXPECT_NE(Fingerprint(), first);
}

TEST_F(Fingerprints, HeadChangesNothing) {
  const uint64_t first = Fingerprint();
  WriteFile(kAcceptanceHeadFile, "a head");
  WriteFile("tokenizer.json", "{}");
  EXPECT_EQ(Fingerprint(), first);
}

TEST_F(Fingerprints, AreOfModels) {
  fs::remove(directory_ / "model.safetensors");
  EXPECT_EQ(ModelFingerprint(directory_).status().code(), Code::kNotFound);
  EXPECT_EQ(ModelFingerprint(directory_ / "not").status().code(), Code::kNotFound);
  WriteFile("model.safetensors", weights_);
  fs::remove(directory_ / "config.json");
  EXPECT_EQ(ModelFingerprint(directory_).status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace outrider
