#include "drafter/propose/draft_loop.h"

#include <gmock/gmock.h>

#include <set>
#include <thread>

#include "tests/drafter/propose/loop_fixture.h"
#include "tests/support/time_limit.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class DraftLoopTest : public LoopTest {};

TEST_F(DraftLoopTest, DraftsEqualDirectSimulation) {
  Start();
  const SessionOpening session = Opening(1, 6);
  Push(session);
  const DraftTree draft = TheDraft();
  ExpectSameDraft(draft, Oracle(session));
  EXPECT_EQ(draft.size(), 6);
}

TEST_F(DraftLoopTest, GreedyDraftIsArgmaxWithoutRows) {
  Start();
  SessionOpening session = Opening(1, 5);
  session.sampling.temperature = 0.f;
  session.kind = DraftKind::kArgmax;
  Push(session);
  const DraftTree draft = TheDraft();
  EXPECT_EQ(draft.size(), 5);
  std::vector<TokenId> path = session.tokens;
  for (int node = 1; node <= draft.size(); ++node) {
    EXPECT_THAT(draft.distribution(node - 1).ids, IsEmpty());
    const TokenId token = draft.token(node);
    const std::vector<float> row = model_->Logits(path);
    EXPECT_EQ(token, std::max_element(row.begin(), row.end()) - row.begin());
    path.push_back(token);
  }
}

TEST_F(DraftLoopTest, EndOfSequenceEndsNoDraft) {
  FakeModelOptions options;
  for (TokenId id = 0; id < kVocab; id += 3) options.eos_token_ids.push_back(id);
  Start(options);
  int ends = 0;
  for (uint64_t id = 0; id < 50; ++id) {
    Push(Opening(id, 8));
    StepToRest();
    const std::vector<DraftPart> parts = link_->TakeDrafts();
    ASSERT_THAT(parts, SizeIs(2));
    for (const DraftPart& part : parts) {
      EXPECT_THAT(part.chunk.tokens, SizeIs(4))
          << "when a part is sent tells nothing of its tokens";
      ends += std::count_if(part.chunk.tokens.begin(), part.chunk.tokens.end() - 1,
                            [](TokenId token) { return token % 3 == 0; });
    }
    Push(CloseEvent{id});
  }
  EXPECT_GT(ends, 25);
}

// The same holds for a stop rule, whose drafts have no fixed length: each depth is sent at once.
TEST_F(DraftLoopTest, StopRulesSendDepthsSingly) {
  Start({}, {.ahead_tokens = 32});
  int stopped = 0;
  for (uint64_t id = 0; id < 50; ++id) {
    SessionOpening session = Opening(id, 8);
    session.plan.stop = {.kind = StopRule::Kind::kConfidence, .threshold = 0.3f};
    Push(session);
    StepToRest();
    const std::vector<DraftPart> parts = link_->TakeDrafts();
    for (const DraftPart& part : parts) {
      EXPECT_THAT(part.chunk.tokens, SizeIs(1));
      EXPECT_FALSE(part.early.has_value()) << "early drafts are whole";
    }
    stopped += parts.size() < 8 ? 1 : 0;
    Push(CloseEvent{id});
  }
  EXPECT_GT(stopped, 25);
}

TEST_F(DraftLoopTest, NeverDraftsBeyondVocabularyLimit) {
  constexpr int kLimit = 9;
  for (const DraftKind kind : {DraftKind::kSampled, DraftKind::kArgmax, DraftKind::kRace}) {
    Start({}, {}, kLimit);
    std::set<TokenId> drafted;
    for (uint64_t id = 0; id < 40; ++id) {
      SessionOpening session = Opening(id, 10, {static_cast<TokenId>(id % kVocab), 4});
      session.kind = kind;
      Push(session);
      const DraftTree draft = TheDraft();
      for (int node = 0; node <= draft.size(); ++node) {
        if (node > 0) drafted.insert(draft.token(node));
        for (const TokenId token : draft.distribution(node).ids) EXPECT_LT(token, kLimit);
      }
      Push(CloseEvent{id});
    }
    EXPECT_LT(*drafted.rbegin(), kLimit);
    EXPECT_THAT(drafted, SizeIs(kLimit));  // and all below it are drafted
  }
}

TEST_F(DraftLoopTest, IdsWithoutTokenAreNeverDrafted) {
  Start({}, {.tokenizer_vocab = 5});
  Push(Opening(1, 16));
  const DraftTree draft = TheDraft();
  EXPECT_FALSE(draft.empty());
  for (const TokenId token : Tokens(draft)) EXPECT_LT(token, 5);
}

TEST_F(DraftLoopTest, PenaltiesSeeTheDraftTokens) {
  Start();
  SessionOpening session = Opening(1, 16);
  session.sampling = {.temperature = 0.f, .presence_penalty = 2.f};
  session.kind = DraftKind::kArgmax;
  Push(session);
  const DraftTree first = TheDraft();
  ExpectSameDraft(first, Oracle(session));
  // The penalty matters here: without it a token occurs twice.
  session.sampling.presence_penalty = 0.f;
  EXPECT_NE(Tokens(first), Tokens(Oracle(session)));
}

TEST_F(DraftLoopTest, SessionsAtDifferentDepthsShareBatch) {
  Start();
  Push(DepthByDepth(Opening(1, 8, {1, 2, 3})));
  loop_->Step();
  loop_->Step();
  Push(Opening(2, 8, {9, 8, 7, 6}));
  loop_->Step();
  const auto& batch = model_->batches().back();
  ASSERT_THAT(batch, SizeIs(2));
  EXPECT_EQ(batch[0].context, 4);
  EXPECT_THAT(batch[0].tokens, SizeIs(1));
  EXPECT_EQ(batch[1].context, 0);
  EXPECT_THAT(batch[1].tokens, ElementsAre(9, 8, 7, 6));
  EXPECT_THAT(batch[1].logit_rows, ElementsAre(3));
}

TEST_F(DraftLoopTest, DraftsOfStepShareOneMessage) {
  Start();
  Push(Opening(1, 3, {1, 2}));
  Push(Opening(2, 3, {3, 4, 5}));
  Push(Opening(3, 4, {6}));
  StepToRest();
  const auto batches = link_->TakeBatches();
  ASSERT_THAT(batches, SizeIs(2));
  EXPECT_THAT(batches[0], SizeIs(2));
  EXPECT_THAT(batches[1], SizeIs(1));
}

TEST_F(DraftLoopTest, FullAcceptanceFeedsTwoTokens) {
  Start();
  Push(Opening(1, 3));
  const std::vector<TokenId> drafted = Tokens(TheDraft());
  Push(SessionVerdict{.session = 1,
                      .round = 1,
                      .node = 3,
                      .next = {17},
                      .plan = {.round = 2, .shape = Sequences(1, 1)}});
  (void)TheDraft();
  const auto& share = model_->batches().back().at(0);
  EXPECT_EQ(share.context, 5 + 2);  // the last draft token had not been run
  EXPECT_THAT(share.tokens, ElementsAre(drafted[2], 17));
}

TEST_F(DraftLoopTest, PartialAcceptanceFeedsOnlyCorrection) {
  Start();
  Push(Opening(1, 5));
  (void)TheDraft();
  Push(SessionVerdict{.session = 1,
                      .round = 1,
                      .node = 2,
                      .next = {17},
                      .plan = {.round = 2, .shape = Sequences(1, 1)}});
  (void)TheDraft();
  const auto& share = model_->batches().back().at(0);
  EXPECT_EQ(share.context, 5 + 2);
  EXPECT_THAT(share.tokens, ElementsAre(17));
}

TEST_F(DraftLoopTest, RejectionDropsWholeDraft) {
  Start();
  Push(Opening(1, 5));
  (void)TheDraft();
  Push(SessionVerdict{.session = 1,
                      .round = 1,
                      .node = 0,
                      .next = {17, 18},
                      .plan = {.round = 2, .shape = Sequences(1, 1)}});
  (void)TheDraft();
  const auto& share = model_->batches().back().at(0);
  EXPECT_EQ(share.context, 5);
  EXPECT_THAT(share.tokens, ElementsAre(17, 18));
}

TEST_F(DraftLoopTest, VerdictWithoutTokensDraftsAgain) {
  Start();
  SessionOpening session = Opening(1, 2);
  Push(session);
  (void)TheDraft();
  const DraftPlan plan{.round = 2, .shape = Sequences(1, 2)};
  Push(SessionVerdict{.session = 1, .round = 1, .node = 0, .next = {}, .plan = plan});
  const DraftTree draft = TheDraft();
  ExpectSameDraft(draft, Oracle(session, plan));
}

TEST_F(DraftLoopTest, VerdictCutsUnfinishedDraft) {
  Start();
  SessionOpening session = DepthByDepth(Opening(1, 8));
  Push(session);
  loop_->Step();
  loop_->Step();
  EXPECT_THAT(link_->TakeDrafts(), SizeIs(2)) << "tokens of the draft so far";
  const DraftPlan plan{.round = 2, .shape = Sequences(1, 4)};
  Push(SessionVerdict{.session = 1, .round = 1, .node = 0, .next = {11}, .plan = plan});
  const DraftTree draft = TheDraft();
  session.tokens.push_back(11);
  ExpectSameDraft(draft, Oracle(session, plan));
}

TEST_F(DraftLoopTest, ZeroLengthPlanDraftsNothing) {
  Start();
  SessionOpening session = Opening(1, 0);
  Push(session);
  StepToRest();
  EXPECT_THAT(link_->TakeDrafts(), IsEmpty());
  EXPECT_THAT(model_->batches(), IsEmpty());
  const DraftPlan plan{.round = 2, .shape = Sequences(1, 3)};
  Push(SessionVerdict{.session = 1, .round = 1, .node = 0, .next = {2, 7, 1}, .plan = plan});
  const DraftTree draft = TheDraft();
  session.tokens.insert(session.tokens.end(), {2, 7, 1});
  ExpectSameDraft(draft, Oracle(session, plan));
}

TEST_F(DraftLoopTest, OpenReplacesASession) {
  Start();
  Push(DepthByDepth(Opening(1, 4)));
  loop_->Step();
  EXPECT_THAT(link_->TakeDrafts(), SizeIs(1)) << "a token of the draft so far";
  SessionOpening again = Opening(1, 4, {8, 8, 8});
  again.plan.round = 9;
  Push(again);
  const DraftTree draft = TheDraft();
  ExpectSameDraft(draft, Oracle(again));
  EXPECT_EQ(model_->sequences(), 1);
}

TEST_F(DraftLoopTest, SessionsOfConnectionsDoNotMix) {
  Start();
  const std::shared_ptr<PuppetVerifierLink> other = Connect(8);
  Push(Opening(1, 3, {1, 1}));
  Push(Opening(1, 3, {2, 2}), 8);
  StepToRest();
  const std::vector<DraftPart> here = link_->TakeDrafts();
  const std::vector<DraftPart> there = other->TakeDrafts();
  ASSERT_THAT(here, SizeIs(1));
  ASSERT_THAT(there, SizeIs(1));
  EXPECT_NE(here[0].chunk.distributions.at(0).weights, there[0].chunk.distributions.at(0).weights);
  Push(DisconnectedEvent{});
  StepToRest();
  EXPECT_EQ(loop_->load().sessions, 1);
}

TEST_F(DraftLoopTest, DisconnectFreesAllPagesAtOnce) {
  Start();
  for (uint64_t id = 0; id < 10; ++id) Push(Opening(id, 4));
  loop_->Step();
  EXPECT_LT(model_->free_pages(), model_->total_pages());
  Push(DisconnectedEvent{});
  loop_->Step();
  ExpectEverythingBack();
  (void)link_->TakeDrafts();
  Push(Opening(1, 4));  // late, on the same connection: there is nobody to serve
  StepToRest();
  ExpectEverythingBack();
  EXPECT_THAT(link_->TakeDrafts(), IsEmpty());
}

TEST_F(DraftLoopTest, CloseFreesSessionAndReportsLoad) {
  Start();
  Push(Opening(1, 2));
  StepToRest();
  Push(SessionVerdict{.session = 1,
                      .round = 1,
                      .node = 0,
                      .next = {1},
                      .plan = {.round = 2, .shape = Sequences(1, 16)}});
  StepToRest();  // takes pages, which is not reported
  Push(CloseEvent{1});
  Push(CloseEvent{1});
  Push(DrainEvent{});
  StepToRest();
  ExpectEverythingBack();
  std::vector<int> sessions;
  for (const DrafterLoad& load : link_->TakeLoads()) sessions.push_back(load.sessions);
  EXPECT_THAT(sessions, ElementsAre(1, 0));
}

TEST_F(DraftLoopTest, GivesEverythingBackWhenItDies) {
  Start();
  Push(Opening(1, 4));
  loop_->Step();
  loop_.reset();
  EXPECT_EQ(model_->sequences(), 0);
  EXPECT_EQ(model_->free_pages(), model_->total_pages());
}

TEST_F(DraftLoopTest, RunsOnItsThreadUntilStopped) {
  Start();
  std::thread owner([this] { loop_->Run(); });
  const SessionOpening session = Opening(1, 4);
  Push(session);
  const Time deadline = clock_.Now() + testing::kTimeLimit;
  for (uint32_t round = 1; round <= 100; ++round) {
    const std::vector<DraftPart> drafts = link_->WaitForDrafts(deadline);
    ASSERT_THAT(drafts, SizeIs(1));
    ASSERT_EQ(drafts[0].round, round);
    Push(SessionVerdict{.session = 1,
                        .round = round,
                        .node = 0,
                        .next = {static_cast<TokenId>(round % kVocab)},
                        .plan = {.round = round + 1, .shape = Sequences(1, 4)}});
  }
  loop_->Stop();
  owner.join();
}

}  // namespace
}  // namespace outrider
