#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/client/command.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

const std::vector<std::string> kPair = {
    "plan", "--t-draft",      "1", "--t-verify", "10", "--rtt", "4", "--acceptance",
    "0.5",  "--draft-length", "1", "--sessions", "1"};

CommandResult Plan(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = kPair;
  arguments.insert(arguments.end(), more.begin(), more.end());
  return RunOutrider(arguments);
}

TEST(PlanCommand, JsonHasEveryLayout) {
  const CommandResult result = Plan({"--json", "--lookup-acceptance", "0.25"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  ASSERT_EQ(json["layouts"].size(), 5u);
  EXPECT_EQ(json["layouts"][0]["layout"], "plain");
  EXPECT_DOUBLE_EQ(json["layouts"][0]["one_request_tokens_per_second"], 100.);
  EXPECT_DOUBLE_EQ(json["layouts"][2]["tokens_per_round"], 1.5);
  EXPECT_EQ(json["fastest"], "colocated");
  EXPECT_NEAR(json["break_even_rtt_ms"][0]["one_request"].get<double>(), 4, 2e-3);
}

TEST(PlanCommand, TableNamesWinnersAndBreakEven) {
  const CommandResult result = Plan({"--verifier-price", "2", "--drafter-price", "1"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("most for one request: colocated"));
  EXPECT_THAT(result.out, HasSubstr("cheapest: colocated"));
  EXPECT_THAT(result.out, HasSubstr("split beats plain: one request up to 4.0 ms of round trip"));
}

TEST(PlanCommand, WarnsOfFreeRows) {
  const CommandResult free = Plan({});
  EXPECT_EQ(free.exit_code, 0);
  EXPECT_THAT(free.err, HasSubstr("--t-verify-row is 0"));
  EXPECT_THAT(free.out, HasSubstr("more than 65535")) << "the most that are counted";
  const CommandResult priced = Plan({"--t-verify-row", "0.1"});
  EXPECT_EQ(priced.err, "");
  EXPECT_THAT(priced.out, ::testing::Not(HasSubstr("more than")));
}

TEST(PlanCommand, HelpExplainsLayouts) {
  const CommandResult help = RunOutrider({"plan", "--help"});
  EXPECT_EQ(help.exit_code, 0);
  for (const char* layout : {"  plain ", "  colocated ", "  split ", "  ahead ", "  lookup "}) {
    EXPECT_THAT(help.out, HasSubstr(layout));
  }
}

TEST(PlanCommand, NamesMissingAndInvalidInput) {
  const CommandResult missing = RunOutrider({"plan", "--t-draft", "1"});
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_THAT(missing.err, HasSubstr("--t-verify"));
  const CommandResult wrong = Plan({"--ahead-hits", "2"});
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_THAT(wrong.err, HasSubstr("--ahead-hits"));
}

}  // namespace
}  // namespace outrider
