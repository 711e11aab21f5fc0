// Pods of both services are replaced one by one under load, by a test that acts as the kubelet
// (tests/support/kubelet.h): no request fails, and every process ends by itself and in time.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/rpc/channel.h"
#include "tests/integration/random_models.h"
#include "tests/support/kubelet.h"
#include "tests/support/services.h"
#include "tests/support/time_limit.h"

namespace outrider {
namespace {

using testing::Endpoints;
using testing::Pod;
using testing::PodSpec;
using testing::ProgramPath;
using testing::TempDir;
using testing::TestClient;

constexpr uint32_t kStreamTokens = 300;

// Requests one after another on each of several threads, until it is stopped.
class Load {
 public:
  Load(const std::string& address, int threads)
      : client_(address, {.balanced_service = "outrider.v1.Generation"}) {
    for (int i = 0; i < threads; ++i) {
      threads_.emplace_back([this, i] {
        for (int n = 0; !stop_; ++n) RunOne(i, n);
      });
    }
  }
  ~Load() { Stop(); }
  void Stop() {
    stop_ = true;
    for (std::thread& t : threads_) {
      if (t.joinable()) t.join();
    }
  }

  int failed() const { return failed_; }
  int finished() const { return finished_; }
  std::string failure() {
    MutexLock lock(mu_);
    return failure_;
  }
  // Waits until this many more have finished.
  bool AwaitFinished(int more) {
    const int until = finished_ + more;
    return testing::Await([&] { return finished_ >= until; });
  }
  // Waits until the verifier has had drafts from `drafter`.
  bool AwaitDraftsOf(const std::string& drafter) {
    return testing::Await([&] {
      const v1::GetStatusResponse status = client_.Status();
      return std::any_of(status.drafters().begin(), status.drafters().end(),
                         [&](const auto& attached) {
                           return attached.name() == drafter && attached.drafted_tokens() > 0;
                         });
    });
  }

 private:
  void RunOne(int thread, int n) {
    const v1::GenerateRequest request = testing::TextRequest(
        "request " + std::to_string(n) + " of " + std::to_string(thread), kStreamTokens);
    grpc::ClientContext context;
    const auto reader = client_.stub().Generate(&context, request);
    v1::GenerateResponse response;
    uint32_t tokens = 0;
    while (reader->Read(&response)) {
      tokens += static_cast<uint32_t>(response.chunk().token_ids_size());
    }
    const grpc::Status status = reader->Finish();
    if (status.ok() && tokens == kStreamTokens) {
      ++finished_;
      return;
    }
    ++failed_;
    MutexLock lock(mu_);
    failure_ = status.error_message() + ", after " + std::to_string(tokens) + " tokens";
  }

  TestClient client_;
  std::atomic<bool> stop_ = false;
  std::atomic<int> failed_ = 0;
  std::atomic<int> finished_ = 0;
  Mutex mu_;
  std::string failure_ OUTRIDER_GUARDED_BY(mu_);
  std::vector<std::thread> threads_;
};

class RollingRestart : public ::testing::Test {
 protected:
  std::unique_ptr<Pod> StartVerifier(const std::string& name, const std::string& listen) {
    auto pod = std::make_unique<Pod>(
        PodSpec{.name = name,
                .argv = {ProgramPath("outrider-verifier"), "--model", target_, "--listen", listen,
                         "--metrics", "", "--policy", "fixed", "--drain-timeout", "10"},
                .log_path = LogPath(name),
                .readiness = "outrider.v1.Generation"},
        &verifiers_);
    EXPECT_TRUE(pod->AwaitReady()) << pod->Log();
    return pod;
  }

  // Its readiness requires a verifier, so it is not awaited here.
  std::unique_ptr<Pod> StartDrafter(const std::string& name) {
    return std::make_unique<Pod>(
        PodSpec{.name = name,
                .argv = {ProgramPath("outrider-drafter"), "--model", drafter_, "--verifier",
                         "file:" + verifiers_.path(), "--listen", "127.0.0.1:0", "--metrics", "",
                         "--name", name},
                .log_path = LogPath(name),
                .ready_line = " started ",
                .ending_line = " stopping",
                .readiness = "outrider.v1.Drafting",
                .pre_stop = std::chrono::milliseconds(0),
                .grace = std::chrono::seconds(10)},
        nullptr);
  }

  static void ExpectGoodEnd(Pod& pod, const std::string& name) {
    const Pod::End end = pod.Terminate();
    EXPECT_TRUE(end.in_time) << name << " had to be killed: " << pod.Log();
    EXPECT_EQ(end.exit_code, 0) << name << ": " << pod.Log();
    EXPECT_FALSE(end.ready_while_ending) << name;
    EXPECT_FALSE(end.ever_dead) << name << " would have been restarted while it drained";
  }

  std::string LogPath(const std::string& name) {
    return dir_ / (name + "." + std::to_string(++starts_) + ".log");
  }

  TempDir dir_;
  const std::string target_ = testing::MakeRandomModel(dir_ / "target");
  const std::string drafter_ = testing::MakeRandomDrafter(dir_ / "drafter");
  Endpoints verifiers_{dir_ / "verifiers"};
  int starts_ = 0;
};

TEST_F(RollingRestart, DraftersFailNoRequest) {
  const auto verifier = StartVerifier("verifier", "127.0.0.1:0");
  std::vector<std::unique_ptr<Pod>> drafters;
  for (const std::string name : {"drafter-0", "drafter-1"}) {
    drafters.push_back(StartDrafter(name));
    ASSERT_TRUE(drafters.back()->AwaitReady()) << drafters.back()->Log();
  }
  Load load("ipv4:" + verifier->address(), 4);
  ASSERT_TRUE(load.AwaitFinished(4)) << load.failure();
  // As a Deployment with a surge: first one more, then one less.
  for (auto& drafter : drafters) {
    const std::string name = "next-" + std::to_string(&drafter - drafters.data());
    auto next = StartDrafter(name);
    ASSERT_TRUE(next->AwaitReady()) << next->Log();
    ASSERT_TRUE(load.AwaitFinished(2)) << load.failure();
    ExpectGoodEnd(*drafter, "drafter");
    drafter = std::move(next);
    EXPECT_TRUE(load.AwaitDraftsOf(name)) << load.failure();
  }
  load.Stop();
  EXPECT_EQ(load.failed(), 0) << load.failure();
}

TEST_F(RollingRestart, TwoVerifiersFailNoRequest) {
  std::vector<std::unique_ptr<Pod>> pods;
  for (const std::string name : {"verifier-0", "verifier-1"}) {
    pods.push_back(StartVerifier(name, "127.0.0.1:0"));
  }
  const auto drafter = StartDrafter("drafter");
  ASSERT_TRUE(drafter->AwaitReady()) << drafter->Log();
  // The client's list never changes: harder than in a cluster, where names are looked up again.
  Load load("ipv4:" + pods[0]->address() + "," + pods[1]->address(), 4);
  ASSERT_TRUE(load.AwaitFinished(8)) << load.failure();
  // Like a StatefulSet: first one less, then the same one again.
  for (const size_t i : {1u, 0u}) {
    const std::string name = "verifier-" + std::to_string(i);
    const std::string address = pods[i]->address();
    ExpectGoodEnd(*pods[i], name);
    pods[i].reset();
    ASSERT_TRUE(load.AwaitFinished(4)) << load.failure() << ": the other one serves";
    pods[i] = StartVerifier(name, address);
    ASSERT_EQ(pods[i]->address(), address);
    // The drafter reconnects to it, and the client's requests reach it again.
    TestClient back(address);
    ASSERT_TRUE(back.AwaitDrafters(1)) << drafter->Log();
    EXPECT_TRUE(testing::Await([&] { return back.Status().drafters(0).drafted_tokens() > 0; }))
        << name;
  }
  load.Stop();
  EXPECT_EQ(load.failed(), 0) << load.failure();
  ExpectGoodEnd(*drafter, "drafter");
}

}  // namespace
}  // namespace outrider
