#include "common/metrics/registry.h"

#include <gmock/gmock.h>

#include <thread>
#include <vector>

namespace outrider {
namespace {

TEST(MetricsRegistry, SameNameAndLabelsAreOneMetric) {
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

TEST(MetricsRegistry, NamesAreSortedAndListedOncePerFamily) {
  MetricsRegistry registry;
  registry.MakeHistogram("outrider_c_seconds", "c", {1, 2});
  registry.MakeGauge("outrider_a", "a");
  registry.MakeCounter("outrider_b_total", "b", {{"kind", "one"}});
  registry.MakeCounter("outrider_b_total", "b", {{"kind", "two"}});
  EXPECT_THAT(registry.Names(),
              ::testing::ElementsAre("outrider_a", "outrider_b_total", "outrider_c_seconds"));
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

TEST(MetricsRegistryDeathTest, OneNameWithTwoTypesIsABug) {
  MetricsRegistry registry;
  registry.MakeCounter("outrider_x", "x");
  EXPECT_DEATH(registry.MakeGauge("outrider_x", "x"), "clashing metric name");
}

}  // namespace
}  // namespace outrider
