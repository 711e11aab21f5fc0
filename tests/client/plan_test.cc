// Compares with numbers computed by hand.
#include "client/plan.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

namespace outrider {
namespace {

using ::testing::HasSubstr;

PlanOptions Pair() {
  return {.draft_ms = 1,
          .verify_ms = 10,
          .rtt_ms = 4,
          .acceptance = 0.5,
          .draft_length = 1,
          .sessions = 1,
          .lookup_acceptance = 0.5};
}

PlanReport Plan(const PlanOptions& options) {
  const Result<PlanReport> report = MakePlan(options);
  EXPECT_TRUE(report.ok()) << report.status().ToString();
  return report.ok() ? *report : PlanReport{};
}

const PlannedLayout& Of(const PlanReport& report, const std::string& name) {
  for (const PlannedLayout& l : report.layouts) {
    if (l.name == name) return l;
  }
  ADD_FAILURE() << "no layout " << name;
  return report.layouts.front();
}

TEST(Plan, ExpectedTokensFollowGeometricSeries) {
  EXPECT_DOUBLE_EQ(ExpectedTokens(0.5, 1, 1), 1.5);
  EXPECT_NEAR(ExpectedTokens(0.8, 4, 1), (1 - std::pow(0.8, 5)) / 0.2, 1e-12);
  EXPECT_DOUBLE_EQ(ExpectedTokens(0, 8, 1), 1);
  EXPECT_DOUBLE_EQ(ExpectedTokens(0.5, 1, 2), 1.75) << "one of two is accepted";
}

TEST(Plan, SingleRequestPaysForItsWaits) {
  const PlanReport report = Plan(Pair());
  EXPECT_NEAR(Of(report, "plain").one_request, 100, 1e-9);
  EXPECT_NEAR(Of(report, "colocated").one_request, 1.5 / 0.011, 1e-9);
  EXPECT_NEAR(Of(report, "split").one_request, 1.5 / 0.015, 1e-9);
  // A quarter of the rounds without the millisecond of the draft.
  EXPECT_NEAR(Of(report, "ahead").one_request, 1.5 / (0.25 * 0.014 + 0.75 * 0.015), 1e-9);
  EXPECT_NEAR(Of(report, "lookup").one_request, 150, 1e-9);
  EXPECT_EQ(report.fastest, "lookup");
  EXPECT_EQ(report.cheapest, "");
}

TEST(Plan, BreakEvenRoundTripCancelsSpeedup) {
  const PlanReport report = Plan(Pair());
  // 1.5 tokens in 10 + 1 + rtt ms against one in 10 ms: 15 - 11.
  EXPECT_EQ(report.break_even[0].layout, "split");
  EXPECT_EQ(report.break_even[0].against, "plain");
  EXPECT_NEAR(report.break_even[0].one_request_ms, 4, 2e-3);
  EXPECT_EQ(report.break_even[1].against, "colocated");
  EXPECT_NEAR(report.break_even[1].one_request_ms, 0, 2e-3);
  PlanOptions hopeless = Pair();
  hopeless.acceptance = 0.05;
  EXPECT_LT(Plan(hopeless).break_even[0].one_request_ms, 0);
}

TEST(Plan, LookaheadHidesDraftingNotRoundTrip) {
  PlanOptions options = Pair();
  options.ahead_hits = 1;
  EXPECT_NEAR(Of(Plan(options), "ahead").one_request, 1.5 / 0.014, 1e-9);
  options.draft_ms = 30;  // longer than the verdict is away
  EXPECT_NEAR(Of(Plan(options), "ahead").one_request, 1.5 / 0.030, 1e-9);
}

TEST(Plan, FullBatchSharesSteps) {
  PlanOptions options = Pair();
  options.sessions = 4;
  options.verify_row_ms = 1;
  options.rtt_ms = 3;
  const PlanReport report = Plan(options);
  EXPECT_NEAR(Of(report, "plain").full_batch, 4 / 0.013, 1e-9);
  EXPECT_NEAR(Of(report, "colocated").full_batch, 4 * 1.5 / (0.017 + 0.001), 1e-9);
  // A step of b sessions takes 9 + 2b, a round 1.375 (9 + 2b) + 4, and b = 4 (9 + 2b) / round:
  // 2.75 b^2 + 8.375 b = 36.
  const double b = (-8.375 + std::sqrt(8.375 * 8.375 + 4 * 2.75 * 36)) / 5.5;
  const double round = (1.375 * (9 + 2 * b) + 4) / 1e3;
  const PlannedLayout& split = Of(report, "split");
  EXPECT_NEAR(split.full_batch, 4 * 1.5 / round, 1e-6);
  EXPECT_EQ(split.drafters, 1);
  EXPECT_NEAR(report.capacity_ratio, 1 + 1.0 / 17, 1e-9);
  EXPECT_NEAR(split.mbit_to_verifier, 8e-6 * 4 / round * (120 + 5 + 25 * 4), 1e-6);
  EXPECT_NEAR(split.mbit_to_drafters, 8e-6 * 4 / round * (120 + 1.5 * 5), 1e-6);
  EXPECT_EQ(Of(report, "colocated").mbit_to_verifier, 0);
}

TEST(Plan, CountsClientsThatGetTheirRate) {
  PlanOptions options = Pair();
  options.verify_row_ms = 1;
  options.client_rate = 20;  // a plain step of 50 ms: 41 rows
  EXPECT_EQ(Of(Plan(options), "plain").clients, 41);
  options.client_rate = 1000;
  EXPECT_EQ(Of(Plan(options), "plain").clients, 0);
}

TEST(Plan, DrafterCountReachesMostOfSpeedup) {
  PlanOptions options = Pair();
  options.sessions = 64;
  options.draft_row_ms = 1;
  options.draft_length = 4;
  options.verify_row_ms = 0.01;
  options.acceptance = 0.8;
  const PlanReport report = Plan(options);
  const int drafters = Of(report, "split").drafters;
  EXPECT_GT(drafters, 1);
  EXPECT_LT(drafters, 64);
  options.draft_row_ms = 0;
  EXPECT_EQ(Of(Plan(options), "split").drafters, 1) << "a pass costs the same for any number";
}

TEST(Plan, PricesAreOfAllMachines) {
  PlanOptions options = Pair();
  options.verifier_price = 3.6;
  options.drafter_price = 0.36;
  const PlanReport report = Plan(options);
  EXPECT_NEAR(Of(report, "plain").per_million, 0.001 / 100 * 1e6, 1e-9);
  EXPECT_NEAR(Of(report, "split").per_million, 0.0011 / 100 * 1e6, 1e-9);
  EXPECT_EQ(report.cheapest, "lookup");
}

TEST(Plan, ChoosesBestLengthPerLayout) {
  PlanOptions options = Pair();
  options.draft_length = 0;
  options.acceptance = 0.9;
  options.lookup_acceptance.reset();
  const PlanReport report = Plan(options);
  EXPECT_EQ(report.layouts.size(), 4u);
  const PlannedLayout& best = Of(report, "split");
  EXPECT_GT(best.draft_length, 1);
  for (int length = 1; length <= kMaxPlanLength; ++length) {
    options.draft_length = length;
    EXPECT_LE(Of(Plan(options), "split").full_batch, best.full_batch + 1e-9) << length;
  }
  EXPECT_EQ(Of(report, "plain").draft_length, 0);
}

TEST(Plan, FiguresAreFiniteAndNonNegative) {
  for (const double rtt : {0., 1., 100., 10000.}) {
    for (const double row : {0., 0.01, 10.}) {
      for (const int sessions : {1, 2, 33, 4096}) {
        PlanOptions options = Pair();
        options.rtt_ms = rtt;
        options.verify_row_ms = row;
        options.draft_row_ms = row;
        options.sessions = sessions;
        options.sequences = 2;
        options.draft_length = 4;
        for (const PlannedLayout& l : Plan(options).layouts) {
          for (const double value : {l.one_request, l.full_batch, l.tokens_per_round}) {
            EXPECT_TRUE(std::isfinite(value) && value > 0) << l.name;
          }
          // Nobody is faster in company than alone.
          EXPECT_LE(l.full_batch, l.one_request * sessions * (1 + 1e-9)) << l.name;
        }
      }
    }
  }
}

TEST(Plan, SaysWhichFieldMakesNoSense) {
  const auto message = [](auto spoil) {
    PlanOptions options = Pair();
    spoil(options);
    const Status status = MakePlan(options).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    return status.message();
  };
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(message([](auto& o) { o.draft_ms = 0; }), HasSubstr("--t-draft"));
  EXPECT_THAT(message([](auto& o) { o.verify_ms = kNan; }), HasSubstr("--t-verify"));
  EXPECT_THAT(message([](auto& o) { o.rtt_ms = -1; }), HasSubstr("--rtt"));
  EXPECT_THAT(message([](auto& o) { o.acceptance = 1; }), HasSubstr("--acceptance"));
  EXPECT_THAT(message([](auto& o) { o.draft_length = 65; }), HasSubstr("--draft-length"));
  EXPECT_THAT(message([](auto& o) { o.sessions = 0; }), HasSubstr("--sessions"));
  EXPECT_THAT(message([](auto& o) { o.ahead_hits = 1.5; }), HasSubstr("--ahead-hits"));
  EXPECT_THAT(message([](auto& o) { o.drafter_price = -1; }), HasSubstr("price"));
}

}  // namespace
}  // namespace outrider
