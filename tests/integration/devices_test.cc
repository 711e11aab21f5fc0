// A verifier whose model is divided among several processes: the same texts, and no part outlives
// the others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/random_models.h"
#include "tests/support/services.h"
#include "tests/support/time_limit.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;
using testing::StartDrafter;
using testing::StartVerifier;
using testing::TempDir;
using testing::TestClient;
using testing::VerifierProcess;

// The processes that `pid` has started.
std::vector<pid_t> ChildrenOf(pid_t pid) {
  const std::string id = std::to_string(pid);
  std::ifstream file("/proc/" + id + "/task/" + id + "/children");
  std::vector<pid_t> children;
  for (pid_t child = 0; file >> child;) children.push_back(child);
  return children;
}

// Whether a process is gone, or has ended and waits for its parent to notice.
bool HasEnded(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string id, name, state;
  return !(file >> id >> name >> state) || state == "Z";
}

bool AwaitEnd(pid_t pid) {
  return testing::Await([pid] { return HasEnded(pid); });
}

v1::GenerateRequest Greedy(const std::string& prompt, uint32_t tokens) {
  v1::GenerateRequest request;
  request.set_text(prompt);
  request.mutable_sampling()->set_temperature(0);
  request.mutable_stop()->set_max_tokens(tokens);
  return request;
}

// A request on a thread of its own, which is joined at the end.
class Request {
 public:
  Request(TestClient& client, const v1::GenerateRequest& request)
      : client_(client), thread_([this, request] {
          outcome_ = client_.Generate(request);
          done_ = true;
        }) {}
  ~Request() { (void)Await(); }

  // Waits until the verifier runs it (or it is done).
  void AwaitStart() {
    while (client_.Status().sessions_running() == 0 && !done_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  const TestClient::Outcome& Await() {
    if (thread_.joinable()) thread_.join();
    return outcome_;
  }

 private:
  TestClient& client_;
  TestClient::Outcome outcome_;
  std::atomic<bool> done_ = false;
  std::thread thread_;
};

class Devices : public ::testing::Test {
 protected:
  Devices() {
    const CheckpointOptions options = {
        .num_kv_heads = 4, .max_position_embeddings = 4096, .eos_token_ids = {}, .noise_seed = 1};
    testing::MakeRandomModel(dir_ / "target", options);
    testing::MakeRandomDrafter(dir_ / "drafter", options);
  }

  // Starts a verifier of `devices`, after another one if there is one.
  void Start(const std::string& devices) {
    verifier_ = {};
    verifier_ = StartVerifier(
        dir_ / "target", dir_ / "verifier.log",
        {"--devices", devices, "--weights", "f32", "--policy", "fixed", "--min-draft-wait", "30"});
    ASSERT_NE(verifier_.port, 0);
    client_ = std::make_unique<TestClient>(verifier_.address());
  }
  pid_t leader() const { return verifier_.process->pid(); }

  TempDir dir_;
  VerifierProcess verifier_;
  std::unique_ptr<TestClient> client_;
};

TEST_F(Devices, DivideNoText) {
  const std::vector<std::string> prompts = {"a", "the cat", "once upon a time", "0123456789"};
  std::vector<std::string> expected;
  for (const std::string devices : {"cpu", "cpu,cpu", "cpu,cpu,cpu,cpu"}) {
    SCOPED_TRACE(devices);
    Start(devices);
    EXPECT_EQ(ChildrenOf(leader()).size(), static_cast<size_t>(devices.size() / 4));
    const auto drafter = StartDrafter(dir_ / "drafter", verifier_.address(), dir_ / "drafter.log");
    ASSERT_TRUE(client_->AwaitDrafters(1)) << drafter->Log();
    uint32_t accepted = 0;
    for (size_t i = 0; i < prompts.size(); ++i) {
      const TestClient::Outcome outcome = client_->Generate(Greedy(prompts[i], 48));
      ASSERT_TRUE(outcome.status.ok()) << outcome.status.error_message();
      if (expected.size() == i) expected.push_back(outcome.text);
      EXPECT_EQ(outcome.text, expected[i]);
      accepted += outcome.finished.speculation().accepted_tokens();
    }
    EXPECT_GT(accepted, 20u);
  }
}

TEST_F(Devices, EndTogether) {
  Start("cpu,cpu,cpu,cpu");
  const std::vector<pid_t> others = ChildrenOf(leader());
  ASSERT_THAT(others, SizeIs(3));
  Request request(*client_, Greedy("a", 4000));
  request.AwaitStart();
  kill(others[1], SIGKILL);
  EXPECT_EQ(verifier_.process->Wait(), 1);
  const std::string log = verifier_.process->Log();
  EXPECT_THAT(log, HasSubstr("the process of a device has ended; so does the service"));
  EXPECT_THAT(log, HasSubstr("rank=2 device=cpu how=\"signal 9\""));
  EXPECT_TRUE(AwaitEnd(others[0]) && AwaitEnd(others[2]));
}

TEST_F(Devices, NoneOutlivesAKilledVerifier) {
  Start("cpu,cpu");
  const std::vector<pid_t> others = ChildrenOf(leader());
  ASSERT_THAT(others, SizeIs(1));
  verifier_.process->Signal(SIGKILL);
  EXPECT_EQ(verifier_.process->Wait(), 128 + SIGKILL);
  EXPECT_TRUE(AwaitEnd(others[0]));
}

// Ctrl-C in a terminal reaches all of them, and running requests end as they do on one device.
TEST_F(Devices, DrainAfterSignalsToAll) {
  Start("cpu,cpu");
  const std::vector<pid_t> others = ChildrenOf(leader());
  ASSERT_THAT(others, SizeIs(1));
  Request request(*client_, Greedy("a", 2000));
  request.AwaitStart();
  for (const int signal : {SIGINT, SIGTERM}) kill(others[0], signal);
  verifier_.process->Signal(SIGINT);
  const TestClient::Outcome& outcome = request.Await();
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  EXPECT_EQ(outcome.tokens.size(), 2000u);
  EXPECT_EQ(verifier_.process->Wait(), 0);
  EXPECT_TRUE(AwaitEnd(others[0]));
}

}  // namespace
}  // namespace outrider
