#include "simulate/command_line.h"

#include <gmock/gmock.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct CommandResult {
  int exit_code = 0;
  std::string out;
  std::string err;
};

CommandResult RunCommand(const std::vector<std::string>& arguments) {
  std::vector<const char*> argv = {"outrider-simulate"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  std::ostringstream out;
  std::ostringstream err;
  CommandResult result;
  result.exit_code = RunSimulateCommandLine(static_cast<int>(argv.size()), argv.data(), out, err);
  result.out = out.str();
  result.err = err.str();
  return result;
}

class SimulateCommandLine : public ::testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(path_) << R"({"vocab": 2,
        "target": {"initial": [0.25, 0.75], "transition": [[0.25, 0.75], [0.25, 0.75]]},
        "draft": {"initial": [0.75, 0.25], "transition": [[0.75, 0.25], [0.75, 0.25]]}})";
  }

  const testing::TempDir dir_;
  const std::string path_ = dir_ / "pair.json";
};

TEST_F(SimulateCommandLine, JsonIsTheSimulatorsOwnObject) {
  const auto result =
      RunCommand({"--pair", path_, "--rule", "token", "--draft-length", "1", "--exact", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["algorithm"], "token");
  EXPECT_EQ(json["draft_length"], 1);
  EXPECT_EQ(json["mean_accepted"], 0.5);  // min(p, q) = 0.25 for either token
}

TEST_F(SimulateCommandLine, PrintsOneFigurePerLine) {
  const auto result =
      RunCommand({"--pair", path_, "--rule", "token", "--draft-length", "1", "--exact"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("mean_accepted: 0.5\n"));
}

TEST_F(SimulateCommandLine, FlagsReachTheSimulator) {
  const auto result = RunCommand({"--pair", path_, "--rounds", "7", "--seed", "3", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(nlohmann::json::parse(result.out)["rounds"], 7);
  const auto tree = RunCommand({"--pair", path_, "--rule", "multipath-block", "--tree", "2,1",
                                "--chain", "3", "--integer-law", "--exact", "--json"});
  EXPECT_EQ(tree.exit_code, 0) << tree.err;
  const auto json = nlohmann::json::parse(tree.out);
  EXPECT_EQ(json["tree"], nlohmann::json({2, 1}));
  EXPECT_EQ(json["draft_length"], 2);
  EXPECT_EQ(json["mean_tokens"].size(), 3U);
  const auto drafts =
      RunCommand({"--pair", path_, "--rule", "spectr", "--paths", "3", "--rounds", "7", "--json"});
  EXPECT_EQ(drafts.exit_code, 0) << drafts.err;
  EXPECT_EQ(nlohmann::json::parse(drafts.out)["drafts"], 3);
}

TEST_F(SimulateCommandLine, RefusesWhatNoRuleCanRun) {
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{"--rule", "block", "--paths", "2"},
        {"--rule", "spectr", "--paths", "2", "--tree", "2,1"},
        {"--rounds", "0"},
        {"--rule", "spectr", "--paths", "16", "--draft-length", "3", "--exact"}}) {
    std::vector<std::string> args = {"--pair", path_};
    args.insert(args.end(), flags.begin(), flags.end());
    const auto result = RunCommand(args);
    EXPECT_EQ(result.exit_code, 1) << result.out;
    EXPECT_THAT(result.err, StartsWith("error: INVALID_ARGUMENT: "));
  }
  const auto name = RunCommand({"--pair", path_, "--rule", "blocks"});
  EXPECT_NE(name.exit_code, 0);
  EXPECT_THAT(name.err, HasSubstr("multipath-block"));
}

TEST_F(SimulateCommandLine, ControlPlaysAScenario) {
  const std::string scenario = dir_ / "scenario.json";
  std::ofstream(scenario) << R"({"arms": [{"name": "none", "kind": "none"}],
      "verify_ms": {"base": 20, "per_row": 0.5}, "rtt_ms": 2, "tokens": 4, "requests": 1,
      "shared": false})";
  const auto json = RunCommand(
      {"control", "--scenario", scenario, "--policy", "ucbspec", "--seeds", "3", "--json"});
  EXPECT_EQ(json.exit_code, 0) << json.err;
  const auto report = nlohmann::json::parse(json.out);
  EXPECT_EQ(report["policy"], "ucbspec");
  EXPECT_EQ(report["mean_ms"], 82);
  EXPECT_EQ(report["pulls"]["none"], 12);
  const auto text = RunCommand({"control", "--scenario", scenario});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("policy: \"adaptive\"\n"));
  EXPECT_THAT(text.out, HasSubstr("pulls:\n  none  80\n"));
  const auto unknown = RunCommand({"control", "--scenario", scenario, "--policy", "best"});
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_THAT(unknown.err, StartsWith("error: INVALID_ARGUMENT: "));
  const auto missing = RunCommand({"control", "--scenario", dir_ / "missing"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, StartsWith("error: NOT_FOUND: "));
}

TEST_F(SimulateCommandLine, FleetRunsByRates) {
  const auto write = [&](const std::string& name, int verifiers, int milliseconds) {
    std::ofstream(dir_ / name) << R"({"seconds": 20, "network": {"within_ms": 0.1},
        "verifier": {"sessions": 2, "t_ms": )"
                               << milliseconds << R"(}, "drafter": {"t_ms": 2},
        "classes": [{}], "arrivals": {"rate_per_s": 20},
        "zones": [{"verifiers": )"
                               << verifiers << R"(, "drafters": 1}]})";
    return std::string(dir_ / name);
  };
  const std::string large = write("large.json", 50, 20);
  const std::string rates = dir_ / "rates.json";
  const auto without = RunCommand({"fleet", "--scenario", large, "--layout", "plain"});
  EXPECT_EQ(without.exit_code, 1);
  EXPECT_THAT(without.err, HasSubstr("--fit"));
  const auto fit = RunCommand({"fleet", "--scenario", large, "--layout", "plain", "--fit", rates});
  EXPECT_EQ(fit.exit_code, 0) << fit.err;
  EXPECT_THAT(fit.err, HasSubstr("plain: "));
  const auto run =
      RunCommand({"fleet", "--scenario", large, "--layout", "plain", "--rates", rates, "--json"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const auto json = nlohmann::json::parse(run.out);
  EXPECT_EQ(json["resolution"], "rates");
  EXPECT_GT(json["layouts"][0]["tokens_per_second"], 1000);
  EXPECT_TRUE(json["layouts"][0]["longest_pause_ms"].is_null());
  const auto unfit = RunCommand({"fleet", "--scenario", large, "--rates", rates});
  EXPECT_THAT(unfit.err, HasSubstr("no rates of layout colocated"));
  const auto other = RunCommand(
      {"fleet", "--scenario", write("other.json", 2, 30), "--layout", "plain", "--rates", rates});
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_THAT(other.err, HasSubstr("measure again"));
}

TEST_F(SimulateCommandLine, FleetRunsTheLayouts) {
  const std::string scenario = dir_ / "fleet.json";
  std::ofstream(scenario) << R"({"seconds": 5, "zones": [{"verifiers": 1, "drafters": 1}],
      "verifier": {"t_ms": 20}, "drafter": {"t_ms": 2}, "classes": [{}],
      "arrivals": {"clients": 2}})";
  const auto json = RunCommand({"fleet", "--scenario", scenario, "--json"});
  EXPECT_EQ(json.exit_code, 0) << json.err;
  const auto layouts = nlohmann::json::parse(json.out)["layouts"];
  ASSERT_EQ(layouts.size(), 3U);
  EXPECT_EQ(layouts[0]["layout"], "plain");
  EXPECT_GT(layouts[2]["tokens_per_second"], layouts[0]["tokens_per_second"]);
  EXPECT_EQ(layouts[2]["timeline"].size(), 20U);
  const auto text = RunCommand({"fleet", "--scenario", scenario, "--layout", "split"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("\nsplit "));
  EXPECT_THAT(text.out, Not(HasSubstr("plain")));
  const auto other = RunCommand({"fleet", "--scenario", scenario, "--layout", "beside"});
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_THAT(other.err, HasSubstr("\"beside\", must be split"));
  std::ofstream(scenario) << R"({"seconds": 5, "zones": []})";
  const auto invalid = RunCommand({"fleet", "--scenario", scenario});
  EXPECT_EQ(invalid.exit_code, 1);
  EXPECT_THAT(invalid.err, HasSubstr("fleet.json: zones"));
}

TEST_F(SimulateCommandLine, NeedsPairOrScenario) {
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{}, {"control"}, {"fleet"}}) {
    const auto result = RunCommand(args);
    EXPECT_NE(result.exit_code, 0);
    EXPECT_THAT(result.err, HasSubstr("is required"));
  }
}

TEST_F(SimulateCommandLine, MissingPairIsNotFound) {
  const auto result = RunCommand({"--pair", "/nowhere/pair.json"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, StartsWith("error: NOT_FOUND: "));
}

}  // namespace
}  // namespace outrider
