#include "drafter/propose/head_learner.h"

#include <gmock/gmock.h>

#include <chrono>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tests/drafter/propose/parts_fixture.h"

namespace outrider {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

const AcceptanceHead& Head() {
  static const AcceptanceHead head{
      .width = 4, .depth = 0, .parameters = {1.f, -1.f, 0.5f, 0.5f, 0.f}};
  return head;
}

class HeadLearnerTest : public PartsTest {
 protected:
  class Heard final : public DraftObserver {
   public:
    void OnHead(float bias, float threshold) override { heard.emplace_back(bias, threshold); }
    std::vector<std::pair<float, float>> heard;
  };

  // A session whose draft of four tokens was made under the head's rule, without stopping.
  HeldSession& Drafted(const AcceptanceHead* head) {
    Build({.chunk_depths = 8, .head = head}, {}, &heard_);
    SessionOpening open = Opening(1, Sequences(1, 4));
    open.plan.stop = {.kind = StopRule::Kind::kHead, .threshold = 0.9999f};
    HeldSession& held = Hold(Connect(1), open);
    while (held.mirror->session.drafting()) RunPass();
    return held;
  }
  static SessionVerdict Verdict(uint32_t round, std::string acceptance) {
    return {.session = 1,
            .round = round,
            .node = 2,
            .next = {7},
            .plan = {.round = round + 1, .shape = Sequences(1, 4)},
            .acceptance = std::move(acceptance)};
  }

  Heard heard_;
};

TEST_F(HeadLearnerTest, VerdictsCorrectItsPredictions) {
  HeldSession& held = Drafted(&Head());
  parts_->head.OnVerdict(held, Verdict(1, std::string(4, '\xff')), clock_.Now());
  ASSERT_THAT(heard_.heard, SizeIs(1));
  EXPECT_GT(heard_.heard[0].first, 0.f) << "all were accepted: more likely than it said";
  parts_->head.OnVerdict(held, Verdict(1, std::string(40, '\0')), clock_.Now());
  ASSERT_THAT(heard_.heard, SizeIs(2));
  EXPECT_LT(heard_.heard[1].first, heard_.heard[0].first);
}

TEST_F(HeadLearnerTest, BrokenHiddenStatesSayNothing) {
  AcceptanceHead broken = Head();
  broken.parameters[0] = std::nanf("");
  HeldSession& held = Drafted(&broken);
  parts_->head.OnVerdict(held, Verdict(1, std::string(4, '\xff')), clock_.Now());
  EXPECT_EQ(parts_->head.state()->bias(), 0.f);
}

TEST_F(HeadLearnerTest, VerdictsOfOtherRoundsSayNothing) {
  HeldSession& held = Drafted(&Head());
  parts_->head.OnVerdict(held, Verdict(2, std::string(4, '\xff')), clock_.Now());
  EXPECT_THAT(heard_.heard, IsEmpty());
  EXPECT_FALSE(held.decided.has_value());
  EXPECT_EQ(parts_->head.state()->bias(), 0.f);
}

// 100 rounds of 30 ms.
TEST_F(HeadLearnerTest, ThresholdFollowsRoundAndPassTimes) {
  const auto threshold = [this](int accepted, double pass_seconds) {
    HeldSession& held = Drafted(&Head());
    SessionVerdict verdict = Verdict(1, std::string(4, '\xc0'));
    verdict.node = accepted;
    for (int i = 0; i < 100; ++i) {
      parts_->head.OnVerdict(held, verdict, clock_.Now());
      clock_.Advance(std::chrono::milliseconds(30));
      parts_->head.OnPass(pass_seconds);
    }
    parts_->head.OnVerdict(held, verdict, clock_.Now());
    EXPECT_EQ(heard_.heard.back().second, parts_->head.state()->threshold());
    return parts_->head.state()->threshold();
  };
  EXPECT_LT(threshold(2, 0.015), threshold(2, 0.001))
      << "a slow pass pays for fewer unlikely tokens";
  EXPECT_LT(threshold(2, 0.015), threshold(0, 0.015))
      << "it could have brought more in the same time";
}

TEST_F(HeadLearnerTest, LearnsNothingWithoutHead) {
  HeldSession& held = Drafted(nullptr);
  EXPECT_EQ(parts_->head.state(), nullptr);
  parts_->head.OnPass(1);
  parts_->head.OnVerdict(held, Verdict(1, std::string(4, '\xff')), clock_.Now());
  EXPECT_THAT(heard_.heard, IsEmpty());
}

}  // namespace
}  // namespace outrider
