// The engine with a planner, which chooses who drafts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/verifier/engine/engine_fixture.h"

namespace outrider {
namespace {

// A model whose greedy text soon repeats itself.
class PlannedEngineTest : public EngineTest {
 protected:
  void Plan(const std::string& policy, bool with_drafter) {
    EngineOptions options{.admission = {.prefix_cache = false}};
    options.planner = PlannerOptions{.control = {.policy = policy}};
    engine_ = std::make_unique<Engine>(options, &markov_, tokenizer_.get(),
                                       with_drafter ? &source_ : nullptr, nullptr, &clock_);
  }

  std::vector<TokenId> Text(std::vector<TokenId> tokens, int count) const {
    std::vector<TokenId> out;
    for (int i = 0; i < count; ++i) {
      const std::vector<float> logits = markov_.Logits(tokens);
      tokens.push_back(static_cast<TokenId>(
          std::max_element(logits.begin(), logits.begin() + testing::kLetters) - logits.begin()));
      out.push_back(tokens.back());
    }
    return out;
  }

  FakeModel markov_{{.vocab_size = 32, .order = 1, .total_pages = 64}};
};

TEST_F(PlannedEngineTest, DraftsFromTextWithoutDrafter) {
  for (const bool seeded : {true, false}) {
    Plan("fixed:lookup-strong-4", /*with_drafter=*/false);
    GenerationRequest request = Greedy(60);
    if (!seeded) request.seed.reset();
    const auto sink = Submit(1, request);
    while (engine_->Step()) clock_.Advance(std::chrono::milliseconds(1));
    ASSERT_TRUE(sink->ended);
    EXPECT_EQ(sink->tokens, Text(request.prompt, 60));
    EXPECT_LT(sink->summary.rounds, 40);
    EXPECT_GT(sink->summary.accepted_tokens, 20);
    EXPECT_FALSE(sink->summary.arm_rounds.empty());
    const auto shares = engine_->Snapshot().proposer_shares;
    const double lookup = shares[static_cast<size_t>(Proposer::Kind::kPromptLookup)];
    EXPECT_NEAR(lookup, 1.0 * sink->summary.drafted_rounds / sink->summary.rounds, 0.05);
    EXPECT_NEAR(lookup + shares[static_cast<size_t>(Proposer::Kind::kNone)], 1, 1e-9);
    EXPECT_EQ(markov_.free_pages(), markov_.total_pages());
  }
}

// Three prompts of 3,000 tokens that one step computes. They are read as drafts begin.
TEST_F(PlannedEngineTest, LongPromptsAreReadInTurns) {
  constexpr int kPrompt = 3000;
  FakeModel model({.vocab_size = 32,
                   .order = 1,
                   .total_pages = 4096,
                   .max_batch_tokens = 4 * kPrompt,
                   .max_position_embeddings = 2 * kPrompt});
  EngineOptions options{.admission = {.prefix_cache = false}};
  options.planner = PlannerOptions{.control = {.policy = "fixed:lookup-strong-4"}};
  options.scheduler = {.token_budget = 4 * kPrompt, .prefill_chunk = 4 * kPrompt};
  engine_ = std::make_unique<Engine>(options, &model, tokenizer_.get(), nullptr, nullptr, &clock_);
  GenerationRequest request = Greedy(40);
  request.prompt = Text({1}, kPrompt);
  request.seed.reset();
  for (uint64_t id = 1; id <= 3; ++id) Submit(id, request);
  const auto rows_of_step = [&] {
    clock_.Advance(std::chrono::milliseconds(1));
    EXPECT_TRUE(engine_->Step());
    std::vector<size_t> rows;
    for (const FakeModel::Share& share : model.batches().back())
      rows.push_back(share.tokens.size());
    return rows;
  };
  EXPECT_THAT(rows_of_step(), ::testing::ElementsAre(kPrompt, kPrompt, kPrompt));
  EXPECT_THAT(rows_of_step(), ::testing::ElementsAre(5, 1, 1));
  EXPECT_THAT(rows_of_step(), ::testing::ElementsAre(5, 5, 1));
  EXPECT_THAT(rows_of_step(), ::testing::ElementsAre(5, 5, 5));
  engine_.reset();
}

// The time that a preempted sequence waits for pages is not what its arm costs.
TEST_F(PlannedEngineTest, PreemptedRoundsTeachNoTimes) {
  EngineOptions options{.admission = {.prefix_cache = false}};
  options.planner = PlannerOptions{.control = {.policy = "fixed:lookup-strong-4"}};
  std::vector<std::string> arms;
  for (const Arm& arm : ServedArms(*options.planner)) arms.push_back(arm.name);
  MetricsRegistry registry;
  VerifierMetrics metrics(registry, arms);
  engine_ =
      std::make_unique<Engine>(options, &markov_, tokenizer_.get(), nullptr, &metrics, &clock_);
  // 64 pages of 4 tokens: both fit at first, but not to the end of the large one.
  GenerationRequest large = Greedy(240);
  large.speculation.enabled = false;
  Submit(1, large);
  GenerationRequest small = Greedy(200);
  small.prompt.assign(40, 7);
  small.seed.reset();
  const auto sink = Submit(2, small);
  const auto step = [this] {
    clock_.Advance(std::chrono::milliseconds(1));
    return engine_->Step();
  };
  do ASSERT_TRUE(step());
  while (engine_->Snapshot().running == 2);
  ASSERT_FALSE(sink->ended);
  clock_.Advance(std::chrono::seconds(10));
  engine_->Cancel(1, Status(Code::kCancelled, "done"));
  while (step()) {
  }
  ASSERT_TRUE(sink->ended);
  double seconds = 0;
  for (const VerifierMetrics::Arm& arm : metrics.arms) seconds += arm.seconds.value();
  EXPECT_GT(seconds, 0);
  EXPECT_LT(seconds, 1);
}

// Random arms, drafts from a drafter and from the text in turn: what the drafter is told is
// complete.
TEST_F(PlannedEngineTest, DrafterIsToldEveryToken) {
  Plan("exp3spec", /*with_drafter=*/true);
  GenerationRequest request = Greedy(120);
  request.seed.reset();
  const std::vector<TokenId> want = Text(request.prompt, 120);
  const auto sink = Submit(1, request);
  std::vector<TokenId> known;  // by the drafter
  size_t heard = 0;            // number of verdicts
  uint32_t answered = 0;
  DraftTree sent;
  for (int i = 0; i < 1000 && !sink->ended; ++i) {
    const bool stepped = engine_->Step();
    clock_.Advance(std::chrono::milliseconds(1));
    if (known.empty() && source_.opened.contains(1)) known = source_.opened[1].tokens;
    for (; heard < source_.decided[1].size(); ++heard) {
      const auto& d = source_.decided[1][heard];
      const std::vector<TokenId> path = sent.Path(d.node);
      known.insert(known.end(), path.begin(), path.end());
      known.insert(known.end(), d.next.begin(), d.next.end());
      sent = {};
    }
    if (known.empty()) continue;
    // The drafter knows the text except for what the current round will add.
    ASSERT_LE(known.size(), 6 + want.size());
    ASSERT_TRUE(std::equal(known.begin() + 6, known.end(), want.begin()));
    const DraftPlan plan = source_.plan(1);
    if (stepped || plan.round == answered) continue;
    answered = plan.round;
    std::vector<TokenId> tokens;
    for (int d = 0; d < plan.shape.length; ++d) {
      tokens.push_back(want[std::min(known.size() - 6 + static_cast<size_t>(d), want.size() - 1)]);
    }
    if (answered % 3 == 0) tokens.back() = tokens.back() == 0 ? 1 : 0;
    DraftTree tree;
    int node = DraftTree::kRoot;
    for (const TokenId token : tokens) node = tree.AddDraw(node, token);
    sent = tree;
    engine_->draft_consumer().OnDraft(1, plan.round, tree, /*complete=*/true);
  }
  ASSERT_TRUE(sink->ended);
  EXPECT_EQ(sink->tokens, want);
  EXPECT_GT(heard, 5u);
  EXPECT_GE(sink->summary.arm_rounds.size(), 5u);
  EXPECT_GT(sink->summary.arm_switches, 5);
}

// With a drafter as competitor, and costs set by the test: 10 ms per step whatever its rows, 2 ms
// per draft token, of which two in three are right.
TEST_F(PlannedEngineTest, ControllerPrefersLookupInRepetitiveText) {
  constexpr int kLearning = 2;  // number of requests
  Plan("adaptive", /*with_drafter=*/true);
  markov_.set_on_forward([&](int) { clock_.Advance(std::chrono::milliseconds(10)); });
  source_.timeout = std::chrono::seconds(10);
  source_.timing = {.network = 0.001, .depth = 0.002, .model = "puppet"};
  std::map<std::string, int> rounds;  // by proposer
  for (uint64_t id = 1; id <= 6; ++id) {
    GenerationRequest request = Greedy(100);
    request.prompt = {static_cast<TokenId>(id), 1, 2};
    request.seed.reset();
    const std::vector<TokenId> want = Text(request.prompt, 100);
    const auto sink = Submit(id, request);
    for (uint32_t answered = 0; !sink->ended;) {
      if (engine_->Step()) continue;
      const DraftPlan plan = source_.plan(id);
      ASSERT_NE(plan.round, answered) << "nothing to wait for";
      answered = plan.round;
      DraftTree draft;
      for (int64_t s = 0; s < plan.shape.leaves(); ++s) {
        int node = DraftTree::kRoot;
        for (int d = 0; d < plan.shape.length; ++d) {
          const size_t index =
              std::min(sink->tokens.size() + static_cast<size_t>(d), want.size() - 1);
          node = draft.AddDraw(
              node, index % 3 == 0 ? (want[index] + 1) % testing::kLetters : want[index]);
        }
      }
      clock_.Advance(std::chrono::milliseconds(1 + 2 * plan.shape.length));
      engine_->draft_consumer().OnDraft(id, plan.round, draft, /*complete=*/true);
    }
    EXPECT_EQ(sink->tokens, want);
    if (id <= kLearning) continue;
    for (const auto& [arm, count] : sink->summary.arm_rounds) {
      rounds[arm.substr(0, arm.find('-'))] += count;
    }
  }
  const std::string shares = ::testing::PrintToString(rounds);
  // The drafter is used only until the text has something to copy.
  EXPECT_GT(rounds["lookup"] + rounds["suffix"], rounds["draft"] + rounds["plain"]) << shares;
}

}  // namespace
}  // namespace outrider
