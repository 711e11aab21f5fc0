#include "simulate/fleet/fleet_scenario.h"

#include <gmock/gmock.h>

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/simulate/fleet/fleet_testing.h"
#include "tests/support/temp_dir.h"

namespace outrider {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::SmallFleet;

std::string ErrorOf(const json& scenario, const std::string& folder = "") {
  const Result<FleetScenario> parsed = ParseFleetScenario(scenario.dump(), folder);
  EXPECT_FALSE(parsed.ok()) << scenario.dump();
  return parsed.ok() ? "" : parsed.status().message();
}

TEST(FleetScenario, ReadsEveryMember) {
  json scenario = SmallFleet();
  scenario["zones"] = {{{"verifiers", 2}}, {{"drafters", 3}}};
  scenario["network"] = {{"within_ms", {{"uniform", {1, 3}}}},
                         {"between_ms", {{"lognormal", {5, 0.5}}}},
                         {"loss", 0.01},
                         {"retransmit_ms", 250}};
  scenario["arrivals"] = {{"rate_per_s", 4}, {"swing", 0.5}, {"day_s", 100}};
  scenario["events"] = {{{"kind", "partition"}, {"at_s", 5}, {"for_s", 2}, {"zones", {0, 1}}},
                        {{"kind", "kill_drafters"}, {"at_s", 6}, {"count", 2}, {"restart_s", 3}}};
  scenario["autoscaler"] = {
      {"every_s", 5}, {"lag_s", 20}, {"drafters", {{"least", 1}, {"most", 9}}}};
  const FleetScenario parsed = testing::ParsedFleet(scenario);
  EXPECT_EQ(parsed.verifiers(), 2);
  EXPECT_EQ(parsed.drafters(), 3);
  EXPECT_EQ(parsed.network.within_ms.Mean(), 2);
  EXPECT_NEAR(parsed.network.between_ms.Mean(), 5.67, 0.01);
  EXPECT_EQ(parsed.arrivals.swing, 0.5);
  ASSERT_EQ(parsed.events.size(), 2u);
  EXPECT_EQ(parsed.events[0].kind, FleetEvent::Kind::kPartition);
  EXPECT_FALSE(parsed.events[0].restart.has_value());
  EXPECT_EQ(parsed.events[1].restart, 3);
  ASSERT_TRUE(parsed.autoscaler.has_value());
  EXPECT_EQ(parsed.autoscaler->drafters->most, 9);
  EXPECT_FALSE(parsed.autoscaler->verifiers.has_value());
  EXPECT_EQ(parsed.verifier.cost.Seconds(11), 0.021);
}

json Scaling(const char* target, double value) {
  return {{"least", 1}, {"most", 2}, {target, value}};
}

TEST(FleetScenario, ScalesByBusyOrPlans) {
  json scenario = SmallFleet();
  scenario["autoscaler"] = {{"drafters", Scaling("plans", 3)}};
  EXPECT_EQ(testing::ParsedFleet(scenario).autoscaler->drafters->plans, 3);
  scenario["autoscaler"]["drafters"]["busy"] = 0.5;
  EXPECT_THAT(ErrorOf(scenario), HasSubstr("plans: cannot be given beside busy"));
}

TEST(FleetScenario, NamesTheInvalidMember) {
  const std::vector<std::pair<json::json_pointer, json>> cases = {
      {json::json_pointer("/seconds"), 0},
      {json::json_pointer("/seconds"), 1e6},
      {json::json_pointer("/zones"), json::array()},
      {json::json_pointer("/zones/0/verifiers"), 2001},
      {json::json_pointer("/zones/0/drafters"), 10001},
      {json::json_pointer("/network/loss"), 0.6},
      {json::json_pointer("/network/within_ms"), -1},
      {json::json_pointer("/network/within_ms"), {{"normal", 1}}},
      {json::json_pointer("/network/within_ms"), {{"uniform", {3, 1}}}},
      {json::json_pointer("/verifier/t_ms"), 0},
      {json::json_pointer("/verifier/sessions"), 0},
      {json::json_pointer("/drafter/ahead_tokens"), 5000},
      {json::json_pointer("/policy"), "best"},
      {json::json_pointer("/draft_length"), 17},
      {json::json_pointer("/classes"), json::array()},
      {json::json_pointer("/classes/0/acceptance"), 1.5},
      {json::json_pointer("/classes/0/prompt_tokens"), 0},
      {json::json_pointer("/arrivals/rate_per_s"), 3},  // beside clients
      {json::json_pointer("/arrivals/clients"), 0},
      {json::json_pointer("/events"), {{{"kind", "flood"}, {"at_s", 1}}}},
      {json::json_pointer("/events"), {{{"kind", "partition"}, {"at_s", 1}, {"zones", {0, 1}}}}},
      {json::json_pointer("/autoscaler"), {{"drafters", {{"least", 3}, {"most", 2}}}}},
      {json::json_pointer("/autoscaler"), {{"drafters", Scaling("plans", 0)}}},
      {json::json_pointer("/autoscaler"), {{"verifiers", Scaling("plans", 3)}}},
      {json::json_pointer("/speed"), 3},
  };
  for (const auto& [where, value] : cases) {
    json scenario = SmallFleet();
    scenario[where] = value;
    // An unknown member or a wrong combination is the object's error.
    const std::string member = where.to_string().substr(1);
    EXPECT_THAT(ErrorOf(scenario), HasSubstr(member.substr(0, member.find('/'))));
  }
}

TEST(FleetScenario, LargeFleetNeedsRates) {
  json scenario = SmallFleet();
  scenario["zones"][0] = {{"verifiers", 20}, {"drafters", 100}};
  EXPECT_TRUE(CheckRoundLimits(testing::ParsedFleet(scenario)).ok());
  scenario["autoscaler"] = {{"drafters", {{"least", 1}, {"most", 101}}}};
  EXPECT_THAT(CheckRoundLimits(testing::ParsedFleet(scenario)).message(), HasSubstr("--rates"));
  scenario.erase("autoscaler");
  scenario["zones"][0]["verifiers"] = 21;
  EXPECT_THAT(CheckRoundLimits(testing::ParsedFleet(scenario)).message(), HasSubstr("--fit"));
}

TEST(FleetScenario, RateKeyIgnoresSizeAndPrice) {
  json scenario = SmallFleet();
  const std::string key = testing::ParsedFleet(scenario).rate_key;
  scenario["zones"][0]["verifiers"] = 2;
  scenario["verifier"]["price"] = 3;
  scenario["drafter"]["price"] = 3;
  scenario["arrivals"]["clients"] = 9;
  EXPECT_EQ(testing::ParsedFleet(scenario).rate_key, key);
  scenario["verifier"]["t_ms"] = 21;
  EXPECT_NE(testing::ParsedFleet(scenario).rate_key, key);
}

TEST(FleetScenario, ReadsATrace) {
  const testing::TempDir dir;
  json scenario = SmallFleet();
  scenario["arrivals"] = {{"trace", "trace.csv"}};
  std::ofstream(dir / "trace.csv") << "# seconds,prompt,output\n0.5,10,20\n1,30,40,0\n";
  const Result<FleetScenario> parsed = ParseFleetScenario(scenario.dump(), std::string(dir / ""));
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  ASSERT_EQ(parsed->arrivals.trace.size(), 2u);
  EXPECT_EQ(parsed->arrivals.trace[1].output_tokens, 40);
  for (const std::string line :
       {"2,10", "x,10,20", "1,10,20,1", "1,0,20", "1,10,20,0,3", "0.1,1,1"}) {
    std::ofstream(dir / "trace.csv") << "0.5,10,20\n" << line << "\n";
    EXPECT_THAT(ErrorOf(scenario, std::string(dir / "")), HasSubstr("trace.csv:2")) << line;
  }
}

}  // namespace
}  // namespace outrider
