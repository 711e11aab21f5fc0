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

class EveryPolicy : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Policies, EveryPolicy, ::testing::ValuesIn(PolicyNames()),
                         [](const auto& policy) {
                           std::string name = policy.param;
                           std::erase(name, '-');
                           return name;
                         });

// Whatever is allowed, and whatever is reported in whatever order: the choice is an allowed arm or
// plain decoding.
TEST_P(EveryPolicy, NeverTakesForbiddenArm) {
  const auto controller = Make({.policy = GetParam(), .seed = 3});
  std::mt19937 random(11);
  const double times[] = {0.02, 0.05, 1e-9, 0, -1, std::numeric_limits<double>::quiet_NaN(), 1e9};
  std::deque<std::pair<std::unique_ptr<ControlSession>, std::deque<Choice>>> sessions;
  for (int i = 0; i < 3000; ++i) {
    if (sessions.size() < 4)
      sessions.emplace_back(controller->Open("pair", "key"), std::deque<Choice>{});
    auto& [session, choices] = sessions[random() % sessions.size()];
    const StreamEstimate stream[] = {{.round_trip = times[random() % 7]}};
    const Context context{.allowed = random() % 32,
                          .step_sessions = static_cast<double>(random() % 50),
                          .remaining = static_cast<int>(random() % 40),
                          .streams = stream};
    const Choice choice = session->Choose(context);
    ASSERT_TRUE(choice.arm == 3 || (context.allowed & ArmSet::Bit(choice.arm)) != 0)
        << choice.arm << " of " << context.allowed;
    choices.push_back(choice);
    ASSERT_LE(session->pending(), ControlSession::kMaxPending);
    while (!choices.empty() && random() % 3 != 0) {
      std::swap(choices.front(), choices[random() % choices.size()]);
      const int accepted = static_cast<int>(random() % 10) - 1;
      session->Observe(choices.front(), {.accepted = accepted,
                                         .drafted = static_cast<int>(random() % 10) - 1,
                                         .emitted = accepted + 1,
                                         .seconds = times[random() % 7],
                                         .truncated = random() % 8 == 0,
                                         .aborted = random() % 8 == 0});
      // Reporting twice, or never, is the same as once.
      if (random() % 4 == 0) session->Observe(choices.front(), {.accepted = 1});
      choices.pop_front();
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
      const Choice aborted = session->Choose({});
      session->Observe(aborted, {.accepted = 2, .emitted = 3, .seconds = 9, .aborted = true});
    }
    const Choice a = session->Choose({}), b = other->Choose({});
    ASSERT_EQ(a.arm, b.arm) << i;
    EXPECT_EQ(a.probability, b.probability);
    const int accepted = std::min(i % 4, controller->arms().facts(a.arm).length);
    const Outcome outcome{.accepted = accepted, .emitted = accepted + 1, .seconds = 0.03};
    session->Observe(a, outcome);
    other->Observe(b, outcome);
  }
}

TEST(Controller, EndedSessionDropsPendingRounds) {
  const ArmSet arms = MakeArms(SomeArms());
  CostModel costs(arms.proposers());
  const auto policy = std::make_shared<Adaptive>(arms, costs, true);
  {
    ControlSession session(policy);
    for (int i = 0; i < 100; ++i) session.Choose({});
    EXPECT_EQ(session.pending(), ControlSession::kMaxPending);
    EXPECT_EQ(policy->pending(), ControlSession::kMaxPending);
  }
  EXPECT_EQ(policy->pending(), 0);
}

TEST(Controller, ObservesOnceAndInAnyOrder) {
  const ArmSet arms = MakeArms(SomeArms());
  CostModel costs(arms.proposers());
  const auto policy = std::make_shared<Adaptive>(arms, costs, true);
  ControlSession session(policy);
  const Choice first = session.Choose({}), second = session.Choose({});
  session.Observe(second, {.accepted = 0, .emitted = 1, .seconds = 1});
  session.Observe(second, {.accepted = 0, .emitted = 1, .seconds = 1});
  EXPECT_EQ(policy->pending(), 1);
  session.Observe(first, {.accepted = 0, .emitted = 1, .seconds = 1});
  session.Observe({.arm = 0, .ticket = 77}, {.accepted = 0});
  session.Observe({.arm = 1000, .ticket = first.ticket}, {.accepted = 0});
  EXPECT_EQ(policy->pending(), 0);
  EXPECT_EQ(session.pending(), 0);
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
  a->Observe(a->Choose({}), {.accepted = 1, .emitted = 2, .seconds = 1});
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
  EXPECT_EQ(session->Choose({}).arm, 2);
  EXPECT_EQ(session->Choose({.allowed = 1}).arm, 3);
  EXPECT_EQ(session->switches(), 1);
  EXPECT_EQ(Make({.policy = "fixed"})->Open("", "")->Choose({}).arm, 0);
}

TEST(Controller, FixedTakesFirstAllowedArm) {
  const auto controller = Make({.policy = "fixed:b8,a2,b4"});
  const auto session = controller->Open("pair", "");
  EXPECT_EQ(session->Choose({}).arm, 4);
  EXPECT_EQ(session->Choose({.allowed = 0b01111}).arm, 0);
  EXPECT_EQ(session->Choose({.allowed = 0b01110}).arm, 2);
  EXPECT_EQ(session->Choose({.allowed = 0b01010}).arm, 3);
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
