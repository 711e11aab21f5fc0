// A fleet by rates beside the same fleet with every round simulated.
#include <gmock/gmock.h>

#include <cmath>

#include "common/base/log.h"
#include "simulate/fleet/rate_fit.h"
#include "tests/simulate/fleet/fleet_testing.h"

namespace outrider {
namespace {

using nlohmann::json;
using testing::ParsedFleet;
using testing::RunOf;
using testing::SmallFleet;

// Three drafters for each of `verifiers` verifiers that take eight requests.
json Fleet(int verifiers) {
  json scenario = SmallFleet();
  scenario["zones"][0] = {{"verifiers", verifiers}, {"drafters", 3 * verifiers}};
  scenario["network"]["within_ms"] = 0.2;
  scenario["verifier"]["sessions"] = 8;
  scenario["classes"][0] = {{"acceptance", 0.8},
                            {"prompt_tokens", {{"lognormal", {100, 0.5}}}},
                            {"output_tokens", {{"uniform", {50, 150}}}}};
  scenario["arrivals"] = {{"clients", 5 * verifiers}};
  return scenario;
}

class FleetRates : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    SetLogLevel(LogLevel::kError);
    Fit(Fleet(2), &of_clients_);
    json open = Fleet(2);
    open["arrivals"] = {{"rate_per_s", 1}};
    Fit(open, &of_arrivals_);
  }

  static FleetFigures ByRates(const json& scenario, FleetLayout layout = FleetLayout::kSplit) {
    return SimulateFleet(ParsedFleet(scenario), layout, 1, &RatesOf(scenario).of(layout));
  }

  static const RateTable& RatesOf(const json& scenario) {
    return scenario["arrivals"].contains("clients") ? of_clients_ : of_arrivals_;
  }

 private:
  static void Fit(const json& scenario, RateTable* table) {
    const Result<RateTable> fitted =
        FitRates(ParsedFleet(scenario),
                 std::vector{FleetLayout::kSplit, FleetLayout::kColocated, FleetLayout::kPlain},
                 {.verifiers = 2, .seconds = 30}, [](const std::string&) {});
    ASSERT_TRUE(fitted.ok()) << fitted.status().ToString();
    *table = *fitted;
  }

  static inline RateTable of_clients_;
  static inline RateTable of_arrivals_;
};

double Deviation(double value, double expected) { return std::abs(value / expected - 1); }

// The two largest deviations seen are 3 %; runs are deterministic.
TEST_F(FleetRates, AgreeWithSimulatedRounds) {
  for (const FleetLayout layout :
       {FleetLayout::kSplit, FleetLayout::kColocated, FleetLayout::kPlain}) {
    for (const json& arrivals : {json{{"clients", 20}}, json{{"rate_per_s", 4}}}) {
      json scenario = Fleet(4);
      scenario["seconds"] = 120;
      scenario["arrivals"] = arrivals;
      const FleetFigures rounds = RunOf(scenario, layout);
      const FleetFigures rates = ByRates(scenario, layout);
      const std::string where = std::string(LayoutName(layout)) + " " + arrivals.dump();
      EXPECT_LT(Deviation(rates.TokensPerSecond(), rounds.TokensPerSecond()), 0.05) << where;
      EXPECT_LT(Deviation(rates.first_token.Mean(), rounds.first_token.Mean()), 0.05) << where;
      EXPECT_LT(Deviation(rates.between_tokens.Mean(), rounds.between_tokens.Mean()), 0.05)
          << where;
      if (layout != FleetLayout::kSplit) continue;
      EXPECT_LT(Deviation(rates.plan_seconds, rounds.plan_seconds), 0.1) << where;
    }
  }
}

// What the test above would say of rates that are off by a tenth.
TEST_F(FleetRates, WrongRatesDisagree) {
  json scenario = Fleet(4);
  scenario["seconds"] = 120;
  const FleetFigures rounds = RunOf(scenario);
  LayoutRates wrong = RatesOf(scenario).of(FleetLayout::kSplit);
  for (RateColumn& column : wrong.columns) {
    for (RatePoint& point : column.points) point.pass_tokens /= 1.1;
  }
  const FleetFigures rates = SimulateFleet(ParsedFleet(scenario), FleetLayout::kSplit, 1, &wrong);
  EXPECT_GT(Deviation(rates.TokensPerSecond(), rounds.TokensPerSecond()), 0.05);
}

// With plain decoding a pass has one row for each request that decodes. So neither the prompts of
// requests that fail nor texts that are read again after a preemption may count.
TEST_F(FleetRates, FitCountsNoPromptRows) {
  json scenario = Fleet(2);
  scenario["warm_up_s"] = 0;
  scenario["events"] = {{{"kind", "kill_verifiers"}, {"at_s", 30}, {"restart_s", 10}}};
  const FleetFigures killed = RunOf(scenario, FleetLayout::kPlain);
  EXPECT_GT(killed.failed, 0);
  EXPECT_EQ(killed.passes.rows, killed.passes.decoding);

  scenario["events"] = json::array();
  scenario["verifier"]["kv_tokens"] = 1024;
  scenario["classes"][0]["output_tokens"] = 400;
  const FleetFigures preempted = RunOf(scenario, FleetLayout::kPlain);
  // Requests that wait to be read again decode at the passes meanwhile, without a row.
  EXPECT_LT(preempted.passes.rows, preempted.passes.decoding);
}

// Three passes of 256 rows and one of the rest.
TEST_F(FleetRates, ReadsPromptsInChunks) {
  json scenario = Fleet(1);
  scenario["classes"][0]["prompt_tokens"] = 1000;
  scenario["arrivals"] = {{"clients", 1}};
  const FleetFigures figures = ByRates(scenario, FleetLayout::kPlain);
  EXPECT_NEAR(figures.first_token.Mean(), 4 * 0.020 + (1000 - 4) * 0.0001, 1e-6);
}

TEST_F(FleetRates, SameSeedGivesSameFigures) {
  const FleetFigures first = ByRates(Fleet(4));
  const FleetFigures second = ByRates(Fleet(4));
  EXPECT_EQ(first.tokens, second.tokens);
  EXPECT_EQ(first.first_token.Mean(), second.first_token.Mean());
}

TEST_F(FleetRates, FullQueueRejects) {
  json scenario = Fleet(1);
  scenario["verifier"]["waiting"] = 2;
  scenario["arrivals"] = {{"rate_per_s", 20}};
  const FleetFigures figures = ByRates(scenario);
  EXPECT_GT(figures.rejected, figures.arrived / 4);
  EXPECT_EQ(figures.failed, 0);
}

TEST_F(FleetRates, RequestsFailWithTheirVerifier) {
  json scenario = Fleet(2);
  scenario["interval_s"] = 5;
  scenario["events"] = {{{"kind", "kill_verifiers"}, {"at_s", 20}, {"restart_s", 10}}};
  const FleetFigures figures = ByRates(scenario);
  // One of five may have ended in the pass that is cut off.
  EXPECT_THAT(figures.failed, ::testing::AllOf(::testing::Ge(4), ::testing::Le(5)));
  EXPECT_EQ(figures.timeline[4].verifiers, 1);
  EXPECT_EQ(figures.timeline[8].verifiers, 2);
}

TEST_F(FleetRates, RequestsGoOnWithoutDrafters) {
  json scenario = Fleet(2);
  scenario["interval_s"] = 5;
  scenario["events"] = {{{"kind", "kill_drafters"}, {"at_s", 20}, {"count", 6}, {"restart_s", 20}}};
  const FleetFigures figures = ByRates(scenario);
  EXPECT_EQ(figures.failed, 0);
  const double before = figures.timeline[3].tokens;
  EXPECT_LT(figures.timeline[6].tokens, 0.8 * before);
  EXPECT_GT(figures.timeline[10].tokens, 0.9 * before);
  EXPECT_EQ(figures.expelled, 0);
}

TEST_F(FleetRates, SlowVerifiersServeSlower) {
  json scenario = Fleet(2);
  scenario["interval_s"] = 5;
  scenario["events"] = {
      {{"kind", "slow_verifiers"}, {"at_s", 20}, {"count", 2}, {"factor", 2}, {"for_s", 20}}};
  const FleetFigures figures = ByRates(scenario);
  EXPECT_NEAR(figures.timeline[6].tokens / figures.timeline[2].tokens, 0.5, 0.1);
  EXPECT_NEAR(figures.timeline[10].tokens / figures.timeline[2].tokens, 1, 0.1);
}

TEST_F(FleetRates, UpdateOfVerifiersDrains) {
  json scenario = Fleet(4);
  scenario["seconds"] = 120;
  scenario["arrivals"] = {{"rate_per_s", 3}};
  scenario["events"] = {
      {{"kind", "update_verifiers"}, {"at_s", 30}, {"restart_s", 5}, {"drain_s", 10}}};
  const FleetFigures figures = ByRates(scenario);
  EXPECT_EQ(figures.failed, 0);
  EXPECT_EQ(figures.rejected, 0);
}

}  // namespace
}  // namespace outrider
