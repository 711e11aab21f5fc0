// One drafter with several verifiers: none starves, and none is kept once it is no longer wanted.
#include <gmock/gmock.h>

#include <memory>
#include <set>
#include <vector>

#include "tests/drafter/propose/loop_fixture.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class DraftLoopFairness : public LoopTest {
 protected:
  static constexpr uint64_t kOther = 8;

  // Sessions whose plan got an empty answer.
  static std::vector<uint64_t> Refused(PuppetVerifierLink& link) {
    std::vector<uint64_t> refused;
    for (const DraftPart& draft : link.TakeDrafts()) {
      if (draft.chunk.tokens.empty()) refused.push_back(draft.session);
    }
    return refused;
  }
  static std::vector<int> Limits(PuppetVerifierLink& link) {
    std::vector<int> limits;
    for (const DrafterLoad& load : link.TakeLoads()) limits.push_back(load.session_limit.value());
    return limits;
  }
  static SessionVerdict Verdict(uint64_t session) {
    return {.session = session,
            .round = 1,
            .node = 0,
            .next = {9},
            .plan = {.round = 2, .shape = Sequences(1, 2)}};
  }
};

TEST_F(DraftLoopFairness, EachVerifierHasItsShare) {
  Start({}, {.max_sessions = 4});
  for (uint64_t s = 1; s <= 4; ++s) Push(Opening(s, 2));
  StepToRest();
  EXPECT_THAT(Refused(*link_), IsEmpty()) << "alone it has them all";
  Limits(*link_);

  const auto other = Connect(kOther);
  StepToRest();
  EXPECT_THAT(Limits(*other), ElementsAre(2)) << "half of four, though all are taken";
  Push(Opening(1, 2), kOther);
  Push(Opening(2, 2), kOther);
  Push(Opening(3, 2), kOther);
  StepToRest();
  EXPECT_THAT(Refused(*other), ElementsAre(3)) << "more than its part would be another's";
  EXPECT_EQ(loop_->load().sessions, 4);
  EXPECT_EQ(Limits(*link_).back(), 2);

  // The newest two were evicted: their drafts had been sent, so the verifier is told after the
  // verdict.
  EXPECT_THAT(Refused(*link_), IsEmpty());
  for (uint64_t s = 1; s <= 4; ++s) Push(Verdict(s));
  StepToRest();
  EXPECT_THAT(Refused(*link_), ElementsAre(3, 4));

  Push(CloseEvent{1}, kOther);
  StepToRest();
  EXPECT_EQ(Limits(*link_).back(), 3) << "what the other leaves is free again";
}

TEST_F(DraftLoopFairness, SessionPreemptedMidDraftIsAnswered) {
  Start({}, {.max_sessions = 2});
  const auto other = Connect(kOther);
  Push(DepthByDepth(Opening(1, 4)));
  Push(DepthByDepth(Opening(2, 4)));
  loop_->Step();
  for (const DraftPart& part : link_->TakeDrafts()) EXPECT_TRUE(part.chunk.more) << part.session;
  Push(Opening(5, 4), kOther);
  StepToRest();
  EXPECT_THAT(Refused(*link_), ElementsAre(2));
  ExpectSameDraft(Assemble(other->TakeDrafts()), Oracle(Opening(5, 4)));
}

TEST_F(DraftLoopFairness, PagesAreSharedToo) {
  // 28 pages of 4 tokens. One verifier's four sessions take 7 pages each, including their drafts.
  Start({.total_pages = 28});
  const std::vector<TokenId> prompt(24, 3);
  for (uint64_t s = 1; s <= 4; ++s) Push(Opening(s, 2, prompt));
  StepToRest();
  EXPECT_THAT(Refused(*link_), IsEmpty());
  const auto other = Connect(kOther);
  Push(Opening(1, 2, prompt), kOther);
  StepToRest();
  ExpectSameDraft(Assemble(other->TakeDrafts()), Oracle(Opening(1, 2, prompt)));
  EXPECT_EQ(loop_->load().sessions, 4) << "one gave way";
  for (uint64_t s = 1; s <= 4; ++s) Push(Verdict(s));
  StepToRest();
  EXPECT_THAT(Refused(*link_), ElementsAre(4));
  // The verifier with more pages cannot take them back.
  Push(Opening(9, 2, prompt));
  StepToRest();
  EXPECT_THAT(Refused(*link_), ElementsAre(9));
  EXPECT_EQ(loop_->load().sessions, 4);
}

TEST_F(DraftLoopFairness, HopelessPlanTakesNothing) {
  Start({.total_pages = 28});
  const std::vector<TokenId> prompt(24, 3);
  for (uint64_t s = 1; s <= 3; ++s) Push(Opening(s, 2, prompt));
  StepToRest();
  const auto other = Connect(kOther);
  Push(Opening(1, Sequences(16, 8)), kOther);  // more than all pages
  StepToRest();
  EXPECT_THAT(Refused(*other), ElementsAre(1));
  for (uint64_t s = 1; s <= 3; ++s) Push(Verdict(s));
  StepToRest();
  EXPECT_THAT(Refused(*link_), IsEmpty());
  EXPECT_EQ(loop_->load().sessions, 3);
}

// Sessions of a verifier that is no longer wanted may leave fewer than verifiers.
TEST_F(DraftLoopFairness, LimitIsWhatCanBeOpened) {
  Start({}, {.max_sessions = 1});
  Push(Opening(1, 2));
  StepToRest();
  Limits(*link_);
  const auto other = Connect(kOther);
  StepToRest();
  EXPECT_THAT(Limits(*other), ElementsAre(0)) << "none is free, and none gives way";
  EXPECT_FALSE(other->closed());
  Push(CloseEvent{1});
  StepToRest();
  EXPECT_THAT(Limits(*other), ElementsAre(1));
}

TEST_F(DraftLoopFairness, InAPassVerifiersTakeTurns) {
  // A pass has room for the drafts of four sessions.
  Start({}, {.chunk_depths = 1, .max_step_tokens = 4});
  const auto other = Connect(kOther);
  for (uint64_t s = 1; s <= 12; ++s) Push(Opening(s, 8, {3}));
  loop_->Step();
  link_->TakeDrafts();
  // Two plans of another verifier, after twelve older ones.
  Push(Opening(1, 8, {3}), kOther);
  Push(Opening(2, 8, {3}), kOther);
  loop_->Step();
  std::set<uint64_t> answered;
  for (const DraftPart& draft : other->TakeDrafts()) answered.insert(draft.session);
  EXPECT_THAT(answered, ElementsAre(1, 2)) << "half of the places are its own";
  EXPECT_EQ(link_->TakeDrafts().size(), 2u);
}

TEST_F(DraftLoopFairness, PromptsOfVerifiersTakeTurns) {
  Start({.total_pages = 1024}, {.max_step_tokens = 32, .max_chunk_tokens = 16});
  const auto other = Connect(kOther);
  const std::vector<TokenId> prompt(160, 3);
  for (uint64_t s = 1; s <= 8; ++s) Push(Opening(s, 1, prompt));
  Push(Opening(1, 1, prompt), kOther);
  int steps = 0;
  std::vector<DraftPart> drafts;
  while (drafts.empty() && steps < 1000) {
    loop_->Step();
    ++steps;
    drafts = other->TakeDrafts();
  }
  EXPECT_LE(steps, 11) << "ten chunks of sixteen, one a pass";
}

TEST_F(DraftLoopFairness, UnwantedVerifierFinishesItsSessions) {
  Start({}, {.max_sessions = 4});
  const auto other = Connect(kOther);
  Push(Opening(1, 2));
  StepToRest();
  Limits(*link_);
  Push(WantedEvent{false});
  StepToRest();
  EXPECT_THAT(Limits(*link_), ElementsAre(0));
  EXPECT_EQ(Limits(*other).back(), 3) << "what is free";
  EXPECT_FALSE(link_->closed());
  link_->TakeDrafts();
  Push(Verdict(1));
  StepToRest();
  EXPECT_FALSE(link_->TakeDrafts().empty()) << "what it has goes on";
  EXPECT_FALSE(link_->closed());
  Push(CloseEvent{1});
  StepToRest();
  EXPECT_TRUE(link_->closed());
  EXPECT_FALSE(other->closed());
}

TEST_F(DraftLoopFairness, KeepsVerifierThatIsWantedAgain) {
  Start({}, {.max_sessions = 4});
  Push(Opening(1, 2));
  Push(WantedEvent{false});
  StepToRest();
  Push(WantedEvent{true});
  StepToRest();
  EXPECT_EQ(Limits(*link_).back(), 4);
  Push(CloseEvent{1});
  StepToRest();
  EXPECT_FALSE(link_->closed());
}

}  // namespace
}  // namespace outrider
