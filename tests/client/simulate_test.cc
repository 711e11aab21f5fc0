#include "client/simulate.h"

#include <gmock/gmock.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/statistics.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

// Section 2 of Sun et al. 2025.
Json TwoTokens() {
  const Json target = {1.0 / 3, 2.0 / 3}, draft = {2.0 / 3, 1.0 / 3};
  return {{"vocab", 2},
          {"target", {{"initial", target}, {"transition", {target, target}}}},
          {"draft", {{"initial", draft}, {"transition", {draft, draft}}}}};
}

// The chain of tests/laws/oracle_test.cc, with decimals instead of sixths.
Json FourTokens() {
  return Json::parse(R"({"vocab": 4,
    "target": {"initial": [0.5, 0.25, 0.125, 0.125],
               "transition": [[0.1666667, 0.3333333, 0.3333333, 0.1666667], [0.5, 0.3, 0.1, 0.1],
                              [0.125, 0.125, 0.25, 0.5], [0.4, 0.2, 0.2, 0.2]]},
    "draft": {"initial": [0.25, 0.5, 0.125, 0.125],
              "transition": [[0.3333333, 0.1666667, 0.1666667, 0.3333333], [0.1, 0.1, 0.3, 0.5],
                             [0.5, 0.25, 0.125, 0.125], [0.2, 0.4, 0.2, 0.2]]}})");
}

Json ReportOf(const Json& pair, const SimulateOptions& options) {
  const Result<std::string> report = Simulate(pair.dump(), options);
  EXPECT_TRUE(report.ok()) << report.status().ToString();
  return report.ok() ? Json::parse(*report) : Json();
}

TEST(Simulate, GivesThePublishedMeansExactly) {
  const Json token =
      ReportOf(TwoTokens(), {.algorithm = "token", .draft_length = 2, .exact = true});
  EXPECT_NEAR(token["mean_accepted"].get<double>(), 10.0 / 9, 1e-12);
  const Json block =
      ReportOf(TwoTokens(), {.algorithm = "block", .draft_length = 2, .exact = true});
  EXPECT_NEAR(block["mean_accepted"].get<double>(), 11.0 / 9, 1e-12);
  EXPECT_EQ(block["algorithm"], "block");
  EXPECT_EQ(block["draft_length"], 2);
  EXPECT_EQ(block["drafts"], 1);
  EXPECT_EQ(block["exact"], true);
  EXPECT_EQ(block["standard_error"], 0.0);
  const Json longest =
      ReportOf(TwoTokens(), {.algorithm = "block", .draft_length = 10, .exact = true});
  EXPECT_NEAR(longest["mean_accepted"].get<double>(), 204271.0 / 59049, 1e-12);
}

TEST(Simulate, GivesTheDerivedMeansOfTheFourTokenToy) {
  const Json token =
      ReportOf(FourTokens(), {.algorithm = "token", .draft_length = 4, .exact = true});
  EXPECT_NEAR(token["mean_accepted"].get<double>(), 5471983.0 / 3456000, 1e-6);
  const Json block =
      ReportOf(FourTokens(), {.algorithm = "block", .draft_length = 4, .exact = true});
  EXPECT_NEAR(block["mean_accepted"].get<double>(), 2088917.0 / 1152000, 1e-6);
}

double TargetProbability(const Json& pair, const std::string& sequence) {
  double probability = 1;
  const Json* row = &pair["target"]["initial"];
  for (const char c : sequence) {
    if (c == ',') continue;
    const auto token = static_cast<size_t>(c - '0');
    probability *= (*row)[token].get<double>();
    row = &pair["target"]["transition"][token];
  }
  return probability;
}

TEST(Simulate, HasTheTargetsSequenceLawExactly) {
  for (const char* algorithm : {"token", "block"}) {
    for (const int g : {0, 1, 3}) {
      const Json report =
          ReportOf(FourTokens(), {.algorithm = algorithm, .draft_length = g, .exact = true});
      double sum = 0;
      for (const auto& [sequence, probability] : report["sequence_law"].items()) {
        EXPECT_EQ(sequence.size(), static_cast<size_t>(2 * g + 1));
        // The sixths were printed to seven digits and are normalised.
        EXPECT_NEAR(probability.get<double>(), TargetProbability(FourTokens(), sequence), 1e-7);
        sum += probability.get<double>();
      }
      EXPECT_NEAR(sum, 1, 1e-12);
      EXPECT_NEAR(report["first_token_law"][0].get<double>(), 0.5, 1e-12);
      EXPECT_NEAR(report["first_token_law"][3].get<double>(), 0.125, 1e-12);
    }
  }
}

TEST(Simulate, SamplesTheLawsThatItEnumerates) {
  for (const char* algorithm : {"token", "block"}) {
    SimulateOptions options{.algorithm = algorithm, .draft_length = 3, .rounds = 40000, .seed = 5};
    const Json sampled = ReportOf(FourTokens(), options);
    options.exact = true;
    const Json exact = ReportOf(FourTokens(), options);
    const double error = sampled["standard_error"].get<double>();
    EXPECT_GT(error, 0.001);
    EXPECT_LT(error, 0.01);
    // 5 standard errors: false alarm 6e-7.
    EXPECT_NEAR(sampled["mean_accepted"].get<double>(), exact["mean_accepted"].get<double>(),
                5 * error);
    EXPECT_EQ(sampled["rounds"], 40000);
    std::vector<int64_t> counts;
    std::vector<double> law;
    double counted = 0;
    for (const auto& [sequence, probability] : exact["sequence_law"].items()) {
      law.push_back(probability.get<double>());
      const double frequency = sampled["sequence_law"].value(sequence, 0.0);
      counts.push_back(static_cast<int64_t>(std::lround(frequency * 40000)));
      counted += frequency;
    }
    EXPECT_NEAR(counted, 1, 1e-9);
    EXPECT_GT(testing::ChiSquarePValue(counts, law), testing::kFalseAlarm);
  }
}

TEST(Simulate, IsAFunctionOfItsSeed) {
  SimulateOptions options{.draft_length = 2, .rounds = 500, .seed = 1};
  const Json once = ReportOf(TwoTokens(), options);
  EXPECT_EQ(ReportOf(TwoTokens(), options), once);
  options.seed = 2;
  EXPECT_NE(ReportOf(TwoTokens(), options), once);
}

std::string Refusal(const std::string& pair, const SimulateOptions& options) {
  const Result<std::string> report = Simulate(pair, options);
  EXPECT_EQ(report.status().code(), Code::kInvalidArgument) << pair;
  return report.status().message();
}

TEST(Simulate, RefusesOptionsByName) {
  const std::string pair = TwoTokens().dump();
  EXPECT_THAT(Refusal(pair, {.algorithm = "spectr"}), HasSubstr("algorithm \"spectr\""));
  EXPECT_THAT(Refusal(pair, {.draft_length = -1}), HasSubstr("draft_length is -1"));
  EXPECT_THAT(Refusal(pair, {.draft_length = 17}), HasSubstr("draft_length is 17"));
  EXPECT_THAT(Refusal(pair, {.drafts = 2}), HasSubstr("drafts is 2"));
  EXPECT_THAT(Refusal(pair, {.drafts = 0}), HasSubstr("drafts is 0"));
  EXPECT_THAT(Refusal(pair, {.rounds = 0}), HasSubstr("rounds is 0"));
  EXPECT_THAT(Refusal(FourTokens().dump(), {.draft_length = 12, .exact = true}),
              HasSubstr("too many sequences"));
}

TEST(Simulate, RefusesPairsByFieldAndRow) {
  // `at`: where in the two-token pair; `value`: what stands there instead.
  const auto refusal = [](const char* at, const Json& value) {
    Json pair = TwoTokens();
    pair[Json::json_pointer(at)] = value;
    return Refusal(pair.dump(), {});
  };
  for (const Json& vocab :
       {Json(0), Json(-2), Json(2.5), Json("2"), Json(1025), Json(1e18), Json()}) {
    EXPECT_THAT(refusal("/vocab", vocab), HasSubstr("vocab must be"));
  }
  EXPECT_THAT(refusal("/vocab", 3), HasSubstr("target.initial must be an array of 3"));
  EXPECT_THAT(refusal("/target", Json::array()), HasSubstr("target must be an object"));
  EXPECT_THAT(refusal("/draft", nullptr), HasSubstr("draft must be an object"));
  EXPECT_THAT(refusal("/draft/initial", {1.0}), HasSubstr("draft.initial must be an array of 2"));
  EXPECT_THAT(refusal("/draft/initial", {0.5, "0.5"}), HasSubstr("draft.initial[1]"));
  EXPECT_THAT(refusal("/draft/initial", {true, 0.5}), HasSubstr("draft.initial[0]"));
  EXPECT_THAT(refusal("/target/transition", {{0.5, 0.5}}),
              HasSubstr("target.transition must be an array of 2 rows"));
  EXPECT_THAT(refusal("/target/transition/1", {0.5, 0.4999}),
              HasSubstr("target.transition[1] sums to 0.9999"));
  EXPECT_THAT(refusal("/target/transition/1", {1.5, -0.5}), HasSubstr("target.transition[1][1]"));
  EXPECT_THAT(refusal("/target/transition/0", {{0.5}, 0.5}), HasSubstr("target.transition[0][0]"));
  for (const char* text : {"", "{", "[]", "2", "nul", "{\"vocab\": 2}", "{\"vocab\": 1e999}"}) {
    Refusal(text, {});
  }
}

TEST(Simulate, ReadsItsPairFromAFile) {
  const std::string path = ::testing::TempDir() + "/simulate_pair.json";
  std::ofstream(path) << TwoTokens();
  const Result<std::string> report =
      RunSimulate({.pair_path = path, .draft_length = 2, .exact = true});
  ASSERT_TRUE(report.ok());
  EXPECT_NEAR(Json::parse(*report)["mean_accepted"].get<double>(), 11.0 / 9, 1e-12);
  std::ofstream(path) << "{}";
  EXPECT_THAT(RunSimulate({.pair_path = path}).status().message(), HasSubstr(path));
  std::remove(path.c_str());
  EXPECT_EQ(RunSimulate({.pair_path = path}).status().code(), Code::kNotFound);
  EXPECT_EQ(RunSimulate({.pair_path = ::testing::TempDir()}).status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace outrider
