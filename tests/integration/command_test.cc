// The outrider command as a user sees it: what it shows of a running verifier, and its
// interruption.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/services.h"
#include "tests/support/time_limit.h"

namespace outrider {
namespace {

using testing::Await;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using testing::Process;
using testing::ProgramPath;
using testing::SmallPair;
using testing::SourcePath;
using testing::StartVerifier;
using testing::TempDir;
using testing::TestClient;
using testing::VerifierProcess;

class CommandTest : public ::testing::Test {
 protected:
  void Serve(const std::vector<std::string>& flags = {}) {
    verifier_ = StartVerifier(SmallPair("target"), dir_ / "verifier.log", flags);
    ASSERT_NE(verifier_.port, 0);
  }
  std::unique_ptr<Process> Run(const std::string& command, std::vector<std::string> flags) {
    flags.insert(flags.begin(),
                 {ProgramPath("outrider"), command, "--verifier", verifier_.address()});
    return Process::Start(flags, dir_ / (command + ".log"));
  }

  TempDir dir_;
  VerifierProcess verifier_;
};

TEST_F(CommandTest, InterruptedBenchReportsWhatItMeasured) {
  Serve();
  for (const int signal : {SIGINT, SIGTERM}) {
    const auto bench =
        Run("bench", {"--prompts", SourcePath("tests/bench/prompts.jsonl"), "--requests", "100000",
                      "--concurrency", "2", "--max-tokens", "40", "--ignore-eos", "--json"});
    // Two at a time: when a seventh has started, at least five have ended.
    TestClient client(verifier_.address());
    std::set<uint64_t> seen;
    ASSERT_TRUE(Await([&] {
      const v1::GetStatusResponse status = client.Status();
      for (const auto& session : status.sessions()) seen.insert(session.id());
      return seen.size() > 6;
    })) << bench->Log();
    bench->Signal(signal);
    EXPECT_EQ(bench->Wait(), 128 + signal);
    const auto report = nlohmann::json::parse(bench->Log());
    EXPECT_EQ(report["interrupted"], true);
    EXPECT_GT(report["requests_ok"], 0);
    EXPECT_LE(report["requests_interrupted"], 2);
    EXPECT_EQ(report["requests_failed"], 0);
    EXPECT_GE(report["completion_tokens"], 40);
    EXPECT_GT(report["tokens_per_second"], 0);
    EXPECT_GT(report["itl_ms"]["p50"], 0);
  }
}

TEST_F(CommandTest, InterruptedGenerateShowsFigures) {
  Serve();
  const auto generate =
      Run("generate", {"--prompt", "Once upon a time,\n", "--max-tokens", "480", "--ignore-eos"});
  ASSERT_TRUE(Await([&] { return !generate->Log().empty(); }));
  generate->Signal(SIGINT);
  EXPECT_EQ(generate->Wait(), 128 + SIGINT);
  EXPECT_THAT(generate->Log(),
              ContainsRegex("\n[0-9]+ tokens in [0-9.]+ s \\([0-9.]+ tokens/s, first after [0-9.]+ "
                            "s\\); [0-9]+ rounds, .*; finish: interrupted\n$"));
}

TEST_F(CommandTest, WatchedStatusRefreshesUntilCtrlC) {
  Serve();
  const auto watch = Run("status", {"--watch", "0.1"});
  const auto looks = [&] {
    const std::string log = watch->Log();
    size_t count = 0;
    for (size_t pos = 0; (pos = log.find("no drafter attached\n", pos)) != std::string::npos;
         ++pos) {
      ++count;
    }
    return count;
  };
  ASSERT_TRUE(Await([&] { return looks() >= 3; })) << watch->Log();
  // A verifier that is away is asked again.
  verifier_.process->Signal(SIGTERM);
  EXPECT_EQ(verifier_.process->Wait(), 0);
  ASSERT_NE(watch->AwaitLine("error: UNAVAILABLE"), "");
  watch->Signal(SIGINT);
  EXPECT_EQ(watch->Wait(), 0);
}

TEST_F(CommandTest, WatchedStatusEndsThoughNobodyAnswers) {
  // It takes connections and says nothing.
  const int silent = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(silent, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(silent, 4), 0);
  ASSERT_EQ(getsockname(silent, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const auto watch = Process::Start({ProgramPath("outrider"), "status", "--watch", "--verifier",
                                     "127.0.0.1:" + std::to_string(ntohs(address.sin_port))},
                                    dir_ / "watch.log");
  const int connection = accept(silent, nullptr, nullptr);
  ASSERT_GE(connection, 0);
  watch->Signal(SIGINT);
  EXPECT_EQ(watch->Wait(), 0);
  EXPECT_EQ(watch->Log(), "") << "it did not wait until the call's own time was over";
  close(connection);
  close(silent);
}

TEST_F(CommandTest, StatusNamesPromptLookupWithoutDrafter) {
  Serve({"--policy", "fixed:lookup-strong-4,lookup-4"});
  v1::GenerateRequest request =
      testing::TextRequest("The cat sat on the mat. The cat sat on the mat. The cat sat on", 300);
  request.mutable_sampling()->set_temperature(0);
  ASSERT_TRUE(TestClient(verifier_.address()).Generate(request).status.ok());
  const auto status = Run("status", {});
  EXPECT_EQ(status->Wait(), 0);
  EXPECT_THAT(status->Log(), HasSubstr("no drafter attached\n"));
  EXPECT_THAT(status->Log(), ContainsRegex("last rounds: .*prompt lookup [0-9.]+ %"));
}

TEST_F(CommandTest, SimulateIsSeparateProgram) {
  const std::string pair = dir_ / "pair.json";
  std::ofstream(pair) << R"({"vocab": 2,
      "target": {"initial": [0.25, 0.75], "transition": [[0.25, 0.75], [0.25, 0.75]]},
      "draft": {"initial": [0.75, 0.25], "transition": [[0.75, 0.25], [0.75, 0.25]]}})";
  const auto run = [this](std::vector<std::string> command, const std::vector<std::string>& flags) {
    command.insert(command.end(), flags.begin(), flags.end());
    const auto process = Process::Start(command, dir_ / "simulate.log");
    const int exit_code = process->Wait();
    return std::pair(exit_code, process->Log());
  };
  const std::vector<std::pair<std::vector<std::string>, int>> calls = {
      {{"--pair", pair, "--exact", "--json"}, 0},
      {{"--help"}, 0},
      {{"--pair", pair, "--rounds", "0"}, 1},
      {{"control", "--json"}, 2},
      {{}, 2}};
  for (const auto& [flags, exit_code] : calls) {
    const auto direct = run({ProgramPath("outrider-simulate")}, flags);
    EXPECT_EQ(direct.first, exit_code) << direct.second;
    EXPECT_EQ(run({ProgramPath("outrider"), "simulate"}, flags), direct);
  }
  EXPECT_THAT(run({ProgramPath("outrider")}, {"--help"}).second, HasSubstr("simulate"));

  const std::string alone = dir_ / "outrider";
  std::filesystem::copy_file(ProgramPath("outrider"), alone);
  const auto [exit_code, log] = run({alone, "simulate"}, {"--pair", pair});
  EXPECT_EQ(exit_code, 1);
  EXPECT_EQ(log, "error: NOT_FOUND: " + alone +
                     "-simulate is not there; install outrider-simulate beside outrider\n");
}

}  // namespace
}  // namespace outrider
