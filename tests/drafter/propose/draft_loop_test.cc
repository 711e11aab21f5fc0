#include "drafter/propose/draft_loop.h"

#include <gmock/gmock.h>

#include <map>
#include <random>
#include <set>
#include <thread>

#include "tests/drafter/propose/loop_fixture.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class DraftLoopTest : public LoopTest {};

TEST_F(DraftLoopTest, DraftsEqualADirectSimulationFromTheSameCoins) {
  Start();
  const OpenEvent session = Session(1, 6);
  Push(session);
  const Draft draft = TheDraft();
  EXPECT_EQ(draft.session, 1u);
  EXPECT_EQ(draft.round, 1u);
  ASSERT_THAT(draft.paths, SizeIs(1));
  ExpectSamePath(draft.paths[0], OracleDraft(*model_, session, session.plan, kVocab, limits_));
  EXPECT_THAT(draft.paths[0].tokens, SizeIs(6));
}

// Sessions of every kind through rounds of every kind; each draft is compared with the definition.
TEST_F(DraftLoopTest, DraftsEqualTheSimulationThroughRandomRounds) {
  Start({.total_pages = 400, .eos_token_ids = {30}},
        {.max_draft_length = 8, .max_step_tokens = 24, .max_chunk_tokens = 10}, 31);
  std::mt19937 random(20261121);
  const auto below = [&random](int n) {
    return static_cast<int>(random() % static_cast<unsigned>(n));
  };
  const auto some_tokens = [&](int n) {
    std::vector<TokenId> tokens(static_cast<size_t>(n));
    for (TokenId& token : tokens) token = below(kVocab);
    return tokens;
  };
  std::map<uint64_t, OpenEvent> mirror;      // tokens as the verifier knows them
  std::map<uint64_t, DraftPath> last_draft;  // sent for the current plan
  const auto open = [&](uint64_t id, uint32_t round) {
    OpenEvent session = Session(id, below(9), some_tokens(1 + below(40)));
    session.prompt_tokens = 1 + below(static_cast<int>(session.tokens.size()));
    session.plan.round = round;
    const int kind = below(3);
    if (kind == 0) session.sampling.temperature = 0.f;
    if (kind == 1) session.sampling = {.temperature = 0.8f, .top_k = 10, .presence_penalty = 1.f};
    mirror[id] = session;
    last_draft.erase(id);
    Push(session);
  };
  constexpr uint64_t kSessions = 12;
  for (uint64_t id = 0; id < kSessions; ++id) open(id, 1);

  int compared = 0;
  int accepted_tokens = 0;
  for (int i = 0; i < 3000; ++i) {
    loop_->Step();
    for (Draft& draft : link_->TakeDrafts()) {
      const OpenEvent& session = mirror.at(draft.session);
      ASSERT_EQ(draft.round, session.plan.round);
      ASSERT_THAT(draft.paths, SizeIs(1));
      ExpectSamePath(draft.paths[0], OracleDraft(*model_, session, session.plan, 31, limits_));
      last_draft[draft.session] = draft.paths[0];
      ++compared;
    }
    if (HasFailure()) return;
    const auto id = static_cast<uint64_t>(below(kSessions));
    OpenEvent& session = mirror.at(id);
    const bool drafted = last_draft.count(id) > 0;
    // Mostly verdicts on drafts that came; some that cut a draft short, some sessions anew.
    if (!drafted && session.plan.length > 0 && below(8) > 0) continue;
    if (below(40) == 0 || session.tokens.size() > 150) {
      if (below(2) == 0) Push(CloseEvent{id});
      open(id, session.plan.round + 1);
      continue;
    }
    SessionVerdict verdict;
    verdict.session = id;
    verdict.round = session.plan.round;
    verdict.next = some_tokens(below(10) == 0 ? below(6) : 1);
    if (drafted) {
      const std::vector<TokenId>& tokens = last_draft[id].tokens;
      verdict.accepted = below(static_cast<int>(tokens.size()) + 1);
      session.tokens.insert(session.tokens.end(), tokens.begin(),
                            tokens.begin() + verdict.accepted);
      accepted_tokens += verdict.accepted;
    }
    session.tokens.insert(session.tokens.end(), verdict.next.begin(), verdict.next.end());
    session.plan.round += 1 + static_cast<uint32_t>(below(3));
    session.plan.length = below(9);
    verdict.plan = session.plan;
    last_draft.erase(id);
    Push(verdict);
  }
  EXPECT_GT(compared, 500);
  EXPECT_GT(accepted_tokens, 500);
  Push(DisconnectedEvent{});
  StepToRest();
  ExpectEverythingBack();
}

TEST_F(DraftLoopTest, AGreedyDraftIsTheArgmaxWithoutRows) {
  Start();
  OpenEvent session = Session(1, 5);
  session.sampling.temperature = 0.f;
  Push(session);
  const Draft draft = TheDraft();
  ASSERT_THAT(draft.paths, SizeIs(1));
  EXPECT_THAT(draft.paths[0].laws, IsEmpty());
  std::vector<TokenId> path = session.tokens;
  for (const TokenId token : draft.paths[0].tokens) {
    const std::vector<float> row = model_->Logits(path);
    EXPECT_EQ(token, std::max_element(row.begin(), row.end()) - row.begin());
    path.push_back(token);
  }
}

TEST_F(DraftLoopTest, AnEndOfSequenceIsKeptAsTheLastToken) {
  FakeModelOptions options;
  for (TokenId id = 0; id < kVocab; id += 3) options.eos_token_ids.push_back(id);
  Start(options);
  int ended = 0;
  for (uint64_t id = 0; id < 50; ++id) {
    const OpenEvent session = Session(id, 8);
    Push(session);
    const Draft draft = TheDraft();
    ASSERT_THAT(draft.paths, SizeIs(1));
    const std::vector<TokenId>& tokens = draft.paths[0].tokens;
    for (size_t i = 0; i + 1 < tokens.size(); ++i) EXPECT_NE(tokens[i] % 3, 0);
    EXPECT_EQ(draft.paths[0].laws.size(), tokens.size());
    if (tokens.size() < 8) {
      EXPECT_EQ(tokens.back() % 3, 0);
      ++ended;
    }
    Push(CloseEvent{id});
  }
  EXPECT_GT(ended, 25);
}

TEST_F(DraftLoopTest, IdsFromTheVocabularyLimitOnAreNeverDrafted) {
  constexpr int kLimit = 9;
  for (const float temperature : {0.f, 1.f}) {
    Start({}, {}, kLimit);
    std::set<TokenId> drafted;
    for (uint64_t id = 0; id < 40; ++id) {
      OpenEvent session = Session(id, 10, {static_cast<TokenId>(id % kVocab), 4});
      session.sampling.temperature = temperature;
      Push(session);
      const Draft draft = TheDraft();
      ASSERT_THAT(draft.paths, SizeIs(1));
      drafted.insert(draft.paths[0].tokens.begin(), draft.paths[0].tokens.end());
      for (const DraftLaw& law : draft.paths[0].laws) {
        for (const TokenId token : law.ids) EXPECT_LT(token, kLimit);
      }
      Push(CloseEvent{id});
    }
    EXPECT_LT(*drafted.rbegin(), kLimit);
    EXPECT_THAT(drafted, SizeIs(kLimit));  // and all below it are
  }
}

TEST_F(DraftLoopTest, IdsWithoutTokenAreNeverDrafted) {
  Start({}, {.tokenizer_vocab = 5});
  Push(Session(1, 16));
  const Draft draft = TheDraft();
  ASSERT_THAT(draft.paths, SizeIs(1));
  EXPECT_LT(*std::max_element(draft.paths[0].tokens.begin(), draft.paths[0].tokens.end()), 5);
}

TEST_F(DraftLoopTest, PenaltiesSeeTheDraftTokens) {
  Start();
  OpenEvent session = Session(1, 16);
  session.sampling = {.temperature = 0.f, .presence_penalty = 2.f};
  Push(session);
  const Draft first = TheDraft();
  ASSERT_THAT(first.paths, SizeIs(1));
  ExpectSamePath(first.paths[0], OracleDraft(*model_, session, session.plan, kVocab, limits_));
  // The penalty matters here: without it a token comes twice.
  session.sampling.presence_penalty = 0.f;
  const DraftPath plain = OracleDraft(*model_, session, session.plan, kVocab, limits_);
  EXPECT_NE(first.paths[0].tokens, plain.tokens);
}

TEST_F(DraftLoopTest, SessionsAtDifferentDepthsShareAForwardPass) {
  Start();
  Push(Session(1, 8, {1, 2, 3}));
  loop_->Step();
  loop_->Step();
  Push(Session(2, 8, {9, 8, 7, 6}));
  loop_->Step();
  const auto& batch = model_->batches().back();
  ASSERT_THAT(batch, SizeIs(2));
  EXPECT_EQ(batch[0].context, 4);
  EXPECT_THAT(batch[0].tokens, SizeIs(1));
  EXPECT_EQ(batch[1].context, 0);
  EXPECT_THAT(batch[1].tokens, ElementsAre(9, 8, 7, 6));
  EXPECT_THAT(batch[1].logit_rows, ElementsAre(3));
}

TEST_F(DraftLoopTest, DraftsOfOneStepGoInOneBatch) {
  Start();
  Push(Session(1, 3, {1, 2}));
  Push(Session(2, 3, {3, 4, 5}));
  Push(Session(3, 4, {6}));
  StepToRest();
  const auto batches = link_->TakeBatches();
  ASSERT_THAT(batches, SizeIs(2));
  EXPECT_THAT(batches[0], SizeIs(2));
  EXPECT_THAT(batches[1], SizeIs(1));
}

TEST_F(DraftLoopTest, AfterFullAcceptanceOnlyTheLastDraftTokenAndTheBonusAreFed) {
  Start();
  Push(Session(1, 3));
  const std::vector<TokenId> drafted = TheDraft().paths.at(0).tokens;
  Push(SessionVerdict{
      .session = 1, .round = 1, .accepted = 3, .next = {17}, .plan = {.round = 2, .length = 1}});
  (void)TheDraft();
  const auto& share = model_->batches().back().at(0);
  EXPECT_EQ(share.context, 5 + 2);  // the last draft token had never been fed
  EXPECT_THAT(share.tokens, ElementsAre(drafted[2], 17));
}

TEST_F(DraftLoopTest, AfterPartialAcceptanceOnlyTheCorrectionIsFed) {
  Start();
  Push(Session(1, 5));
  (void)TheDraft();
  Push(SessionVerdict{
      .session = 1, .round = 1, .accepted = 2, .next = {17}, .plan = {.round = 2, .length = 1}});
  (void)TheDraft();
  const auto& share = model_->batches().back().at(0);
  EXPECT_EQ(share.context, 5 + 2);
  EXPECT_THAT(share.tokens, ElementsAre(17));
}

TEST_F(DraftLoopTest, AfterRejectionTheWholeDraftIsDropped) {
  Start();
  Push(Session(1, 5));
  (void)TheDraft();
  Push(SessionVerdict{.session = 1,
                      .round = 1,
                      .accepted = 0,
                      .next = {17, 18},
                      .plan = {.round = 2, .length = 1}});
  (void)TheDraft();
  const auto& share = model_->batches().back().at(0);
  EXPECT_EQ(share.context, 5);
  EXPECT_THAT(share.tokens, ElementsAre(17, 18));
}

TEST_F(DraftLoopTest, AVerdictWithoutNewTokensDraftsTheSamePlaceAgain) {
  Start();
  OpenEvent session = Session(1, 2);
  Push(session);
  (void)TheDraft();
  const DraftPlan plan{.round = 2, .length = 2};
  Push(SessionVerdict{.session = 1, .round = 1, .accepted = 0, .next = {}, .plan = plan});
  const Draft draft = TheDraft();
  ASSERT_THAT(draft.paths, SizeIs(1));
  ExpectSamePath(draft.paths[0], OracleDraft(*model_, session, plan, kVocab, limits_));
}

TEST_F(DraftLoopTest, AVerdictCutsAnUnfinishedDraft) {
  Start();
  OpenEvent session = Session(1, 8);
  Push(session);
  loop_->Step();
  loop_->Step();  // two tokens drafted, none sent
  const DraftPlan plan{.round = 2, .length = 4};
  Push(SessionVerdict{.session = 1, .round = 1, .accepted = 0, .next = {11}, .plan = plan});
  const Draft draft = TheDraft();
  EXPECT_EQ(draft.round, 2u);
  session.tokens.push_back(11);
  ASSERT_THAT(draft.paths, SizeIs(1));
  ExpectSamePath(draft.paths[0], OracleDraft(*model_, session, plan, kVocab, limits_));
}

TEST_F(DraftLoopTest, APlanOfLengthZeroKeepsTheSessionAndDraftsNothing) {
  Start();
  OpenEvent session = Session(1, 0);
  Push(session);
  StepToRest();
  EXPECT_THAT(link_->TakeDrafts(), IsEmpty());
  EXPECT_THAT(model_->batches(), IsEmpty());
  const DraftPlan plan{.round = 2, .length = 3};
  Push(SessionVerdict{.session = 1, .round = 1, .accepted = 0, .next = {2, 7, 1}, .plan = plan});
  const Draft draft = TheDraft();
  session.tokens.insert(session.tokens.end(), {2, 7, 1});
  ASSERT_THAT(draft.paths, SizeIs(1));
  ExpectSamePath(draft.paths[0], OracleDraft(*model_, session, plan, kVocab, limits_));
}

TEST_F(DraftLoopTest, OpenReplacesASession) {
  Start();
  Push(Session(1, 4));
  loop_->Step();
  OpenEvent again = Session(1, 4, {8, 8, 8});
  again.plan.round = 9;
  Push(again);
  const Draft draft = TheDraft();
  EXPECT_EQ(draft.round, 9u);
  ASSERT_THAT(draft.paths, SizeIs(1));
  ExpectSamePath(draft.paths[0], OracleDraft(*model_, again, again.plan, kVocab, limits_));
  EXPECT_EQ(model_->sequences(), 1);
}

TEST_F(DraftLoopTest, SessionsOfTwoConnectionsDoNotMix) {
  Start();
  const std::shared_ptr<PuppetVerifierLink> other = Connect(8);
  Push(Session(1, 3, {1, 1}));
  Push(Session(1, 3, {2, 2}), 8);
  StepToRest();
  const std::vector<Draft> here = link_->TakeDrafts();
  const std::vector<Draft> there = other->TakeDrafts();
  ASSERT_THAT(here, SizeIs(1));
  ASSERT_THAT(there, SizeIs(1));
  EXPECT_NE(here[0].paths.at(0).laws.at(0).weights, there[0].paths.at(0).laws.at(0).weights);
  Push(DisconnectedEvent{});
  StepToRest();
  EXPECT_EQ(loop_->load().sessions, 1);
}

TEST_F(DraftLoopTest, ADisconnectFreesAllPagesAtOnce) {
  Start();
  for (uint64_t id = 0; id < 10; ++id) Push(Session(id, 4));
  loop_->Step();
  EXPECT_LT(model_->free_pages(), model_->total_pages());
  Push(DisconnectedEvent{});
  loop_->Step();
  ExpectEverythingBack();
  (void)link_->TakeDrafts();
  Push(Session(1, 4));  // late, of the same connection: nobody to serve
  StepToRest();
  ExpectEverythingBack();
  EXPECT_THAT(link_->TakeDrafts(), IsEmpty());
}

TEST_F(DraftLoopTest, CloseFreesASessionAndTellsTheLoad) {
  Start();
  Push(Session(1, 2));
  StepToRest();
  Push(SessionVerdict{
      .session = 1, .round = 1, .accepted = 0, .next = {1}, .plan = {.round = 2, .length = 16}});
  StepToRest();  // takes pages, which is not told
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
  Push(Session(1, 4));
  loop_->Step();
  loop_.reset();
  EXPECT_EQ(model_->sequences(), 0);
  EXPECT_EQ(model_->free_pages(), model_->total_pages());
}

TEST_F(DraftLoopTest, RunsOnItsThreadUntilStopped) {
  Start();
  std::thread owner([this] { loop_->Run(); });
  const OpenEvent session = Session(1, 4);
  Push(session);
  const Time deadline = clock_.Now() + std::chrono::seconds(60);
  for (uint32_t round = 1; round <= 100; ++round) {
    const std::vector<Draft> drafts = link_->WaitForDrafts(deadline);
    ASSERT_THAT(drafts, SizeIs(1));
    ASSERT_EQ(drafts[0].round, round);
    Push(SessionVerdict{.session = 1,
                        .round = round,
                        .accepted = 0,
                        .next = {static_cast<TokenId>(round % kVocab)},
                        .plan = {.round = round + 1, .length = 4}});
  }
  loop_->Stop();
  owner.join();
}

}  // namespace
}  // namespace outrider
