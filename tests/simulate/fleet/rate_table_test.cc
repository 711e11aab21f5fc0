#include "simulate/fleet/rate_table.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace outrider {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// Two columns, without drafters and with 4 each; two points, of 2 and 10 requests.
RateTable SmallTable() {
  RateTable table{.scenario = "7"};
  table.of(FleetLayout::kSplit).columns = {
      {.drafters = 0,
       .points = {{.requests = 2, .pass_tokens = 2}, {.requests = 10, .pass_tokens = 1}}},
      {.drafters = 4,
       .points = {{.requests = 2, .pass_tokens = 4},
                  {.requests = 10, .pass_tokens = 3, .drafted = 1}}}};
  return table;
}

TEST(RateTable, InterpolatesBetweenPointsAndColumns) {
  const RateTable table = SmallTable();
  const LayoutRates& rates = table.of(FleetLayout::kSplit);
  EXPECT_DOUBLE_EQ(rates.At(2, 0).pass_tokens, 2);
  EXPECT_DOUBLE_EQ(rates.At(6, 0).pass_tokens, 1.5);
  EXPECT_DOUBLE_EQ(rates.At(6, 4).pass_tokens, 3.5);
  EXPECT_DOUBLE_EQ(rates.At(6, 1).pass_tokens, 2);
  EXPECT_DOUBLE_EQ(rates.At(6, 4).drafted, 0.5);
}

TEST(RateTable, KeepsOutermostRatesBeyondThem) {
  const RateTable table = SmallTable();
  const LayoutRates& rates = table.of(FleetLayout::kSplit);
  EXPECT_DOUBLE_EQ(rates.At(1, 0).pass_tokens, 2);
  EXPECT_DOUBLE_EQ(rates.At(50, 0).pass_tokens, 1);
  EXPECT_DOUBLE_EQ(rates.At(50, 9).pass_tokens, 3);
}

TEST(RateTable, SurvivesJson) {
  const RateTable table = SmallTable();
  const Result<RateTable> read = ParseRates(RatesJson(table));
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(read->scenario, "7");
  EXPECT_EQ(RatesJson(*read), RatesJson(table));
  EXPECT_TRUE(read->of(FleetLayout::kPlain).columns.empty());
}

TEST(RateTable, NamesTheInvalidMember) {
  const std::vector<std::pair<std::string, json>> cases = {
      {"/scenario", 3},
      {"/split", json::array()},
      {"/split/1/drafters", 0},
      {"/split/0/points", json::array()},
      {"/split/0/points/1/requests", 1},
      {"/split/0/points/1/pass_tokens", 0},
      {"/split/0/points/1/pass_tokens", -1},
      {"/split/0/points/1/speed", 1},
      {"/speed", 1},
  };
  for (const auto& [where, value] : cases) {
    json table = json::parse(RatesJson(SmallTable()));
    table[json::json_pointer(where)] = value;
    const Result<RateTable> read = ParseRates(table.dump());
    ASSERT_FALSE(read.ok()) << where;
    const std::string member = where.substr(where.rfind('/') + 1);
    EXPECT_THAT(read.status().message(), ::testing::AnyOf(HasSubstr(member), HasSubstr("points")));
  }
}

}  // namespace
}  // namespace outrider
