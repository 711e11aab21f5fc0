#include "simulate/control.h"

#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "verifier/control/controller.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

constexpr const char* kScenario = R"({
    "arms": [{"name": "none", "kind": "none"},
             {"name": "a", "kind": "chain", "acceptance": 0.8, "length": 4, "draft_ms": 2},
             {"name": "sure", "kind": "chain", "acceptance": 1, "length": 3, "draft_ms": 4},
             {"name": "never", "kind": "chain", "acceptance": 0, "length": 2, "draft_ms": 1}],
    "verify_ms": {"base": 20, "per_row": 0.5}, "rtt_ms": 3, "tokens": 64, "requests": 5,
    "shared": true})";

nlohmann::json Play(const std::string& scenario, const std::string& policy, int seeds = 4) {
  const auto report = SimulateControl(scenario, {.policy = policy, .seeds = seeds});
  EXPECT_TRUE(report.ok()) << report.status().ToString();
  return report.ok() ? nlohmann::json::parse(*report) : nlohmann::json();
}

TEST(SimulateControl, RoundsFollowTheScenario) {
  const auto sure = Play(kScenario, "fixed:sure");
  EXPECT_DOUBLE_EQ(sure["mean_ms"], 16 * (3 * 4 + 3 + 20 + 4 * 0.5));  // four tokens per round
  EXPECT_EQ(sure["pulls"]["sure"], 16 * 5 * 4);
  EXPECT_EQ(sure["pulls"]["none"], 0);
  EXPECT_DOUBLE_EQ(sure["plain_ms"], 64 * 20.5);
  EXPECT_DOUBLE_EQ(sure["ratio_to_plain"],
                   sure["mean_ms"].get<double>() / sure["plain_ms"].get<double>());
  EXPECT_EQ(sure["regret_rounds"], 0);
  const auto never = Play(kScenario, "fixed:never");
  EXPECT_DOUBLE_EQ(never["mean_ms"], 64 * (2 * 1 + 3 + 20 + 3 * 0.5));
  EXPECT_EQ(never["regret_rounds"], 64 - 16);
  EXPECT_EQ(never["best_fixed_arm"], "sure");
  EXPECT_DOUBLE_EQ(never["best_fixed_ms"], sure["mean_ms"]);
  EXPECT_DOUBLE_EQ(never["ratio_to_best_fixed"],
                   never["mean_ms"].get<double>() / sure["mean_ms"].get<double>());
  const auto none = Play(kScenario, "fixed");
  EXPECT_EQ(none["ratio_to_plain"], 1);
}

TEST(SimulateControl, AcceptedDraftsAreTruncatedGeometric) {
  nlohmann::json json = nlohmann::json::parse(kScenario);
  json["tokens"] = 1000;
  const auto a = Play(json.dump(), "fixed:a", 40);
  // 200 requests of 1000 tokens: rounds of (1 - 0.8^5) / 0.2 tokens, less half a round at the end;
  // the standard error of the mean is below 0.1 %.
  const double rounds = a["pulls"]["a"].get<double>() / 200;
  EXPECT_NEAR(rounds, 1000 / ((1 - std::pow(0.8, 5)) / 0.2), 2);
}

TEST(SimulateControl, NumbersMayChangeDuringARequest) {
  nlohmann::json json = nlohmann::json::parse(kScenario);
  json["sessions"] = nlohmann::json::parse("[[0, 1], [10, 5]]");
  json["verify_ms"]["base"] = nlohmann::json::parse("[[0, 20], [32, 30]]");
  EXPECT_DOUBLE_EQ(Play(json.dump(), "fixed:none")["mean_ms"],
                   32 * 20 + 32 * 30 + 10 * 0.5 + 54 * 2.5);
}

TEST(SimulateControl, SameSeedsGiveSameFigures) {
  for (const std::string& policy : PolicyNames()) {
    EXPECT_EQ(Play(kScenario, policy), Play(kScenario, policy)) << policy;
  }
  EXPECT_NE(Play(kScenario, "adaptive", 1)["mean_ms"], Play(kScenario, "adaptive", 2)["mean_ms"]);
}

TEST(SimulateControl, WithoutSharingEachRequestStartsFresh) {
  nlohmann::json json = nlohmann::json::parse(kScenario);
  json["requests"] = 40;
  const double shared = Play(json.dump(), "ucb-tuned")["mean_ms"];
  json["shared"] = false;
  EXPECT_GT(Play(json.dump(), "ucb-tuned")["mean_ms"].get<double>(), 1.02 * shared);
}

TEST(SimulateControl, AdaptiveMayAlwaysDecodePlainly) {
  nlohmann::json json = nlohmann::json::parse(kScenario);
  json["arms"] = nlohmann::json::array({json["arms"][3]});
  const auto adaptive = Play(json.dump(), "adaptive");
  EXPECT_LE(adaptive["ratio_to_plain"], 1.03);
  EXPECT_GT(adaptive["pulls"]["none"], 0);
  EXPECT_EQ(adaptive["best_fixed_arm"], "never");
  // The published policies only play the given arms.
  EXPECT_EQ(Play(json.dump(), "ucbspec")["pulls"], (nlohmann::json{{"never", 64 * 5 * 4}}));
}

TEST(SimulateControl, RefusesWhatItCannotPlay) {
  const auto refusal = [](const std::string& scenario, const SimulateControlOptions& options) {
    const auto report = SimulateControl(scenario, options);
    EXPECT_FALSE(report.ok());
    EXPECT_EQ(report.status().code(), Code::kInvalidArgument);
    return report.status().message();
  };
  EXPECT_THAT(refusal(kScenario, {.policy = "best"}), HasSubstr("adaptive, ucbspec, exp3spec"));
  EXPECT_THAT(refusal(kScenario, {.policy = "fixed:b"}), HasSubstr("no arm"));
  EXPECT_THAT(refusal(kScenario, {.seeds = 0}), HasSubstr("seeds"));
  EXPECT_THAT(refusal("{", {}), HasSubstr("the scenario is not well-formed JSON"));
  nlohmann::json json = nlohmann::json::parse(kScenario);
  json["tokens"] = 1 << 20;
  json["requests"] = 1 << 20;
  EXPECT_THAT(refusal(json.dump(), {}), HasSubstr("must not exceed"));
  EXPECT_EQ(RunSimulateControl({.scenario_path = "/nowhere/scenario.json"}).status().code(),
            Code::kNotFound);
}

}  // namespace
}  // namespace outrider
