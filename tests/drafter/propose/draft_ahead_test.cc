// Lookahead drafting: a verdict gets the same draft as without it, only sooner.
#include <gmock/gmock.h>

#include <random>
#include <set>
#include <string>

#include "tests/drafter/propose/loop_fixture.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr DraftKind kKinds[] = {DraftKind::kSampled, DraftKind::kArgmax, DraftKind::kRace};

class DraftAheadTest : public LoopTest {
 protected:
  static constexpr DraftLoopOptions kAhead = {.ahead_tokens = 64, .max_ahead_rows = 16};

  static SessionOpening OpeningOf(DraftKind kind, SessionOpening session) {
    session.kind = kind;
    if (kind == DraftKind::kArgmax) session.sampling.temperature = 0.f;
    return session;
  }

  // Sends the verdict and updates `session`.
  void Decide(SessionOpening& session, const DraftTree& draft, int node, TokenId next,
              const DraftPlan& plan) {
    Push(SessionVerdict{.session = session.session,
                        .round = session.plan.round,
                        .node = node,
                        .next = {next},
                        .plan = plan});
    const std::vector<TokenId> path = draft.Path(node);
    session.tokens.insert(session.tokens.end(), path.begin(), path.end());
    session.tokens.push_back(next);
    session.plan = plan;
  }

  // The most likely token after `node` that is not in the draft there.
  TokenId LikelyAfter(const SessionOpening& session, const DraftTree& draft, int node) {
    std::vector<TokenId> path = session.tokens;
    for (const TokenId token : draft.Path(node)) path.push_back(token);
    std::vector<float> row = model_->Logits(path);
    for (const int32_t child : draft.draws(node))
      row[static_cast<size_t>(draft.token(child))] = -1e9f;
    return static_cast<TokenId>(std::max_element(row.begin(), row.end()) - row.begin());
  }
};

TEST_F(DraftAheadTest, LikelyEndsNeedNoForwardPass) {
  for (const DraftKind kind : {DraftKind::kSampled, DraftKind::kArgmax}) {
    for (int node = 0; node <= 3; ++node) {
      Start({}, kAhead);
      SessionOpening session = OpeningOf(kind, Opening(1, 3));
      Push(session);
      const DraftTree draft = TheDraft();
      const size_t passes = model_->batches().size();
      const DraftPlan plan{.round = 2, .shape = Sequences(1, 3)};
      Decide(session, draft, node, LikelyAfter(session, draft, node), plan);
      // The step of the verdict itself: there was nothing left to run for it.
      std::vector<DraftPart> parts;
      loop_->Step();
      parts = TakeDrafts();
      ASSERT_THAT(parts, SizeIs(1)) << node;
      EXPECT_FALSE(parts[0].chunk.more);
      ExpectSameDraft(Assemble(std::move(parts)), Oracle(session));
      EXPECT_LE(model_->batches().size(), passes + 1);  // ahead again
    }
  }
}

// The verifier may use what was sent early for the next round. Where its pages are needed, that
// plan gets a refusal, but never a second draft.
TEST_F(DraftAheadTest, SentDraftsWithoutPagesEndSession) {
  std::set<size_t> parts, tokens;
  for (int pages = 1; pages <= 40; ++pages) {
    Start({.page_tokens = 4, .total_pages = 40}, kAhead);
    SessionOpening session = Opening(1, 3);
    Push(session);
    const DraftTree draft = TheDraft();
    SessionOpening large = Opening(2, 3);
    large.tokens.assign(static_cast<size_t>(4 * pages), 1);
    Push(large);
    StepToRest();
    (void)link_->TakeDrafts();
    Decide(session, draft, 0, LikelyAfter(session, draft, 0),
           {.round = 2, .shape = Sequences(1, 3)});
    StepToRest();
    std::vector<DraftPart> answer = TakeDrafts();
    parts.insert(answer.size());
    const std::vector<TokenId> last = answer.back().chunk.tokens;
    tokens.insert(last.size());
    if (!last.empty()) ExpectSameDraft(Assemble(std::move(answer)), Oracle(session));
  }
  EXPECT_THAT(parts, ElementsAre(1, 2)) << "the draft, or the draft and a refusal";
  EXPECT_THAT(tokens, ElementsAre(0, 3));
}

TEST_F(DraftAheadTest, AnythingElseIsDraftedAsEver) {
  for (const DraftKind kind : kKinds) {
    Start({}, kAhead);
    for (TokenId next = 0; next < kVocab; ++next) {
      for (int node = 0; node <= 3; ++node) {
        SessionOpening session = OpeningOf(kind, Opening(1, 3));
        Push(session);
        const DraftTree draft = TheDraft();
        Decide(session, draft, node, next, {.round = 2, .shape = Sequences(1, 3)});
        ExpectSameDraft(TheDraft(), Oracle(session));
        ASSERT_FALSE(HasFailure()) << "node " << node << ", next " << next;
      }
    }
  }
}

// Rounds of any shape, verdicts at any node and time (also in the middle of lookahead drafting),
// plans that are longer, shorter, wider or skip rounds: each draft is the oracle's. Half of the
// sessions have stop rules, which are not drafted ahead.
TEST_F(DraftAheadTest, DraftsEqualThoseAfterTheVerdict) {
  std::mt19937 random(20261121);
  const auto below = [&random](int n) {
    return static_cast<int>(random() % static_cast<unsigned>(n));
  };
  // Few enough that consecutive plans often have the same one.
  const StopRule stops[] = {{},
                            {.kind = StopRule::Kind::kConfidence, .threshold = 0.3f},
                            {.kind = StopRule::Kind::kConfidence, .threshold = 0.6f},
                            {.kind = StopRule::Kind::kEntropy, .threshold = 2.f},
                            {.kind = StopRule::Kind::kHead, .threshold = 0.7f}};
  int hits = 0, stopped = 0;
  class Count final : public DraftObserver {
   public:
    explicit Count(int* hits) : hits_(hits) {}
    void OnVerdictAhead(const HeldSession& /*held*/, bool hit) override { *hits_ += hit ? 1 : 0; }

   private:
    int* hits_;
  } observer(&hits);
  const DraftShape shapes[] = {Sequences(1, 1),
                               Sequences(1, 3),
                               Sequences(1, 5),
                               Sequences(3, 2),
                               Sequences(3, 4),
                               {.length = 3, .branching = {2, 2}},
                               // As many draws, but branches elsewhere.
                               {.length = 2, .branching = {1, 4}},
                               {.length = 3, .branching = {1, 2}}};
  for (int run = 0; run < 60; ++run) {
    const FakeModelOptions model{.sharpness = run / 2 % 2 == 0 ? 2.f : 8.f};
    DraftLoopOptions options = kAhead;
    options.head = &Head();
    Start(model, options);
    loop_ = std::make_unique<DraftLoop>(model_.get(), options, &clock_, &observer);
    link_ = Connect(kConnection);
    SessionOpening session = OpeningOf(kKinds[run % 3], Opening(1, shapes[below(8)]));
    session.seed = static_cast<uint64_t>(run);
    session.sampling.presence_penalty = run % 4 == 3 ? 0.5f : 0.f;
    session.plan.stop = stops[run % 2 == 0 ? 0 : below(5)];
    Push(session);
    for (int round = 0; round < 20; ++round) {
      std::vector<DraftPart> parts;
      do {
        ASSERT_TRUE(loop_->Step());
        for (DraftPart& part : TakeDrafts()) parts.push_back(std::move(part));
      } while (parts.empty() || parts.back().chunk.more);
      const DraftTree draft = Assemble(std::move(parts));
      ExpectSameDraft(draft, Oracle(session));
      ASSERT_FALSE(HasFailure()) << "run " << run << ", round " << round;
      stopped += draft.max_depth() < session.plan.shape.length ? 1 : 0;
      for (int steps = below(8); steps > 0; --steps) loop_->Step();
      const int node = below(3) == 0 ? draft.size() : below(draft.size() + 1);
      const TokenId next = below(4) == 0 ? below(kVocab) : LikelyAfter(session, draft, node);
      Decide(session, draft, node, next,
             {.round = session.plan.round + (below(5) == 0 ? 2 : 1),
              .shape = below(2) == 0 ? session.plan.shape : shapes[below(8)],
              .stop = run % 2 == 0 || below(3) > 0 ? session.plan.stop : stops[below(5)]});
    }
    Push(CloseEvent{1});
    StepToRest();
    ExpectEverythingBack();
  }
  EXPECT_GT(hits, 100);  // of 1200; otherwise this would show little
  EXPECT_GT(stopped, 300);
}

TEST_F(DraftAheadTest, AnotherLengthTakesWhatIsThere) {
  for (const int length : {1, 2, 3, 6}) {
    Start({}, kAhead);
    SessionOpening session = Opening(1, 4);
    Push(session);
    const DraftTree draft = TheDraft();
    Decide(session, draft, 0, LikelyAfter(session, draft, 0),
           {.round = 2, .shape = Sequences(1, length)});
    const size_t passes = model_->batches().size();
    loop_->Step();
    std::vector<DraftPart> parts = TakeDrafts();
    ASSERT_FALSE(parts.empty());
    EXPECT_THAT(parts[0].chunk.tokens, SizeIs(std::min(length, 4)));
    if (length > 4) {  // the missing depths
      EXPECT_GT(model_->batches().size(), passes);
      StepToRest();
      for (DraftPart& part : TakeDrafts()) parts.push_back(std::move(part));
    }
    ExpectSameDraft(Assemble(std::move(parts)), Oracle(session));
  }
}

TEST_F(DraftAheadTest, KeepsWithinTokenBudget) {
  const auto fed = [this] {
    size_t tokens = 0;
    for (const auto& batch : model_->batches()) {
      for (const FakeModel::Share& share : batch) tokens += share.tokens.size();
    }
    return tokens;
  };
  size_t most = 0;
  for (const int budget : {0, 1, 7, 13}) {
    Start({}, {.ahead_tokens = budget, .max_ahead_rows = 4});
    Push(Opening(1, 4));
    StepToRest();
    const size_t without = 5 + 3;
    EXPECT_LE(fed(), without + static_cast<size_t>(budget));
    EXPECT_GE(fed() + 3, without + static_cast<size_t>(budget));
    for (size_t i = 4; i < model_->batches().size(); ++i)
      EXPECT_LE(model_->batches()[i].size(), 4u);
    most = std::max(most, fed());
  }
  EXPECT_EQ(most, 21u);
}

TEST_F(DraftAheadTest, WorkThatIsDueComesFirst) {
  Start({}, kAhead);
  Push(Opening(1, 4));
  for (int i = 0; i < 5; ++i) loop_->Step();  // in the middle of lookahead drafting
  Push(Opening(2, 4, {9, 8, 7}));
  for (int i = 0; i < 4; ++i) {
    loop_->Step();
    const auto& batch = model_->batches().back();
    ASSERT_THAT(batch, SizeIs(1)) << i;  // only the second session
  }
  EXPECT_THAT(TakeDrafts(), SizeIs(2));
}

TEST_F(DraftAheadTest, GuessesGiveTheirPagesToPlans) {
  // Pages of 4 tokens: a session of 6 and its draft of 4 take 3, its lookahead drafts the rest.
  Start({.page_tokens = 4, .total_pages = 8}, kAhead);
  Push(Opening(1, 4, {1, 2, 3, 4, 5, 6}));
  StepToRest();
  EXPECT_LT(model_->free_pages(), 3);
  (void)TakeDrafts();
  const SessionOpening other = Opening(2, 8, {7, 7, 7, 7, 7, 7, 7, 7});
  Push(other);
  StepToRest();
  const std::vector<DraftPart> parts = TakeDrafts();
  ASSERT_FALSE(parts.empty());
  EXPECT_THAT(parts[0].chunk.tokens, SizeIs(4)) << "refused for pages that guesses held";
  Push(CloseEvent{1});
  Push(CloseEvent{2});
  StepToRest();
  ExpectEverythingBack();
}

TEST_F(DraftAheadTest, SessionsTakeTurns) {
  Start({}, {.ahead_tokens = 64, .max_ahead_rows = 4});
  for (uint64_t id = 1; id <= 4; ++id) Push(Opening(id, 2, {static_cast<TokenId>(id), 2, 3}));
  while (TakeDrafts().size() < 4) loop_->Step();
  loop_->Step();
  const auto& batch = model_->batches().back();
  EXPECT_THAT(batch, SizeIs(4));
  for (const FakeModel::Share& share : batch) EXPECT_EQ(share.context, 3 + 1);  // its last token
}

// Rounds of 1 s without lookahead and of `with` s with it, some of them much longer: the share of
// rounds with it in the second half of `rounds`.
double ShareOpen(AheadGate& gate, double with, int rounds) {
  std::mt19937 random(7);
  int open = 0;
  for (int i = 0; i < rounds; ++i) {
    if (2 * i >= rounds) open += gate.open() ? 1 : 0;
    const double noise = 0.8 + 0.4 * static_cast<double>(random() % 1000) / 1000;
    gate.OnRound((gate.open() ? with : 1) * (random() % 20 == 0 ? 10 : noise));
  }
  return open / (rounds / 2.0);
}

TEST(AheadGateTest, OpensWhereRoundsGetShorter) {
  for (const double with : {0.5, 0.8, 0.9}) {
    AheadGate gate;
    EXPECT_GT(ShareOpen(gate, with, 8000), 0.8) << with;
  }
}

TEST(AheadGateTest, ClosesWhereRoundsGetLonger) {
  for (const double with : {1.1, 1.3, 3.0}) {
    AheadGate gate;
    EXPECT_LT(ShareOpen(gate, with, 8000), 0.2) << with;
  }
}

// Where the answer is clear, a new drafter does not alternate for long.
TEST(AheadGateTest, ClearAnswersAreFoundSoon) {
  for (const double with : {0.7, 1.5}) {
    AheadGate gate;
    double seconds = 0;
    for (int round = 0; round < 256; ++round) {
      const double taken = gate.open() ? with : 1;
      seconds += taken;
      gate.OnRound(taken);
    }
    EXPECT_LT(seconds / 256, std::min(with, 1.0) * 1.15) << with;
  }
}

// A block beside a busy minute does not decide, whichever it is.
TEST(AheadGateTest, OneBusyBlockDoesNotDecide) {
  for (int busy = 0; busy < 4; ++busy) {
    for (const double with : {0.7, 1.15}) {
      AheadGate gate;
      int open = 0;
      for (int round = 0; round < 64 * 32; ++round) {
        open += gate.open() ? 1 : 0;
        gate.OnRound((gate.open() ? with : 1) * (round / 32 == busy ? 2 : 1));
      }
      const double share = open / (64 * 32.0);
      EXPECT_TRUE(with < 1 ? share > 0.75 : share < 0.3) << with << " " << busy << ": " << share;
    }
  }
}

TEST(AheadGateTest, FollowsAChange) {
  AheadGate gate;
  EXPECT_LT(ShareOpen(gate, 1.2, 8000), 0.2);
  EXPECT_GT(ShareOpen(gate, 0.8, 8000), 0.8);
  EXPECT_LT(ShareOpen(gate, 1.2, 8000), 0.2);
}

}  // namespace
}  // namespace outrider
