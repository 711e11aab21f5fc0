#include "verifier/engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "common/math/coins.h"
#include "tests/support/sequence_rows.h"
#include "tests/verifier/engine/engine_fixture.h"

namespace outrider {
namespace {

TEST_F(EngineTest, DecodesGreedilyWithoutDrafter) {
  source_.accepts = false;
  const auto sink = Submit(1, Greedy(12));
  while (engine_->Step()) {
  }
  ASSERT_TRUE(sink->ended);
  EXPECT_EQ(sink->tokens, GreedyPath({1, 2, 3, 4, 5, 6}, 12));
  EXPECT_EQ(sink->summary.completion_tokens, 12);
  EXPECT_EQ(sink->summary.rounds, 12);
  EXPECT_EQ(model_.free_pages(), model_.total_pages());
}

TEST_F(EngineTest, SamplesNothingThatMasksRuleOut) {
  GenerationRequest request = Greedy(12);
  request.sampling.allowed_tokens = {3, 4};
  request.sampling.bad_words = {{3, 3}, {4, 4, 4}};
  const auto sink = Submit(1, request);
  ASSERT_TRUE(engine_->Step());
  Draft(source_.plan(1).round, {3, 3, 4, 4});
  ASSERT_TRUE(engine_->Step());
  source_.accepts = false;
  engine_->draft_consumer().OnDrafterLost(1);
  while (engine_->Step()) {
  }
  ASSERT_TRUE(sink->ended);
  ASSERT_EQ(sink->status.code(), Code::kOk) << sink->status.ToString();
  EXPECT_EQ(sink->tokens.size(), 12u);
  for (const TokenId t : sink->tokens) EXPECT_TRUE(t == 3 || t == 4) << t;
  EXPECT_EQ(sink->text.find("dd"), std::string::npos) << sink->text;
  EXPECT_EQ(sink->text.find("eee"), std::string::npos) << sink->text;
}

TEST_F(EngineTest, EndsRequestWhoseMasksLeaveNothing) {
  source_.accepts = false;
  GenerationRequest request = Greedy(5);
  request.sampling.allowed_tokens = {3};
  request.sampling.bad_words = {{3, 3, 3}};
  const auto sink = Submit(1, request);
  while (engine_->Step()) {
  }
  ASSERT_TRUE(sink->ended);
  EXPECT_EQ(sink->status.code(), Code::kInvalidArgument);
  EXPECT_NE(sink->status.message().find("leave no token to sample, after 2 tokens"),
            std::string::npos)
      << sink->status.message();
  EXPECT_EQ(sink->tokens, (std::vector<TokenId>{3, 3}));
  EXPECT_EQ(model_.free_pages(), model_.total_pages());
}

TEST_F(EngineTest, PaddedLogitsAreNeverSampled) {
  source_.accepts = false;
  GenerationRequest request = Greedy(100);
  request.sampling.temperature = 5;
  const auto sink = Submit(1, request);
  while (engine_->Step()) {
  }
  ASSERT_EQ(sink->tokens.size(), 100u);
  for (const TokenId t : sink->tokens)
    EXPECT_LT(t, testing::kLetters) << "the tokenizer has no such token";
}

TEST_F(EngineTest, AcceptsRightDraft) {
  const std::vector<TokenId> want = GreedyPath({1, 2, 3, 4, 5, 6}, 20);
  const auto sink = Submit(1, Greedy(20));
  EXPECT_TRUE(engine_->Step()) << "prefill";
  ASSERT_TRUE(source_.opened.contains(1));
  EXPECT_EQ(source_.plan(1).shape.length, 4);
  EXPECT_FALSE(engine_->Step()) << "a seeded request waits for its draft";

  Draft(source_.plan(1).round, {want[0], want[1], want[2], want[3]});
  EXPECT_TRUE(engine_->Step());
  EXPECT_EQ(sink->tokens, std::vector<TokenId>(want.begin(), want.begin() + 5));
  ASSERT_EQ(source_.decided[1].size(), 1u);
  EXPECT_EQ(source_.decided[1][0].node, 4);
  EXPECT_EQ(source_.decided[1][0].next, std::vector<TokenId>{want[4]});

  // Two right tokens, then a wrong one.
  const TokenId wrong = want[7] == 0 ? 1 : 0;
  Draft(source_.plan(1).round, {want[5], want[6], wrong, want[8]});
  EXPECT_TRUE(engine_->Step());
  EXPECT_EQ(sink->tokens, std::vector<TokenId>(want.begin(), want.begin() + 8));
  EXPECT_EQ(source_.decided[1][1].node, 2);
  EXPECT_EQ(sink->chunks.back().accepted, 2);
  EXPECT_EQ(sink->chunks.back().drafted, 4);

  while (!sink->ended) {  // no more drafts: after its timeout the sequence continues alone
    clock_.Advance(std::chrono::seconds(11));
    ASSERT_TRUE(engine_->Step());
  }
  EXPECT_EQ(sink->tokens, want);
  EXPECT_EQ(sink->summary.accepted_tokens, 6);
  EXPECT_EQ(sink->summary.accepted_per_position, (std::vector<int>{2, 2, 1, 1}));
}

TEST_F(EngineTest, OneRoundRequestReportsAcceptedTokens) {
  const std::vector<TokenId> want = GreedyPath({1, 2, 3, 4, 5, 6}, 5);
  const auto sink = Submit(1, Greedy(5));
  engine_->Step();
  Draft(1, {want[0], want[1], want[2], want[3]});
  engine_->Step();
  ASSERT_TRUE(sink->ended);
  EXPECT_TRUE(source_.decided[1].empty()) << "no verdict follows the last round";
  EXPECT_EQ(source_.accepted[1], 4);
}

TEST_F(EngineTest, PlansNeverReachBeyondTheEnd) {
  const std::vector<TokenId> want = GreedyPath({1, 2, 3, 4, 5, 6}, 7);
  const auto sink = Submit(1, Greedy(7));
  engine_->Step();
  Draft(1, {want[0], want[1], want[2], want[3]});
  engine_->Step();
  EXPECT_EQ(source_.plan(1).shape.length, 1) << "two tokens remain";
  Draft(source_.plan(1).round, {want[5]});
  engine_->Step();
  EXPECT_TRUE(sink->ended);
  EXPECT_EQ(sink->tokens, want);
  EXPECT_EQ(source_.closed, std::vector<uint64_t>{1});
}

TEST_F(EngineTest, StopTokenInsideDraftEndsText) {
  const std::vector<TokenId> want = GreedyPath({1, 2, 3, 4, 5, 6}, 20);
  GenerationRequest request = Greedy(20);
  request.stop_tokens = {want[1]};
  const auto sink = Submit(1, request);
  engine_->Step();
  Draft(1, {want[0], want[1], want[2], want[3]});
  engine_->Step();
  ASSERT_TRUE(sink->ended);
  const size_t end = want[0] == want[1] ? 1 : 2;
  EXPECT_EQ(sink->tokens, std::vector<TokenId>(want.begin(), want.begin() + end));
  EXPECT_EQ(sink->summary.reason, FinishReason::kStop);
  EXPECT_EQ(sink->summary.accepted_tokens, static_cast<int>(end));
  EXPECT_EQ(model_.free_pages(), model_.total_pages());
}

TEST_F(EngineTest, AcceptsByRuleAndCoins) {
  // A point-mass distribution per draft token: every token is accepted with its target probability.
  GenerationRequest request = Greedy(6);
  request.sampling.temperature = 1;
  request.speculation.rule = Rule::kToken;
  const auto sink = Submit(1, request);
  engine_->Step();
  const auto point = [](TokenId t) {
    return DraftDistribution{.ids = {t}, .weights = {kDraftWeightTotal}};
  };
  std::vector<TokenId> draft = {3, 4};
  Draft(1, draft, {point(3), point(4)});
  engine_->Step();
  SequenceSampling sampling(request.sampling, 32, testing::kLetters);
  std::vector<float> row = model_.Logits(request.prompt);
  MakeDistribution(sampling, row, {});
  const bool first = Coin(11, 1, 0, Purpose::kAccept) < row[3];
  EXPECT_EQ(sink->chunks[0].accepted >= 1, first);
  EXPECT_EQ(sink->chunks[0].drafted, 2);
}

// The labels of the drafter's head: each scored token's acceptance probability, whatever the
// verdict.
TEST_F(EngineTest, VerdictsCarryAcceptanceLabels) {
  for (const StopRule::Kind kind : {StopRule::Kind::kHead, StopRule::Kind::kLength}) {
    const uint64_t id = kind == StopRule::Kind::kHead ? 1 : 2;
    GenerationRequest request = Greedy(9);
    request.sampling.temperature = 1;
    request.seed.reset();
    request.speculation = {.rule = Rule::kBlock, .stop = StopRule{.kind = kind}};
    const auto sink = Submit(id, request);
    engine_->Step();  // the first token, for which no draft is awaited
    const auto distribution = [](TokenId t) {
      return DraftDistribution{.ids = {t, 9},
                               .weights = {kDraftWeightTotal / 32, kDraftWeightTotal / 32 * 31}};
    };
    const std::vector<TokenId> draft = {3, 4};
    engine_->draft_consumer().OnDraft(
        id, 2, DraftTree::Chain(draft, {distribution(3), distribution(4)}), true);
    engine_->Step();
    std::string want;
    std::vector<TokenId> path = request.prompt;
    path.push_back(sink->chunks[0].tokens[0]);
    for (const TokenId token : draft) {
      std::vector<float> row = model_.Logits(path);
      MakeDistribution(SequenceSampling(request.sampling, 32, testing::kLetters), row, {});
      const float ratio = std::min(1.f, row[static_cast<size_t>(token)] * 32);
      want += static_cast<char>(static_cast<uint8_t>(std::lround(255 * ratio)));
      path.push_back(token);
    }
    const std::string& got = source_.decided[id].back().acceptance;
    EXPECT_EQ(got, kind == StopRule::Kind::kHead ? want : "");
  }
}

// The seed may be used again, and the head would know its random numbers.
TEST_F(EngineTest, HeadLearnsNothingFromChosenSeed) {
  GenerationRequest request = Greedy(9);
  request.sampling.temperature = 1;
  request.seed = 5;
  request.speculation = {.rule = Rule::kBlock,
                         .stop = StopRule{.kind = StopRule::Kind::kHead, .threshold = 0.f}};
  Submit(1, request);
  engine_->Step();
  EXPECT_EQ(source_.opened[1].plan.stop.threshold, kFirstHeadThreshold);
  const DraftDistribution distribution{.ids = {3, 9},
                                       .weights = {kDraftWeightTotal / 2, kDraftWeightTotal / 2}};
  engine_->draft_consumer().OnDraft(1, 1, DraftTree::Chain(std::vector<TokenId>{3}, {distribution}),
                                    true);
  engine_->Step();
  ASSERT_FALSE(source_.decided[1].empty());
  EXPECT_EQ(source_.decided[1].back().acceptance, "");
  EXPECT_EQ(source_.decided[1].back().plan.stop.threshold, kFirstHeadThreshold);
}

// Greedy, two sequences: the second has the right tokens, the first diverges at once.
TEST_F(EngineTest, ScoresTreeAndFollowsItsPath) {
  const std::vector<TokenId> want = GreedyPath({1, 2, 3, 4, 5, 6}, 12);
  GenerationRequest request = Greedy(12);
  request.speculation = {.draft_length = 3, .paths = 2};
  const auto sink = Submit(1, request);
  engine_->Step();
  EXPECT_EQ(source_.plan(1).shape, Sequences(2, 3));
  EXPECT_EQ(source_.opened[1].kind, DraftKind::kArgmax);
  const auto other = [](TokenId t) { return t == 0 ? 1 : 0; };
  for (size_t index = 0; index < 8;) {
    DraftTree tree;
    const int wrong = tree.AddDraw(0, other(want[index])), right = tree.AddDraw(0, want[index]);
    const int wrong2 = tree.AddDraw(wrong, want[index + 1]);
    const int right2 = tree.AddDraw(right, want[index + 1]);
    tree.AddDraw(wrong2, want[index + 2]);
    tree.AddDraw(right2, other(want[index + 2]));
    engine_->draft_consumer().OnDraft(1, source_.plan(1).round, tree, true);
    ASSERT_TRUE(engine_->Step());
    EXPECT_EQ(source_.decided[1].back().node, right2);
    EXPECT_EQ(sink->chunks.back().accepted, 2);
    index += 3;
    EXPECT_EQ(sink->tokens, std::vector<TokenId>(want.begin(), want.begin() + index));
    EXPECT_EQ(sink->chunks.back().drafted, 6);
  }
  const auto batch = model_.batches().back();
  EXPECT_EQ(batch[0].tokens.size(), 7u);
  EXPECT_EQ(batch[0].parents, (std::vector<int32_t>{-1, 0, 0, 1, 2, 3, 4}));
}

// The seed-stable rule: the same tokens without drafts, with right ones, and with any others.
TEST_F(EngineTest, GumbelTextIgnoresDrafts) {
  GenerationRequest request = Greedy(30);
  request.sampling = {.temperature = 1.2f, .presence_penalty = 0.3f};
  request.speculation.rule = Rule::kGumbel;
  request.speculation.enabled = false;
  const auto plain = Submit(1, request);
  while (engine_->Step()) {
  }
  ASSERT_EQ(plain->tokens.size(), 30u);

  request.speculation = {.rule = Rule::kGumbel, .draft_length = 3, .paths = 2};
  const auto sink = Submit(1, request);
  engine_->Step();
  EXPECT_EQ(source_.opened[1].kind, DraftKind::kRace);
  while (!sink->ended) {
    const size_t index = sink->tokens.size();
    const auto token = [&](size_t i) { return index + i < 30 ? plain->tokens[index + i] : 7; };
    DraftTree tree;
    const int wrong = tree.AddDraw(0, static_cast<TokenId>(index % testing::kLetters));
    const int first = tree.AddDraw(0, token(0));
    if (source_.plan(1).shape.length > 1) {
      tree.AddDraw(wrong, 5);
      tree.AddDraw(first, index % 2 == 0 ? token(1) : 6);
    }
    engine_->draft_consumer().OnDraft(1, source_.plan(1).round, tree, true);
    if (!engine_->Step()) clock_.Advance(std::chrono::seconds(3));
  }
  EXPECT_EQ(sink->tokens, plain->tokens);
  EXPECT_GT(sink->summary.accepted_tokens, 8);
}

TEST_F(EngineTest, WideTreesFitHeldPages) {
  // 64 pages of 4 tokens: prompt and output take all of them, and a draft must fit as well.
  GenerationRequest request = Greedy(240);
  request.speculation = {.draft_length = 8, .paths = 6};
  const auto sink = Submit(1, request);
  engine_->Step();
  while (!sink->ended) {
    const DraftPlan plan = source_.plan(1);
    DraftTree tree;
    for (TokenId t = 0; t < plan.shape.draws(0); ++t) {
      int node = tree.AddDraw(0, t);
      for (int d = 1; d < plan.shape.length; ++d) node = tree.AddDraw(node, t);
    }
    engine_->draft_consumer().OnDraft(1, plan.round, tree, true);
    if (!engine_->Step()) clock_.Advance(std::chrono::seconds(3));
  }
  EXPECT_TRUE(sink->status.ok()) << sink->status.ToString();
  EXPECT_EQ(sink->tokens, GreedyPath({1, 2, 3, 4, 5, 6}, 240));
  EXPECT_EQ(model_.free_pages(), model_.total_pages());
}

TEST_F(EngineTest, SpeculationOffContactsNoDrafter) {
  GenerationRequest request = Greedy(10);
  request.speculation.enabled = false;
  const auto sink = Submit(1, request);
  while (engine_->Step()) {
  }
  EXPECT_TRUE(sink->ended);
  EXPECT_TRUE(source_.opened.empty());
  EXPECT_TRUE(source_.decided.empty());
  EXPECT_TRUE(source_.closed.empty());
}

TEST_F(EngineTest, PenaltiesSeeTheOutput) {
  source_.accepts = false;
  GenerationRequest request = Greedy(20);
  request.sampling.presence_penalty = 2;
  const auto sink = Submit(1, request);
  while (engine_->Step()) {
  }
  std::vector<TokenId> tokens = request.prompt, want;
  for (int i = 0; i < 20; ++i) {
    std::vector<float> logits = model_.Logits(tokens);
    for (TokenId t = 0; t < testing::kLetters; ++t) {
      if (std::find(want.begin(), want.end(), t) != want.end()) logits[static_cast<size_t>(t)] -= 2;
    }
    const auto best = std::max_element(logits.begin(), logits.begin() + testing::kLetters);
    want.push_back(static_cast<TokenId>(best - logits.begin()));
    tokens.push_back(want.back());
  }
  EXPECT_EQ(sink->tokens, want);
  EXPECT_NE(sink->tokens, GreedyPath(request.prompt, 20));
}

// Notes how often the drafters had been told of verdicts when it was called.
class OrderSink final : public GenerationSink {
 public:
  explicit OrderSink(const int* flushes) : flushes_(flushes) {}
  void Send(Chunk /*chunk*/) override { calls.push_back(*flushes_); }
  void Finish(const Summary& /*summary*/) override { calls.push_back(*flushes_); }
  void Fail(const Status& /*status*/) override { calls.push_back(-1); }

  std::vector<int> calls;

 private:
  const int* const flushes_;
};

// Writing to a client may take the core on which the engine runs.
TEST_F(EngineTest, DraftersHearBeforeClients) {
  const auto sink = std::make_shared<OrderSink>(&source_.flushes);
  GenerationRequest request = Greedy(2);
  request.speculation.enabled = false;
  ASSERT_TRUE(engine_->Submit(1, std::move(request), sink).ok());
  while (sink->calls.size() < 3) ASSERT_TRUE(engine_->Step());
  EXPECT_EQ(sink->calls, (std::vector<int>{1, 2, 2}));
}

}  // namespace
}  // namespace outrider
