// A verifier and three drafters under load, while drafters are killed, stopped, delayed, cut off,
// or replaced by late ones at random. Faults may cost speed, but never a request or its text, and
// speculation resumes afterwards.
//   OUTRIDER_CHAOS_SECONDS  duration of the faults (20)
//   OUTRIDER_CHAOS_SEED     seed of their schedule (1)
//   OUTRIDER_CHAOS_MAX_WAIT_MS  bound on the 99th percentile of the waits between chunks; none: it
//     is only printed, since a test that runs everywhere does not check times
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/chaos/chaos_report.h"
#include "tests/support/metrics_reader.h"

namespace outrider::testing {
namespace {

constexpr int kDrafters = 3;
// The number of draft tokens verified after the faults, and the smallest fraction of them to be
// accepted. It is determined by the pair's greedy text; if only the beginning of a draft arrives in
// time, the fraction is higher.
constexpr uint32_t kDraftTokens = 400;
constexpr double kLeastAccepted = 0.5;

double FromEnvironment(const char* name, double otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? std::atof(value) : otherwise;
}

class Chaos : public ::testing::Test {
 protected:
  void SetUp() override {
    verifier_ = StartVerifier(SmallPair("target"), dir_ / "verifier.log");
    ASSERT_NE(verifier_.port, 0);
    load_ = std::make_unique<Load>(verifier_.address(), LoadOptions{.seed = seed_});
    fleet_ = std::make_unique<Fleet>(verifier_.address(), dir_.path(), kDrafters);
    client_ = std::make_unique<TestClient>(verifier_.address());
    ASSERT_TRUE(client_->AwaitDrafters(kDrafters)) << fleet_->drafter(0).Log();
  }

  int Uniform(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  void Inject(Fault fault, bool everywhere) {
    std::map<std::string, double> before = ReadMetrics(verifier_.metrics_port);
    FaultEvent event{.fault = fault,
                     .everywhere = everywhere,
                     .begin = std::chrono::steady_clock::now(),
                     .fewest_connected = kDrafters,
                     .failed = load_->failed()};
    const int one = Uniform(0, kDrafters - 1);
    const auto each = [&](auto&& action) {
      for (int i = 0; i < kDrafters; ++i) {
        if (everywhere || i == one) action(i);
      }
    };
    each([&](int i) { fleet_->Begin(fault, i, random_); });
    Watch(Uniform(200, longest_ms_), &event);
    each([&](int i) { fleet_->End(fault, i); });
    Watch(Uniform(100, longest_ms_), &event);
    std::map<std::string, double> after = ReadMetrics(verifier_.metrics_port);
    const auto rise = [&](const std::string& name) { return after[name] - before[name]; };
    event.end = std::chrono::steady_clock::now();
    event.timeouts = rise("outrider_draft_timeouts_total");
    event.plain_rounds = rise("outrider_plain_rounds_total");
    event.rounds = rise("outrider_rounds_total");
    event.failed = load_->failed() - event.failed;
    events_.push_back(event);
  }

  // Watches the metrics for `ms`.
  void Watch(int ms, FaultEvent* event) {
    const Time until = std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
    do {
      const double connected = ReadMetrics(verifier_.metrics_port)["outrider_drafters_connected"];
      event->fewest_connected = std::min(event->fewest_connected, connected);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    } while (std::chrono::steady_clock::now() < until);
  }

  void ExpectSpeculationIsBack() {
    ASSERT_TRUE(client_->AwaitDrafters(kDrafters)) << "every drafter attaches again";
    v1::GenerateRequest request = testing::StoryRequest(64);
    request.mutable_sampling()->set_temperature(0);
    request.mutable_speculation()->set_draft_length(4);  // whether it pays or not
    // A drafter that was late is suspended, and a busy machine makes it late again: drafts are
    // counted until there are enough, whatever time that takes.
    uint32_t drafted = 0, accepted = 0;
    const Time until = std::chrono::steady_clock::now() + std::chrono::minutes(3);
    while (drafted < kDraftTokens && std::chrono::steady_clock::now() < until) {
      const TestClient::Outcome outcome = client_->Generate(request);
      ASSERT_TRUE(outcome.status.ok()) << outcome.status.error_message();
      drafted += outcome.finished.speculation().drafted_tokens();
      accepted += outcome.finished.speculation().accepted_tokens();
    }
    EXPECT_GE(drafted, kDraftTokens) << "drafts do not come back";
    EXPECT_GE(accepted, kLeastAccepted * drafted) << accepted << " of " << drafted;
  }

  const double seconds_ = FromEnvironment("OUTRIDER_CHAOS_SECONDS", 20);
  const uint64_t seed_ = static_cast<uint64_t>(FromEnvironment("OUTRIDER_CHAOS_SEED", 1));
  // Every kind of fault fits into a short run; a long one also reaches keepalive timeouts.
  const int longest_ms_ = seconds_ > 60 ? 6000 : 1500;
  std::mt19937_64 random_{seed_};
  TempDir dir_;
  VerifierProcess verifier_;
  std::unique_ptr<Load> load_;
  std::unique_ptr<Fleet> fleet_;
  std::unique_ptr<TestClient> client_;
  std::vector<FaultEvent> events_;
};

TEST_F(Chaos, FailsNoRequestKeepsTexts) {
  load_->Start();
  const Time until = std::chrono::steady_clock::now() + FromSeconds(seconds_);
  std::vector<Fault> faults(std::begin(kFaults), std::end(kFaults));
  bool once_each = false;
  while (!once_each || std::chrono::steady_clock::now() < until) {
    std::shuffle(faults.begin(), faults.end(), random_);
    for (const Fault fault : faults) {
      Inject(fault, /*everywhere=*/Uniform(0, 3) == 0);
      if (once_each && std::chrono::steady_clock::now() >= until) break;
    }
    once_each = true;
  }
  load_->Stop();
  const LoadReport report = load_->Report();
  EXPECT_EQ(report.failures.size(), 0u);
  for (const std::string& failure : report.failures) ADD_FAILURE() << failure;
  EXPECT_GT(report.finished, 0);
  ExpectSpeculationIsBack();

  const double p99_ms = 1e3 * Quantile(report.waits, 0.99);
  std::printf(
      "%s%d requests, %zu failed; waits between chunks: median %.1f ms, p99 %.1f ms, "
      "p99.9 %.1f ms, longest %.1f ms\n",
      FaultTable(events_, report.waits).c_str(), report.finished, report.failures.size(),
      1e3 * Quantile(report.waits, 0.5), p99_ms, 1e3 * Quantile(report.waits, 0.999),
      1e3 * Quantile(report.waits, 1));
  const double bound_ms = FromEnvironment("OUTRIDER_CHAOS_MAX_WAIT_MS", 0);
  if (bound_ms > 0) {
    EXPECT_LE(p99_ms, bound_ms);
  }
}

}  // namespace
}  // namespace outrider::testing
