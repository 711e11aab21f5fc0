// Sessions that do not fit, invalid ones, and the order of sessions.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "tests/drafter/propose/loop_fixture.h"

namespace outrider {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

class DraftLoopLimits : public LoopTest {
 protected:
  // The session gets an answer without tokens and is forgotten.
  void ExpectRefused(uint64_t session, uint32_t round) {
    StepToRest();
    const std::vector<DraftPart> drafts = link_->TakeDrafts();
    ASSERT_THAT(drafts, SizeIs(1));
    EXPECT_EQ(drafts[0].session, session);
    EXPECT_EQ(drafts[0].round, round);
    EXPECT_THAT(drafts[0].chunk.tokens, IsEmpty());
    EXPECT_FALSE(drafts[0].chunk.more);
  }

  // Opens session 1, lets it draft three tokens and pushes `verdict`, which must be rejected.
  void ExpectInvalidVerdict(SessionVerdict verdict) {
    Start();
    Push(Opening(1, 3));
    ASSERT_FALSE(TheDraft().empty());
    verdict.session = 1;
    Push(verdict);
    ExpectRefused(1, verdict.plan.round);
    ExpectEverythingBack();
    // It is served again after it is opened again.
    Push(Opening(1, 3));
    EXPECT_FALSE(TheDraft().empty());
  }
};

TEST_F(DraftLoopLimits, VerdictOnOtherRoundEndsSession) {
  const DraftPlan plan{.round = 5, .shape = Sequences(1, 2)};
  ExpectInvalidVerdict({.round = 0, .node = 0, .next = {1}, .plan = plan});
  ExpectInvalidVerdict({.round = 2, .node = 0, .next = {1}, .plan = plan});
}

TEST_F(DraftLoopLimits, NonRisingRoundEndsSession) {
  // Its random numbers would be used twice.
  ExpectInvalidVerdict(
      {.round = 1, .node = 1, .next = {1}, .plan = {.round = 1, .shape = Sequences(1, 2)}});
  ExpectInvalidVerdict(
      {.round = 1, .node = 1, .next = {1}, .plan = {.round = 0, .shape = Sequences(1, 2)}});
}

TEST_F(DraftLoopLimits, AcceptingMoreThanDraftedEndsSession) {
  const DraftPlan plan{.round = 2, .shape = Sequences(1, 2)};
  ExpectInvalidVerdict({.round = 1, .node = 4, .next = {1}, .plan = plan});
  ExpectInvalidVerdict({.round = 1, .node = -1, .next = {1}, .plan = plan});
}

TEST_F(DraftLoopLimits, AcceptingUnsentDraftEndsSession) {
  Start();
  Push(DepthByDepth(Opening(1, 5)));
  loop_->Step();
  loop_->Step();
  EXPECT_THAT(link_->TakeDrafts(), SizeIs(2)) << "tokens of the draft so far";
  Push(SessionVerdict{.session = 1,
                      .round = 1,
                      .node = 3,
                      .next = {1},
                      .plan = {.round = 2, .shape = Sequences(1, 2)}});
  ExpectRefused(1, 2);
}

TEST_F(DraftLoopLimits, TokensOutsideVocabularyEndSession) {
  const DraftPlan plan{.round = 2, .shape = Sequences(1, 2)};
  ExpectInvalidVerdict({.round = 1, .node = 1, .next = {kVocab}, .plan = plan});
  ExpectInvalidVerdict({.round = 1, .node = 1, .next = {-1}, .plan = plan});
}

TEST_F(DraftLoopLimits, DuplicateVerdictEndsSession) {
  Start();
  Push(Opening(1, 3));
  (void)TheDraft();
  const SessionVerdict verdict{.session = 1,
                               .round = 1,
                               .node = 3,
                               .next = {1},
                               .plan = {.round = 2, .shape = Sequences(1, 2)}};
  Push(std::vector<SessionVerdict>{verdict, verdict});
  ExpectRefused(1, 2);
  ExpectEverythingBack();
}

TEST_F(DraftLoopLimits, RefusesVerdictOnUnknownSession) {
  Start();
  Push(SessionVerdict{.session = 44, .round = 1, .plan = {.round = 2, .shape = Sequences(1, 2)}});
  ExpectRefused(44, 2);
}

TEST_F(DraftLoopLimits, SessionsThatCannotBeAreRefused) {
  Start();
  std::vector<SessionOpening> impossible(6, Opening(1, 3));
  impossible[0].tokens.clear();
  impossible[0].prompt_tokens = 0;
  impossible[1].prompt_tokens = 6;
  impossible[2].tokens[1] = kVocab;
  impossible[3].tokens[1] = -1;
  impossible[4].tokens.assign(257, 1);
  impossible[5].sampling.top_p = -1.f;
  for (const SessionOpening& open : impossible) {
    Push(open);
    ExpectRefused(1, 1);
    ExpectEverythingBack();
  }
}

TEST_F(DraftLoopLimits, NoVocabularyInCommonIsRefused) {
  Start({}, {}, /*vocab_limit=*/0);
  Push(Opening(1, 3));
  ExpectRefused(1, 1);
}

TEST_F(DraftLoopLimits, RefusesSessionsBeyondLimit) {
  Start({}, {.max_sessions = 2});
  Push(Opening(1, 1));
  Push(Opening(2, 1));
  StepToRest();
  (void)link_->TakeDrafts();
  Push(Opening(3, 1));
  ExpectRefused(3, 1);
  Push(Opening(2, 1));  // a replacement is not a new session
  EXPECT_FALSE(TheDraft().empty());
  Push(CloseEvent{1});
  Push(Opening(3, 1));
  EXPECT_FALSE(TheDraft().empty());
}

TEST_F(DraftLoopLimits, RefusesSessionWithoutPages) {
  Start({.page_tokens = 4, .total_pages = 3});
  Push(Opening(1, 4));  // 5 tokens and 3 to come: 2 pages
  EXPECT_FALSE(TheDraft().empty());
  Push(Opening(2, 4));
  ExpectRefused(2, 1);
  // The first one takes the last page with its next plan, and finds none with the one after that.
  Push(SessionVerdict{.session = 1,
                      .round = 1,
                      .node = 4,
                      .next = {1},
                      .plan = {.round = 2, .shape = Sequences(1, 3)}});
  EXPECT_FALSE(TheDraft().empty());
  EXPECT_EQ(model_->free_pages(), 0);
  Push(SessionVerdict{.session = 1,
                      .round = 2,
                      .node = 3,
                      .next = {1},
                      .plan = {.round = 3, .shape = Sequences(1, 3)}});
  ExpectRefused(1, 3);
  ExpectEverythingBack();
}

TEST_F(DraftLoopLimits, SessionWithoutPagesHarmsNoOther) {
  Start({.page_tokens = 4, .total_pages = 4});
  Push(Opening(1, 2));
  EXPECT_FALSE(TheDraft().empty());
  Push(Opening(2, 4));
  loop_->Step();
  Push(SessionVerdict{.session = 1,
                      .round = 1,
                      .node = 0,
                      .next = {1, 2, 3, 4},
                      .plan = {.round = 2, .shape = Sequences(1, 4)}});
  StepToRest();
  const std::vector<DraftPart> drafts = link_->TakeDrafts();
  ASSERT_THAT(drafts, SizeIs(2));
  EXPECT_EQ(drafts[0].session, 1u);
  EXPECT_THAT(drafts[0].chunk.tokens, IsEmpty());
  EXPECT_EQ(drafts[1].session, 2u);
  EXPECT_THAT(drafts[1].chunk.tokens, SizeIs(4));
}

TEST_F(DraftLoopLimits, FailedForwardPassRefusesItsSessions) {
  Start();
  Push(Opening(1, 3));
  model_->FailNextForward(Internal("broken"));
  ExpectRefused(1, 1);
  ExpectEverythingBack();
}

TEST_F(DraftLoopLimits, CutsPlansToLongestDraft) {
  Start({}, {.max_draft_length = 4});
  Push(Opening(1, 1 << 30));
  EXPECT_EQ(TheDraft().size(), 4);
  Push(CloseEvent{1});
  Push(Opening(2, -3));
  StepToRest();
  EXPECT_THAT(link_->TakeDrafts(), IsEmpty());
}

TEST_F(DraftLoopLimits, RefusesPlansOfTooManyDraws) {
  Start({}, {.max_draft_length = 4, .max_draft_tokens = 12});
  Push(Opening(1, Sequences(3, 4)));
  EXPECT_EQ(TheDraft().total_draws(), 12);
  Push(Opening(2, Sequences(3, 1 << 30)));  // cut to the longest draft first
  EXPECT_EQ(TheDraft().total_draws(), 12);
  constexpr int kMax = std::numeric_limits<int>::max();
  const std::vector<DraftShape> impossible = {Sequences(4, 4),
                                              {.length = 3, .branching = {1, 2, 5}},
                                              {.length = 1, .branching = {13}},
                                              Sequences(0, 2),
                                              {.length = 3, .branching = {2, -1, 2}},
                                              {.length = 1, .branching = {1, 0}},
                                              Sequences(-1, 2),
                                              {.length = 4, .branching = {kMax, kMax, kMax}}};
  for (const DraftShape& shape : impossible) {
    Push(Opening(3, shape));
    ExpectRefused(3, 1);
  }
  // And with a verdict.
  Push(SessionVerdict{.session = 1,
                      .round = 1,
                      .node = 1,
                      .next = {1},
                      .plan = {.round = 2, .shape = Sequences(4, 4)}});
  ExpectRefused(1, 2);
  Push(CloseEvent{2});
  StepToRest();
  ExpectEverythingBack();
}

TEST_F(DraftLoopLimits, RefusesDepthBeyondForwardPass) {
  Start({.max_batch_tokens = 6});
  Push(Opening(1, Sequences(6, 3)));
  EXPECT_EQ(TheDraft().total_draws(), 18);
  Push(Opening(2, Sequences(7, 3)));
  ExpectRefused(2, 1);
}

TEST_F(DraftLoopLimits, DepthIsDrawnWholeOrNot) {
  Start({}, {.max_step_tokens = 8});
  for (uint64_t id = 1; id <= 4; ++id) Push(Opening(id, Sequences(5, 4), {1, 2}));
  Push(Opening(5, 4, {1, 2}));
  StepToRest();
  std::map<uint64_t, std::vector<DraftPart>> drafts;
  for (DraftPart& draft : link_->TakeDrafts()) drafts[draft.session].push_back(std::move(draft));
  EXPECT_THAT(drafts, SizeIs(5));
  for (auto& [id, parts] : drafts) {
    ExpectSameDraft(Assemble(std::move(parts)),
                    Oracle(Opening(id, Sequences(id < 5 ? 5 : 1, 4), {1, 2})));
  }
}

TEST_F(DraftLoopLimits, DraftEndsWithContext) {
  Start({.max_position_embeddings = 8});
  const SessionOpening session = Opening(1, 10);
  Push(session);
  // 8 tokens can be run: 5 known ones and 3 draft tokens, whose last logits give a fourth.
  ExpectSameDraft(TheDraft(), Oracle(session, {.round = 1, .shape = Sequences(1, 4)}));
  Push(SessionVerdict{.session = 1,
                      .round = 1,
                      .node = 4,
                      .next = {},
                      .plan = {.round = 2, .shape = Sequences(1, 1)}});
  ExpectRefused(1, 2);
}

TEST_F(DraftLoopLimits, FullInboxRefusesEvents) {
  Start();
  loop_->Step();
  int taken = 0;
  constexpr auto kMax = static_cast<int>(DraftLoop::kMostWaiting);
  for (int i = 0; i < kMax + 10; ++i) taken += loop_->Push({kConnection, CloseEvent{1}});
  EXPECT_EQ(taken, kMax);
  loop_->PushUrgent({kConnection, DisconnectedEvent{}});
  StepToRest();
  EXPECT_THAT(link_->TakeDrafts(), IsEmpty());
}

TEST_F(DraftLoopLimits, LongPromptDoesNotDelayDrafts) {
  Start({.max_batch_tokens = 64}, {.max_step_tokens = 40, .max_chunk_tokens = 36});
  Push(Opening(1, 100, std::vector<TokenId>(200, 5)));
  loop_->Step();
  Push(Opening(2, 100, std::vector<TokenId>(200, 6)));
  Push(Opening(3, 2, {1, 2, 3}));
  loop_->Step();
  const auto& batch = model_->batches().back();
  // The oldest, then the short one, then the other prompt with the rest of the budget.
  ASSERT_THAT(batch, SizeIs(3));
  EXPECT_THAT(batch[0].tokens, SizeIs(36));
  EXPECT_EQ(batch[0].context, 36);
  EXPECT_THAT(batch[0].logit_rows, IsEmpty());
  EXPECT_THAT(batch[1].tokens, SizeIs(3));
  EXPECT_THAT(batch[1].logit_rows, SizeIs(1));
  EXPECT_THAT(batch[2].tokens, SizeIs(1));
}

TEST_F(DraftLoopLimits, OldestPlanIsNeverSkipped) {
  Start({}, {.max_step_tokens = 4, .max_chunk_tokens = 4});
  Push(Opening(99, 1, std::vector<TokenId>(100, 5)));
  for (uint64_t id = 2; id < 20; ++id) Push(Opening(id, 16, {1}));
  for (int i = 0; i < 25; ++i) loop_->Step();  // 100 tokens, 4 per step
  const std::vector<DraftPart> drafts = link_->TakeDrafts();
  ASSERT_THAT(drafts, SizeIs(1));
  EXPECT_EQ(drafts[0].session, 99u);
}

TEST_F(DraftLoopLimits, BatchStaysWithinModelLimit) {
  Start({.max_batch_tokens = 16});
  for (uint64_t id = 0; id < 40; ++id) Push(Opening(id, 4));
  StepToRest();
  EXPECT_THAT(link_->TakeDrafts(), SizeIs(40));
}

class BrokenDraftLogits : public DraftLoopLimits {
 protected:
  // Makes one logit NaN in the row after these tokens.
  void Break(const std::vector<TokenId>& path) {
    model_->set_on_row([row = model_->Logits(path)](std::span<float> logits) {
      if (std::equal(logits.begin(), logits.end(), row.begin())) logits[4] = NAN;
    });
  }
  static SessionOpening Of(DraftKind kind, int length) {
    SessionOpening open = Opening(1, length);
    open.kind = kind;
    if (kind == DraftKind::kArgmax) open.sampling.temperature = 0;
    return open;
  }
};

TEST_F(BrokenDraftLogits, NothingIsDraftedFromThem) {
  for (const DraftKind kind : {DraftKind::kSampled, DraftKind::kArgmax, DraftKind::kRace}) {
    Start();
    const SessionOpening open = Of(kind, 3);
    Break(open.tokens);
    Push(open);
    ExpectRefused(1, 1);
    ExpectEverythingBack();
  }
}

// A draft is as long as planned, so that when its parts are sent tells nothing of its tokens.
TEST_F(BrokenDraftLogits, AreReplacedByTheTokenBefore) {
  for (const DraftKind kind : {DraftKind::kSampled, DraftKind::kArgmax, DraftKind::kRace}) {
    for (const bool has_stop_rule : {false, true}) {
      Start();
      const SessionOpening open = has_stop_rule ? DepthByDepth(Of(kind, 4)) : Of(kind, 4);
      const TokenId first = Oracle(open).token(1);
      std::vector<TokenId> path = open.tokens;
      path.push_back(first);
      Break(path);
      Push(open);
      const DraftTree draft = TheDraft();
      ASSERT_EQ(draft.size(), has_stop_rule ? 2 : 4);
      EXPECT_EQ(draft.Path(2), (std::vector<TokenId>{first, first}));
      EXPECT_TRUE(Validate(draft, Sequences(1, 4), kind == DraftKind::kSampled, kVocab).ok());
      if (kind == DraftKind::kSampled) {
        EXPECT_EQ(draft.distribution(1).ids, std::vector<TokenId>{first});
      }
    }
  }
}

}  // namespace
}  // namespace outrider
