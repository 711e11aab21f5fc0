#include "verifier/control/controller.h"

#include <gtest/gtest.h>

#include <deque>
#include <limits>
#include <random>

#include "tests/verifier/control/arms.h"
#include "verifier/control/adaptive.h"

namespace outrider {
namespace {

std::vector<Arm> SomeArms() {
  return {Chain("a2", 2, "a"), Chain("a4", 4, "a"), Chain("b4", 4, "b"), Plain(),
          Chain("b8", 8, "b")};
}

std::unique_ptr<Controller> Make(ControllerOptions options, std::vector<Arm> arms = SomeArms()) {
  auto controller = Controller::Create(std::move(options), std::move(arms));
  EXPECT_TRUE(controller.ok()) << controller.status().ToString();
  return std::move(controller).value();
}

// Returns the arm of a round in which one token is accepted.
int PlayRound(ControlSession& session, const Context& context = {}) {
  const int arm = session.Choose(context).arm;
  session.Observe({.accepted = 1, .emitted = 2, .seconds = 1});
  return arm;
}

class EveryPolicy : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Policies, EveryPolicy, ::testing::ValuesIn(PolicyNames()),
                         [](const auto& policy) {
                           std::string name = policy.param;
                           std::erase(name, '-');
                           return name;
                         });

// Whatever is allowed, and whatever is reported: the choice is an allowed arm or plain decoding.
TEST_P(EveryPolicy, NeverTakesForbiddenArm) {
  const auto controller = Make({.policy = GetParam(), .seed = 3});
  std::mt19937 random(11);
  const double times[] = {0.02, 0.05, 1e-9, 0, -1, std::numeric_limits<double>::quiet_NaN(), 1e9};
  std::deque<std::unique_ptr<ControlSession>> sessions;
  for (int i = 0; i < 6000; ++i) {
    if (sessions.size() < 4) sessions.push_back(controller->Open("pair", "key"));
    ControlSession& session = *sessions[random() % sessions.size()];
    if (session.pending()) {
      const int accepted = static_cast<int>(random() % 10) - 1;
      session.Observe({.accepted = accepted,
                       .drafted = static_cast<int>(random() % 10) - 1,
                       .emitted = accepted + 1,
                       .seconds = times[random() % 7],
                       .truncated = random() % 8 == 0,
                       .aborted = random() % 8 == 0});
    } else {
      const StreamEstimate stream[] = {{.round_trip = times[random() % 7]}};
      const Context context{.allowed = random() % 32,
                            .step_sessions = static_cast<double>(random() % 50),
                            .remaining = static_cast<int>(random() % 40),
                            .streams = stream};
      const Choice choice = session.Choose(context);
      ASSERT_TRUE(choice.arm == 3 || (context.allowed & ArmSet::Bit(choice.arm)) != 0)
          << choice.arm << " of " << context.allowed;
    }
    controller->costs().ObserveStep(1 + random() % 9, 0, times[random() % 7]);
    if (random() % 50 == 0) sessions.pop_front();
  }
}

TEST_P(EveryPolicy, AbortedRoundChangesNothing) {
  const auto controller = Make({.policy = GetParam()});
  const auto untouched = Make({.policy = GetParam()});
  const auto session = controller->Open("pair", "key");
  const auto other = untouched->Open("pair", "key");
  for (int i = 0; i < 60; ++i) {
    // exp3spec samples each choice: then the distribution must be the same, not the sample.
    if (GetParam() != "exp3spec") {
      session->Choose({});
      session->Observe({.accepted = 2, .emitted = 3, .seconds = 9, .aborted = true});
    }
    const Choice a = session->Choose({}), b = other->Choose({});
    ASSERT_EQ(a.arm, b.arm) << i;
    EXPECT_EQ(a.probability, b.probability);
    const int accepted = std::min(i % 4, controller->arms().facts(a.arm).length);
    const Outcome outcome{.accepted = accepted, .emitted = accepted + 1, .seconds = 0.03};
    session->Observe(outcome);
    other->Observe(outcome);
  }
}

TEST(Controller, EndedSessionDropsPendingRound) {
  const ArmSet arms = MakeArms(SomeArms());
  CostModel costs(arms.proposers());
  const auto policy = std::make_shared<Adaptive>(arms, costs, true);
  {
    ControlSession session(policy);
    session.Choose({});
    EXPECT_TRUE(session.pending());
    EXPECT_EQ(policy->pending(), 1);
  }
  EXPECT_EQ(policy->pending(), 0);
}

TEST(Controller, SharesByPairAndClient) {
  const auto controller = Make({.policy = "ucbspec"});
  const auto a = controller->Open("pair", "alice");
  EXPECT_EQ(a->Choose({}).arm, 0);
  EXPECT_EQ(controller->Open("pair", "alice")->Choose({}).arm, 1);  // alice's first arm is taken
  EXPECT_EQ(controller->Open("pair", "bob")->Choose({}).arm, 0);
  EXPECT_EQ(controller->Open("other", "alice")->Choose({}).arm, 0);
  EXPECT_EQ(controller->tables(), 3U);
  const auto alone = Make({.policy = "ucbspec", .shared = false});
  const auto c = alone->Open("pair", "alice");
  EXPECT_EQ(c->Choose({}).arm, 0);
  EXPECT_EQ(alone->Open("pair", "alice")->Choose({}).arm, 0);
  EXPECT_EQ(alone->tables(), 0U);
}

TEST(Controller, EvictsLeastRecentlyOpenedTable) {
  const auto controller = Make({.policy = "ucbspec", .max_tables = 2});
  const auto a = controller->Open("pair", "a");
  PlayRound(*a);
  controller->Open("pair", "b");
  controller->Open("pair", "a");
  controller->Open("pair", "c");  // b is evicted
  EXPECT_EQ(controller->tables(), 2U);
  EXPECT_EQ(controller->Open("pair", "a")->Choose({}).arm, 1);
  controller->Open("pair", "d");
  controller->Open("pair", "e");  // a is evicted, its session stays
  EXPECT_EQ(a->Choose({}).arm, 1);
  EXPECT_EQ(controller->Open("pair", "a")->Choose({}).arm, 0);
}

TEST(Controller, FixedTakesItsArmOrPlain) {
  const auto controller = Make({.policy = "fixed:b4"});
  const auto session = controller->Open("pair", "");
  EXPECT_EQ(PlayRound(*session), 2);
  EXPECT_EQ(PlayRound(*session, {.allowed = 1}), 3);
  EXPECT_EQ(session->switches(), 1);
  EXPECT_EQ(Make({.policy = "fixed"})->Open("", "")->Choose({}).arm, 0);
}

TEST(Controller, FixedTakesFirstAllowedArm) {
  const auto controller = Make({.policy = "fixed:b8,a2,b4"});
  const auto session = controller->Open("pair", "");
  EXPECT_EQ(PlayRound(*session), 4);
  EXPECT_EQ(PlayRound(*session, {.allowed = 0b01111}), 0);
  EXPECT_EQ(PlayRound(*session, {.allowed = 0b01110}), 2);
  EXPECT_EQ(PlayRound(*session, {.allowed = 0b01010}), 3);
}

TEST(Controller, RefusesWhatItDoesNotKnow) {
  for (const char* policy : {"", "adaptiv", "fixed:", "fixed:c", "fixed:a2,c", "ADAPTIVE"}) {
    const auto controller = Controller::Create({.policy = policy}, SomeArms());
    ASSERT_FALSE(controller.ok()) << policy;
    EXPECT_EQ(controller.status().code(), Code::kInvalidArgument);
  }
  EXPECT_FALSE(Controller::Create({}, {Chain("a", 2), Chain("a", 3)}).ok());
  EXPECT_FALSE(Controller::Create({.max_tables = 0}, SomeArms()).ok());
}

}  // namespace
}  // namespace outrider
