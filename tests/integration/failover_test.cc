// A drafter may die at any time: that may cost speed, but never a request.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "tests/support/services.h"
#include "tests/support/time_limit.h"

namespace outrider {
namespace {

using testing::Await;
using testing::SourcePath;
using testing::StartDrafter;
using testing::StartVerifier;
using testing::TempDir;
using testing::TestClient;
using testing::VerifierProcess;

constexpr int kRequests = 32;
constexpr uint32_t kLongAnswer = 440;
// A draft in every round that can have one: the adaptive policy drafts only if that is faster.
const std::vector<std::string> kDrafting = {"--no-prefix-cache", "--policy", "fixed"};

// 32 requests that record, chunk by chunk, whether it had a draft.
class Load {
 public:
  explicit Load(TestClient* client) {
    for (int i = 0; i < kRequests; ++i) {
      threads_.emplace_back([this, client, i] { RunOne(client, i); });
    }
  }
  ~Load() { Join(); }

  void Join() {
    for (std::thread& t : threads_) {
      if (t.joinable()) t.join();
    }
  }
  // Rounds so far, over all requests.
  int drafted() const { return drafted_; }
  int plain() const { return plain_; }
  int failed() const { return failed_; }
  int finished() const { return finished_; }

 private:
  void RunOne(TestClient* client, int i) {
    const v1::GenerateRequest request = testing::TextRequest(
        "Question: Tom has " + std::to_string(i + 2) + " apples and buys", kLongAnswer);
    grpc::ClientContext context;
    const auto reader = client->stub().Generate(&context, request);
    v1::GenerateResponse response;
    uint32_t tokens = 0;
    while (reader->Read(&response)) {
      if (!response.has_chunk()) continue;
      tokens += static_cast<uint32_t>(response.chunk().token_ids_size());
      ++(response.chunk().drafted() > 0 ? drafted_ : plain_);
    }
    const bool ok = reader->Finish().ok() && tokens == kLongAnswer;
    ++(ok ? finished_ : failed_);
  }

  std::atomic<int> drafted_{0};
  std::atomic<int> plain_{0};
  std::atomic<int> failed_{0};
  std::atomic<int> finished_{0};
  std::vector<std::thread> threads_;
};

// The default pair, a process each.
class Failover : public ::testing::Test {
 protected:
  void Serve(const std::vector<std::string>& flags) {
    verifier_ = StartVerifier(SourcePath("models/default/target"), dir_ / "verifier.log", flags);
    ASSERT_NE(verifier_.port, 0);
    client_ = std::make_unique<TestClient>(verifier_.address());
  }
  void AttachDrafter(const std::string& log) {
    drafter_ = StartDrafter(SourcePath("models/default/drafter"), verifier_.address(), dir_ / log);
    ASSERT_TRUE(client_->AwaitDrafters(1)) << drafter_->Log();
  }

  TempDir dir_;
  VerifierProcess verifier_;
  std::unique_ptr<TestClient> client_;
  std::unique_ptr<testing::Process> drafter_;
};

TEST_F(Failover, KilledDrafterFailsNoRequest) {
  ASSERT_NO_FATAL_FAILURE(Serve(kDrafting));
  ASSERT_NO_FATAL_FAILURE(AttachDrafter("drafter.log"));

  Load load(client_.get());
  ASSERT_TRUE(Await([&] { return load.drafted() >= 2 * kRequests; }));
  drafter_->Signal(SIGKILL);
  ASSERT_TRUE(client_->AwaitDrafters(0));
  const int plain = load.plain();
  ASSERT_TRUE(Await([&] { return load.plain() >= plain + kRequests; })) << "decoding goes on";

  const int drafted = load.drafted();
  const auto restarted = std::chrono::steady_clock::now();
  ASSERT_NO_FATAL_FAILURE(AttachDrafter("drafter2.log"));
  EXPECT_EQ(load.finished() + load.failed(), 0) << "the load was too short to see the return";
  EXPECT_TRUE(Await([&] { return load.drafted() > drafted || load.finished() == kRequests; }));
  EXPECT_GT(load.drafted(), drafted) << "speculation resumes for running sessions";
  // For information; a test does not check times.
  std::printf("speculation was back %.0f ms after the drafter's start\n",
              1e3 * Seconds(std::chrono::steady_clock::now() - restarted));

  load.Join();
  EXPECT_EQ(load.failed(), 0);
  EXPECT_EQ(load.finished(), kRequests);
}

TEST_F(Failover, StoppedDrafterCostsNoRequest) {
  ASSERT_NO_FATAL_FAILURE(Serve(kDrafting));
  ASSERT_NO_FATAL_FAILURE(AttachDrafter("drafter.log"));

  Load load(client_.get());
  ASSERT_TRUE(Await([&] { return load.drafted() >= kRequests; }));
  drafter_->Signal(SIGSTOP);
  const int plain = load.plain();
  EXPECT_TRUE(Await([&] { return load.plain() >= plain + kRequests; }));
  drafter_->Signal(SIGCONT);
  load.Join();
  EXPECT_EQ(load.failed(), 0);
}

TEST_F(Failover, ServesWithoutAnyDrafter) {
  ASSERT_NO_FATAL_FAILURE(Serve({"--no-prefix-cache"}));
  const TestClient::Outcome outcome = client_->Generate(testing::TextRequest("def add(a, b):", 30));
  EXPECT_TRUE(outcome.status.ok());
  EXPECT_EQ(outcome.tokens.size(), 30u);
  EXPECT_EQ(outcome.finished.speculation().rounds(), 30u);
}

}  // namespace
}  // namespace outrider
