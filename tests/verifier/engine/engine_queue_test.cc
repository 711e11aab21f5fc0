// How requests enter and leave the engine: its queue, refusals, cancellation, deadlines and drain.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tests/verifier/engine/engine_fixture.h"

namespace outrider {
namespace {

using testing::RecordingSink;

TEST_F(EngineTest, SharesSlotsEvenlyAmongClients) {
  source_.accepts = false;
  Restart({.admission = {.max_running = 2, .prefix_cache = false}});
  GenerationRequest greedy = Greedy(1);
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

TEST_F(EngineTest, BoundsEachClientsShareOfQueue) {
  Restart({.admission = {.max_waiting = 10, .max_waiting_per_client = 2, .prefix_cache = false}});
  GenerationRequest request = Greedy(5);
  request.client = "a";
  Submit(1, request);
  Submit(2, request);
  const auto sink = std::make_shared<RecordingSink>();
  EXPECT_EQ(engine_->Submit(3, request, sink).code(), Code::kResourceExhausted);
  request.client = "b";
  Submit(4, request);
}

TEST_F(EngineTest, FullQueueIsRefusedAtOnce) {
  Restart({.admission = {.max_waiting = 2, .prefix_cache = false}});
  Submit(1, Greedy(5));
  Submit(2, Greedy(5));
  const auto sink = std::make_shared<RecordingSink>();
  EXPECT_EQ(engine_->Submit(3, Greedy(5), sink).code(), Code::kResourceExhausted);
  GenerationRequest wrong = Greedy(5);
  wrong.sampling.temperature = -1;
  EXPECT_EQ(engine_->Submit(4, wrong, sink).code(), Code::kResourceExhausted) << "not even checked";
  EXPECT_FALSE(sink->ended);
}

TEST_F(EngineTest, RefusalsAreCountedByReason) {
  Restart({.admission = {.max_waiting = 3, .max_waiting_per_client = 2}}, &metrics_);
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

TEST_F(EngineTest, GateClosesWhileQueueIsFull) {
  Restart({.admission = {.max_running = 1, .max_waiting = 2, .prefix_cache = false}});
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

TEST_F(EngineTest, QueuesAllChoicesOrNone) {
  Restart({.admission = {.max_waiting = 4}}, &metrics_);
  Submit(1, Greedy(5));
  Submit(2, Greedy(5));
  EXPECT_EQ(engine_->Submit(Choices(3, 3, Greedy(5))).code(), Code::kResourceExhausted);
  EXPECT_EQ(engine_->waiting(), 2);
  EXPECT_EQ(metrics_.requests_refused_queue_full.value(), 1);
  EXPECT_TRUE(engine_->Submit(Choices(3, 2, Greedy(5))).ok());
  EXPECT_EQ(engine_->waiting(), 4);
}

TEST_F(EngineTest, FirstChoiceComputesSharedPrompt) {
  source_.accepts = false;
  Restart({});
  ASSERT_TRUE(engine_->Submit(Choices(1, 3, Greedy(5))).ok());
  engine_->Step();
  EXPECT_EQ(engine_->running(), 1);
  while (engine_->Step()) {
  }
  EXPECT_EQ(sinks_[0]->summary.cached_tokens, 0);
  for (const int other : {1, 2}) {
    EXPECT_EQ(sinks_[other]->tokens, sinks_[0]->tokens);
    EXPECT_EQ(sinks_[other]->summary.cached_tokens, model_.page_tokens());
  }
}

TEST_F(EngineTest, ChoicesOutliveFirstThatIsCancelled) {
  source_.accepts = false;
  ASSERT_TRUE(engine_->Submit(Choices(1, 3, Greedy(5))).ok());
  engine_->Cancel(1, Status(Code::kCancelled, "gone"));
  while (engine_->Step()) {
  }
  for (const int other : {1, 2}) EXPECT_EQ(sinks_[other]->tokens.size(), 5u);
  EXPECT_TRUE(engine_->idle());
}

TEST_F(EngineTest, DrainFinishesAllChoices) {
  source_.accepts = false;
  ASSERT_TRUE(engine_->Submit(Choices(1, 3, Greedy(5))).ok());
  engine_->Drain();
  EXPECT_EQ(engine_->Submit(Choices(4, 2, Greedy(5))).code(), Code::kUnavailable);
  while (engine_->Step()) {
  }
  for (const int choice : {0, 1, 2}) EXPECT_EQ(sinks_[choice]->tokens.size(), 5u);
}

TEST(AdmissionGate, CountsThoseOnTheirWay) {
  MetricsRegistry registry;
  Counter refused = registry.MakeCounter("refused_total", "Refused requests");
  AdmissionGate gate(3, &refused);
  gate.Publish(1, std::chrono::milliseconds(70));
  EXPECT_TRUE(gate.TryEnter());
  EXPECT_TRUE(gate.TryEnter());
  EXPECT_FALSE(gate.TryEnter());
  EXPECT_FALSE(gate.TryEnter()) << "a refusal takes no slot";
  gate.Leave();
  EXPECT_TRUE(gate.TryEnter());
  EXPECT_EQ(gate.retry_after(), std::chrono::milliseconds(70));
  gate.Leave(2);
  EXPECT_FALSE(gate.TryEnter(3));
  EXPECT_TRUE(gate.TryEnter(2));
  EXPECT_FALSE(gate.TryEnter());
  EXPECT_EQ(refused.value(), 4);
  gate.TurnAway(2);
  EXPECT_EQ(refused.value(), 5) << "a request, whatever its generations";
  EXPECT_TRUE(gate.TryEnter(2)) << "its slots are free again";
}

TEST_F(EngineTest, CancelFreesPagesAndDrafterSession) {
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

TEST_F(EngineTest, DeadlineEndsRunningRequest) {
  GenerationRequest request = Greedy(50);
  request.deadline = clock_.Now() + std::chrono::seconds(1);
  const auto sink = Submit(1, request);
  engine_->Step();
  clock_.Advance(std::chrono::seconds(2));
  engine_->Step();
  EXPECT_EQ(sink->status.code(), Code::kDeadlineExceeded);
  EXPECT_EQ(model_.free_pages(), model_.total_pages());
}

TEST_F(EngineTest, ExpiredRequestLeavesPlaceAtOnce) {
  Restart({.admission = {.max_running = 1, .prefix_cache = false}});
  GenerationRequest request = Greedy(50);
  request.deadline = clock_.Now() + std::chrono::seconds(1);
  const auto first = Submit(1, request);
  const auto second = Submit(2, Greedy(5));
  engine_->Step();
  clock_.Advance(std::chrono::seconds(2));
  EXPECT_TRUE(engine_->Step()) << "the second begins";
  EXPECT_EQ(first->status.code(), Code::kDeadlineExceeded);
  EXPECT_TRUE(second->status.ok());
}

TEST_F(EngineTest, DrainFinishesRunningRequests) {
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

TEST_F(EngineTest, CancellationTellsTokenCount) {
  source_.accepts = false;
  const auto one = Submit(1, Greedy(50));
  engine_->Step();
  const auto none = Submit(2, Greedy(50));
  engine_->CancelAll(Unavailable("going"));
  EXPECT_EQ(one->status.message(), "going, after 1 token");
  EXPECT_EQ(none->status.message(), "going, after 0 tokens");
}

TEST_F(EngineTest, FailedForwardPassEndsItsRequests) {
  source_.accepts = false;
  const auto sink = Submit(1, Greedy(5));
  model_.FailNextForward(Internal("broken"));
  engine_->Step();
  EXPECT_EQ(sink->status.code(), Code::kInternal);
  EXPECT_EQ(model_.free_pages(), model_.total_pages());
}

// Host memory for rows of logits, which only log probabilities need.
TEST_F(EngineTest, MemoryForLogprobsIsTheirMatter) {
  source_.accepts = false;
  GenerationRequest asking = Greedy(5);
  asking.logprobs = 2;
  const auto plain = Submit(1, Greedy(5)), told = Submit(2, asking);
  model_.FailNextForward(ResourceExhausted("no memory"));
  engine_->Step();
  EXPECT_EQ(told->status.code(), Code::kResourceExhausted);
  while (engine_->Step()) {
  }
  EXPECT_TRUE(plain->status.ok());
  EXPECT_EQ(plain->tokens.size(), 5u);
}

}  // namespace
}  // namespace outrider
