#include "common/metrics/registry.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include "common/metrics/exporter.h"
#include "common/metrics/process_metrics.h"

namespace outrider {
namespace {

TEST(MetricsRegistry, EqualNameAndLabelsShareMetric) {
  MetricsRegistry registry;
  Counter a = registry.MakeCounter("outrider_x_total", "x", {{"kind", "one"}});
  Counter b = registry.MakeCounter("outrider_x_total", "x", {{"kind", "one"}});
  Counter other = registry.MakeCounter("outrider_x_total", "x", {{"kind", "two"}});
  a.Increment();
  b.Increment(2);
  EXPECT_EQ(a.value(), 3);
  EXPECT_EQ(b.value(), 3);
  EXPECT_EQ(other.value(), 0);
}

TEST(MetricsRegistry, LabelsWhatItMakes) {
  MetricsRegistry registry(MetricLabels{{"model_name", "m"}});
  registry.MakeCounter("outrider_x_total", "x", {{"kind", "one"}});
  registry.MakeGauge("outrider_y", "y");
  registry.AddGauge("outrider_z", "z", [] { return 1; });
  const std::string body = MetricsExporter::MetricsOf(registry)().body;
  EXPECT_THAT(body, ::testing::HasSubstr("outrider_x_total{kind=\"one\",model_name=\"m\"} 0\n"));
  EXPECT_THAT(body, ::testing::HasSubstr("outrider_y{model_name=\"m\"} 0\n"));
  EXPECT_THAT(body, ::testing::HasSubstr("outrider_z 1\n"));
}

TEST(MetricsRegistry, ListsSortedFamiliesOnce) {
  MetricsRegistry registry;
  registry.MakeHistogram("outrider_c_seconds", "c", {1, 2});
  registry.MakeGauge("outrider_a", "a");
  registry.MakeCounter("outrider_b_total", "b", {{"kind", "one"}});
  registry.MakeCounter("outrider_b_total", "b", {{"kind", "two"}});
  EXPECT_THAT(registry.Names(),
              ::testing::ElementsAre("outrider_a", "outrider_b_total", "outrider_c_seconds"));
}

TEST(MetricsRegistry, ReadsValuesAtEachScrape) {
  MetricsRegistry registry;
  double value = 1;
  registry.AddGauge("outrider_z", "z", [&value] { return value; }, {{"kind", "one"}});
  registry.AddCounter("outrider_a_total", "a", [] { return 7.0; });
  EXPECT_THAT(registry.Names(), ::testing::ElementsAre("outrider_a_total", "outrider_z"));
  const auto page = MetricsExporter::MetricsOf(registry);
  EXPECT_THAT(page().body, ::testing::HasSubstr("outrider_z{kind=\"one\"} 1\n"));
  value = 2;
  EXPECT_THAT(page().body, ::testing::HasSubstr("outrider_z{kind=\"one\"} 2\n"));
  EXPECT_THAT(page().body, ::testing::HasSubstr("# TYPE outrider_a_total counter\n"));
}

// Against what the system says by other ways.
TEST(ProcessMetrics, SayWhatTheSystemSays) {
  MetricsRegistry registry;
  AddProcessMetrics(registry);
  const auto value = [page = MetricsExporter::MetricsOf(registry)](const std::string& name) {
    const std::string body = "\n" + page().body;
    const size_t pos = body.find("\n" + name + " ");
    return pos == std::string::npos ? NAN
                                    : std::strtod(body.c_str() + pos + name.size() + 2, nullptr);
  };
  EXPECT_GT(value("process_cpu_seconds_total"), 0);
  EXPECT_GT(value("process_resident_memory_bytes"), 1e6);
  EXPECT_GE(value("process_virtual_memory_bytes"), value("process_resident_memory_bytes"));
  EXPECT_EQ(value("process_max_fds"), static_cast<double>(sysconf(_SC_OPEN_MAX)));
  const double open = value("process_open_fds");
  const int one = dup(STDIN_FILENO), two = dup(STDOUT_FILENO);
  EXPECT_EQ(value("process_open_fds"), open + 2);
  close(one);
  close(two);
  struct stat self {};
  ASSERT_EQ(stat("/proc/self", &self), 0);  // made when the process started or was first looked at
  const double start = value("process_start_time_seconds");
  EXPECT_GT(start, 1.6e9);
  EXPECT_LE(start, static_cast<double>(std::time(nullptr)) + 1);
  EXPECT_LE(start, static_cast<double>(self.st_mtim.tv_sec) + 2);
}

TEST(MetricsRegistry, RegistriesShareNothing) {
  MetricsRegistry first;
  MetricsRegistry second;
  Gauge a = first.MakeGauge("outrider_a", "a");
  Gauge b = second.MakeGauge("outrider_a", "a");
  a.Set(5);
  a.Add(-2);
  EXPECT_EQ(a.value(), 3);
  EXPECT_EQ(b.value(), 0);
}

TEST(MetricsRegistry, ThreadsLoseNoCount) {
  MetricsRegistry registry;
  Counter counter = registry.MakeCounter("outrider_x_total", "x");
  Histogram histogram = registry.MakeHistogram("outrider_x_seconds", "x", {1, 2});
  constexpr int kThreads = 4;
  constexpr int kEach = 10000;
  std::vector<std::jthread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([counter, histogram]() mutable {
      for (int i = 0; i < kEach; ++i) {
        counter.Increment();
        histogram.Observe(i % 3);
      }
    });
  }
  threads.clear();
  EXPECT_EQ(counter.value(), kThreads * kEach);
  EXPECT_EQ(histogram.count(), static_cast<uint64_t>(kThreads * kEach));
}

TEST(MetricsRegistryDeathTest, OneNameWithTwoTypesDies) {
  MetricsRegistry registry;
  registry.MakeCounter("outrider_x", "x");
  EXPECT_DEATH(registry.MakeGauge("outrider_x", "x"), "clashing metric name");
}

}  // namespace
}  // namespace outrider
