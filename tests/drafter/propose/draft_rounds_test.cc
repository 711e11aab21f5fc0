// Trees through the loop: which tokens are run, and that the draft after any verdict is the one
// that a session opened at that position would get.
#include <gmock/gmock.h>

#include <map>
#include <random>

#include "tests/drafter/propose/loop_fixture.h"

namespace outrider {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

class DraftRoundsTest : public LoopTest {
 protected:
  // The round after `node` and `next`: the mirror's next draft must be that of a session opened at
  // that position.
  void ExpectDraftAfter(SessionOpening session, const DraftTree& draft, int node,
                        std::vector<TokenId> next) {
    const DraftPlan plan{.round = session.plan.round + 1, .shape = Sequences(3, 4)};
    Push(SessionVerdict{.session = session.session,
                        .round = session.plan.round,
                        .node = node,
                        .next = next,
                        .plan = plan});
    const std::vector<TokenId> path = draft.Path(node);
    session.tokens.insert(session.tokens.end(), path.begin(), path.end());
    session.tokens.insert(session.tokens.end(), next.begin(), next.end());
    ExpectSameDraft(TheDraft(), Oracle(session, plan));
  }
};

TEST_F(DraftRoundsTest, SequencesShareRowsOfPrefixes) {
  Start({.sharpness = 8.f});
  const SessionOpening session = Opening(1, Sequences(6, 5));
  Push(session);
  const DraftTree draft = TheDraft();
  ExpectSameDraft(draft, Oracle(session));
  ASSERT_EQ(draft.total_draws(), 30);
  ASSERT_LT(draft.size(), 30);  // some draft tokens coincide
  std::vector<size_t> nodes(6, 0);
  for (int node = 1; node <= draft.size(); ++node) ++nodes[static_cast<size_t>(draft.depth(node))];
  const auto& batches = model_->batches();
  ASSERT_THAT(batches, SizeIs(5));  // the last depth is never run
  for (size_t depth = 1; depth < 5; ++depth) {
    EXPECT_THAT(batches[depth], SizeIs(nodes[depth]));
    for (const FakeModel::Share& share : batches[depth]) {
      EXPECT_THAT(share.tokens, SizeIs(1));
      EXPECT_THAT(share.logit_rows, SizeIs(1));
      EXPECT_EQ(share.context, 5 + static_cast<int>(depth) - 1);
    }
  }
}

TEST_F(DraftRoundsTest, SendsPartsOfWholeDepths) {
  Start({}, {.chunk_depths = 2});
  const SessionOpening session = Opening(1, Sequences(3, 5));
  Push(session);
  StepToRest();
  std::vector<DraftPart> parts = link_->TakeDrafts();
  ASSERT_THAT(parts, SizeIs(3));
  EXPECT_THAT(parts[0].chunk.tokens, SizeIs(6));
  EXPECT_THAT(parts[1].chunk.tokens, SizeIs(6));
  EXPECT_THAT(parts[2].chunk.tokens, SizeIs(3));
  ExpectSameDraft(Assemble(std::move(parts)), Oracle(session));
  // A draft whose last part is full has no empty part after it.
  Push(Opening(2, Sequences(2, 4)));
  StepToRest();
  parts = link_->TakeDrafts();
  ASSERT_THAT(parts, SizeIs(2));
  EXPECT_FALSE(parts[1].chunk.more);
}

TEST_F(DraftRoundsTest, AcceptsAnyNodeOfTree) {
  Start();
  const SessionOpening session = Opening(1, {.length = 4, .branching = {2, 3}});
  Push(session);
  const int nodes = TheDraft().size();
  for (int node = 0; node <= nodes; ++node) {
    for (const std::vector<TokenId>& next : {std::vector<TokenId>{17}, {}, {2, 7, 1, 8}}) {
      Push(session);  // again
      const DraftTree draft = TheDraft();
      ASSERT_EQ(draft.size(), nodes);
      ExpectDraftAfter(session, draft, node, next);
      if (HasFailure()) return;
      EXPECT_LE(model_->sequences(), 3);
    }
  }
}

TEST_F(DraftRoundsTest, KeepsKvOfAcceptedNode) {
  Start();
  Push(Opening(1, Sequences(4, 4)));
  const DraftTree draft = TheDraft();
  const auto node_at = [&draft](int depth) {
    for (int node = draft.size(); node > 0; --node) {
      if (draft.depth(node) == depth) return node;
    }
    return 0;
  };
  const int node = node_at(3);
  Push(SessionVerdict{.session = 1,
                      .round = 1,
                      .node = node,
                      .next = {17},
                      .plan = {.round = 2, .shape = Sequences(4, 4)}});
  loop_->Step();
  const auto& batch = model_->batches().back();
  ASSERT_THAT(batch, SizeIs(1));
  EXPECT_EQ(batch[0].context, 5 + 3);
  EXPECT_THAT(batch[0].tokens, SizeIs(1));
  // The last depth has not been run.
  const DraftTree second = TheDraft();
  Push(SessionVerdict{.session = 1,
                      .round = 2,
                      .node = second.size(),
                      .next = {17},
                      .plan = {.round = 3, .shape = Sequences(1, 1)}});
  loop_->Step();
  const auto& next = model_->batches().back();
  EXPECT_EQ(next[0].context, 5 + 4 + 3);
  EXPECT_THAT(next[0].tokens, SizeIs(2));
}

TEST_F(DraftRoundsTest, VerdictMayAcceptUnfinishedDraft) {
  for (int node = 0; node <= 6; ++node) {
    for (int steps = 2; steps <= 4; ++steps) {  // when the first part is sent, then further on
      Start({}, {.chunk_depths = 2});
      SessionOpening session = Opening(1, Sequences(3, 6));
      Push(session);
      for (int i = 0; i < steps; ++i) loop_->Step();
      std::vector<DraftPart> parts = link_->TakeDrafts();
      ASSERT_FALSE(parts.empty());
      EXPECT_TRUE(parts.back().chunk.more);
      DraftTree sent;
      for (DraftPart& part : parts) ASSERT_TRUE(sent.Append(std::move(part.chunk)).ok());
      if (node > sent.size()) continue;
      ExpectDraftAfter(session, sent, node, {9});
      // Nothing remains of the abandoned draft.
      Push(CloseEvent{1});
      StepToRest();
      ExpectEverythingBack();
    }
  }
}

TEST_F(DraftRoundsTest, UnsentDraftTokensCannotBeAccepted) {
  Start({}, {.chunk_depths = 2});
  Push(Opening(1, Sequences(3, 6)));
  for (int i = 0; i < 3; ++i) loop_->Step();
  DraftTree sent;
  for (DraftPart& part : link_->TakeDrafts()) ASSERT_TRUE(sent.Append(std::move(part.chunk)).ok());
  Push(SessionVerdict{.session = 1,
                      .round = 1,
                      .node = sent.size() + 1,
                      .next = {1},
                      .plan = {.round = 2, .shape = Sequences(1, 2)}});
  EXPECT_TRUE(TheDraft().empty());  // refused
  ExpectEverythingBack();
}

TEST_F(DraftRoundsTest, NothingLeaksHoweverASessionEnds) {
  const auto start = [this](int steps) {
    Start({}, {.chunk_depths = 1});
    Push(Opening(1, Sequences(4, 5)));
    for (int i = 0; i < steps; ++i) loop_->Step();
    if (steps > 1) {
      EXPECT_GT(model_->sequences(), 1);
    }
  };
  for (int steps = 0; steps <= 5; ++steps) {
    start(steps);
    Push(CloseEvent{1});
    StepToRest();
    ExpectEverythingBack();
    start(steps);
    Push(DisconnectedEvent{});
    StepToRest();
    ExpectEverythingBack();
    start(steps);
    Push(Opening(1, Sequences(-1, 5)));  // replaces it, and is rejected
    StepToRest();
    ExpectEverythingBack();
    start(steps);
    loop_.reset();
    EXPECT_EQ(model_->sequences(), 0);
    EXPECT_EQ(model_->free_pages(), model_->total_pages());
  }
  start(2);
  model_->FailNextForward(Internal("broken"));
  StepToRest();
  ExpectEverythingBack();
}

TEST_F(DraftRoundsTest, RefusesTreeWithoutPagesUpFront) {
  // 5 tokens and 3 more to run: 2 pages, and one for each of three forks.
  Start({.page_tokens = 4, .total_pages = 4});
  Push(Opening(1, Sequences(4, 4)));
  EXPECT_TRUE(TheDraft().empty());
  EXPECT_THAT(model_->batches(), IsEmpty());
  ExpectEverythingBack();
  Push(Opening(1, Sequences(3, 4)));
  EXPECT_EQ(TheDraft().total_draws(), 12);
}

TEST_F(DraftRoundsTest, ReservedPagesAreNotGivenAway) {
  Start({.page_tokens = 4, .total_pages = 6});
  const SessionOpening first = Opening(1, Sequences(4, 4));
  Push(first);                                      // 2 pages, 3 reserved
  Push(Opening(2, 1, std::vector<TokenId>(8, 2)));  // 2 pages, 1 is left
  StepToRest();
  std::map<uint64_t, std::vector<DraftPart>> drafts;
  for (DraftPart& draft : link_->TakeDrafts()) drafts[draft.session].push_back(std::move(draft));
  EXPECT_TRUE(Assemble(drafts[2]).empty());
  ExpectSameDraft(Assemble(drafts[1]), Oracle(first));
}

TEST_F(DraftRoundsTest, MissingHeadMeansFullLength) {
  Start();
  SessionOpening session = Opening(1, 6);
  session.plan.stop = {.kind = StopRule::Kind::kHead, .threshold = 0.01f};
  Push(session);
  EXPECT_EQ(TheDraft().max_depth(), 6);
  Start({}, {.head = &Head()});
  Push(session);
  EXPECT_EQ(TheDraft().max_depth(), 2);
}

// Predictions are matched with verdicts: labels of 0 teach the head to stop earlier.
TEST_F(DraftRoundsTest, VerdictsCorrectTheHead) {
  Start({}, {.head = &Head()});
  SessionOpening session = Opening(1, 8);
  session.plan.stop = {.kind = StopRule::Kind::kHead, .threshold = 0.7f};
  Push(session);
  const auto depths = [&](int rounds, char label) {
    int sum = 0;
    for (int i = 0; i < rounds; ++i) {
      const DraftTree draft = TheDraft();
      sum += draft.max_depth();
      session.plan.round += 1;
      Push(SessionVerdict{.session = 1,
                          .round = session.plan.round - 1,
                          .node = 0,
                          .next = {},
                          .plan = session.plan,
                          .acceptance = std::string(static_cast<size_t>(draft.size()), label)});
    }
    return sum;
  };
  const int before = depths(100, '\x7f');
  depths(300, '\0');
  EXPECT_LT(depths(100, '\0'), before * 3 / 4);
  depths(600, '\xff');
  EXPECT_GT(depths(100, '\xff'), before * 5 / 4);
}

// Sessions of every kind through rounds of every shape, with few pages; each draft is compared with
// the definition, so that one wrong token in a KV or one wrong random number shows.
TEST_F(DraftRoundsTest, DraftsEqualOracleInRandomRounds) {
  Start({.sharpness = 6.f, .total_pages = 250, .eos_token_ids = {30}},
        {.max_draft_length = 8,
         .max_draft_tokens = 64,
         .chunk_depths = 3,
         .max_step_tokens = 40,
         .max_chunk_tokens = 10,
         .head = &Head()},
        31);
  std::mt19937 random(20261121);
  const auto below = [&random](int n) {
    return static_cast<int>(random() % static_cast<unsigned>(n));
  };
  const auto some_tokens = [&](int n) {
    std::vector<TokenId> tokens(static_cast<size_t>(n));
    for (TokenId& token : tokens) token = below(kVocab);
    return tokens;
  };
  const auto some_shape = [&] {
    const int length = below(9);
    switch (below(4)) {
      case 0: return Sequences(1, length);
      case 1: return Sequences(1 + below(6), length);
      default: return DraftShape{.length = std::min(length, 5), .branching = {2, 1 + below(2), 2}};
    }
  };
  const auto some_stop = [&]() -> StopRule {
    switch (below(4)) {
      case 0: return {.kind = StopRule::Kind::kConfidence, .threshold = 0.2f};
      case 1: return {.kind = StopRule::Kind::kEntropy, .threshold = 2.f};
      case 2: return {.kind = StopRule::Kind::kHead, .threshold = 0.2f};
      default: return {};
    }
  };
  struct Mirror {
    SessionOpening session;  // as the verifier knows it
    DraftTree sent;          // for its plan
    bool answered = false;
  };
  std::map<uint64_t, Mirror> mirrors;
  const auto open = [&](uint64_t id, uint32_t round) {
    SessionOpening session = Opening(id, some_shape(), some_tokens(1 + below(40)));
    session.prompt_tokens = 1 + below(static_cast<int>(session.tokens.size()));
    session.plan.round = round;
    session.plan.stop = some_stop();
    session.kind = static_cast<DraftKind>(below(3));
    if (below(2) == 0) {
      session.sampling = {.temperature = 0.8f, .top_k = 10, .presence_penalty = 1.f};
    }
    mirrors[id] = {.session = session, .sent = {}, .answered = false};
    Push(session);
  };
  constexpr uint64_t kSessions = 12;
  for (uint64_t id = 0; id < kSessions; ++id) open(id, 1);

  int compared = 0, refused = 0, in_parts = 0, accepted_tokens = 0;
  for (int i = 0; i < 4000; ++i) {
    loop_->Step();
    for (DraftPart& draft : link_->TakeDrafts()) {
      Mirror& mirror = mirrors.at(draft.session);
      ASSERT_EQ(draft.round, mirror.session.plan.round);
      if (draft.chunk.tokens.empty()) {  // no pages: another time
        ++refused;
        open(draft.session, draft.round + 1);
        continue;
      }
      const bool more = draft.chunk.more;
      ASSERT_TRUE(mirror.sent.Append(std::move(draft.chunk)).ok());
      ASSERT_TRUE(Validate(mirror.sent, mirror.session.plan.shape,
                           mirror.session.kind == DraftKind::kSampled, kVocab)
                      .ok());
      if (more) continue;
      ExpectSameDraft(mirror.sent, Oracle(mirror.session, mirror.session.plan, 31));
      mirror.answered = true;
      ++compared;
    }
    if (HasFailure()) return;
    const auto id = static_cast<uint64_t>(below(kSessions));
    Mirror& mirror = mirrors.at(id);
    SessionOpening& session = mirror.session;
    // Mostly verdicts on drafts that arrived; some on parts or on none, and some sessions are
    // reopened.
    if (!mirror.answered && session.plan.shape.length > 0 && below(6) > 0) continue;
    if (below(40) == 0 || session.tokens.size() > 150) {
      if (below(2) == 0) Push(CloseEvent{id});
      open(id, session.plan.round + 1);
      continue;
    }
    SessionVerdict verdict;
    verdict.session = id;
    verdict.round = session.plan.round;
    verdict.node = below(mirror.sent.size() + 1);
    verdict.next = some_tokens(below(10) == 0 ? below(6) : 1);
    if (!mirror.answered && verdict.node > 0) ++in_parts;
    const std::vector<TokenId> path = mirror.sent.Path(verdict.node);
    accepted_tokens += static_cast<int>(path.size());
    session.tokens.insert(session.tokens.end(), path.begin(), path.end());
    session.tokens.insert(session.tokens.end(), verdict.next.begin(), verdict.next.end());
    session.plan = {.round = session.plan.round + 1 + static_cast<uint32_t>(below(3)),
                    .shape = some_shape(),
                    .stop = some_stop()};
    verdict.plan = session.plan;
    mirror.sent = {};
    mirror.answered = false;
    Push(verdict);
  }
  EXPECT_GT(compared, 500);
  EXPECT_GT(refused, 20);
  EXPECT_GT(in_parts, 20);
  EXPECT_GT(accepted_tokens, 500);
  Push(DisconnectedEvent{});
  StepToRest();
  ExpectEverythingBack();
}

}  // namespace
}  // namespace outrider
