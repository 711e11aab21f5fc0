#include "verifier/control/exp3_spec.h"

#include <gmock/gmock.h>

#include <numeric>

#include "tests/verifier/control/arms.h"

namespace outrider {
namespace {

constexpr double kPrinted = 6e-7;  // six digits are printed

TEST(Exp3Spec, FollowsTheReferenceTrace) {
  struct Step {
    double rate;
    double p[3];
    int arm;
    double loss;
  };
  const Step steps[] = {{0.605148, {.333333, .333333, .333333}, 0, 3.000000},
                        {0.427904, {.121654, .439173, .439173}, 1, 1.138503},
                        {0.349382, {.173352, .332187, .494462}, 2, 1.516801},
                        {0.302574, {.231334, .406305, .362361}, 1, 1.230603},
                        {0.270630, {.271732, .322324, .405944}, 1, 1.551236},
                        {0.247051, {.308719, .245933, .445348}, 0, 3.239194}};
  const int tokens[] = {1, 3, 2};
  const ArmSet arms = MakeArms({Chain("1", 4), Chain("2", 4), Chain("3", 4)});
  Exp3Spec policy(arms, 0);
  const Context context{.allowed = arms.given()};
  for (int t = 0; t < 6; ++t) {
    const Step& step = steps[t];
    EXPECT_NEAR(Exp3SpecRate(3, t + 1), step.rate, kPrinted);
    const std::vector<double> p = policy.Probabilities(context);
    for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(p[i], step.p[i], kPrinted) << t << " " << i;
    const double probability = p[static_cast<size_t>(step.arm)];
    const int y = tokens[step.arm];
    EXPECT_NEAR((4 + 1 - y) / (4 * probability), step.loss, 5e-6);
    policy.Learn({.arm = step.arm, .probability = probability}, y);
  }
}

TEST(Exp3Spec, LearnsWithUsedProbability) {
  const ArmSet arms = MakeArms({Chain("bad", 4), Chain("good", 4)});
  Exp3Spec policy(arms, 7);
  const auto session = policy.Open();
  const Context context{.allowed = arms.given()};
  int good = 0;
  for (int t = 0; t < 2000; ++t) {
    const std::vector<double> p = policy.Probabilities(context);
    EXPECT_NEAR(std::accumulate(p.begin(), p.end(), 0.0), 1, 1e-12);
    const Choice choice = session->Choose(context);
    EXPECT_EQ(choice.probability, p[static_cast<size_t>(choice.arm)]);
    good += choice.arm;
    const int accepted = choice.arm == 1 ? 4 : 0;
    session->Observe(choice, {.accepted = accepted, .emitted = accepted + 1});
  }
  EXPECT_GT(good, 1700);
  EXPECT_LT(good, 2000);
  EXPECT_EQ(policy.pending(), 0);
}

TEST(Exp3Spec, OneArmIsCertain) {
  const ArmSet arms = MakeArms({Plain()});
  Exp3Spec policy(arms, 1);
  const auto session = policy.Open();
  for (int t = 0; t < 3; ++t) {
    const Choice choice = session->Choose({});
    EXPECT_EQ(choice.probability, 1);
    session->Observe(choice, {.accepted = 0, .emitted = 1});
  }
}

}  // namespace
}  // namespace outrider
