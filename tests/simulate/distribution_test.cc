// Every rule through `outrider simulate`: its output has the target distribution, and sampling
// agrees with enumeration.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "common/spec/draft.h"
#include "tests/simulate/report.h"
#include "tests/support/statistics.h"

namespace outrider {
namespace {

using testing::FourTokens;
using testing::IidPair;
using testing::Json;
using testing::ReportOf;
using testing::ThreeTokens;

struct Drafting {
  std::string algorithm;
  int length = 0;
  int drafts = 1;
  std::vector<int> tree = {};

  SimulateOptions options() const {
    return {.algorithm = algorithm, .draft_length = length, .drafts = drafts, .tree = tree};
  }
  std::string name() const {
    std::string text = algorithm + ", " + std::to_string(drafts) + " of " + std::to_string(length);
    for (const int k : tree) text += " " + std::to_string(k);
    return text;
  }
};

// Each rule with one draft, and with several and with a tree if it supports them.
std::vector<Drafting> EveryRule() {
  std::vector<Drafting> all;
  for (const std::string& name : AlgorithmNames()) {
    for (const int length : {1, 3}) all.push_back({name, length});
    const Result<Rule> rule = ParseRule(name);
    if (!rule.ok() || !TakesManyPaths(*rule)) continue;
    for (const int drafts : {2, 3}) all.push_back({name, 2, drafts});
    all.push_back({name, 2, 1, {1, 2}});
    all.push_back({name, 2, 1, {2, 2}});
  }
  return all;
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

void ExpectTargetsDistribution(const Json& pair, const SimulateOptions& options,
                               const std::string& what) {
  const Json report = ReportOf(pair, options);
  double sum = 0;
  for (const auto& [sequence, probability] : report["sequence_law"].items()) {
    EXPECT_NEAR(probability.get<double>(), TargetProbability(pair, sequence), 1e-12)
        << what << ": " << sequence;
    sum += probability.get<double>();
  }
  EXPECT_NEAR(sum, 1, 1e-12) << what;
  for (size_t x = 0; x < report["first_token_law"].size(); ++x) {
    EXPECT_NEAR(report["first_token_law"][x].get<double>(),
                pair["target"]["initial"][x].get<double>(), 1e-12)
        << what;
  }
  double accepted = 0;
  for (const Json& p : report["accepted_law"]) accepted += p.get<double>();
  EXPECT_NEAR(accepted, 1, 1e-12) << what;
}

TEST(SimulateDistribution, IsTheTargetsExactly) {
  for (const Drafting& drafting : EveryRule()) {
    SimulateOptions options = drafting.options();
    options.exact = true;
    ExpectTargetsDistribution(ThreeTokens(), options, drafting.name());
    if (drafting.drafts < 3) ExpectTargetsDistribution(FourTokens(), options, drafting.name());
    if (drafting.algorithm == "gumbel") continue;
    options.integer_distributions = true;
    ExpectTargetsDistribution(ThreeTokens(), options, drafting.name() + ", integers");
  }
}

TEST(SimulateDistribution, HoldsWhereRowsHaveZeros) {
  const Json apart = IidPair({0, 0.5, 0, 0.5}, {0.75, 0, 0.25, 0});
  const Json partly = IidPair({0.25, 0, 0.5, 0.25}, {0.5, 0.5, 0, 0});
  const Json equal = IidPair({0.25, 0, 0.5, 0.25}, {0.25, 0, 0.5, 0.25});
  for (const Drafting& drafting : EveryRule()) {
    SimulateOptions options = drafting.options();
    options.exact = true;
    for (const Json& pair : {apart, partly, equal}) {
      ExpectTargetsDistribution(pair, options, drafting.name());
    }
    EXPECT_NEAR(ReportOf(apart, options)["mean_accepted"].get<double>(), 0, 1e-12);
    EXPECT_NEAR(ReportOf(equal, options)["mean_accepted"].get<double>(), drafting.length, 1e-12);
  }
}

// Rounds of one token with that many candidates are computed in closed form.
TEST(SimulateDistribution, HoldsForManyOneTokenDrafts) {
  const Json pair = IidPair({0.2, 0.3, 0.5}, {0.5, 0.3, 0.2});
  for (const char* algorithm : {"spectr", "multiround", "multipath-block"}) {
    for (const int drafts : {8, 12, 16}) {
      const SimulateOptions options{
          .algorithm = algorithm, .draft_length = 1, .drafts = drafts, .exact = true};
      const std::string what = algorithm + std::string(", ") + std::to_string(drafts);
      ExpectTargetsDistribution(pair, options, what);
      const Json report = ReportOf(pair, options);
      EXPECT_GT(report["acceptance_first_token"].get<double>(), 0.93) << what;
      EXPECT_LE(report["acceptance_first_token"].get<double>(),
                report["alpha_first_token"].get<double>() + 1e-12)
          << what;
    }
  }
}

// For a rule that walks down the tree, which of two tokens is accepted does not depend on what is
// drafted after it: with a second depth the same candidates are enumerated.
TEST(SimulateDistribution, ClosedFormEqualsEnumeration) {
  const Json pair = IidPair({0.25, 0.75}, {0.875, 0.125});
  for (const char* algorithm : {"spectr", "multiround"}) {
    const auto first = [&](int length) {
      const Json report = ReportOf(
          pair, {.algorithm = algorithm, .draft_length = length, .drafts = 8, .exact = true});
      return report["acceptance_first_token"].get<double>();
    };
    EXPECT_NEAR(first(1), first(2), 1e-12) << algorithm;
  }
}

TEST(SimulateDistribution, OneDraftEqualsBlockVerification) {
  for (const int length : {1, 2, 4}) {
    SimulateOptions options{
        .algorithm = "block", .draft_length = length, .chain = 2, .exact = true};
    const Json block = ReportOf(FourTokens(), options);
    options.algorithm = "multipath-block";
    const Json multi = ReportOf(FourTokens(), options);
    for (size_t i = 0; i < block["accepted_law"].size(); ++i) {
      EXPECT_NEAR(multi["accepted_law"][i].get<double>(), block["accepted_law"][i].get<double>(),
                  1e-14);
    }
    EXPECT_NEAR(multi["mean_tokens"][1].get<double>(), block["mean_tokens"][1].get<double>(),
                1e-12);
    options.exact = false;
    options.rounds = 2000;
    Json sampled = ReportOf(FourTokens(), options);
    options.algorithm = "block";
    sampled["algorithm"] = "block";
    EXPECT_EQ(sampled, ReportOf(FourTokens(), options));  // equal for each random number
  }
}

TEST(SimulateDistribution, SeveralDraftsAcceptMore) {
  for (const RuleTraits& rule : kRuleTraits) {
    if (!rule.takes_many_paths) continue;
    double before = 0;
    for (const int drafts : {1, 2, 3}) {
      const double accepted = ReportOf(ThreeTokens(), {.algorithm = std::string(rule.name),
                                                       .draft_length = 2,
                                                       .drafts = drafts,
                                                       .exact = true})["mean_accepted"]
                                  .get<double>();
      EXPECT_GT(accepted, before + 0.01) << rule.name << drafts;
      before = accepted;
    }
  }
}

// Four standard errors, with fixed seeds.
void ExpectSampled(const Json& pair, SimulateOptions options, const std::string& what) {
  options.rounds = 10000;
  options.chain = 3;
  options.seed = 12;
  const Json sampled = ReportOf(pair, options);
  options.exact = true;
  const Json exact = ReportOf(pair, options);
  const double error = sampled["standard_error"].get<double>();
  EXPECT_GT(error, 0.001) << what;
  EXPECT_LT(error, 0.02) << what;
  EXPECT_NEAR(sampled["mean_accepted"].get<double>(), exact["mean_accepted"].get<double>(),
              4 * error)
      << what;
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(sampled["mean_tokens"][i].get<double>(), exact["mean_tokens"][i].get<double>(),
                4 * sampled["mean_tokens_error"][i].get<double>())
        << what << ", round " << i;
  }
  const double first = exact["acceptance_first_token"].get<double>();
  EXPECT_NEAR(sampled["acceptance_first_token"].get<double>(), first,
              4 * std::sqrt(first * (1 - first) / options.rounds))
      << what;

  const auto test = [&](const Json& frequencies, const Json& probabilities) {
    std::vector<int64_t> counts;
    std::vector<double> distribution;
    double counted = 0;
    for (const auto& [key, probability] : probabilities.items()) {
      distribution.push_back(probability.get<double>());
      const double frequency = frequencies.is_array() ? frequencies[std::stoul(key)].get<double>()
                                                      : frequencies.value(key, 0.0);
      counts.push_back(std::lround(frequency * static_cast<double>(options.rounds)));
      counted += frequency;
    }
    EXPECT_NEAR(counted, 1, 1e-9) << what;
    EXPECT_GT(testing::ChiSquarePValue(counts, distribution), testing::kFalseAlarm) << what;
  };
  test(sampled["sequence_law"], exact["sequence_law"]);
  test(sampled["accepted_law"], exact["accepted_law"]);
}

TEST(SimulateDistribution, IsSampledAsItIsEnumerated) {
  for (const Drafting& drafting : EveryRule()) {
    ExpectSampled(ThreeTokens(), drafting.options(), drafting.name());
    if (drafting.algorithm == "gumbel") continue;
    SimulateOptions options = drafting.options();
    options.integer_distributions = true;
    ExpectSampled(ThreeTokens(), options, drafting.name() + ", integers");
  }
}

TEST(SimulateDistribution, SamplingMatchesClosedForm) {
  const Json pair = IidPair({0.1, 0.2, 0.7}, {0.6, 0.3, 0.1});
  for (const char* algorithm : {"spectr", "multiround", "multipath-block"}) {
    ExpectSampled(pair, {.algorithm = algorithm, .draft_length = 1, .drafts = 8}, algorithm);
  }
}

// Rounding changes a row by 2^-17 per entry, and a token below half a unit is never drafted.
TEST(SimulateDistribution, IntegerWeightsAreClose) {
  const auto accepted = [](bool integer_distributions) {
    return ReportOf(ThreeTokens(),
                    {.draft_length = 2,
                     .exact = true,
                     .integer_distributions = integer_distributions})["mean_accepted"]
        .get<double>();
  };
  EXPECT_NE(accepted(true), accepted(false));
  EXPECT_NEAR(accepted(true), accepted(false), 1e-4);

  const Json pair = IidPair({0.001, 0.999}, {2e-6, 1 - 2e-6});
  SimulateOptions options{.algorithm = "token", .draft_length = 1, .exact = true};
  EXPECT_NEAR(ReportOf(pair, options)["mean_accepted"].get<double>(), 0.999 + 2e-6, 1e-12);
  options.integer_distributions = true;
  EXPECT_NEAR(ReportOf(pair, options)["mean_accepted"].get<double>(), 0.999, 1e-12);
}

}  // namespace
}  // namespace outrider
