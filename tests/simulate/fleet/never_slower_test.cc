// The promise `never slower` for an engine as a whole: drafters on the verifier's own device, whose
// drafts slow the steps of all sessions, and drafters elsewhere whose drafts nearly pay.
//
// Deterministic: bounds are the simulated figures with some room for other compilers' rounding.
#include <gmock/gmock.h>

#include "common/base/log.h"
#include "tests/simulate/fleet/fleet_testing.h"

namespace outrider {
namespace {

using nlohmann::json;
using testing::RunOf;

// A verifier of 25 ms + 0.05 ms a row, and a drafter.
json FleetOf(double draft_ms, double draft_row_ms, int clients) {
  return {{"seconds", 60},
          {"zones", {{{"verifiers", 1}, {"drafters", 1}}}},
          {"network", {{"within_ms", 0.25}}},
          {"verifier", {{"t_ms", 25}, {"t_row_ms", 0.05}, {"sessions", 128}}},
          {"drafter", {{"t_ms", draft_ms}, {"t_row_ms", draft_row_ms}}},
          {"classes",
           {{{"acceptance", 0.8},
             {"prompt_tokens", {{"lognormal", {200, 0.8}}}},
             {"output_tokens", {{"lognormal", {200, 0.6}}}}}}},
          {"arrivals", {{"clients", clients}}}};
}

// Tokens per second over those of plain decoding.
double SpeedupOf(const json& fleet, FleetLayout layout, uint64_t seed = 1) {
  return RunOf(fleet, layout, seed).TokensPerSecond() /
         RunOf(fleet, FleetLayout::kPlain, seed).TokensPerSecond();
}

// Of a drafter on the verifier's device, in the mean of four seeds.
double ColocatedSpeedup(double draft_ms, double draft_row_ms, int clients) {
  double sum = 0;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    sum += SpeedupOf(FleetOf(draft_ms, draft_row_ms, clients), FleetLayout::kColocated, seed);
  }
  return sum / 4;
}

class NeverSlowerTest : public ::testing::Test {
 protected:
  NeverSlowerTest() { SetLogLevel(LogLevel::kError); }
};

// Without the guard 0.77 (12 ms, 4 clients) to 0.99. If it waits for a period's end or for 20 lost
// plain rounds, 0.965 (12 ms, 64 clients).
TEST_F(NeverSlowerTest, ColocatedDraftersThatDoNotPay) {
  for (const int clients : {4, 16, 64}) {
    EXPECT_GT(ColocatedSpeedup(12, 0.3, clients), 0.975) << clients;
    if (clients == 4) continue;  // they pay
    EXPECT_GT(ColocatedSpeedup(6, 0.2, clients), 0.98) << clients;
  }
  EXPECT_GT(ColocatedSpeedup(3, 0.05, 64), 1);
}

// Without the guard 2.56, 2.00 and 1.61.
TEST_F(NeverSlowerTest, ColocatedDraftersThatPay) {
  EXPECT_GT(SpeedupOf(FleetOf(2, 0.02, 1), FleetLayout::kColocated), 2.5);
  EXPECT_GT(SpeedupOf(FleetOf(2, 0.02, 16), FleetLayout::kColocated), 0.98 * 2.00);
  EXPECT_GT(SpeedupOf(FleetOf(3, 0.05, 16), FleetLayout::kColocated), 0.98 * 1.61);
}

// Without the guard 0.958.
TEST_F(NeverSlowerTest, DraftersElsewhereThatNearlyPay) {
  json fleet = FleetOf(6, 0.2, 4 * 32);
  fleet["zones"] = {{{"verifiers", 4}, {"drafters", 4}}};
  EXPECT_GT(SpeedupOf(fleet, FleetLayout::kSplit), 0.97);
}

// Drafts take longer than a step, and not always as long: 1.08 if those that miss the second step's
// begin are given up.
TEST_F(NeverSlowerTest, DraftersFarAwayThatPay) {
  json fleet = FleetOf(2, 0.02, 4 * 64);
  fleet["zones"] = {{{"verifiers", 4}}, {{"drafters", 4}}};
  fleet["network"] = {{"between_ms", 10}};
  fleet["seconds"] = 30;
  EXPECT_GT(SpeedupOf(fleet, FleetLayout::kSplit), 1.2);
}

// The drafter is measured while all sessions decode plainly, and none is held back from it: 1.01
// with the drafter seldom measured.
TEST_F(NeverSlowerTest, OneDrafterFarAwayThatPays) {
  json fleet = FleetOf(2, 0.02, 64);
  fleet["zones"] = {{{"verifiers", 1}}, {{"drafters", 1}}};
  for (const double round_trip : {0.5, 20.}) {
    fleet["network"] = {{"between_ms", round_trip / 2}};
    EXPECT_GT(SpeedupOf(fleet, FleetLayout::kSplit), 1.1) << round_trip;
  }
}

// Up to some forty sessions, and a few. 0.99 over four seeds, 0.98 over eight, of which one has
// 0.92.
TEST_F(NeverSlowerTest, LoadThatComesAndGoes) {
  json fleet = FleetOf(6, 0.2, 1);
  fleet["seconds"] = 120;
  fleet["arrivals"] = {{"rate_per_s", 4}, {"swing", 1}, {"day_s", 30}};
  double speedups = 0;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const double plain = RunOf(fleet, FleetLayout::kPlain, seed).between_tokens.Mean();
    speedups += plain / RunOf(fleet, FleetLayout::kColocated, seed).between_tokens.Mean();
  }
  EXPECT_GT(speedups / 4, 0.97);
}

}  // namespace
}  // namespace outrider
