// Probes and metrics while many connections are silent or never complete a request.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/random_models.h"
#include "tests/support/health_probe.h"
#include "tests/support/http_client.h"
#include "tests/support/services.h"
#include "tests/support/time_limit.h"

namespace outrider {
namespace {

using testing::Fetch;
using testing::Health;
using testing::HttpClient;
using testing::Probe;
using testing::StartVerifier;
using testing::TempDir;
using testing::VerifierProcess;

constexpr size_t kConnections = 1000;  // on each port

// Kept open until the end of the test: a port that answers only after closing them, by its own
// timeouts and a few at a time, takes minutes.
std::vector<std::unique_ptr<HttpClient>> IdleAndHalfSent(int port, const std::string& half) {
  std::vector<std::unique_ptr<HttpClient>> all;
  for (size_t i = 0; i < kConnections; ++i) {
    all.push_back(std::make_unique<HttpClient>(port));
    if (i % 2 == 0) all.back()->SendRaw(half);
  }
  return all;
}

TEST(Connections, ThousandIdleOnesDelayNoProbe) {
  rlimit files{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  if (files.rlim_max < 4 * kConnections) GTEST_SKIP() << "only " << files.rlim_max << " open files";
  // The default of most systems, which the verifier raises by itself. gRPC's listener would stop
  // for good without free file descriptors.
  files.rlim_cur = 1024;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
  TempDir dir;
  const std::string model = testing::MakeRandomModel(dir / "model");
  const VerifierProcess verifier =
      StartVerifier(model, dir / "verifier.log", {"--http", "127.0.0.1:0"});
  ASSERT_NE(verifier.port, 0);
  files.rlim_cur = files.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);

  const auto metrics = IdleAndHalfSent(verifier.metrics_port, "GET /metrics HTTP/1.1\r\nX-A: ");
  const auto grpc = IdleAndHalfSent(verifier.port, "PRI * HTTP/2.0\r\n");
  const auto http = IdleAndHalfSent(verifier.http_port, "GET /health HTTP/1.1\r\nX-A: ");
  // Several times, so that success does not depend on a single free worker.
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Fetch(verifier.metrics_port, "GET", "/metrics").code, 200);
    EXPECT_EQ(Fetch(verifier.metrics_port, "GET", "/status").code, 200);
    EXPECT_EQ(Fetch(verifier.http_port, "GET", "/health").code, 200);
    EXPECT_EQ(Probe(verifier.address(), ""), Health::kServing);
  }
}

// gRPC's own listener would stop for good.
TEST(Connections, ListenerSurvivesLackOfFiles) {
  TempDir dir;
  const std::string model = testing::MakeRandomModel(dir / "model");
  const VerifierProcess verifier = StartVerifier(model, dir / "verifier.log");
  ASSERT_NE(verifier.port, 0);
  ASSERT_EQ(Probe(verifier.address(), ""), Health::kServing);
  const std::filesystem::path descriptors =
      "/proc/" + std::to_string(verifier.process->pid()) + "/fd";
  const auto count = [&descriptors] {
    const auto all = std::filesystem::directory_iterator(descriptors);
    return static_cast<rlim_t>(std::distance(all, {}));
  };
  const rlim_t open = count();
  rlimit files{};
  ASSERT_EQ(prlimit(verifier.process->pid(), RLIMIT_NOFILE, nullptr, &files), 0);
  const rlimit few{.rlim_cur = open + 20, .rlim_max = files.rlim_max};
  ASSERT_EQ(prlimit(verifier.process->pid(), RLIMIT_NOFILE, &few, nullptr), 0);
  std::vector<std::unique_ptr<HttpClient>> all;
  for (int i = 0; i < 100; ++i) all.push_back(std::make_unique<HttpClient>(verifier.port));
  // It has accepted all that it can, and the next accept has failed.
  EXPECT_TRUE(testing::Await([&] { return count() >= open + 20; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  all.clear();
  EXPECT_EQ(Probe(verifier.address(), ""), Health::kServing);
  ASSERT_EQ(prlimit(verifier.process->pid(), RLIMIT_NOFILE, &files, nullptr), 0);
}

}  // namespace
}  // namespace outrider
