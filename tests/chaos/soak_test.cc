// One verifier and two drafters under mixed load for a long time, with about a third of the
// requests cancelled at a random chunk: every process's memory and KV pages stay flat.
// scripts/soak.sh runs it; it is too long for ctest.
//   OUTRIDER_SOAK_SECONDS  duration (600)
//   OUTRIDER_SOAK_SEED     seed of the load (1)
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/chaos/load.h"
#include "tests/support/metrics_reader.h"

namespace outrider::testing {
namespace {

constexpr int kSamples = 120;
// Compares the median of the last quarter of the samples with that of the second one, because
// caches fill in the first quarter. Memory: allocators keep some of what they once needed.
constexpr double kMemoryGrowth = 1.05;
constexpr double kMemorySlackMiB = 8;
// Pages: the small cache below is full by then, and stays full except for what requests need.
constexpr double kPageGrowth = 1.1;

int FromEnvironment(const char* name, int otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? std::atoi(value) : otherwise;
}

double ResidentMiB(const Process& process) {
  std::ifstream in("/proc/" + std::to_string(process.pid()) + "/statm");
  double size = 0, resident = 0;
  in >> size >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

struct Series {
  std::string name;
  double growth;
  double slack;
  std::vector<double> values;

  // The median of the given quarter, 0 to 3.
  double Median(size_t quarter) const {
    const auto part = static_cast<std::ptrdiff_t>(values.size() / 4);
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(quarter) * part;
    std::vector<double> sorted(begin, begin + part);
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
  }
};

TEST(Soak, MemoryAndPagesStayFlat) {
  const auto duration = std::chrono::seconds(FromEnvironment("OUTRIDER_SOAK_SECONDS", 600));
  TempDir dir;
  const VerifierProcess verifier =
      StartVerifier(SmallPair("target"), dir / "verifier.log", {"--kv-tokens", "4096"});
  ASSERT_NE(verifier.port, 0);
  TestClient client(verifier.address());
  std::vector<std::unique_ptr<Process>> drafters;
  std::vector<Series> series = {{"verifier MiB", kMemoryGrowth, kMemorySlackMiB, {}}};
  for (const std::string name : {"one", "two"}) {
    drafters.push_back(StartDrafter(SmallPair("drafter"), verifier.address(), dir / (name + ".log"),
                                    {"--name", name}));
    series.push_back({"drafter " + name + " MiB", kMemoryGrowth, kMemorySlackMiB, {}});
  }
  series.push_back({"KV pages in use", kPageGrowth, 0, {}});
  ASSERT_TRUE(client.AwaitDrafters(2)) << drafters[0]->Log();

  Load load(
      verifier.address(),
      {.cancel = 1.0 / 3, .seed = static_cast<uint64_t>(FromEnvironment("OUTRIDER_SOAK_SEED", 1))});
  load.Start();
  for (int i = 0; i < kSamples; ++i) {
    std::this_thread::sleep_for(std::chrono::duration_cast<Duration>(duration) / kSamples);
    series[0].values.push_back(ResidentMiB(*verifier.process));
    for (size_t d = 0; d < drafters.size(); ++d) {
      series[d + 1].values.push_back(ResidentMiB(*drafters[d]));
    }
    series.back().values.push_back(ReadMetrics(verifier.metrics_port)["outrider_kv_pages_used"]);
  }
  load.Stop();
  const LoadReport report = load.Report();
  for (const std::string& failure : report.failures) ADD_FAILURE() << failure;
  EXPECT_GT(report.cancelled, 0);
  std::printf("%d requests finished, %d cancelled midway, %zu failed\n", report.finished,
              report.cancelled, report.failures.size());
  std::printf("median of the quarters: %18s %9s %9s %9s\n", "first", "second", "third", "last");
  for (const Series& s : series) {
    std::printf("%-23s %18.1f %9.1f %9.1f %9.1f\n", s.name.c_str(), s.Median(0), s.Median(1),
                s.Median(2), s.Median(3));
    EXPECT_LE(s.Median(3), s.Median(1) * s.growth + s.slack) << s.name << " grows";
  }
}

}  // namespace
}  // namespace outrider::testing
