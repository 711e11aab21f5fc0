#include "simulate/scenario.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace outrider {
namespace {

using ::testing::HasSubstr;

nlohmann::json Good() {
  return nlohmann::json::parse(R"({
    "arms": [{"name": "none", "kind": "none"},
             {"name": "a", "kind": "chain", "acceptance": 0.8, "length": 4, "draft_ms": 2},
             {"name": "b", "kind": "chain", "acceptance": [[0, 0.8], [10, 0.2]], "length": 4,
              "draft_ms": 2},
             {"name": "a8", "kind": "chain", "acceptance": 0.8, "length": 8, "draft_ms": 2}],
    "verify_ms": {"base": 20, "per_row": 0.5}, "rtt_ms": 2, "tokens": 64, "requests": 3,
    "shared": true})");
}

TEST(ControlScenario, ReadsEveryMember) {
  nlohmann::json json = Good();
  json["sessions"] = nlohmann::json::parse("[[0, 1], [20, 16]]");
  const auto parsed = ParseControlScenario(json.dump());
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  EXPECT_TRUE(parsed->arms[0].plain);
  EXPECT_EQ(parsed->arms[1].name, "a");
  EXPECT_EQ(parsed->arms[1].acceptance.At(1000), 0.8);
  EXPECT_EQ(parsed->arms[1].length, 4);
  EXPECT_EQ(parsed->arms[1].draft_ms.At(0), 2);
  EXPECT_EQ(parsed->arms[2].acceptance.At(9), 0.8);
  EXPECT_EQ(parsed->arms[2].acceptance.At(10), 0.2);
  EXPECT_EQ(parsed->base_ms.At(0), 20);
  EXPECT_EQ(parsed->per_row_ms.At(0), 0.5);
  EXPECT_EQ(parsed->rtt_ms.At(0), 2);
  EXPECT_EQ(parsed->sessions.At(20), 16);
  EXPECT_EQ(parsed->tokens, 64);
  EXPECT_EQ(parsed->requests, 3);
  EXPECT_TRUE(parsed->shared);
}

TEST(ControlScenario, EqualArmsShareOneDrafter) {
  const auto parsed = ParseControlScenario(Good().dump());
  ASSERT_TRUE(parsed.ok());
  const std::vector<Arm> arms = ArmsOf(*parsed);
  ASSERT_EQ(arms.size(), 4U);
  EXPECT_TRUE(arms[0].plain());
  EXPECT_EQ(arms[1].proposer, arms[3].proposer);
  EXPECT_NE(arms[1].proposer, arms[2].proposer);
  EXPECT_EQ(arms[3].shape, Sequences(1, 8));
}

TEST(ControlScenario, RefusalNamesTheMember) {
  struct Wrong {
    const char* path;
    const char* value;  // empty: the member is omitted
    const char* says;
  };
  const Wrong wrongs[] = {
      {"/arms", "", "arms is missing"},
      {"/arms", "[]", "arms is an "},
      {"/arms", "{}", "arms is an "},
      {"/arms/1", "7", "arms[1] is 7, must be an object"},
      {"/arms/1/name", "\"none\"", "two arms are named"},
      {"/arms/1/name", "\"\"", "arms[1].name"},
      {"/arms/1/kind", "\"tree\"", "arms[1].kind"},
      {"/arms/1/acceptance", "", "arms[1].acceptance is missing"},
      {"/arms/1/acceptance", "1.5", "arms[1].acceptance is 1.5, must be a number from 0 to 1"},
      {"/arms/1/acceptance", "\"high\"", "arms[1].acceptance"},
      {"/arms/1/acceptance", "[]", "arms[1].acceptance: must not be empty"},
      {"/arms/1/acceptance", "[[1, 0.5]]", "arms[1].acceptance[0][0]"},
      {"/arms/1/acceptance", "[[0, 0.5], [0, 0.6]]", "arms[1].acceptance[1][0]"},
      {"/arms/1/acceptance", "[[0]]",
       "arms[1].acceptance[0] is an array, must be [from_round, number]"},
      {"/arms/1/length", "65", "arms[1].length is 65, must be an integer from 0 to 64"},
      {"/arms/1/length", "2.5", "arms[1].length"},
      {"/arms/1/length", "-1", "arms[1].length"},
      {"/arms/1/draft_ms", "-1", "arms[1].draft_ms"},
      {"/arms/1/draft", "1", "arms[1].draft: is not known here; known are name"},
      {"/verify_ms", "3", "verify_ms is 3, must be an object"},
      {"/verify_ms/base", "", "verify_ms.base is missing"},
      {"/verify_ms/rows", "1", "verify_ms.rows: is not known here"},
      {"/rtt_ms", "null", "rtt_ms"},
      {"/tokens", "0", "tokens"},
      {"/tokens", "18446744073709551615", "tokens"},
      {"/requests", "-3", "requests"},
      {"/shared", "1", "shared"},
      {"/sessions", "0", "sessions"},
      {"/extra", "1", "extra: is not known here"}};
  for (const Wrong& wrong : wrongs) {
    nlohmann::json json = Good();
    const nlohmann::json::json_pointer field(wrong.path);
    if (*wrong.value != 0) {
      json[field] = nlohmann::json::parse(wrong.value);
    } else {
      json[field.parent_pointer()].erase(field.back());
    }
    const auto parsed = ParseControlScenario(json.dump());
    ASSERT_FALSE(parsed.ok()) << wrong.path << " " << wrong.value;
    EXPECT_EQ(parsed.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(parsed.status().message(), HasSubstr(wrong.says));
  }
  nlohmann::json free = Good();
  free["verify_ms"] = {{"base", 0}, {"per_row", 0}};
  EXPECT_FALSE(ParseControlScenario(free.dump()).ok());
  for (const char* text : {"", "[]", "{", "null", "{} {}", "\xff"}) {
    EXPECT_FALSE(ParseControlScenario(text).ok()) << text;
  }
}

}  // namespace
}  // namespace outrider
