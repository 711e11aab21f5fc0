#include <gmock/gmock.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/client/command.h"

namespace outrider {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class SimulateCommand : public testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(path_) << R"({"vocab": 2,
        "target": {"initial": [0.25, 0.75], "transition": [[0.25, 0.75], [0.25, 0.75]]},
        "draft": {"initial": [0.75, 0.25], "transition": [[0.75, 0.25], [0.75, 0.25]]}})";
  }
  void TearDown() override { std::remove(path_.c_str()); }

  const std::string path_ = testing::TempDir() + "/simulate_command_pair.json";
};

TEST_F(SimulateCommand, JsonIsTheSimulatorsOwnObject) {
  const auto result = RunOutrider({"simulate", "--pair", path_, "--algorithm", "token",
                                   "--draft-length", "1", "--exact", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["algorithm"], "token");
  EXPECT_EQ(json["draft_length"], 1);
  EXPECT_EQ(json["mean_accepted"], 0.5);  // min(p, q) = 0.25 for either token
}

TEST_F(SimulateCommand, WithoutJsonItPrintsOneFigureALine) {
  const auto result = RunOutrider(
      {"simulate", "--pair", path_, "--algorithm", "token", "--draft-length", "1", "--exact"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("mean_accepted: 0.5\n"));
}

TEST_F(SimulateCommand, FlagsReachTheSimulator) {
  const auto result =
      RunOutrider({"simulate", "--pair", path_, "--rounds", "7", "--seed", "3", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(nlohmann::json::parse(result.out)["rounds"], 7);
  const auto drafts = RunOutrider({"simulate", "--pair", path_, "--drafts", "2"});
  EXPECT_EQ(drafts.exit_code, 1);
  EXPECT_THAT(drafts.err, StartsWith("error: INVALID_ARGUMENT: "));
}

TEST_F(SimulateCommand, AMissingPairIsNotFound) {
  const auto result = RunOutrider({"simulate", "--pair", "/nowhere/pair.json"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, StartsWith("error: NOT_FOUND: "));
}

}  // namespace
}  // namespace outrider
