// Published figures of the rules, and figures derived from the papers' formulas by rational
// arithmetic, through `outrider simulate --exact`.
#include <gmock/gmock.h>

#include <cmath>
#include <fstream>

#include "tests/simulate/report.h"
#include "tests/support/spectr_figures.h"

namespace outrider {
namespace {

using testing::FourTokens;
using testing::IidPair;
using testing::Json;
using testing::ReportOf;
using testing::Row;
using testing::ThreeTokens;
using testing::TwoTokens;

constexpr double kTolerance = 1e-9;
// For figures that are given to nine decimals.
constexpr double kPrinted = 0.5001e-9;

Json Exact(const Json& pair, const std::string& algorithm, int draft_length, int drafts = 1) {
  return ReportOf(
      pair,
      {.algorithm = algorithm, .draft_length = draft_length, .drafts = drafts, .exact = true});
}

void ExpectRow(const Json& row, const Row& expected, double tolerance, const std::string& what) {
  ASSERT_EQ(row.size(), expected.size()) << what;
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(row[i].get<double>(), expected[i], tolerance) << what << " [" << i << "]";
  }
}

// Sun et al. 2025, section 2 and figure 3.
TEST(TwoTokenFigures, OfTwoDraftTokens) {
  const Json token = Exact(TwoTokens(), "token", 2);
  EXPECT_NEAR(token["mean_accepted"].get<double>(), 10.0 / 9, kTolerance);
  ExpectRow(token["accepted_law"], {1.0 / 3, 2.0 / 9, 4.0 / 9}, kTolerance, "token");
  const Json block = Exact(TwoTokens(), "block", 2);
  EXPECT_NEAR(block["mean_accepted"].get<double>(), 11.0 / 9, kTolerance);
  ExpectRow(block["accepted_law"], {1.0 / 3, 1.0 / 9, 5.0 / 9}, kTolerance, "block");
  const Json greedy = Exact(TwoTokens(), "greedy-block", 2);
  EXPECT_NEAR(greedy["mean_accepted"].get<double>(), 12.0 / 9, kTolerance);
  ExpectRow(greedy["accepted_law"], {1.0 / 3, 0, 2.0 / 3}, kTolerance, "greedy-block");
}

// Means for every draft length from 1 to 10; Pr(at least l tokens are accepted) is the same for
// every length of at least l.
TEST(TwoTokenFigures, OfEveryDraftLength) {
  const double block[] = {2.0 / 3,       11.0 / 9,        5.0 / 3,     166.0 / 81,
                          64.0 / 27,     1933.0 / 729,    703.0 / 243, 20384.0 / 6561,
                          7202.0 / 2187, 204271.0 / 59049};
  const double block_ccdf[] = {2.0 / 3,       5.0 / 9,       4.0 / 9,     31.0 / 81,
                               26.0 / 81,     205.0 / 729,   176.0 / 729, 1403.0 / 6561,
                               1222.0 / 6561, 9817.0 / 59049};
  const double greedy_ccdf[] = {0.666667, 0.666667, 0.518519, 0.518519, 0.419753,
                                0.419753, 0.346594, 0.346594, 0.289692, 0.289692};
  double token_mean = 0, greedy_mean = 0;
  for (int g = 1; g <= 10; ++g) {
    const auto index = static_cast<size_t>(g) - 1;
    const Json token = Exact(TwoTokens(), "token", g);
    token_mean += std::pow(2.0 / 3, g);
    EXPECT_NEAR(token["mean_accepted"].get<double>(), token_mean, kTolerance) << g;
    EXPECT_NEAR(token["accepted_law"].back().get<double>(), std::pow(2.0 / 3, g), kTolerance);
    const Json accepted = Exact(TwoTokens(), "block", g);
    EXPECT_NEAR(accepted["mean_accepted"].get<double>(), block[index], kTolerance) << g;
    EXPECT_NEAR(accepted["accepted_law"].back().get<double>(), block_ccdf[index], kTolerance) << g;
    // The sum over sequences of min(target, draft), by the number of tokens A.
    double overlap = 0, ways = 1;
    for (int a = 0; a <= g; ++a) {
      overlap += ways * std::pow(2.0, std::min(a, g - a)) / std::pow(3.0, g);
      ways = ways * (g - a) / (a + 1);
    }
    greedy_mean += overlap;
    EXPECT_NEAR(overlap, greedy_ccdf[index], 0.51e-6) << g;
    const Json greedy = Exact(TwoTokens(), "greedy-block", g);
    EXPECT_NEAR(greedy["mean_accepted"].get<double>(), greedy_mean, kTolerance) << g;
    EXPECT_NEAR(greedy["accepted_law"].back().get<double>(), overlap, kTolerance) << g;
  }
}

TEST(TwoTokenFigures, OfChainedRounds) {
  const auto tokens = [](const std::string& algorithm, int g, int chain) {
    return ReportOf(
        TwoTokens(),
        {.algorithm = algorithm, .draft_length = g, .chain = chain, .exact = true})["mean_tokens"];
  };
  // Greedy block verification gains in advance what later rounds lose: token's 19/9 per round.
  ExpectRow(tokens("greedy-block", 2, 5), {7.0 / 3, 40.0 / 9, 59.0 / 9, 78.0 / 9, 97.0 / 9},
            kTolerance, "greedy-block, 2");
  ExpectRow(tokens("greedy-block", 3, 3), {77.0 / 27, 437.0 / 81, 635.0 / 81}, kTolerance,
            "greedy-block, 3");
  ExpectRow(tokens("greedy-block", 4, 3), {91.0 / 27, 13402.0 / 2187, 519677.0 / 59049}, kTolerance,
            "greedy-block, 4");
  const auto steady = [&](int g, int chain) {
    const Json means = tokens("greedy-block", g, chain);
    return means[static_cast<size_t>(chain) - 1].get<double>() -
           means[static_cast<size_t>(chain) - 2].get<double>();
  };
  EXPECT_NEAR(steady(3, 64), 2.447188, 0.51e-6);
  EXPECT_NEAR(steady(4, 12), 2.6465, 0.51e-4);
  ExpectRow(tokens("token", 2, 3), {19.0 / 9, 38.0 / 9, 57.0 / 9}, kTolerance, "token, 2");
  ExpectRow(tokens("block", 2, 3), {20.0 / 9, 40.0 / 9, 60.0 / 9}, kTolerance, "block, 2");
  ExpectRow(tokens("block", 3, 3), {8.0 / 3, 16.0 / 3, 8.0}, kTolerance, "block, 3");
  ExpectRow(tokens("block", 4, 2), {247.0 / 81, 494.0 / 81}, kTolerance, "block, 4");
}

TEST(FourTokenFigures, OfOneDraft) {
  const struct {
    std::string algorithm;
    Row accepted;
  } kCases[] = {
      {"token", {1.0 / 4, 3.0 / 4}},
      {"block", {1.0 / 4, 3.0 / 4}},
      {"greedy-block", {1.0 / 4, 3.0 / 4}},
      {"token", {1.0 / 4, 77.0 / 240, 103.0 / 240}},
      {"block", {1.0 / 4, 13.0 / 48, 23.0 / 48}},
      {"token", {1.0 / 4, 77.0 / 240, 5047.0 / 28800, 7313.0 / 28800}},
      {"block", {1.0 / 4, 13.0 / 48, 1397.0 / 9600, 3203.0 / 9600}},
      {"greedy-block", {1.0 / 4, 3.0 / 16, 6409.0 / 57600, 25991.0 / 57600}},
  };
  for (const auto& c : kCases) {
    const int g = static_cast<int>(c.accepted.size()) - 1;
    const std::string what = c.algorithm + ", " + std::to_string(g);
    ExpectRow(Exact(FourTokens(), c.algorithm, g)["accepted_law"], c.accepted, kTolerance, what);
  }
  const auto mean = [](const std::string& algorithm, int g) {
    return Exact(FourTokens(), algorithm, g)["mean_accepted"].get<double>();
  };
  EXPECT_NEAR(mean("token", 2), 283.0 / 240, kTolerance);
  EXPECT_NEAR(mean("block", 2), 59.0 / 48, kTolerance);
  EXPECT_NEAR(mean("greedy-block", 2), 21.0 / 16, kTolerance);
  EXPECT_NEAR(mean("token", 3), 41273.0 / 28800, kTolerance);
  EXPECT_NEAR(mean("block", 3), 5001.0 / 3200, kTolerance);
  EXPECT_NEAR(mean("greedy-block", 3), 101591.0 / 57600, kTolerance);
  EXPECT_NEAR(mean("token", 4), 5471983.0 / 3456000, kTolerance);
  EXPECT_NEAR(mean("block", 4), 2088917.0 / 1152000, kTolerance);
  EXPECT_NEAR(mean("greedy-block", 4), 38399.0 / 18000, kTolerance);
}

// Ber(a) as draft, Ber(b) as target: Sun et al. 2023, Eq. 10.
TEST(BernoulliFigures, MatchTabledAcceptance) {
  constexpr double kSixDecimals = 0.51e-6;
  for (const testing::BernoulliFigures& c : testing::kBernoulliFigures) {
    const std::string what = "b " + std::to_string(c.b) + ", k " + std::to_string(c.k);
    const Json pair = IidPair({1 - c.b, c.b}, {0.75, 0.25});
    const Json kseq = Exact(pair, "spectr", 1, c.k);
    EXPECT_NEAR(kseq["kseq"]["rho"].get<double>(), c.rho, kSixDecimals) << what;
    EXPECT_NEAR(kseq["kseq"]["beta"].get<double>(), c.beta, kSixDecimals) << what;
    EXPECT_NEAR(kseq["mean_accepted"].get<double>(), c.kseq, kSixDecimals) << what;
    // Eq. 6 makes the figures above exact: rho* beta is the acceptance.
    EXPECT_NEAR(kseq["mean_accepted"].get<double>(),
                kseq["kseq"]["rho"].get<double>() * kseq["kseq"]["beta"].get<double>(), kTolerance);
    EXPECT_NEAR(kseq["alpha_first_token"].get<double>(), c.optimum, kSixDecimals) << what;
    const double optimum =
        std::min(c.b, 1 - std::pow(0.75, c.k)) + std::min(1 - c.b, 1 - std::pow(0.25, c.k));
    EXPECT_NEAR(kseq["alpha_first_token"].get<double>(), optimum, kTolerance) << what;
    const Json rejection = Exact(pair, "multiround", 1, c.k);
    EXPECT_NEAR(rejection["mean_accepted"].get<double>(), c.multiround, kSixDecimals) << what;
  }
  for (const int k : {1, 2, 4, 8, 16}) {
    const double all = 1 - std::pow(0.75, k);
    for (const char* algorithm : {"spectr", "multiround"}) {
      const Json sure = Exact(IidPair({0, 1}, {0.75, 0.25}), algorithm, 1, k);
      EXPECT_NEAR(sure["mean_accepted"].get<double>(), all, kTolerance) << algorithm << k;
      EXPECT_NEAR(sure["alpha_first_token"].get<double>(), all, kTolerance) << algorithm << k;
      const Json equal = Exact(IidPair({0.75, 0.25}, {0.75, 0.25}), algorithm, 1, k);
      EXPECT_NEAR(equal["mean_accepted"].get<double>(), 1, kTolerance) << algorithm << k;
      EXPECT_NEAR(equal["alpha_first_token"].get<double>(), 1, kTolerance) << algorithm << k;
    }
    const Json sure = Exact(IidPair({0, 1}, {0.75, 0.25}), "spectr", 1, k);
    EXPECT_NEAR(sure["kseq"]["rho"].get<double>(), 4 * all, kTolerance) << k;
    EXPECT_NEAR(sure["kseq"]["beta"].get<double>(), 0.25, kTolerance) << k;
  }
}

Row Uniform(size_t vocab, size_t support) {
  Row row(vocab, 0.0);
  for (size_t i = 0; i < support; ++i) row[i] = 1 / static_cast<double>(support);
  return row;
}

// Uniform rows on nested supports: k-SEQ is optimal, by a closed form. 120 tokens, up to 16 drafts.
TEST(UniformFigures, OfOneHundredAndTwentyTokens) {
  for (const int r : {10, 5, 4, 3, 2}) {
    const Json pair = IidPair(Uniform(120, 120 / static_cast<size_t>(r)), Uniform(120, 120));
    for (const int k : {1, 2, 4, 8, 16}) {
      const double acceptance = 1 - std::pow(1 - 1.0 / r, k);
      const Json report = Exact(pair, "spectr", 1, k);
      const std::string what = "r " + std::to_string(r) + ", k " + std::to_string(k);
      EXPECT_NEAR(report["acceptance_first_token"].get<double>(), acceptance, kTolerance) << what;
      EXPECT_NEAR(report["mean_accepted"].get<double>(), acceptance, kTolerance) << what;
      EXPECT_NEAR(report["alpha_first_token"].get<double>(), acceptance, kTolerance) << what;
      EXPECT_NEAR(report["kseq"]["rho"].get<double>(), r * acceptance, kTolerance) << what;
      EXPECT_NEAR(report["kseq"]["beta"].get<double>(), 1.0 / r, kTolerance) << what;
      EXPECT_NEAR(report["first_token_law"][0].get<double>(), r / 120.0, 1e-12) << what;
      EXPECT_NEAR(report["first_token_law"][119].get<double>(), 0, 1e-12) << what;
    }
  }
}

TEST(PointMassFigures, OfKSeq) {
  for (const int k : {2, 3, 4, 8}) {
    const Json halves = Exact(IidPair({0.5, 0.5}, {0, 1}), "spectr", 1, k);
    EXPECT_NEAR(halves["kseq"]["rho"].get<double>(), 1 / (2 * (1 - std::pow(2, -1.0 / k))),
                kTolerance);
    EXPECT_NEAR(halves["mean_accepted"].get<double>(), 0.5, kTolerance);
    EXPECT_NEAR(halves["alpha_first_token"].get<double>(), 0.5, kTolerance);
    const Json sure = Exact(IidPair({0, 0, 1}, {0.2, 0.3, 0.5}), "spectr", 1, k);
    EXPECT_NEAR(sure["kseq"]["rho"].get<double>(), 2 * (1 - std::pow(0.5, k)), kTolerance);
    EXPECT_NEAR(sure["mean_accepted"].get<double>(), 1 - std::pow(0.5, k), kTolerance);
    const Json alike = Exact(IidPair({0.2, 0.3, 0.5}, {1, 0, 0}), "spectr", 1, k);
    EXPECT_NEAR(alike["mean_accepted"].get<double>(), 0.2, kTolerance);
    ExpectRow(alike["kseq"]["residual"], {0, 0.375, 0.625}, kTolerance, "residual");
  }
}

TEST(ThreeTokenFigures, OfSeveralDrafts) {
  const struct {
    int k, length;
    double tokens;
    Row accepted;  // from one token on
  } kCases[] = {
      {1, 1, 1.7, {.7}},
      {2, 1, 1.791355287, {.791355287}},
      {3, 1, 1.858518606, {.858518606}},
      {4, 1, 1.906007168, {}},
      {1, 2, 2.11, {.29, .41}},
      {2, 2, 2.271024451, {.311686124, .479669163}},
      {3, 2, 2.397892929, {.319144282, .539374323}},
      {1, 3, 2.346, {.29, .174, .236}},
      {2, 3, 2.551677313, {.311686124, .199016301, .280652862}},
  };
  for (const auto& c : kCases) {
    const std::string what = std::to_string(c.k) + " of " + std::to_string(c.length);
    const Json report = Exact(ThreeTokens(), "spectr", c.length, c.k);
    EXPECT_NEAR(report["mean_tokens"][0].get<double>(), c.tokens, kPrinted) << what;
    EXPECT_NEAR(report["mean_accepted"].get<double>() + 1, c.tokens, kPrinted) << what;
    for (size_t i = 0; i < c.accepted.size(); ++i) {
      EXPECT_NEAR(report["accepted_law"][i + 1].get<double>(), c.accepted[i], kPrinted) << what;
    }
  }
}

TEST(ThreeTokenFigures, OfTrees) {
  const auto tokens = [](std::vector<int> tree) {
    const Json report =
        ReportOf(ThreeTokens(), {.algorithm = "spectr", .tree = tree, .exact = true});
    EXPECT_EQ(report["tree"], Json(tree));
    EXPECT_EQ(report["draft_length"], tree.size());
    return report["mean_tokens"][0].get<double>();
  };
  EXPECT_NEAR(tokens({1, 2}), 2.210444288, kPrinted);
  EXPECT_NEAR(tokens({2, 2}), 2.382729955, kPrinted);
  EXPECT_NEAR(tokens({1, 3}), 2.269516609, kPrinted);
  EXPECT_NEAR(tokens({2, 1}), 2.271024451, kPrinted);
  EXPECT_NEAR(tokens({3, 1}), 2.397892929, kPrinted);
}

// The plan for each row of the chain, used as its initial row.
TEST(ThreeTokenFigures, OfTheKSeqPlans) {
  for (const testing::KSeqFigures& c : testing::kThreeTokenPlans) {
    Json pair = ThreeTokens();
    for (const char* model : {"target", "draft"}) {
      if (c.last >= 0) pair[model]["initial"] = pair[model]["transition"][c.last];
    }
    const Json report = Exact(pair, "spectr", 1, c.k);
    const std::string what = "row " + std::to_string(c.last) + ", k " + std::to_string(c.k);
    EXPECT_NEAR(report["kseq"]["rho"].get<double>(), c.rho, kPrinted) << what;
    EXPECT_NEAR(report["kseq"]["beta"].get<double>(), c.beta, kPrinted) << what;
    EXPECT_NEAR(report["acceptance_first_token"].get<double>(), c.accepted, kPrinted) << what;
    EXPECT_NEAR(report["alpha_first_token"].get<double>(), c.optimum, kTolerance) << what;
    ExpectRow(report["kseq"]["residual"], Row(c.residual.begin(), c.residual.end()), kPrinted,
              what);
  }
}

}  // namespace
}  // namespace outrider
