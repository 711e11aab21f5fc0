// outrider train-head on a file of examples, without a verifier.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/model/acceptance_head.h"
#include "common/model/config.h"
#include "common/model/model_fingerprint.h"
#include "common/training/head_data.h"
#include "tests/client/command.h"
#include "tests/support/temp_dir.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class TrainHeadCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    const Result<ModelConfig> config = LoadModelConfig(kDrafter);
    ASSERT_TRUE(config.ok()) << config.status().ToString();
    width_ = config->hidden_size;
  }

  // Writes 40 examples of 20 prompts for the draft model, with hidden states of `width` numbers.
  void WriteExamples(int width) {
    const Result<uint64_t> model = ModelFingerprint(kDrafter);
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    const auto writer = HeadDataWriter::Open(dir_ / "data", width, *model);
    ASSERT_TRUE(writer.ok()) << writer.status().ToString();
    ASSERT_TRUE((*writer)->Begin({}).ok());
    for (int i = 0; i < 40; ++i) {
      const float x = static_cast<float>(i % 7) - 4;
      const HeadExample example{.prompt = static_cast<uint64_t>(i % 20),
                                .label = static_cast<float>(i % 5) / 4,
                                .hidden = std::vector<float>(static_cast<size_t>(width), x)};
      ASSERT_TRUE((*writer)->Append({&example, 1}).ok());
    }
  }

  CommandResult Train(const std::vector<std::string>& flags = {}) const {
    std::vector<std::string> all = {"train-head", "--data", dir_ / "data", "--drafter",
                                    kDrafter,     "--out",  head(),        "--json",
                                    "--epochs",   "2",      "--depth",     "1"};
    all.insert(all.end(), flags.begin(), flags.end());
    return RunOutrider(all);
  }
  std::string head() const { return dir_ / "head"; }

  const std::string kDrafter = std::string(OUTRIDER_SOURCE_DIR) + "/models/default/drafter";
  const testing::TempDir dir_;
  int width_ = 0;
};

TEST_F(TrainHeadCommand, RefusesExamplesOfAnotherWidth) {
  for (const int width : {width_ / 2, width_ + 1}) {
    WriteExamples(width);
    const CommandResult result = Train();
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err, HasSubstr("its hidden states have " + std::to_string(width)));
    EXPECT_FALSE(std::filesystem::exists(head()));
    std::filesystem::remove(dir_ / "data");
  }
}

// As of a deeper head, with other flags.
TEST_F(TrainHeadCommand, IgnoresLargerForeignState) {
  WriteExamples(width_);
  std::ofstream(head() + ".state") << "outrider head 2|1|\n" << std::string(1 << 22, 'x');
  const CommandResult result = Train();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("epoch 1/2"));
  EXPECT_FALSE(std::filesystem::exists(head() + ".state"));
}

TEST_F(TrainHeadCommand, DivergedTrainingSavesNoHead) {
  WriteExamples(width_);
  const CommandResult result = Train({"--learning-rate", "1e30", "--batch", "4"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("training diverged; lower --learning-rate"));
  EXPECT_FALSE(std::filesystem::exists(head()));
}

// Its parameters are finite, but its logits are infinity - infinity.
TEST_F(TrainHeadCommand, SkipsOldHeadThatPredictsNan) {
  AcceptanceHead old{.width = width_, .depth = 0, .parameters = {}};
  for (int i = 0; i < width_; ++i) old.parameters.push_back(i % 2 == 0 ? 3e38f : -3e38f);
  old.parameters.push_back(0.f);
  ASSERT_TRUE(old.Save(head()).ok());
  WriteExamples(width_);
  const CommandResult result = Train();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("loss_of_mean"));
  EXPECT_THAT(result.out, Not(HasSubstr("before")));
}

}  // namespace
}  // namespace outrider
