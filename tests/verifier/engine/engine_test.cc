#include "verifier/engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/math/coins.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_model.h"
#include "tests/support/puppet_draft_source.h"
#include "tests/support/recording_sink.h"
#include "tests/support/sequence_rows.h"
#include "tests/support/tiny_tokenizer.h"
#include "tests/verifier/engine/engine_device.h"

namespace outrider {
namespace {

using testing::FakeClock;
using testing::PuppetDraftSource;
using testing::RecordingSink;

class EngineTest : public ::testing::Test {
 protected:
  EngineTest() {
    testing::GiveDevice(model_);
    tokenizer_ = Tokenizer::FromJson(testing::TinyTokenizerJson(testing::kLetters)).value();
    Restart({.prefix_cache = false});
  }

  void Restart(const EngineOptions& options, VerifierMetrics* metrics = nullptr) {
    engine_ =
        std::make_unique<Engine>(options, &model_, tokenizer_.get(), &source_, metrics, &clock_);
  }

  std::shared_ptr<RecordingSink> Submit(uint64_t id, GenerationRequest request) {
    auto sink = std::make_shared<RecordingSink>();
    const Status status = engine_->Submit(id, std::move(request), sink);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return sink;
  }

  // Sends the whole draft of session 1: one sequence.
  void Draft(uint32_t round, std::vector<TokenId> tokens,
             std::vector<DraftDistribution> distributions = {}) {
    engine_->draft_consumer().OnDraft(1, round, DraftTree::Chain(tokens, std::move(distributions)),
                                      /*complete=*/true);
  }

  static GenerationRequest Greedy(int max_tokens) {
    return {.prompt = {1, 2, 3, 4, 5, 6},
            .sampling = {.temperature = 0},
            .max_tokens = max_tokens,
            .seed = 11};
  }

  // The greedy continuation, directly from the model.
  std::vector<TokenId> GreedyPath(std::vector<TokenId> tokens, int count) const {
    std::vector<TokenId> out;
    for (int i = 0; i < count; ++i) {
      const std::vector<float> logits = model_.Logits(tokens);
      const auto best = std::max_element(logits.begin(), logits.begin() + testing::kLetters);
      tokens.push_back(static_cast<TokenId>(best - logits.begin()));
      out.push_back(tokens.back());
    }
    return out;
  }

  FakeModel model_{{.vocab_size = 32, .total_pages = 64}};
  std::unique_ptr<Tokenizer> tokenizer_;
  PuppetDraftSource source_;
  FakeClock clock_;
  MetricsRegistry registry_;
  VerifierMetrics metrics_{registry_, "m"};  // without arms, since the engine has no planner
  std::unique_ptr<Engine> engine_;
};

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

TEST_F(EngineTest, EndsARequestWhoseMasksLeaveNothing) {
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

TEST_F(EngineTest, AcceptsARightDraftAndGoesOn) {
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

// Each of them is a new connection, so that the pool knows nothing about it.
TEST_F(EngineTest, DraftersThatLeaveWhileTheyAreWaitedForCostFewWaits) {
  const auto sink = Submit(1, Greedy(100));
  int waits = 0;
  while (!sink->ended && waits < 100) {
    if (engine_->Step()) continue;
    ++waits;
    clock_.Advance(source_.timeout - std::chrono::milliseconds(1));
    engine_->draft_consumer().OnDrafterLost(1);
  }
  EXPECT_TRUE(sink->ended);
  EXPECT_LE(waits, 8);
}

// Nobody waits for a draft while the text is being computed, so the longer timeout is not used up.
TEST_F(EngineTest, ADraftIsNotLateBeforeTheTextIsComputed) {
  Restart({.prefix_cache = false, .scheduler = {.token_budget = 16}});
  model_.set_on_forward([this](int) { clock_.Advance(std::chrono::milliseconds(900)); });
  GenerationRequest request = Greedy(20);
  request.prompt.assign(70, 3);
  request.sampling.temperature = 1;
  request.speculation.rule = Rule::kToken;
  const auto sink = Submit(1, request);
  while (engine_->Step()) {
  }
  EXPECT_TRUE(source_.late.empty());
  EXPECT_EQ(engine_->NextDeadline(), clock_.Now() + source_.timeout + kSeededWait);
  Draft(1, {3, 3, 3, 3},
        std::vector<DraftDistribution>(4, {.ids = {3}, .weights = {kDraftWeightTotal}}));
  while (engine_->Step()) {
  }
  EXPECT_EQ(engine_->NextDeadline(), clock_.Now() + source_.timeout + kSeededWait);
  clock_.Advance(source_.timeout + std::chrono::seconds(1));
  Draft(2, {3, 3, 3, 3},
        std::vector<DraftDistribution>(4, {.ids = {3}, .weights = {kDraftWeightTotal}}));
  while (engine_->Step()) {
  }
  EXPECT_EQ(engine_->NextDeadline(),
            clock_.Now() + source_.timeout + kSeededWait - std::chrono::seconds(1));
}

TEST_F(EngineTest, FirstTokenOfAnUnseededRequestDoesNotWaitForTheDrafter) {
  GenerationRequest request = Greedy(10);
  request.seed.reset();
  const auto sink = Submit(1, request);
  EXPECT_TRUE(engine_->Step());
  EXPECT_EQ(sink->tokens.size(), 1u);
  ASSERT_EQ(source_.decided[1].size(), 1u) << "the round went by without its draft";
  EXPECT_EQ(source_.decided[1][0].node, 0);
  EXPECT_EQ(source_.decided[1][0].next, sink->tokens);
  EXPECT_FALSE(engine_->Step()) << "later rounds wait";
  EXPECT_EQ(engine_->NextDeadline(), clock_.Now() + source_.timeout);
}

class BrokenLogitsTest : public EngineTest {
 protected:
  // Puts `bad` into the logits row after `path`.
  void Break(const std::vector<TokenId>& path, float bad) {
    model_.set_on_row([row = model_.Logits(path), bad](std::span<float> logits) {
      if (std::equal(logits.begin(), logits.end(), row.begin())) logits[3] = bad;
    });
  }
};

TEST_F(BrokenLogitsTest, EndTheirRequestAlone) {
  source_.accepts = false;
  const std::vector<TokenId> prompt = {1, 2, 3, 4, 5, 6};
  const std::vector<TokenId> want = GreedyPath(prompt, 3);
  std::vector<TokenId> path = prompt;
  path.insert(path.end(), want.begin(), want.end());
  int ended = 0;
  for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
    Restart({.prefix_cache = false}, &metrics_);
    Break(path, bad);
    const auto broken = Submit(1, Greedy(12));
    GenerationRequest sound = Greedy(12);
    sound.prompt = {7, 8, 9};
    const auto other = Submit(2, sound);
    while (engine_->Step()) {
    }
    ASSERT_TRUE(broken->ended);
    EXPECT_EQ(broken->status.code(), Code::kInternal);
    EXPECT_EQ(broken->status.message(),
              "the model's logits are not finite at position 9, after 3 tokens");
    EXPECT_EQ(broken->tokens, want);
    EXPECT_EQ(metrics_.requests_not_finite.value(), ++ended);
    EXPECT_TRUE(other->status.ok()) << other->status.ToString();
    EXPECT_EQ(other->tokens, GreedyPath({7, 8, 9}, 12));
    EXPECT_EQ(model_.free_pages(), model_.total_pages());
  }
}

TEST_F(BrokenLogitsTest, EndRequestsUnderEveryWayToSample) {
  source_.accepts = false;
  Break({1, 2, 3, 4, 5, 6}, std::nanf(""));
  for (const Rule rule : {Rule::kBlock, Rule::kGumbel}) {
    for (const float top_p : {1.f, 0.5f}) {
      Restart({.prefix_cache = false});
      GenerationRequest request = Greedy(12);
      request.sampling = {.temperature = 0.8f, .top_p = top_p, .repetition_penalty = 1.2f};
      request.speculation.rule = rule;
      const auto sink = Submit(1, request);
      while (engine_->Step()) {
      }
      EXPECT_EQ(sink->status.code(), Code::kInternal) << static_cast<int>(rule) << ' ' << top_p;
      EXPECT_TRUE(sink->tokens.empty());
    }
  }
}

// A rule may read rows after tokens that it then rejects. Such rows do not belong to the text: a
// draft must not end a request that plain decoding would serve.
TEST_F(BrokenLogitsTest, AfterRejectedTokensCountForNothing) {
  const std::vector<TokenId> prompt = {1, 2, 3, 4, 5, 6};
  const std::vector<float> logits = model_.Logits(prompt);
  const auto drafted = static_cast<TokenId>(
      std::max_element(logits.begin(), logits.begin() + testing::kLetters) - logits.begin());
  Break({1, 2, 3, 4, 5, 6, drafted}, std::nanf(""));
  int rejected = 0, accepted = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    source_ = {};
    Restart({.prefix_cache = false});
    GenerationRequest request = Greedy(20);
    request.sampling.temperature = 1;
    request.seed = seed;
    request.speculation.rule = Rule::kBlock;
    const auto sink = Submit(1, request);
    engine_->Step();
    Draft(source_.plan(1).round, {drafted, 0});
    engine_->Step();
    ASSERT_EQ(sink->tokens.size(), 1u);
    if (sink->tokens[0] != drafted) {
      ++rejected;
      continue;
    }
    // The accepted token is sent, as in plain decoding; then the request ends.
    ++accepted;
    source_.accepts = false;
    engine_->draft_consumer().OnDrafterLost(1);
    while (engine_->Step()) {
    }
    EXPECT_EQ(sink->status.message(),
              "the model's logits are not finite at position 7, after 1 token");
  }
  EXPECT_GT(rejected, 30);
  EXPECT_GT(accepted, 0);
}

// A text that a draft token ends needs no row after it.
TEST_F(BrokenLogitsTest, AfterTheEndCountForNothing) {
  const TokenId stop = GreedyPath({1, 2, 3, 4, 5, 6}, 1)[0];
  Break({1, 2, 3, 4, 5, 6, stop}, std::nanf(""));
  GenerationRequest request = Greedy(20);
  request.stop_tokens = {stop};
  const auto sink = Submit(1, request);
  engine_->Step();
  Draft(source_.plan(1).round, {stop, 0});
  engine_->Step();
  EXPECT_TRUE(sink->ended);
  EXPECT_TRUE(sink->status.ok()) << sink->status.ToString();
  EXPECT_EQ(sink->summary.reason, FinishReason::kStop);
}

// A forward pass takes 20 ms plus 2 ms per row.
class TimedEngineTest : public EngineTest {
 protected:
  TimedEngineTest() {
    model_.set_on_forward([this](int rows) {
      clock_.Advance(std::chrono::milliseconds(20) + rows * std::chrono::milliseconds(2));
    });
    Restart({.prefix_cache = false}, &metrics_);
    // The cost of a row is known from plain decoding, alone and next to others.
    for (const uint64_t id : {100, 101, 102}) {
      GenerationRequest request = Greedy(id == 100 ? 40 : 20);
      request.speculation.enabled = false;
      Submit(id, std::move(request));
    }
    while (engine_->Step()) {
    }
    took_before_ = metrics_.round_seconds_total.value();
    plain_before_ = metrics_.round_seconds_if_plain_total.value();
  }

  double Took() const { return metrics_.round_seconds_total.value() - took_before_; }
  // `neither`: seconds that drafts do not affect.
  double Speedup(double neither = 0) const {
    const double plain = metrics_.round_seconds_if_plain_total.value() - plain_before_;
    return (plain - neither) / (Took() - neither);
  }

  // Runs request 1 to its end: each draft arrives 3 ms after its plan, with `right` of 4 tokens
  // right. In between, another request's prompt of `prompt_rows` is computed, if that is not 0.
  void RunDrafted(int right, size_t prompt_rows = 0) {
    const auto sink = Submit(1, Greedy(46));
    const std::vector<TokenId> want = GreedyPath({1, 2, 3, 4, 5, 6}, 46);
    for (int step = 0; step < 100 && !sink->ended; ++step) {
      if (step == 5 && prompt_rows > 0) {
        GenerationRequest other = Greedy(1);
        other.prompt.assign(prompt_rows, 3);
        other.speculation.enabled = false;
        Submit(2, std::move(other));
      }
      engine_->Step();
      if (sink->ended || !source_.opened.contains(1)) continue;
      clock_.Advance(std::chrono::milliseconds(3));
      std::vector<TokenId> draft;
      for (int i = 0; i < source_.plan(1).shape.length; ++i) {
        const TokenId token = want[sink->tokens.size() + static_cast<size_t>(i)];
        draft.push_back(i < right ? token : (token + 1) % testing::kLetters);
      }
      Draft(source_.plan(1).round, draft);
    }
    EXPECT_TRUE(sink->ended);
    EXPECT_EQ(sink->tokens, want);
  }

  double took_before_ = 0, plain_before_ = 0;
};

TEST_F(TimedEngineTest, PlainDecodingHasASpeedupOfExactlyOne) {
  source_.accepts = false;
  // Not all sequences fit into a step, so a round takes several steps.
  Restart({.prefix_cache = false, .scheduler = {.token_budget = 4}}, &metrics_);
  Submit(1, Greedy(60));
  for (int step = 0; step < 20; ++step) engine_->Step();
  for (uint64_t id = 2; id < 10; ++id) {  // prompts, and nine times the load
    Submit(id, Greedy(10 + static_cast<int>(id)));
  }
  while (engine_->Step()) clock_.Advance(std::chrono::microseconds(137));
  EXPECT_GT(Took(), 2.0);
  EXPECT_EQ(metrics_.round_seconds_if_plain_total.value(), metrics_.round_seconds_total.value());
}

TEST_F(TimedEngineTest, PerfectDraftsHaveTheSpeedupOfTheirCost) {
  RunDrafted(/*right=*/4, /*prompt_rows=*/60);
  EXPECT_NEAR(Speedup(/*neither=*/60 * 0.002), 5 * 22.0 / (30 + 3), 0.1)
      << "as well as the fit knows a row";
}

TEST_F(TimedEngineTest, RejectedDraftsHaveASpeedupBelowOne) {
  RunDrafted(/*right=*/0);
  EXPECT_NEAR(Speedup(), 22.0 / (30 + 3), 0.04);
}

TEST_F(TimedEngineTest, WaitForADraftThatNeverComesIsLost) {
  const auto sink = Submit(1, Greedy(3));
  for (int step = 0; step < 100 && !sink->ended; ++step) {
    if (!engine_->Step()) clock_.Advance(*engine_->NextDeadline() - clock_.Now());
  }
  ASSERT_TRUE(sink->ended);
  EXPECT_GT(Took(), 0.1) << "the drafter's timeout";
  EXPECT_LT(Speedup(), 0.5);
}

// A model whose greedy text soon repeats itself.
class PlannedEngineTest : public EngineTest {
 protected:
  void Plan(const std::string& policy, bool with_drafter) {
    EngineOptions options{.prefix_cache = false};
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

TEST_F(PlannedEngineTest, DraftsFromItsOwnTextWithoutAnyDrafter) {
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

// Random arms, drafts from a drafter and from the text in turn: what the drafter is told is
// complete.
TEST_F(PlannedEngineTest, ADrafterHearsOfEveryTokenWhoeverDraftedIt) {
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
TEST_F(PlannedEngineTest, TheControllerFindsTheDraftsThatTheTextHolds) {
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
          const size_t at = std::min(sink->tokens.size() + static_cast<size_t>(d), want.size() - 1);
          node = draft.AddDraw(node, at % 3 == 0 ? (want[at] + 1) % testing::kLetters : want[at]);
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

TEST_F(EngineTest, PartOfADraftOfAnOldRoundIsNotUsed) {
  EngineOptions options{.prefix_cache = false,
                        .planner = PlannerOptions{.control = {.policy = "fixed:draft-1x8"}}};
  options.scheduler.prefill_chunk = 4;
  Restart(options);
  GenerationRequest request = Greedy(20);
  request.prompt.resize(12, 7);
  request.seed.reset();
  const auto sink = Submit(1, request);
  EXPECT_TRUE(engine_->Step());  // of the prompt
  const std::vector<TokenId> part = {9, 9, 9, 9};
  engine_->draft_consumer().OnDraft(1, source_.plan(1).round, DraftTree::Chain(part, {}),
                                    /*complete=*/false);
  source_.accepts = false;
  while (sink->chunks.empty()) ASSERT_TRUE(engine_->Step());
  EXPECT_EQ(sink->chunks.back().drafted, 0) << "the first round waits for nobody";
  engine_->draft_consumer().OnDrafterLost(1);
  EXPECT_TRUE(engine_->Step());
  EXPECT_EQ(sink->chunks.back().drafted, 0) << "another round's";
}

TEST_F(EngineTest, LateDraftOfAnOldRoundIsNotUsed) {
  GenerationRequest request = Greedy(10);
  request.seed.reset();
  const auto sink = Submit(1, request);
  EXPECT_TRUE(engine_->Step());
  const DraftPlan plan = source_.plan(1);
  clock_.Advance(std::chrono::milliseconds(150));
  EXPECT_TRUE(engine_->Step()) << "timed out: a plain step";
  Draft(plan.round, {9, 9, 9});
  EXPECT_FALSE(engine_->Step()) << "the next plan is under way; the old draft is nothing";
  EXPECT_EQ(sink->tokens, GreedyPath({1, 2, 3, 4, 5, 6}, 2));
}

TEST_F(EngineTest, DraftsThatDoNotComeMakeTheRestsLonger) {
  GenerationRequest request = Greedy(100);
  request.seed.reset();
  const auto sink = Submit(1, request);
  for (int i = 0; i < 60; ++i) {
    if (!engine_->Step()) clock_.Advance(std::chrono::milliseconds(100));
  }
  // Plans at rounds 1, 2, 3, 5, 9, 17, 33: pauses of 1, 2, 4, 8, 16.
  EXPECT_GT(sink->tokens.size(), 40u);
  EXPECT_LE(source_.decided[1].size(), 7u);
  // The reported tokens are the whole text in the end.
  std::vector<TokenId> told;
  for (const auto& d : source_.decided[1]) told.insert(told.end(), d.next.begin(), d.next.end());
  EXPECT_TRUE(std::equal(told.begin(), told.end(), sink->tokens.begin()));
}

TEST_F(EngineTest, PartsOfDraftsThatNeverEndMakeTheRestsLonger) {
  GenerationRequest request = Greedy(100);
  request.seed.reset();
  const auto sink = Submit(1, request);
  const std::vector<TokenId> part = {9};
  for (int i = 0; i < 60; ++i) {
    if (!source_.opened.empty()) {
      engine_->draft_consumer().OnDraft(1, source_.plan(1).round, DraftTree::Chain(part, {}),
                                        /*complete=*/false);
    }
    if (!engine_->Step()) clock_.Advance(std::chrono::milliseconds(100));
  }
  EXPECT_GT(sink->tokens.size(), 40u);
  EXPECT_LE(source_.decided[1].size(), 7u) << "as if nothing had come";
  const auto scored = [](const Chunk& chunk) { return chunk.drafted > 0; };
  EXPECT_GE(std::count_if(sink->chunks.begin(), sink->chunks.end(), scored), 5)
      << "what came in time is used";
}

TEST_F(EngineTest, NobodyWaitsForASuspendedDrafter) {
  source_.timeout = Duration::zero();
  GenerationRequest request = Greedy(50);
  request.sampling.temperature = 1;
  request.speculation.rule = Rule::kToken;  // and a seed
  const auto sink = Submit(1, request);
  while (!sink->ended) {
    ASSERT_TRUE(engine_->Step()) << "though its drafts change the text";
    Draft(source_.plan(1).round, {3, 4},
          {{.ids = {3}, .weights = {kDraftWeightTotal}},
           {.ids = {4}, .weights = {kDraftWeightTotal}}});
  }
  EXPECT_EQ(sink->summary.drafted_tokens, 0) << "they show their time, no more";
  EXPECT_GE(source_.decided[1].size(), 4u);
}

TEST_F(EngineTest, ALateDraftMayMoveTheSessionToAnotherDrafter) {
  GenerationRequest request = Greedy(100);
  request.seed.reset();
  const auto sink = Submit(1, request);
  EXPECT_TRUE(engine_->Step());
  source_.moves = true;
  clock_.Advance(std::chrono::milliseconds(150));
  source_.opened.clear();
  EXPECT_TRUE(engine_->Step()) << "a plain step";
  ASSERT_TRUE(source_.opened.contains(1)) << "opened again without a rest";
  EXPECT_EQ(source_.opened[1].tokens.size(), 6 + sink->tokens.size());
  EXPECT_TRUE(source_.closed.empty()) << "the source has closed it";
}

TEST_F(EngineTest, ADrafterThatIsBackEndsTheRest) {
  GenerationRequest request = Greedy(200);
  request.seed.reset();
  Submit(1, request);
  for (int i = 0; i < 60; ++i) {
    if (!engine_->Step()) clock_.Advance(std::chrono::milliseconds(100));
  }
  const size_t plans = source_.decided[1].size();
  engine_->draft_consumer().OnDrafterBack(1);
  engine_->Step();
  EXPECT_EQ(source_.decided[1].size(), plans + 1);
}

TEST_F(EngineTest, LostDrafterMeansPlainStepsAndTheNextOneIsOpenedWithAllTokens) {
  const std::vector<TokenId> want = GreedyPath({1, 2, 3, 4, 5, 6}, 30);
  const auto sink = Submit(1, Greedy(30));
  engine_->Step();
  source_.accepts = false;
  engine_->draft_consumer().OnDrafterLost(1);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(engine_->Step());
  EXPECT_EQ(sink->tokens, std::vector<TokenId>(want.begin(), want.begin() + 3));
  source_.accepts = true;
  EXPECT_TRUE(engine_->Step());
  EXPECT_EQ(source_.opened[1].tokens.size(), 10u);
  EXPECT_EQ(source_.opened[1].prompt_tokens, 6);
  EXPECT_FALSE(engine_->Step()) << "waits for the new drafter";
  Draft(source_.opened[1].plan.round, {want[4], want[5]});
  EXPECT_TRUE(engine_->Step());
  EXPECT_EQ(sink->tokens, std::vector<TokenId>(want.begin(), want.begin() + 7));
}

TEST_F(EngineTest, RefusedSessionRestsAndIsOpenedAgain) {
  const auto sink = Submit(1, Greedy(60));
  engine_->Step();
  int opens = 0;
  for (int i = 0; i < 20; ++i) {
    if (source_.opened.erase(1) > 0) {
      ++opens;
      engine_->draft_consumer().OnRefused(1);
    }
    EXPECT_TRUE(engine_->Step()) << "nobody waits for a drafter that refused";
  }
  // Opened at rounds 1, 2, 4, 8, 16.
  EXPECT_EQ(opens, 5);
  EXPECT_TRUE(source_.decided.empty());
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

TEST_F(EngineTest, StopInTheMiddleOfADraftCutsTheRest) {
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

TEST_F(EngineTest, SampledDraftGivesWhatTheRuleAndTheCoinsSay) {
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
TEST_F(EngineTest, VerdictsOnAHeadsDraftCarryItsChances) {
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
TEST_F(EngineTest, AHeadLearnsNothingFromAChosenSeed) {
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
TEST_F(EngineTest, ScoresATreeAndFollowsItsPath) {
  const std::vector<TokenId> want = GreedyPath({1, 2, 3, 4, 5, 6}, 12);
  GenerationRequest request = Greedy(12);
  request.speculation = {.draft_length = 3, .paths = 2};
  const auto sink = Submit(1, request);
  engine_->Step();
  EXPECT_EQ(source_.plan(1).shape, Sequences(2, 3));
  EXPECT_EQ(source_.opened[1].kind, DraftKind::kArgmax);
  const auto other = [](TokenId t) { return t == 0 ? 1 : 0; };
  for (size_t at = 0; at < 8;) {
    DraftTree tree;
    const int wrong = tree.AddDraw(0, other(want[at])), right = tree.AddDraw(0, want[at]);
    const int wrong2 = tree.AddDraw(wrong, want[at + 1]);
    const int right2 = tree.AddDraw(right, want[at + 1]);
    tree.AddDraw(wrong2, want[at + 2]);
    tree.AddDraw(right2, other(want[at + 2]));
    engine_->draft_consumer().OnDraft(1, source_.plan(1).round, tree, true);
    ASSERT_TRUE(engine_->Step());
    EXPECT_EQ(source_.decided[1].back().node, right2);
    EXPECT_EQ(sink->chunks.back().accepted, 2);
    at += 3;
    EXPECT_EQ(sink->tokens, std::vector<TokenId>(want.begin(), want.begin() + at));
    EXPECT_EQ(sink->chunks.back().drafted, 6);
  }
  const auto batch = model_.batches().back();
  EXPECT_EQ(batch[0].tokens.size(), 7u);
  EXPECT_EQ(batch[0].parents, (std::vector<int32_t>{-1, 0, 0, 1, 2, 3, 4}));
}

// The seed-stable rule: the same tokens without drafts, with right ones, and with any others.
TEST_F(EngineTest, GumbelGivesTheSameTokensWhateverIsDrafted) {
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
    const size_t at = sink->tokens.size();
    const auto token = [&](size_t i) { return at + i < 30 ? plain->tokens[at + i] : 7; };
    DraftTree tree;
    const int wrong = tree.AddDraw(0, static_cast<TokenId>(at % testing::kLetters));
    const int first = tree.AddDraw(0, token(0));
    if (source_.plan(1).shape.length > 1) {
      tree.AddDraw(wrong, 5);
      tree.AddDraw(first, at % 2 == 0 ? token(1) : 6);
    }
    engine_->draft_consumer().OnDraft(1, source_.plan(1).round, tree, true);
    if (!engine_->Step()) clock_.Advance(std::chrono::seconds(3));
  }
  EXPECT_EQ(sink->tokens, plain->tokens);
  EXPECT_GT(sink->summary.accepted_tokens, 8);
}

TEST_F(EngineTest, AtTheDeadlineItGoesOnWithWhatOfTheDraftHasCome) {
  const std::vector<TokenId> want = GreedyPath({1, 2, 3, 4, 5, 6}, 12);
  const auto sink = Submit(1, Greedy(12));
  engine_->Step();
  const std::vector<TokenId> two = {want[0], want[1]}, four = {want[0], want[1], want[2], want[3]};
  engine_->draft_consumer().OnDraft(1, 1, DraftTree::Chain(two, {}), /*complete=*/false);
  EXPECT_FALSE(engine_->Step()) << "the rest may still come";
  clock_.Advance(std::chrono::seconds(3));
  EXPECT_TRUE(engine_->Step());
  EXPECT_EQ(sink->tokens, std::vector<TokenId>(want.begin(), want.begin() + 3));
  EXPECT_EQ(source_.decided[1].back().node, 2);
  engine_->draft_consumer().OnDraft(1, 1, DraftTree::Chain(four, {}), /*complete=*/true);
  EXPECT_FALSE(engine_->Step()) << "the rest is of an old round";
}

TEST_F(EngineTest, PartsOfADraftThatCompleteInTimeAreOneDraft) {
  const std::vector<TokenId> want = GreedyPath({1, 2, 3, 4, 5, 6}, 12);
  const auto sink = Submit(1, Greedy(12));
  engine_->Step();
  const std::vector<TokenId> two = {want[0], want[1]}, four = {want[0], want[1], want[2], want[3]};
  engine_->draft_consumer().OnDraft(1, 1, DraftTree::Chain(two, {}), /*complete=*/false);
  engine_->draft_consumer().OnDraft(1, 1, DraftTree::Chain(four, {}), /*complete=*/true);
  EXPECT_TRUE(engine_->Step());
  EXPECT_EQ(sink->tokens.size(), 5u);
}

TEST_F(EngineTest, WideTreesFitThePagesThatARequestHolds) {
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

TEST_F(EngineTest, OffMeansNoWordToAnyDrafter) {
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

TEST_F(EngineTest, SessionsShareAForwardPass) {
  source_.accepts = false;
  const auto a = Submit(1, Greedy(5));
  const auto b = Submit(2, Greedy(5));
  while (engine_->Step()) {
  }
  EXPECT_EQ(a->tokens, b->tokens);
  EXPECT_EQ(model_.batches().size(), 5u);
  for (const auto& batch : model_.batches()) EXPECT_EQ(batch.size(), 2u);
}

TEST_F(EngineTest, YoungestGivesWayWhenPagesRunOutAndNobodyIsLost) {
  // 64 pages of 4 tokens; a request of 6 + 94 tokens eventually takes 25: two can run to their end.
  source_.accepts = false;
  const std::vector<TokenId> want = GreedyPath({1, 2, 3, 4, 5, 6}, 94);
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (uint64_t id = 1; id <= 6; ++id) sinks.push_back(Submit(id, Greedy(94)));
  engine_->Step();
  EXPECT_EQ(engine_->Snapshot().running, 6) << "their prompts fit";
  int fewest = 6;
  while (engine_->Step()) {
    const EngineSnapshot now = engine_->Snapshot();
    EXPECT_GE(now.free_pages, 0);
    if (now.running + now.waiting == 6) fewest = std::min(fewest, now.running);
    // Every running sequence is older than every waiting one.
    bool waits = false;
    for (const SessionSnapshot& s : now.sessions) {
      const bool waiting = std::string(s.phase) == "waiting";
      EXPECT_FALSE(waits && !waiting);
      waits = waits || waiting;
    }
  }
  EXPECT_LE(fewest, 3);
  for (const auto& sink : sinks) {
    EXPECT_TRUE(sink->ended);
    EXPECT_EQ(sink->tokens, want) << "recomputed, the text is the same";
  }
  EXPECT_EQ(model_.free_pages(), model_.total_pages());
}

TEST_F(EngineTest, PreemptionChangesNoSampledText) {
  source_.accepts = false;
  const auto run = [&](uint64_t id, int others) {
    GenerationRequest request = Greedy(90);
    request.sampling = {.temperature = 1, .presence_penalty = 0.2f};
    request.seed = 77;
    for (int i = 0; i < others; ++i) Submit(id + static_cast<uint64_t>(i), Greedy(94));
    const auto sink = Submit(id + static_cast<uint64_t>(others), request);
    while (engine_->Step()) {
    }
    return sink->tokens;
  };
  const std::vector<TokenId> alone = run(1, 0);
  EXPECT_EQ(alone.size(), 90u);
  EXPECT_EQ(run(10, 5), alone);
}

TEST_F(EngineTest, ANewDrafterHearsNothingOfADraftThatALostOneLeftBeforeAPreemption) {
  // 64 pages of 4 tokens: both fit at first, but not to the end of the large one.
  GenerationRequest large = Greedy(240);
  large.speculation.enabled = false;
  const auto old = Submit(1, large);
  GenerationRequest small = Greedy(100);
  small.prompt.assign(40, 7);
  const auto sink = Submit(2, small);
  engine_->Step();
  const uint32_t round = source_.plan(2).round;
  engine_->draft_consumer().OnDraft(2, round, DraftTree::Chain(GreedyPath(small.prompt, 2), {}),
                                    /*complete=*/false);
  // Its pages go to the older sequence while the draft is incomplete.
  while (engine_->Snapshot().running == 2) engine_->Step();
  ASSERT_FALSE(old->ended);
  engine_->draft_consumer().OnDrafterLost(2);
  engine_->Cancel(1, Status(Code::kCancelled, "done"));
  source_.decided.clear();
  source_.opened.clear();
  while (source_.opened.empty()) ASSERT_TRUE(engine_->Step());
  EXPECT_EQ(source_.opened.at(2).plan.round, round + 1) << "after the round of the old draft";
  EXPECT_TRUE(source_.decided[2].empty());
  EXPECT_EQ(sink->tokens, GreedyPath(small.prompt, 3)) << "two drafted, one after them";
}

TEST_F(EngineTest, PlacesAreSharedOutEvenlyAmongClients) {
  source_.accepts = false;
  Restart({.max_sessions = 2, .prefix_cache = false});
  GenerationRequest greedy = Greedy(4);
  greedy.client = "many";
  std::vector<std::shared_ptr<RecordingSink>> many;
  for (uint64_t id = 1; id <= 6; ++id) many.push_back(Submit(id, greedy));
  greedy.client = "one";
  const auto one = Submit(7, greedy);
  engine_->Step();
  EXPECT_EQ(one->tokens.size(), 1u) << "the first request of a client does not wait for six";
  EXPECT_EQ(many[0]->tokens.size(), 1u);
  EXPECT_EQ(many[1]->tokens.size(), 0u);
}

TEST_F(EngineTest, AClientsShareOfTheQueueIsBounded) {
  Restart({.max_waiting = 10, .max_waiting_per_client = 2, .prefix_cache = false});
  GenerationRequest request = Greedy(5);
  request.client = "a";
  Submit(1, request);
  Submit(2, request);
  const auto sink = std::make_shared<RecordingSink>();
  EXPECT_EQ(engine_->Submit(3, request, sink).code(), Code::kResourceExhausted);
  request.client = "b";
  Submit(4, request);
}

// Under load drafts get narrower, then shorter, then disappear, so that every sequence keeps its
// turn.
TEST_F(EngineTest, DraftsAreTrimmedToASessionsShareOfAForwardPass) {
  Restart({.prefix_cache = false, .scheduler = {.token_budget = 64}});
  GenerationRequest request = Greedy(40);
  request.speculation = {.draft_length = 4, .paths = 4};
  Submit(1, request);
  engine_->Step();
  EXPECT_EQ(source_.plan(1).shape, Sequences(4, 4)) << "48 rows for one";
  for (uint64_t id = 2; id <= 4; ++id) Submit(id, request);
  engine_->Step();
  EXPECT_EQ(source_.plan(4).shape, Sequences(1, 4)) << "12 rows each";
  for (uint64_t id = 5; id <= 16; ++id) Submit(id, request);
  engine_->Step();
  EXPECT_EQ(source_.plan(16).shape, Sequences(1, 2)) << "3 rows each";
  for (uint64_t id = 17; id <= 40; ++id) Submit(id, request);
  engine_->Step();
  EXPECT_FALSE(source_.opened.contains(40)) << "one row each";
}

TEST_F(EngineTest, CommonPrefixesAreComputedOnce) {
  Restart({});
  source_.accepts = false;
  GenerationRequest request = Greedy(6);
  request.prompt = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const auto first = Submit(1, request);
  engine_->Step();
  // While the first one is still running: 8 of 11 tokens are whole pages.
  const auto second = Submit(2, request);
  engine_->Step();
  const auto& batch = model_.batches().back();
  ASSERT_EQ(batch.size(), 2u);
  EXPECT_EQ(batch[1].context, 8);
  EXPECT_EQ(batch[1].tokens, (std::vector<TokenId>{9, 10, 11}));
  while (engine_->Step()) {
  }
  EXPECT_EQ(first->tokens, second->tokens);
  EXPECT_EQ(first->tokens, GreedyPath(request.prompt, 6));

  // A third one continues after the whole text of the first: a chat's next turn.
  request.prompt.insert(request.prompt.end(), first->tokens.begin(), first->tokens.end());
  request.prompt.push_back(12);
  const auto third = Submit(3, request);
  engine_->Step();
  EXPECT_EQ(model_.batches().back()[0].context, 16);
  while (engine_->Step()) {
  }
  EXPECT_EQ(third->tokens, GreedyPath(request.prompt, 6));
}

TEST_F(EngineTest, CachedPrefixesGoAsSoonAsPagesAreNeeded) {
  Restart({});
  source_.accepts = false;
  for (uint64_t id = 1; id <= 20; ++id) {  // 20 texts of 100 tokens: many times the cache
    GenerationRequest request = Greedy(94);
    request.prompt[0] = static_cast<TokenId>(id);
    const auto sink = Submit(id, request);
    while (engine_->Step()) {
    }
    EXPECT_EQ(sink->tokens, GreedyPath(request.prompt, 94));
  }
  engine_.reset();
  EXPECT_EQ(model_.free_pages(), model_.total_pages());
  EXPECT_EQ(model_.sequences(), 0);
}

TEST_F(EngineTest, StepsAreKeptToTheirTarget) {
  Restart({.max_draft_tokens = 4, .step_target_seconds = 1e-3});
  model_.set_on_forward([this](int rows) { clock_.Advance(std::chrono::microseconds(50) * rows); });
  source_.accepts = false;
  GenerationRequest request = Greedy(3);
  request.prompt.assign(200, 1);
  for (uint64_t id = 1; id <= 3; ++id) Submit(id, request);
  size_t last = 0;
  while (engine_->Step()) {
    last = 0;
    for (const auto& share : model_.batches().back()) last += share.tokens.size();
    if (model_.batches().size() > 10) {
      EXPECT_LE(last, 24u) << "20 rows take the time";
    }
  }
}

TEST_F(EngineTest, FullQueueIsRefusedAtOnce) {
  Restart({.max_waiting = 2, .prefix_cache = false});
  Submit(1, Greedy(5));
  Submit(2, Greedy(5));
  const auto sink = std::make_shared<RecordingSink>();
  EXPECT_EQ(engine_->Submit(3, Greedy(5), sink).code(), Code::kResourceExhausted);
  EXPECT_FALSE(sink->ended);
}

TEST_F(EngineTest, RefusalsAreCountedByReason) {
  Restart({.max_waiting = 3, .max_waiting_per_client = 2}, &metrics_);
  const auto refuse = [&](uint64_t id, const std::string& client) {
    GenerationRequest request = Greedy(5);
    request.client = client;
    return !engine_->Submit(id, request, std::make_shared<RecordingSink>()).ok();
  };
  EXPECT_FALSE(refuse(1, "a"));
  EXPECT_FALSE(refuse(2, "a"));
  EXPECT_TRUE(refuse(3, "a"));
  EXPECT_FALSE(refuse(4, "b"));
  EXPECT_TRUE(refuse(5, "b"));
  EXPECT_FALSE(engine_->gate().TryEnter());
  engine_->Drain();
  EXPECT_TRUE(refuse(6, "c"));
  EXPECT_EQ(metrics_.requests_refused_client_share.value(), 1);
  EXPECT_EQ(metrics_.requests_refused_queue_full.value(), 2) << "by the gate and by the engine";
  EXPECT_EQ(metrics_.requests_refused_draining.value(), 1);
}

TEST_F(EngineTest, TheDoorIsShutWhileTheQueueIsFull) {
  Restart({.max_sessions = 1, .max_waiting = 2, .prefix_cache = false});
  const auto enters = [&] {
    const bool free = engine_->gate().TryEnter();
    if (free) engine_->gate().Leave();
    return free;
  };
  EXPECT_TRUE(enters());
  Submit(1, Greedy(3));
  Submit(2, Greedy(50));
  EXPECT_FALSE(enters());
  engine_->Step();  // one of them runs
  EXPECT_TRUE(enters());
  Submit(3, Greedy(50));
  EXPECT_FALSE(enters());
  engine_->Cancel(3, Status(Code::kCancelled, "gone"));
  EXPECT_TRUE(enters());
}

TEST(AdmissionGate, CountsThoseOnTheirWay) {
  AdmissionGate gate(3);
  gate.Publish(1, std::chrono::milliseconds(70));
  EXPECT_TRUE(gate.TryEnter());
  EXPECT_TRUE(gate.TryEnter());
  EXPECT_FALSE(gate.TryEnter());
  EXPECT_FALSE(gate.TryEnter()) << "a refusal takes no slot";
  gate.Leave();
  EXPECT_TRUE(gate.TryEnter());
  EXPECT_EQ(gate.retry_after(), std::chrono::milliseconds(70));
}

TEST_F(EngineTest, CancelFreesPagesAndTheDraftersSession) {
  const auto sink = Submit(1, Greedy(50));
  engine_->Step();
  EXPECT_LT(model_.free_pages(), model_.total_pages());
  engine_->Cancel(1, Status(Code::kCancelled, "gone"));
  EXPECT_EQ(model_.free_pages(), model_.total_pages());
  EXPECT_EQ(sink->status.code(), Code::kCancelled);
  EXPECT_EQ(source_.closed, std::vector<uint64_t>{1});
  engine_->Cancel(1, Status(Code::kCancelled, "again"));
  Draft(1, {1});
  EXPECT_FALSE(engine_->Step());
}

TEST_F(EngineTest, DeadlineEndsAWaitingOrRunningRequest) {
  GenerationRequest request = Greedy(50);
  request.deadline = clock_.Now() + std::chrono::seconds(1);
  const auto sink = Submit(1, request);
  engine_->Step();
  clock_.Advance(std::chrono::seconds(2));
  engine_->Step();
  EXPECT_EQ(sink->status.code(), Code::kDeadlineExceeded);
  EXPECT_EQ(model_.free_pages(), model_.total_pages());
}

TEST_F(EngineTest, DrainingRefusesNewRequestsAndFinishesTheOthers) {
  source_.accepts = false;
  const auto sink = Submit(1, Greedy(5));
  engine_->Drain();
  const auto late = std::make_shared<RecordingSink>();
  EXPECT_EQ(engine_->Submit(2, Greedy(5), late).code(), Code::kUnavailable);
  while (engine_->Step()) {
  }
  EXPECT_EQ(sink->tokens.size(), 5u);
  EXPECT_TRUE(engine_->idle());
}

TEST_F(EngineTest, DrainingPlansNoMoreDrafts) {
  const std::vector<TokenId> want = GreedyPath({1, 2, 3, 4, 5, 6}, 20);
  const auto sink = Submit(1, Greedy(20));
  engine_->Step();
  ASSERT_TRUE(source_.opened.contains(1));
  engine_->Drain();
  Draft(1, {want[0], want[1]});
  while (engine_->Step()) {
  }
  EXPECT_EQ(sink->tokens, want);
  EXPECT_EQ(sink->summary.accepted_tokens, 2) << "what was under way is used";
  EXPECT_TRUE(source_.decided.empty());
  EXPECT_EQ(source_.closed, std::vector<uint64_t>{1});
}

TEST_F(EngineTest, EndedRequestsHearHowManyTokensThereWere) {
  source_.accepts = false;
  const auto one = Submit(1, Greedy(50));
  engine_->Step();
  const auto none = Submit(2, Greedy(50));
  engine_->CancelAll(Unavailable("going"));
  EXPECT_EQ(one->status.message(), "going, after 1 token");
  EXPECT_EQ(none->status.message(), "going, after 0 tokens");
}

TEST_F(EngineTest, PagesThatNoRequestHoldsAreThePrefixCaches) {
  Restart({});
  source_.accepts = false;
  const auto used = [&] { return model_.total_pages() - model_.free_pages(); };
  // Two requests that compute the same prompt at the same time have separate pages for it.
  Submit(1, Greedy(30));
  Submit(2, Greedy(40));
  engine_->Step();
  EXPECT_LT(engine_->Snapshot().cached_pages, used());
  while (engine_->Step()) {
  }
  EXPECT_EQ(engine_->Snapshot().cached_pages, used());
  EXPECT_GT(used(), 0);
  Submit(3, Greedy(30));
  engine_->Step();
  engine_->Cancel(3, Status(Code::kCancelled, "gone"));
  EXPECT_EQ(engine_->Snapshot().cached_pages, used());
  // More texts than fit into the pages: entries are evicted.
  for (uint64_t id = 4; id < 9; ++id) {
    GenerationRequest other = Greedy(80);
    other.prompt[0] = static_cast<TokenId>(id + 3);
    Submit(id, other);
    while (engine_->Step()) {
    }
    EXPECT_EQ(engine_->Snapshot().cached_pages, used());
  }
  GenerationRequest last = Greedy(94);
  last.prompt[0] = 20;
  Submit(9, last);
  for (int i = 0; i < 90; ++i) {
    engine_->Step();
    EXPECT_LE(engine_->Snapshot().cached_pages, used());
  }
  engine_->Cancel(9, Status(Code::kCancelled, "gone"));
  EXPECT_EQ(engine_->Snapshot().cached_pages, used());
}

TEST_F(EngineTest, PagesThatRequestsHoldAreToldFromThoseOfThePrefixCache) {
  Restart({}, &metrics_);
  source_.accepts = false;
  Submit(1, Greedy(4));
  engine_->Step();  // the prompt's 6 tokens
  const double total = model_.total_pages();
  EXPECT_EQ(metrics_.kv_cache_requests_perc.value(), 2 / total);
  while (engine_->Step()) {
  }
  EXPECT_EQ(metrics_.kv_cache_requests_perc.value(), 0);
  EXPECT_EQ(metrics_.kv_cache_usage_perc.value(), metrics_.prefix_cache_pages.value() / total);
  EXPECT_GT(metrics_.prefix_cache_pages.value(), 0);
}

TEST_F(EngineTest, FailedForwardPassEndsItsSessionsWithAReason) {
  source_.accepts = false;
  const auto sink = Submit(1, Greedy(5));
  model_.FailNextForward(Internal("broken"));
  engine_->Step();
  EXPECT_EQ(sink->status.code(), Code::kInternal);
  EXPECT_EQ(model_.free_pages(), model_.total_pages());
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

}  // namespace
}  // namespace outrider
