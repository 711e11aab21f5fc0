#include "simulate/simulate.h"

#include <gmock/gmock.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/spec/draft.h"
#include "tests/simulate/report.h"
#include "tests/support/temp_dir.h"

namespace outrider {
namespace {

using testing::FourTokens;
using ::testing::HasSubstr;
using testing::Json;
using testing::ReportOf;
using testing::TwoTokens;

TEST(Simulate, SaysWhatItRan) {
  const Json block =
      ReportOf(TwoTokens(), {.algorithm = "block", .draft_length = 2, .exact = true});
  EXPECT_EQ(block["algorithm"], "block");
  EXPECT_EQ(block["draft_length"], 2);
  EXPECT_EQ(block["drafts"], 1);
  EXPECT_EQ(block["exact"], true);
  EXPECT_EQ(block["rounds"], 0);
  EXPECT_EQ(block["standard_error"], 0.0);
  EXPECT_EQ(block["mean_tokens_error"], Json({0.0}));
  EXPECT_FALSE(block.contains("tree"));
  EXPECT_FALSE(block.contains("kseq"));
  const Json sampled =
      ReportOf(TwoTokens(), {.algorithm = "spectr", .tree = {2, 3}, .rounds = 7, .chain = 3});
  EXPECT_EQ(sampled["rounds"], 7);
  EXPECT_EQ(sampled["draft_length"], 2);
  EXPECT_EQ(sampled["drafts"], 6);
  EXPECT_EQ(sampled["tree"], Json({2, 3}));
  EXPECT_EQ(sampled["mean_tokens"].size(), 3U);
  EXPECT_GE(sampled["mean_tokens"][2].get<double>(), 3);
  EXPECT_TRUE(sampled.contains("kseq"));
  EXPECT_EQ(ReportOf(TwoTokens(), {.rounds = 1})["draft_length"], 4);
}

TEST(Simulate, WithoutADraftIsPlainDecoding) {
  for (const std::string& algorithm : AlgorithmNames()) {
    const Json report = ReportOf(
        FourTokens(), {.algorithm = algorithm, .draft_length = 0, .chain = 2, .exact = true});
    EXPECT_EQ(report["accepted_law"], Json({1.0}));
    EXPECT_EQ(report["acceptance_first_token"], 0.0);
    EXPECT_EQ(report["alpha_first_token"], 0.0);
    EXPECT_EQ(report["mean_tokens"], Json({1.0, 2.0}));
    EXPECT_EQ(report["first_token_law"], FourTokens()["target"]["initial"]);
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
  EXPECT_THAT(Refusal(pair, {.algorithm = "spekter"}),
              AllOf(HasSubstr("spekter"), HasSubstr("multipath-block")));
  EXPECT_THAT(Refusal(pair, {.draft_length = -1}), HasSubstr("draft_length is -1"));
  EXPECT_THAT(Refusal(pair, {.draft_length = 17}), HasSubstr("draft_length is 17"));
  for (const char* one : {"token", "block", "greedy-block"}) {
    EXPECT_THAT(Refusal(pair, {.algorithm = one, .drafts = 2}), HasSubstr("one path, not 2"));
    EXPECT_THAT(Refusal(pair, {.algorithm = one, .tree = {1, 3}}), HasSubstr("one path, not 3"));
  }
  EXPECT_THAT(Refusal(pair, {.drafts = 0}), HasSubstr("paths is 0"));
  EXPECT_THAT(Refusal(pair, {.algorithm = "spectr", .drafts = 17}), HasSubstr("paths is 17"));
  EXPECT_THAT(Refusal(pair, {.rounds = 0}), HasSubstr("rounds is 0"));
  EXPECT_THAT(Refusal(pair, {.chain = 0}), HasSubstr("chain is 0"));
  EXPECT_THAT(Refusal(pair, {.chain = 65}), HasSubstr("chain is 65"));
  EXPECT_THAT(Refusal(pair, {.algorithm = "gumbel", .integer_distributions = true}),
              HasSubstr("--integer-law"));
}

TEST(Simulate, RefusesTreesByName) {
  const auto refusal = [](const SimulateOptions& options) {
    SimulateOptions spectr = options;
    spectr.algorithm = "spectr";
    return Refusal(TwoTokens().dump(), spectr);
  };
  EXPECT_THAT(refusal({.drafts = 2, .tree = {2, 1}}), HasSubstr("exclude each other"));
  EXPECT_THAT(refusal({.draft_length = 3, .tree = {2, 1}}),
              HasSubstr("tree has 2 depths, draft_length is 3"));
  EXPECT_THAT(refusal({.tree = {2, 0}}), HasSubstr("tree[1] is 0"));
  EXPECT_THAT(refusal({.tree = {-1}}), HasSubstr("tree[0] is -1"));
  EXPECT_THAT(refusal({.tree = {1 << 30}}), HasSubstr("tree[0] is"));
  EXPECT_THAT(refusal({.tree = std::vector<int>(17, 1)}), HasSubstr("draft_length is 17"));
  EXPECT_THAT(refusal({.tree = std::vector<int>(16, 16)}), HasSubstr("more than 4096 draws"));
}

TEST(Simulate, RefusesTooLargeEnumeration) {
  const std::string four = FourTokens().dump();
  EXPECT_THAT(Refusal(four, {.draft_length = 12, .exact = true}), HasSubstr("sequences"));
  for (const char* rule : {"spectr", "multiround", "multipath-block"}) {
    EXPECT_THAT(Refusal(four, {.algorithm = rule, .draft_length = 2, .drafts = 16, .exact = true}),
                HasSubstr("sample instead"));
    EXPECT_THAT(Refusal(four, {.algorithm = rule, .tree = {1, 16}, .exact = true}),
                HasSubstr("sample instead"));
  }
  const std::vector<double> row(40, 1 / 40.0);
  const std::string forty = testing::IidPair(row, row).dump();
  EXPECT_THAT(
      Refusal(forty, {.algorithm = "gumbel", .draft_length = 1, .drafts = 8, .exact = true}),
      HasSubstr("sample instead"));
  // With its carry, greedy-block has more rounds to enumerate than there are tokens.
  EXPECT_THAT(
      Refusal(four, {.algorithm = "greedy-block", .draft_length = 5, .chain = 64, .exact = true}),
      HasSubstr("sample instead"));
}

TEST(Simulate, RefusesPairsByFieldAndRow) {
  // `field`: a position in the two-token pair; `value`: its replacement.
  const auto refusal = [](const char* field, const Json& value) {
    Json pair = TwoTokens();
    pair[Json::json_pointer(field)] = value;
    return Refusal(pair.dump(), {});
  };
  for (const Json& vocab :
       {Json(0), Json(-2), Json(2.5), Json("2"), Json(1025), Json(1e18), Json()}) {
    EXPECT_THAT(refusal("/vocab", vocab), HasSubstr("vocab is "));
  }
  EXPECT_THAT(refusal("/vocab", 3),
              HasSubstr("target.initial is an array, must be an array of 3 numbers"));
  EXPECT_THAT(refusal("/target", Json::array()),
              HasSubstr("target is an array, must be an object"));
  EXPECT_THAT(refusal("/draft", nullptr), HasSubstr("draft is null, must be an object"));
  EXPECT_THAT(refusal("/draft/initial", {1.0}),
              HasSubstr("draft.initial is an array, must be an array of 2"));
  EXPECT_THAT(refusal("/draft/initial", {0.5, "0.5"}), HasSubstr("draft.initial[1]"));
  EXPECT_THAT(refusal("/draft/initial", {true, 0.5}), HasSubstr("draft.initial[0]"));
  EXPECT_THAT(refusal("/target/transition", {{0.5, 0.5}}),
              HasSubstr("target.transition is an array, must be an array of 2 rows"));
  EXPECT_THAT(refusal("/target/transition/1", {0.5, 0.4999}),
              HasSubstr("target.transition[1] sums to 0.9999"));
  EXPECT_THAT(refusal("/target/transition/1", {1.5, -0.5}), HasSubstr("target.transition[1][1]"));
  EXPECT_THAT(refusal("/target/transition/0", {{0.5}, 0.5}), HasSubstr("target.transition[0][0]"));
  for (const char* text : {"", "{", "[]", "2", "nul", "{\"vocab\": 2}", "{\"vocab\": 1e999}"}) {
    Refusal(text, {});
  }
}

TEST(Simulate, ReadsItsPairFromAFile) {
  const testing::TempDir dir;
  const std::string path = dir / "pair.json";
  std::ofstream(path) << TwoTokens();
  const Result<std::string> report =
      RunSimulate({.pair_path = path, .draft_length = 2, .exact = true});
  ASSERT_TRUE(report.ok());
  EXPECT_NEAR(Json::parse(*report)["mean_accepted"].get<double>(), 11.0 / 9, 1e-12);
  std::ofstream(path) << "{}";
  EXPECT_THAT(RunSimulate({.pair_path = path}).status().message(), HasSubstr(path));
  EXPECT_EQ(RunSimulate({.pair_path = dir / "missing"}).status().code(), Code::kNotFound);
  EXPECT_EQ(RunSimulate({.pair_path = dir.path()}).status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace outrider
