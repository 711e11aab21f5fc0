#include "verifier/control/cost_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/verifier/control/arms.h"

namespace outrider {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

double Step(double rows) { return 0.020 + 0.0005 * rows; }

TEST(CostModel, TwoRowCountsFitLinearStep) {
  CostModel costs(1);
  for (int i = 0; i < 10; ++i) {
    costs.ObserveStep(1, 0, Step(1));
    costs.ObserveStep(64, 0, Step(64));
  }
  for (const double rows : {1, 5, 17, 64, 100}) {
    EXPECT_NEAR(costs.StepSeconds(rows, 0), Step(rows), 0.02 * Step(rows)) << rows;
  }
}

TEST(CostModel, ContextIsToldFromRows) {
  CostModel costs(1);
  for (int i = 0; i < 200; ++i) {
    const double rows = 1 + i % 7, context = 4096 * (i % 5);
    costs.ObserveStep(rows, context, Step(rows) + 1e-6 * context);
  }
  EXPECT_NEAR(costs.StepSeconds(3, 16384), Step(3) + 0.016384, 1e-3);
  EXPECT_NEAR(costs.StepSeconds(3, 0), Step(3), 1e-3);
}

TEST(CostModel, CorrectsNonlinearStepWhereMeasured) {
  CostModel costs(1);
  const auto staircase = [](double rows) { return rows <= 8 ? 0.010 : 0.030; };
  for (int i = 0; i < 400; ++i) {
    for (const double rows : {1, 5, 12, 40}) costs.ObserveStep(rows, 0, staircase(rows));
  }
  for (const double rows : {1, 5, 12, 40}) {
    EXPECT_NEAR(costs.StepSeconds(rows, 0), staircase(rows), 0.1 * staircase(rows)) << rows;
  }
}

struct Mixture {
  double experts, top_k;
  double share;  // of a row's time, spent in its experts
};

// Rows of a mixture that choose their experts independently: each further row adds fewer new
// experts.
double MixtureStep(double rows, const Mixture& mixture) {
  const double met = mixture.experts * (1 - std::pow(1 - mixture.top_k / mixture.experts, rows));
  return 0.020 * (1 - mixture.share + mixture.share * met / mixture.top_k);
}

TEST(CostModel, LearnsMixtureRowsWhereUsed) {
  for (const Mixture& mixture : {Mixture{8, 2, 0.87}, Mixture{128, 8, 0.55}}) {
    CostModel costs(1);
    const auto step = [&](double rows) { return MixtureStep(rows, mixture); };
    // The passes before the first request, then plain steps and drafts of four tokens.
    for (const double rows : {1, 2, 4, 8, 16}) costs.ObserveStep(rows, 0, step(rows));
    for (const double rows : {1, 2, 4, 8, 16}) {
      EXPECT_NEAR(costs.StepSeconds(rows, 0), step(rows), 0.3 * step(rows)) << rows;
    }
    for (int i = 0; i < 30; ++i) {
      for (const double rows : {1, 5}) costs.ObserveStep(rows, 0, step(rows));
    }
    for (const double rows : {1, 5}) {
      EXPECT_NEAR(costs.StepSeconds(rows, 0), step(rows), 0.07 * step(rows)) << rows;
    }
    for (const double rows : {2, 3, 4, 6, 8}) {
      EXPECT_NEAR(costs.StepSeconds(rows, 0), step(rows), 0.2 * step(rows)) << rows;
    }
  }
}

TEST(CostModel, IgnoresSingleStall) {
  CostModel costs(1);
  for (int i = 0; i < 50; ++i) costs.ObserveStep(1 + i % 9, 0, Step(1 + i % 9));
  costs.ObserveStep(3, 0, 5.0);
  EXPECT_NEAR(costs.StepSeconds(3, 0), Step(3), 0.25 * Step(3));
  EXPECT_NEAR(costs.StepSeconds(40, 0), Step(40), 0.1 * Step(40));
}

TEST(CostModel, FollowsSlowerDevice) {
  CostModel costs(1);
  for (int i = 0; i < 300; ++i) costs.ObserveStep(1 + i % 9, 0, Step(1 + i % 9));
  for (int i = 0; i < 300; ++i) costs.ObserveStep(1 + i % 9, 0, 2 * Step(1 + i % 9));
  EXPECT_NEAR(costs.StepSeconds(4, 0), 2 * Step(4), 0.2 * Step(4));
}

TEST(CostModel, LongPlainPhaseForgetsNothing) {
  CostModel costs(1);
  for (int i = 0; i < 100; ++i) costs.ObserveStep(1 + i % 9, 0, Step(1 + i % 9));
  for (int i = 0; i < 5000; ++i) costs.ObserveStep(1, 0, Step(1));
  EXPECT_NEAR(costs.StepSeconds(9, 0), Step(9), 0.05 * Step(9));
}

TEST(CostModel, RoundIsDraftTripAndStep) {
  const ArmSet arms = MakeArms({Chain("g4", 4), Chain("g8", 8), Plain()});
  CostModel costs(arms.proposers());
  costs.ObserveStep(1, 0, Step(1));
  for (int i = 0; i < 20; ++i) costs.ObserveStep(64, 0, Step(64));
  // Uses the stream's estimate before a draft was measured, and the measurement afterwards.
  const StreamEstimate stream[] = {{.round_trip = 0.010, .draft_depth = 0.002}};
  const Context context{.streams = stream};
  EXPECT_NEAR(costs.RoundSeconds(arms.facts(0), context), 0.010 + 0.008 + Step(5), 2e-3);
  EXPECT_NEAR(costs.RoundSeconds(arms.facts(2), context), Step(1), 1e-3);
  costs.ObserveDraft({.proposer = 0, .sequences = 1}, 4, 4 * 0.005);
  EXPECT_NEAR(costs.RoundSeconds(arms.facts(1), context), 0.010 + 0.040 + Step(9), 3e-3);
  // The same for round trips, if the stream has no estimate.
  costs.ObserveRoundTrip(0, 0.030);
  EXPECT_NEAR(costs.RoundSeconds(arms.facts(1), {}), 0.030 + 0.040 + Step(9), 3e-3);
  // Sixteen sequences in a step, all with this plan.
  EXPECT_NEAR(costs.RoundSeconds(arms.facts(0), {.step_sessions = 16, .streams = stream}),
              0.010 + 0.020 + Step(80), 4e-3);
}

TEST(CostModel, SequencesAreToldFromDepths) {
  CostModel costs(1);
  for (int i = 0; i < 60; ++i) {
    const int depths = 1 + i % 8, sequences = 1 + i % 4;
    costs.ObserveDraft({.proposer = 0, .sequences = sequences}, depths,
                       0.001 + 0.002 * depths + 0.0005 * depths * (sequences - 1));
  }
  Arm wide = Chain("wide", 6);
  wide.shape = Sequences(3, 6);
  const ArmSet arms = MakeArms({wide});
  const StreamEstimate stream[] = {{.round_trip = 0}};
  EXPECT_NEAR(costs.RoundSeconds(arms.facts(0), {.streams = stream}), 0.019, 1e-3);
}

// Drafts under a stop rule are never made ahead.
TEST(CostModel, StopRulesHaveTheirOwnTimes) {
  Arm stops = Chain("stops", 4);
  stops.stop = StopRule::Kind::kConfidence;
  const ArmSet arms = MakeArms({Chain("fixed", 4), stops});
  CostModel costs(arms.proposers());
  const StreamEstimate stream[] = {{.round_trip = 0}};
  const auto seconds = [&](int arm) {
    return costs.RoundSeconds(arms.facts(arm), {.streams = stream});
  };
  for (int i = 0; i < 20; ++i) costs.ObserveDraft(arms.facts(0), 4, 0.002);
  EXPECT_NEAR(seconds(1), 0.002, 1e-4) << "the best guess until one is measured";
  for (int i = 0; i < 20; ++i) costs.ObserveDraft(arms.facts(1), 4, 0.012);
  EXPECT_NEAR(seconds(0), 0.002, 1e-4);
  EXPECT_NEAR(seconds(1), 0.012, 1e-4);
}

TEST(CostModel, IgnoresInvalidTimes) {
  const ArmSet arms = MakeArms({Chain("g4", 4)});
  CostModel costs(1);
  EXPECT_EQ(costs.RoundSeconds(arms.facts(0), {}), 0);  // nothing is known
  for (int i = 0; i < 20; ++i) costs.ObserveStep(1 + i % 9, 0, Step(1 + i % 9));
  costs.ObserveDraft({.proposer = 0, .sequences = 1}, 4, 0.008);
  costs.ObserveRoundTrip(0, 0.002);
  const double before = costs.RoundSeconds(arms.facts(0), {});
  for (const double bad : {kNan, kInf, -kInf, 0.0, -1.0}) {
    costs.ObserveStep(4, 0, bad);
    costs.ObserveDraft({.proposer = 0, .sequences = 1}, 4, bad);
    costs.ObserveRoundTrip(0, bad);
  }
  for (const double bad : {kNan, 0.0, -3.0}) costs.ObserveStep(bad, 0, 1);
  for (const double bad : {kNan, -3.0}) costs.ObserveStep(1, bad, 1);
  costs.ObserveStep(kInf, 0, 1);
  costs.ObserveDraft({.proposer = 7, .sequences = 1}, 4, 1);
  costs.ObserveDraft({.proposer = -1, .sequences = 1}, 4, 1);
  costs.ObserveDraft({.proposer = 0, .sequences = 0}, 4, 1);
  costs.ObserveDraft({.proposer = 0, .sequences = 1}, 0, 1);
  costs.ObserveRoundTrip(7, 1);
  EXPECT_EQ(costs.RoundSeconds(arms.facts(0), {}), before);
}

TEST(CostModel, RequestsPayForTheirOwnDrafts) {
  const ArmSet arms = MakeArms({Chain("a4", 4, "a"), Plain()});
  CostModel costs(arms.proposers());
  for (int i = 0; i < 8; ++i) {
    for (const double rows : {1, 5, 16, 64}) costs.ObserveStep(rows, 0, 0.020 + 0.0005 * rows);
  }
  const ArmSet::Facts& four = arms.facts(0);
  EXPECT_NEAR(costs.OthersSeconds(four, {}), 0, 1e-12);
  // Nine other sequences and four additional rows.
  EXPECT_NEAR(costs.OthersSeconds(four, {.step_sessions = 10}), 9 * 4 * 0.0005, 1e-3);
}

}  // namespace
}  // namespace outrider
