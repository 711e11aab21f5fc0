#include "simulate/fleet/fleet.h"

#include <gmock/gmock.h>

#include <cmath>
#include <string>
#include <vector>

#include "client/plan.h"
#include "common/base/log.h"
#include "tests/simulate/fleet/fleet_testing.h"

namespace outrider {
namespace {

using nlohmann::json;
using testing::ParsedFleet;
using testing::RunOf;
using testing::SmallFleet;

class FleetTest : public ::testing::Test {
 protected:
  FleetTest() { SetLogLevel(LogLevel::kError); }
};

std::string JsonOf(const json& scenario, uint64_t seed) {
  return FleetJson(
      {.layouts = {{FleetLayout::kSplit, RunOf(scenario, FleetLayout::kSplit, seed)}}});
}

// Several verifiers, zones, losses and failures.
json BusyFleet() {
  json scenario = SmallFleet();
  scenario["seconds"] = 20;
  scenario["zones"] = {{{"verifiers", 2}, {"drafters", 2}}, {{"verifiers", 1}, {"drafters", 2}}};
  scenario["network"] = {{"within_ms", {{"exponential", 1}}}, {"between_ms", 2}, {"loss", 0.01}};
  scenario["policy"] = "adaptive";
  scenario["classes"][0]["output_tokens"] = {{"lognormal", {100, 0.7}}};
  scenario["arrivals"] = {{"rate_per_s", 6}};
  scenario["events"] = {{{"kind", "kill_drafters"}, {"at_s", 6}, {"restart_s", 2}},
                        {{"kind", "kill_verifiers"}, {"at_s", 9}, {"restart_s", 2}},
                        {{"kind", "slow_drafters"}, {"at_s", 12}, {"factor", 5}, {"for_s", 3}}};
  return scenario;
}

TEST_F(FleetTest, SameSeedGivesSameFigures) {
  EXPECT_EQ(JsonOf(BusyFleet(), 7), JsonOf(BusyFleet(), 7));
  EXPECT_NE(JsonOf(BusyFleet(), 7), JsonOf(BusyFleet(), 8));
}

TEST_F(FleetTest, NoDrafterBreaksTheProtocol) {
  const FleetFigures figures = RunOf(BusyFleet());
  EXPECT_EQ(figures.expelled, 0);
  EXPECT_GT(figures.draft_tokens, 0);
}

// `outrider plan` computes the same, without prompts, ends of requests and the split's waves: the
// deviations that the bounds allow are deterministic.
TEST_F(FleetTest, AgreesWithPlansFormulas) {
  const PlanOptions options{.draft_ms = 2,
                            .draft_row_ms = 0.05,
                            .verify_ms = 20,
                            .verify_row_ms = 0.1,
                            .rtt_ms = 6,
                            .acceptance = 0.7,
                            .draft_length = 4,
                            .sessions = 16};
  const Result<PlanReport> plan = MakePlan(options);
  ASSERT_TRUE(plan.ok());
  for (const int clients : {1, 16}) {
    json scenario = SmallFleet();
    scenario["network"]["within_ms"] = 3;
    scenario["arrivals"]["clients"] = clients;
    for (const PlannedLayout& planned : plan->layouts) {
      if (planned.name == "ahead") continue;
      const FleetLayout layout = planned.name == "plain"       ? FleetLayout::kPlain
                                 : planned.name == "colocated" ? FleetLayout::kColocated
                                                               : FleetLayout::kSplit;
      const double expected = clients == 1 ? planned.one_request : planned.full_batch;
      EXPECT_NEAR(RunOf(scenario, layout).TokensPerSecond() / expected, 1, 0.08)
          << planned.name << ", " << clients << " clients";
    }
  }
}

// Little's law: requests in the system = rate * time in the system. Of plain requests that never
// share a step with a prompt the time is tokens * step.
TEST_F(FleetTest, OpenArrivalsObeyLittlesLaw) {
  json scenario = SmallFleet();
  scenario["seconds"] = 400;
  scenario["verifier"]["t_row_ms"] = 0;
  scenario["classes"][0]["output_tokens"] = 50;
  scenario["arrivals"] = {{"rate_per_s", 3}};
  const FleetFigures figures = RunOf(scenario, FleetLayout::kPlain);
  // Steps of 20 ms whatever is in them: a request takes 50 of them after the one under way.
  EXPECT_NEAR(figures.first_token.Mean(), 0.030, 0.002);
  EXPECT_NEAR(figures.between_tokens.Mean(), 0.020, 1e-6);
  // Busy unless no request is there: 1 - exp(-3 * 1.01), M/G/infinity. The deviation of the share
  // over 333 s of about a second each is below 0.02.
  EXPECT_NEAR(figures.verifier_busy, 1 - std::exp(-3 * 1.01), 0.08);
  EXPECT_EQ(figures.rejected, 0);
}

TEST_F(FleetTest, ArrivalsSwingWithTheDay) {
  json scenario = SmallFleet();
  scenario["seconds"] = 200;
  scenario["interval_s"] = 50;
  scenario["warm_up_s"] = 0;
  scenario["classes"][0]["output_tokens"] = 2;
  scenario["arrivals"] = {{"rate_per_s", 10}, {"swing", 0.9}, {"day_s", 200}};
  const FleetFigures figures = RunOf(scenario, FleetLayout::kPlain);
  // The first half of a sine above the second: 10 * 100 * (1 +- 0.9 * 2 / pi), five deviations.
  const double day = static_cast<double>(figures.timeline[0].arrived + figures.timeline[1].arrived);
  const double night =
      static_cast<double>(figures.timeline[2].arrived + figures.timeline[3].arrived);
  EXPECT_NEAR(day, 1573, 5 * std::sqrt(1573.));
  EXPECT_NEAR(night, 427, 5 * std::sqrt(427.));
}

TEST_F(FleetTest, FullQueueRejects) {
  json scenario = SmallFleet();
  scenario["verifier"]["sessions"] = 1;
  scenario["verifier"]["waiting"] = 2;
  scenario["arrivals"] = {{"rate_per_s", 2}};
  const FleetFigures figures = RunOf(scenario, FleetLayout::kPlain);
  EXPECT_GT(figures.rejected, figures.arrived / 2);
  EXPECT_EQ(figures.failed, 0);
}

TEST_F(FleetTest, RequestsSurviveTheirDrafter) {
  json scenario = SmallFleet();
  scenario["interval_s"] = 5;
  scenario["arrivals"]["clients"] = 4;
  scenario["events"] = {{{"kind", "kill_drafters"}, {"at_s", 20}, {"restart_s", 20}}};
  const FleetFigures figures = RunOf(scenario);
  EXPECT_EQ(figures.failed, 0);
  EXPECT_EQ(figures.rejected, 0);
  const double before = figures.timeline[3].tokens;
  EXPECT_LT(figures.timeline[6].tokens, 0.85 * before);
  EXPECT_GT(figures.timeline[10].tokens, 0.9 * before) << "the successor drafts";
  EXPECT_EQ(figures.timeline[6].drafters, 0);
}

TEST_F(FleetTest, RequestsFailWithTheirVerifier) {
  json scenario = SmallFleet();
  scenario["zones"][0]["verifiers"] = 2;
  scenario["interval_s"] = 5;
  scenario["arrivals"]["clients"] = 8;
  scenario["events"] = {{{"kind", "kill_verifiers"}, {"at_s", 20}, {"restart_s", 10}}};
  const FleetFigures figures = RunOf(scenario);
  EXPECT_EQ(figures.failed, 4);
  EXPECT_EQ(figures.timeline[4].verifiers, 1);
  EXPECT_EQ(figures.timeline[8].verifiers, 2);
}

TEST_F(FleetTest, UpdatesLeaveDeadMachinesDead) {
  json scenario = SmallFleet();
  scenario["zones"][0]["verifiers"] = 2;
  scenario["zones"][0]["drafters"] = 2;
  scenario["interval_s"] = 5;
  const json update = {{"at_s", 20}, {"restart_s", 2}, {"drain_s", 5}};
  json verifiers = update, drafters = update;
  verifiers["kind"] = "update_verifiers";
  drafters["kind"] = "update_drafters";
  scenario["events"] = {{{"kind", "kill_verifiers"}, {"at_s", 10}},
                        {{"kind", "kill_drafters"}, {"at_s", 10}},
                        verifiers,
                        drafters};
  const FleetFigures figures = RunOf(scenario);
  EXPECT_EQ(figures.timeline.back().verifiers, 1);
  EXPECT_EQ(figures.timeline.back().drafters, 1);
}

TEST_F(FleetTest, RestartAfterUpdateAddsNoMachine) {
  json scenario = SmallFleet();
  scenario["interval_s"] = 5;
  scenario["events"] = {{{"kind", "kill_drafters"}, {"at_s", 10}, {"restart_s", 30}},
                        {{"kind", "update_drafters"}, {"at_s", 20}, {"restart_s", 2}}};
  const FleetFigures figures = RunOf(scenario);
  EXPECT_EQ(figures.timeline[5].drafters, 0) << "the update does not restart it";
  EXPECT_EQ(figures.timeline.back().drafters, 1);
}

// Nine intervals, of which the last is 4 s long.
TEST_F(FleetTest, LastIntervalMayBeShort) {
  json scenario = SmallFleet();
  scenario["interval_s"] = 7;
  const json report = json::parse(JsonOf(scenario, 1));
  const json& timeline = report["layouts"][0]["timeline"];
  ASSERT_EQ(timeline.size(), 9u);
  const double before = timeline[7]["tokens_per_second"];
  EXPECT_NEAR(timeline[8]["tokens_per_second"].get<double>() / before, 1, 0.2);
}

TEST_F(FleetTest, PartitionCostsDraftsButNoRequest) {
  json scenario = SmallFleet();
  scenario["zones"] = {{{"verifiers", 1}}, {{"drafters", 1}}};
  scenario["network"]["between_ms"] = 1;
  scenario["interval_s"] = 5;
  for (const double seconds : {10, 40}) {  // shorter and longer than keepalive
    scenario["seconds"] = 100;
    scenario["events"] = {
        {{"kind", "partition"}, {"at_s", 20}, {"for_s", seconds}, {"zones", {0, 1}}}};
    const FleetFigures figures = RunOf(scenario);
    EXPECT_EQ(figures.failed, 0);
    const double before = figures.timeline[3].tokens;
    EXPECT_LT(figures.timeline[5].tokens, 0.7 * before);
    EXPECT_GT(figures.timeline[5].tokens, 0.3 * before) << "it goes on plainly";
    EXPECT_GT(figures.timeline[18].tokens, 0.9 * before);
  }
}

TEST_F(FleetTest, UpdateOfVerifiersDrains) {
  json scenario = SmallFleet();
  scenario["zones"][0]["verifiers"] = 3;
  scenario["seconds"] = 120;
  scenario["arrivals"] = {{"rate_per_s", 1}};
  scenario["classes"][0]["output_tokens"] = 100;
  scenario["events"] = {
      {{"kind", "update_verifiers"}, {"at_s", 30}, {"restart_s", 5}, {"drain_s", 10}}};
  const FleetFigures figures = RunOf(scenario);
  EXPECT_EQ(figures.failed, 0) << "requests take some 3 s";
  EXPECT_EQ(figures.rejected, 0);
}

TEST_F(FleetTest, SurgeUpdateKeepsEverySlotServed) {
  json scenario = SmallFleet();
  scenario["zones"][0] = {{"verifiers", 2}, {"drafters", 3}};
  scenario["interval_s"] = 1;
  scenario["arrivals"]["clients"] = 4;
  scenario["events"] = {
      {{"kind", "update_drafters"}, {"at_s", 20}, {"restart_s", 3}, {"surge", true}},
      {{"kind", "update_verifiers"},
       {"at_s", 35},
       {"restart_s", 3},
       {"drain_s", 6},
       {"surge", true}}};
  const FleetFigures figures = RunOf(scenario);
  ASSERT_GT(figures.timeline.size(), 50u);
  for (const FleetInterval& interval : figures.timeline) {
    EXPECT_EQ(interval.verifiers, 2);
    EXPECT_EQ(interval.drafters, 3);
  }
}

// Two verifiers with sixteen sessions.
json FleetToScale(int seconds) {
  json scenario = SmallFleet();
  scenario["seconds"] = seconds;
  scenario["interval_s"] = 5;
  scenario["arrivals"]["clients"] = 16;
  scenario["zones"][0]["verifiers"] = 2;
  return scenario;
}

TEST_F(FleetTest, AutoscalerFollowsLoadAfterLag) {
  json scenario = FleetToScale(120);
  scenario["drafter"]["t_ms"] = 8;
  scenario["autoscaler"] = {
      {"every_s", 5}, {"lag_s", 30}, {"drafters", {{"least", 1}, {"most", 4}, {"busy", 0.4}}}};
  const FleetFigures figures = RunOf(scenario);
  EXPECT_EQ(figures.timeline[5].drafters, 1);
  EXPECT_GT(figures.timeline.back().drafters, 1);
  EXPECT_LE(figures.timeline.back().drafters, 4);
}

// Sixteen sessions want a draft of some 10 ms in each round of 30: some five plans at once. A
// drafter that works ahead is busy all the time, however many there are.
TEST_F(FleetTest, AutoscalerByPlansIgnoresLookahead) {
  json scenario = FleetToScale(30);
  scenario["drafter"]["ahead_tokens"] = 32;
  scenario["autoscaler"] = {
      {"every_s", 5}, {"lag_s", 5}, {"drafters", {{"least", 1}, {"most", 6}}}};
  const auto at_end = [&](const char* target, double value) {
    json scaled = scenario;
    scaled["autoscaler"]["drafters"][target] = value;
    return RunOf(scaled).timeline.back().drafters;
  };
  EXPECT_EQ(at_end("busy", 0.3), 6);
  EXPECT_THAT(at_end("plans", 1.5), ::testing::AllOf(::testing::Ge(2), ::testing::Le(5)));
}

// Requests come at up to four a second around second 15, and at none around second 45. A drafter on
// its way is cancelled before others end, so one is always there.
TEST_F(FleetTest, AutoscalerKeepsMostWantedLately) {
  json scenario = SmallFleet();
  scenario["seconds"] = 60;
  scenario["interval_s"] = 5;
  scenario["zones"][0]["drafters"] = 2;
  scenario["classes"][0]["output_tokens"] = 40;
  scenario["arrivals"] = {{"rate_per_s", 2}, {"swing", 1}, {"day_s", 60}};
  scenario["autoscaler"] = {{"every_s", 5},
                            {"lag_s", 20},
                            {"stabilization_s", 30},
                            {"drafters", {{"least", 1}, {"most", 8}, {"plans", 0.1}}}};
  const auto drafters = [&] {
    std::vector<int> counts;
    for (const FleetInterval& i : RunOf(scenario).timeline) counts.push_back(i.drafters);
    return counts;
  };
  const std::vector<int> kept = drafters();
  EXPECT_THAT(kept, ::testing::Each(::testing::Ge(1)));
  EXPECT_GE(kept[9], 2);
  scenario["autoscaler"]["stabilization_s"] = 0;
  const std::vector<int> ended = drafters();
  EXPECT_THAT(ended, ::testing::Each(::testing::Ge(1)));
  EXPECT_EQ(ended[9], 1);
}

// The bound of the router's loads is 1.25 of their mean; without it, few prefixes would leave some
// verifiers idle.
TEST_F(FleetTest, PrefixRoutingBalancesAndReuses) {
  json scenario = SmallFleet();
  scenario["zones"][0]["verifiers"] = 4;
  scenario["verifier"]["t_row_ms"] = 1;
  scenario["classes"][0] = {
      {"prompt_tokens", 300}, {"output_tokens", 40}, {"prefixes", 6}, {"prefix_tokens", 256}};
  scenario["arrivals"]["clients"] = 16;
  const FleetFigures in_turn = RunOf(scenario, FleetLayout::kPlain);
  scenario["routing"] = "prefix";
  const FleetFigures by_prefix = RunOf(scenario, FleetLayout::kPlain);
  EXPECT_GT(by_prefix.verifier_busy, 0.95);
  EXPECT_GT(by_prefix.TokensPerSecond(), 0.9 * in_turn.TokensPerSecond());
}

// Each of eight drafters serves two of four verifiers. While one of these is gone its drafters
// choose others, and some of them stay there.
TEST_F(FleetTest, SubsetDraftersServeAllVerifiers) {
  json scenario = SmallFleet();
  scenario["zones"][0] = {{"verifiers", 4}, {"drafters", 8}};
  scenario["drafter"]["subset"] = 2;
  scenario["interval_s"] = 10;
  scenario["arrivals"]["clients"] = 4;
  const FleetFigures all_up = RunOf(scenario);
  const FleetFigures plain = RunOf(scenario, FleetLayout::kPlain);
  EXPECT_GT(all_up.TokensPerSecond(), 1.5 * plain.TokensPerSecond());
  scenario["events"] = {{{"kind", "kill_verifiers"}, {"at_s", 20}, {"restart_s", 15}}};
  const FleetFigures figures = RunOf(scenario);
  EXPECT_EQ(figures.failed, 1);
  EXPECT_GT(figures.timeline.back().tokens, 0.8 * all_up.timeline.back().tokens);
}

// A verifier that is away for a minute loses all its drafters. Once it is back it asks for some,
// and visitors hear of it.
TEST_F(FleetTest, DraftersReturnToALostVerifier) {
  json scenario = SmallFleet();
  scenario["seconds"] = 300;
  scenario["interval_s"] = 30;
  scenario["zones"][0] = {{"verifiers", 4}, {"drafters", 8}};
  scenario["drafter"]["subset"] = 2;
  scenario["arrivals"]["clients"] = 12;
  const FleetFigures all_up = RunOf(scenario);
  scenario["events"] = {{{"kind", "kill_verifiers"}, {"at_s", 60}, {"restart_s", 60}}};
  const FleetFigures figures = RunOf(scenario);
  const auto later = [](const FleetFigures& of) {
    double tokens = 0;
    for (size_t i = 5; i < of.timeline.size(); ++i) tokens += of.timeline[i].tokens;
    return tokens;
  };
  EXPECT_GT(later(figures), 0.96 * later(all_up));  // 0.91 if they do not hear of it
}

TEST_F(FleetTest, PriceCountsTheMachines) {
  json scenario = SmallFleet();
  scenario["zones"][0]["drafters"] = 2;
  const FleetFigures split = RunOf(scenario);
  EXPECT_NEAR(split.price, (10 + 2 * 1) * 50. / 3600, 1e-9);
  const FleetFigures inside = RunOf(scenario, FleetLayout::kColocated);
  EXPECT_NEAR(inside.price, 10 * 50. / 3600, 1e-9);
}

}  // namespace
}  // namespace outrider
