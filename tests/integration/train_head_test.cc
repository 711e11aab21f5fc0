// outrider train-head on a running pair: the drafter writes examples while serving, the command
// trains on them, and a restarted drafter has the head.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/services.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::Process;
using testing::ProgramPath;
using testing::SourcePath;
using testing::StartDrafter;
using testing::StartVerifier;
using testing::TempDir;
using testing::TestClient;
using testing::VerifierProcess;

std::string Read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class TrainHead : public ::testing::Test {
 protected:
  void SetUp() override {
    verifier_ = StartVerifier(SourcePath("models/default/target"), dir_ / "verifier.log",
                              {"--min-draft-wait", "30"});
    ASSERT_NE(verifier_.port, 0);
    client_ = std::make_unique<TestClient>(verifier_.address());
  }

  void StartCollecting(const std::vector<std::string>& flags = {}) {
    std::vector<std::string> all = {"--collect-head-data", dir_ / "data"};
    all.insert(all.end(), flags.begin(), flags.end());
    drafter_ = StartDrafter(SourcePath("models/default/drafter"), verifier_.address(),
                            dir_ / "drafter.log", all);
    ASSERT_NE(drafter_->AwaitLine(" attached "), "") << drafter_->Log();
  }

  std::unique_ptr<Process> Train(const std::string& head, const std::vector<std::string>& flags) {
    std::vector<std::string> argv = {ProgramPath("outrider"),
                                     "train-head",
                                     "--data",
                                     dir_ / "data",
                                     "--drafter",
                                     SourcePath("models/default/drafter"),
                                     "--out",
                                     dir_ / head,
                                     "--json"};
    argv.insert(argv.end(), flags.begin(), flags.end());
    return Process::Start(argv, dir_ / (head + ".log"));
  }
  std::vector<std::string> CollectFlags(const std::string& examples) {
    return {"--verifier", verifier_.address(),
            "--prompts",  std::string(OUTRIDER_SOURCE_DIR) + "/tests/bench/prompts.jsonl",
            "--examples", examples,
            "--seed",     "5"};
  }

  TempDir dir_;
  VerifierProcess verifier_;
  std::unique_ptr<TestClient> client_;
  std::unique_ptr<Process> drafter_;
};

TEST_F(TrainHead, TrainedHeadBeatsTheMean) {
  StartCollecting();
  std::vector<std::string> flags = CollectFlags("16000");
  // Few epochs, since with more of them so few texts would be memorised.
  flags.insert(flags.end(),
               {"--learning-rate", "0.003", "--rejection-weight", "1", "--epochs", "3"});
  const auto train = Train("head", flags);
  ASSERT_EQ(train->Wait(std::chrono::seconds(240)), 0) << train->Log();
  const std::string log = train->Log();
  const auto report = nlohmann::json::parse(log.substr(log.find('{')), nullptr, false);
  ASSERT_TRUE(report.is_object()) << log;
  EXPECT_GE(report["examples"].get<int>() + report["held_out_examples"].get<int>(), 16000);
  EXPECT_GT(report["held_out_examples"].get<int>(), 800);
  EXPECT_GT(report["auc"].get<double>(), 0.55) << log;
  // Texts differ each time: the loss is about 0.04 lower, give or take 0.01.
  EXPECT_LT(report["loss"].get<double>(), report["loss_of_mean"].get<double>()) << log;
  EXPECT_FALSE(std::filesystem::exists(dir_ / "head.state"));

  // A drafter without the collecting flag, with the head.
  drafter_.reset();
  drafter_ = StartDrafter(SourcePath("models/default/drafter"), verifier_.address(),
                          dir_ / "again.log", {"--acceptance-head", dir_ / "head"});
  ASSERT_NE(drafter_->AwaitLine(" attached "), "") << drafter_->Log();
  EXPECT_THAT(drafter_->Log(), HasSubstr("acceptance head loaded"));
  EXPECT_TRUE(client_->Status().drafters(0).acceptance_head());
  const std::string data = Read(dir_ / "data");
  v1::GenerateRequest request = testing::StoryRequest(100);
  request.mutable_speculation()->set_draft_length(8);
  request.mutable_speculation()->mutable_stop()->set_kind(v1::StopRule::KIND_HEAD);
  request.mutable_speculation()->mutable_stop()->set_threshold(0.5f);
  const TestClient::Outcome outcome = client_->Generate(request);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  const v1::SpeculationStats& stats = outcome.finished.speculation();
  EXPECT_GT(stats.accepted_tokens(), 0u);
  EXPECT_LT(stats.drafted_tokens(), 7 * stats.drafted_rounds());  // it stops drafts
  EXPECT_EQ(Read(dir_ / "data"), data);
}

TEST_F(TrainHead, KilledTrainingResumesToSameHead) {
  StartCollecting();
  std::vector<std::string> flags = CollectFlags("2000");
  flags.insert(flags.end(), {"--epochs", "1"});
  const auto collect = Train("collected", flags);
  ASSERT_EQ(collect->Wait(std::chrono::seconds(240)), 0) << collect->Log();

  const std::vector<std::string> training = {"--epochs", "60"};
  const auto whole = Train("whole", training);
  ASSERT_EQ(whole->Wait(std::chrono::seconds(240)), 0) << whole->Log();

  auto killed = Train("killed", training);
  ASSERT_NE(killed->AwaitLine("epoch 3/60"), "") << killed->Log();
  killed->Signal(SIGKILL);
  ASSERT_EQ(killed->Wait(), 128 + SIGKILL) << killed->Log();
  ASSERT_FALSE(std::filesystem::exists(dir_ / "killed"));
  // Meanwhile the file has grown: the training still uses the examples with which it began.
  const auto more = Train("more", CollectFlags("2500"));
  ASSERT_EQ(more->Wait(std::chrono::seconds(240)), 0) << more->Log();
  const auto resumed = Train("killed", training);
  ASSERT_EQ(resumed->Wait(std::chrono::seconds(240)), 0) << resumed->Log();
  EXPECT_THAT(resumed->Log(), HasSubstr("continues after epoch"));
  EXPECT_THAT(resumed->Log(), Not(HasSubstr("epoch 1/60")));
  EXPECT_EQ(Read(dir_ / "killed"), Read(dir_ / "whole"));
}

TEST_F(TrainHead, NothingElseIsGoneOnWith) {
  StartCollecting();
  std::vector<std::string> flags = CollectFlags("1500");
  flags.insert(flags.end(), {"--epochs", "300"});
  const auto interrupt = [&] {
    const auto train = Train("head", flags);
    ASSERT_NE(train->AwaitLine("epoch 2/300"), "") << train->Log();
    EXPECT_THAT(train->Log(), Not(HasSubstr("continues after")));
    train->Signal(SIGKILL);
    train->Wait();
  };
  interrupt();
  flags.insert(flags.end(), {"--rejection-weight", "3"});  // other options
  interrupt();
  // Other examples in a file with the same name.
  drafter_.reset();
  std::filesystem::remove(dir_ / "data");
  StartCollecting({"--name", "again"});
  interrupt();
}

TEST_F(TrainHead, SaysWhatIsMissing) {
  const auto error = [this](const std::vector<std::string>& flags) {
    const auto train = Train("none", flags);
    EXPECT_EQ(train->Wait(std::chrono::seconds(120)), 1) << train->Log();
    return train->Log();
  };
  EXPECT_THAT(error(CollectFlags("1000")), HasSubstr("--collect-head-data"));  // no file
  std::ofstream(dir_ / "data").close();
  EXPECT_THAT(error(CollectFlags("1000")), HasSubstr("no drafter is attached"));
  drafter_ =
      StartDrafter(SourcePath("models/default/drafter"), verifier_.address(), dir_ / "plain.log");
  ASSERT_NE(drafter_->AwaitLine(" attached "), "") << drafter_->Log();
  EXPECT_THAT(error(CollectFlags("1000")), HasSubstr("does not grow"));
  EXPECT_THAT(error({}), HasSubstr("no example has come yet"));
  std::ofstream(dir_ / "data") << "something else";
  EXPECT_THAT(error({}), HasSubstr("no file of head data"));
  // A drafter does not write to such a file either.
  const auto refused = StartDrafter(SourcePath("models/default/drafter"), verifier_.address(),
                                    dir_ / "refused.log", {"--collect-head-data", dir_ / "data"});
  EXPECT_EQ(refused->Wait(), 1);
  EXPECT_THAT(refused->Log(), HasSubstr("no file of head data"));
}

}  // namespace
}  // namespace outrider
