#include "verifier/control/ucb_spec.h"

#include <gmock/gmock.h>

#include "tests/verifier/control/arms.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;

std::vector<int> Pulls(Policy& policy, const ArmSet& arms, std::vector<int> tokens, int rounds) {
  const auto session = policy.Open();
  std::vector<int> pulls;
  for (int t = 0; t < rounds; ++t) {
    const Choice choice = session->Choose({.allowed = arms.given()});
    const int emitted = tokens[static_cast<size_t>(choice.arm)];
    session->Observe(choice, {.accepted = emitted - 1, .emitted = emitted, .seconds = 1});
    pulls.push_back(choice.arm + 1);
  }
  return pulls;
}

ArmSet ThreeArms() { return MakeArms({Chain("1", 4), Chain("2", 4), Chain("3", 4)}); }

TEST(UcbSpec, RadiusIsThePublishedOne) {
  EXPECT_NEAR(UcbSpecRadius(4, 5, 5, 1, .5), 10.093985939, 5e-10);
  EXPECT_NEAR(UcbSpecRadius(4, 4, 4, 1, .5), 9.548699475, 5e-10);
  EXPECT_NEAR(UcbSpecRadius(4, 4, 100, 25, .5), 2.113240801, 5e-10);
  EXPECT_NEAR(UcbSpecRadius(10, 4, 256, 64, .5), 3.535886672, 5e-10);
  EXPECT_NEAR(UcbSpecRadius(7, 3, 50, 10, .1), 5.901753538, 5e-10);
}

TEST(UcbSpec, FollowsTheReferenceTraces) {
  const ArmSet arms = ThreeArms();
  UcbSpec policy(arms);
  std::vector<int> pulls = Pulls(policy, arms, {1, 3, 2}, 60);
  EXPECT_EQ(std::count(pulls.begin(), pulls.end(), 1), 8);
  EXPECT_EQ(std::count(pulls.begin(), pulls.end(), 2), 37);
  EXPECT_EQ(std::count(pulls.begin(), pulls.end(), 3), 15);
  pulls.resize(30);
  EXPECT_THAT(pulls, ElementsAre(1, 2, 3, 2, 3, 1, 2, 3, 2, 1, 2, 3, 2, 2, 3, 1, 2, 2, 3, 2, 2, 3,
                                 1, 2, 2, 2, 3, 2, 2, 3));

  UcbSpec other(arms);
  pulls = Pulls(other, arms, {1, 5, 1}, 60);
  EXPECT_EQ(std::count(pulls.begin(), pulls.end(), 1), 4);
  EXPECT_EQ(std::count(pulls.begin(), pulls.end(), 2), 52);
  EXPECT_EQ(std::count(pulls.begin(), pulls.end(), 3), 4);
  pulls.resize(17);
  EXPECT_THAT(pulls, ElementsAre(1, 2, 3, 2, 2, 1, 3, 2, 2, 2, 2, 2, 2, 1, 3, 2, 2));
}

TEST(UcbSpec, CountsEmittedTokens) {
  const ArmSet arms = MakeArms({Chain("ends", 4), Chain("goes on", 4)});
  UcbSpec policy(arms, 0.1);
  const auto session = policy.Open();
  int pulls[2] = {};
  for (int t = 0; t < 400; ++t) {
    const Choice choice = session->Choose({.allowed = arms.given()});
    ++pulls[choice.arm];
    session->Observe(choice, {.accepted = 4, .emitted = 4 + choice.arm, .seconds = 1});
  }
  EXPECT_GT(pulls[1], 2 * pulls[0]);
}

TEST(UcbSpec, NarrowerRadiusSettlesSooner) {
  const ArmSet arms = ThreeArms();
  UcbSpec tuned(arms, 0.1);
  const std::vector<int> pulls = Pulls(tuned, arms, {1, 3, 2}, 60);
  EXPECT_GT(std::count(pulls.begin(), pulls.end(), 2), 50);
}

TEST(UcbSpec, PendingPullsKeepSessionsFromCrowding) {
  const ArmSet arms = ThreeArms();
  UcbSpec policy(arms);
  const auto session = policy.Open();
  std::vector<Choice> choices;
  for (int i = 0; i < 3; ++i) choices.push_back(session->Choose({.allowed = arms.given()}));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(choices[static_cast<size_t>(i)].arm, i);
  EXPECT_EQ(policy.pending(), 3);
  // The best arm has one observed pull, then takes turns with the others although nothing else has
  // been reported.
  session->Observe(choices[1], {.accepted = 4, .emitted = 5});
  std::vector<int> next;
  for (int i = 0; i < 6; ++i) next.push_back(session->Choose({.allowed = arms.given()}).arm);
  EXPECT_THAT(next, ::testing::Contains(0));
  EXPECT_THAT(next, ::testing::Contains(2));
}

TEST(UcbSpec, SurvivesZeroLengthArms) {
  const ArmSet arms = MakeArms({Plain()});
  UcbSpec policy(arms);
  EXPECT_THAT(Pulls(policy, arms, {1}, 3), ElementsAre(1, 1, 1));
}

}  // namespace
}  // namespace outrider
