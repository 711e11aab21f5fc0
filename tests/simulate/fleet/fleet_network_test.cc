#include "simulate/fleet/fleet_network.h"

#include <gtest/gtest.h>

#include "simulate/fleet/event_queue.h"

namespace outrider {
namespace {

double Ms(Time at) { return 1e3 * Seconds(at - Time{}); }

TEST(FleetNetwork, DelayGrowsWithTheZonesBetween) {
  FleetNetwork network(
      {.within_ms = Distribution::Constant(1), .between_ms = Distribution::Constant(10)}, 1);
  Time last{};
  EXPECT_NEAR(Ms(network.Arrival(2, 2, Time{}, &last)), 1, 1e-3);
  EXPECT_NEAR(Ms(network.Arrival(0, 3, Time{}, &last)), 31, 1e-3);
}

TEST(FleetNetwork, MessagesOfConnectionStayInOrder) {
  const auto exponential = Distribution::Parse(
      ParseJsonObject(R"({"d": {"exponential": 5}})", "test").value()["d"], 0, 100);
  FleetNetwork network({.within_ms = exponential.value(), .loss = 0.1}, 1);
  Time last{}, before{};
  for (int i = 0; i < 1000; ++i) {
    const Time at = network.Arrival(0, 0, Time{} + std::chrono::milliseconds(i), &last);
    EXPECT_GE(at, before);
    before = at;
  }
}

// 1000 +- 30 of 10,000 messages are lost at least once: five deviations.
TEST(FleetNetwork, LossCostsRetransmissions) {
  FleetNetwork network({.within_ms = Distribution::Constant(1), .loss = 0.1, .retransmit_ms = 200},
                       3);
  int late = 0;
  for (int i = 0; i < 10000; ++i) {
    Time last{};
    late += Ms(network.Arrival(0, 0, Time{}, &last)) > 200 ? 1 : 0;
  }
  EXPECT_NEAR(late, 1000, 150);
}

TEST(FleetNetwork, PartitionHoldsWhatCrossesIt) {
  FleetNetwork network(
      {.within_ms = Distribution::Constant(1), .between_ms = Distribution::Constant(1)}, 1);
  network.Partition(1, 2, Time{} + std::chrono::seconds(1), Time{} + std::chrono::seconds(3));
  const Time during = Time{} + std::chrono::seconds(2);
  Time last{};
  EXPECT_NEAR(Ms(network.Arrival(0, 1, during, &last)), 2002, 1e-3);
  EXPECT_NEAR(Ms(network.Arrival(3, 0, during, &last)), 3004, 1e-3);
}

}  // namespace
}  // namespace outrider
