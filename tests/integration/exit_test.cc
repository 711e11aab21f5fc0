// Programs that are told to stop at any moment end with the right exit code.
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "tests/integration/random_models.h"
#include "tests/support/services.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::Process;
using testing::ProgramPath;
using testing::StartDrafter;
using testing::StartVerifier;
using testing::TempDir;
using testing::TestClient;
using testing::VerifierProcess;

class Exit : public ::testing::Test {
 protected:
  // Calls `run` with a folder's path `times` times on four threads, and counts the exit codes.
  template <class Run>
  std::map<int, int> CodesOf(int times, const Run& run) {
    Mutex mu;
    std::map<int, int> codes;
    std::atomic<int> left = times;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        std::mt19937 random(static_cast<unsigned>(t));
        while (left-- > 0) {
          const int code = run(dir_ / std::to_string(t), random);
          MutexLock lock(mu);
          ++codes[code];
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return codes;
  }

  static void Pause(std::mt19937& random, int max_ms) {
    const auto ms = std::uniform_int_distribution<int>(0, max_ms)(random);
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
  }

  TempDir dir_;
  const std::string model_ = testing::MakeRandomModel(dir_ / "model");
};

using Codes = std::map<int, int>;

TEST_F(Exit, DraftersExitZeroAtAnyMoment) {
  const VerifierProcess verifier = StartVerifier(model_, dir_ / "verifier.log");
  ASSERT_NE(verifier.port, 0);
  EXPECT_EQ(CodesOf(600,
                    [&](const std::string& path, std::mt19937& random) {
                      const auto drafter = StartDrafter(model_, verifier.address(), path + ".log");
                      drafter->AwaitLine(" started ");
                      Pause(random, 100);
                      drafter->Signal(SIGTERM);
                      const int code = drafter->Wait();
                      if (code != 0) ADD_FAILURE() << drafter->Log();
                      return code;
                    }),
            (Codes{{0, 600}}));
}

TEST_F(Exit, DraftersWithoutAVerifierExitZero) {
  EXPECT_EQ(CodesOf(200,
                    [&](const std::string& path, std::mt19937& random) {
                      const auto drafter = StartDrafter(model_, "127.0.0.1:1", path + ".log");
                      drafter->AwaitLine(" started ");
                      Pause(random, 50);
                      drafter->Signal(SIGTERM);
                      const int code = drafter->Wait();
                      if (code != 0) ADD_FAILURE() << drafter->Log();
                      return code;
                    }),
            (Codes{{0, 200}}));
}

TEST_F(Exit, BusyVerifiersExitZero) {
  EXPECT_EQ(CodesOf(40,
                    [&](const std::string& path, std::mt19937& random) {
                      const VerifierProcess verifier =
                          StartVerifier(model_, path + ".log", {"--drain-timeout", "0"});
                      const auto drafter =
                          StartDrafter(model_, verifier.address(), path + ".drafter.log");
                      TestClient client(verifier.address());
                      grpc::ClientContext context;
                      const v1::GenerateRequest request = testing::TextRequest("abc", 400);
                      const auto reader = client.stub().Generate(&context, request);
                      Pause(random, 40);
                      verifier.process->Signal(SIGTERM);
                      v1::GenerateResponse response;
                      while (reader->Read(&response)) {
                      }
                      (void)reader->Finish();
                      const int code = verifier.process->Wait();
                      if (code != 0) ADD_FAILURE() << verifier.process->Log();
                      return code;
                    }),
            (Codes{{0, 40}}));
}

TEST_F(Exit, IsImmediateWhileLoading) {
  using Command = std::vector<std::string>;
  for (const Command& command :
       {Command{ProgramPath("outrider-verifier"), "--listen", "127.0.0.1:0", "--model", model_},
        Command{ProgramPath("outrider-drafter"), "--verifier", "127.0.0.1:1", "--model", model_}}) {
    const auto process = Process::Start(command, dir_ / "log", /*sent_before=*/SIGTERM);
    EXPECT_EQ(process->Wait(), 0) << process->Log();
    EXPECT_THAT(process->Log(), HasSubstr("stopped before the model was loaded"));
    EXPECT_THAT(process->Log(), Not(HasSubstr("model loaded")));
  }
}

TEST_F(Exit, ClientsExitZero) {
  const VerifierProcess verifier = StartVerifier(model_, dir_ / "verifier.log");
  ASSERT_NE(verifier.port, 0);
  EXPECT_EQ(CodesOf(100,
                    [&](const std::string& path, std::mt19937&) {
                      return Process::Start({ProgramPath("outrider"), "status", "--verifier",
                                             verifier.address()},
                                            path + ".log")
                          ->Wait();
                    }),
            (Codes{{0, 100}}));
}

TEST_F(Exit, StreamingClientsStopAtAnyMoment) {
  const VerifierProcess verifier = StartVerifier(model_, dir_ / "verifier.log");
  ASSERT_NE(verifier.port, 0);
  const Codes codes = CodesOf(100, [&](const std::string& path, std::mt19937& random) {
    const auto client =
        Process::Start({ProgramPath("outrider"), "generate", "--verifier", verifier.address(),
                        "--prompt", "abc", "--max-tokens", "400", "--ignore-eos"},
                       path + ".log");
    Pause(random, 30);
    client->Signal(SIGINT);
    const int code = client->Wait();
    // 0: its text was complete before the signal arrived.
    if (code != 128 + SIGINT && code != 0) ADD_FAILURE() << code << ": " << client->Log();
    return code;
  });
  EXPECT_TRUE(codes.contains(128 + SIGINT));
}

}  // namespace
}  // namespace outrider
