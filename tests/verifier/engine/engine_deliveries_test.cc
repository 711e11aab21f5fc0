// When sinks are called: where a device computes, after the next step's forward pass has started.
#include <gmock/gmock.h>

#include <algorithm>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/rules/host_rounds.h"
#include "tests/verifier/engine/engine_fixture.h"
#include "verifier/engine/engine_thread.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using CallNames = std::vector<std::string>;

class EventSink final : public GenerationSink {
 public:
  explicit EventSink(CallNames* events) : events_(*events) {}
  void Send(Chunk /*chunk*/) override { events_.emplace_back("send"); }
  void Finish(const Summary& /*summary*/) override { events_.emplace_back("finish"); }
  void Fail(const Status& /*status*/) override { events_.emplace_back("fail"); }

 private:
  CallNames& events_;
};

class DeliveriesTest : public EngineTest {
 protected:
  DeliveriesTest() {
    model_.set_on_forward([this](int) { events_.emplace_back("forward"); });
  }
  ~DeliveriesTest() override { engine_.reset(); }  // it may still call sinks

  void UseDevice() {
    model_.set_decide([this](const RoundBatch& batch, const LogitRows& rows) {
      events_.emplace_back("decide");
      return host_rounds_.Decide(batch, rows);
    });
  }

  static GenerationRequest Plain(int max_tokens) {
    GenerationRequest request = Greedy(max_tokens);
    request.speculation.enabled = false;
    return request;
  }
  void SubmitPlain(uint64_t id, const GenerationRequest& request) {
    ASSERT_TRUE(engine_->Submit(id, request, std::make_shared<EventSink>(&events_)).ok());
  }
  // What has happened since the last call.
  CallNames Take() { return std::exchange(events_, {}); }

  CallNames events_;
  HostRounds host_rounds_;
};

TEST_F(DeliveriesTest, CpuMakesThemAtOnce) {
  SubmitPlain(1, Plain(2));
  EXPECT_TRUE(engine_->Step());
  EXPECT_THAT(Take(), ElementsAre("forward", "send"));
  EXPECT_TRUE(engine_->Step());
  EXPECT_THAT(Take(), ElementsAre("forward", "send", "finish"));
}

TEST_F(DeliveriesTest, DeviceComputesMeanwhile) {
  UseDevice();
  SubmitPlain(1, Plain(3));
  EXPECT_TRUE(engine_->Step());
  EXPECT_THAT(Take(), ElementsAre("forward", "decide"));
  EXPECT_TRUE(engine_->Step());
  EXPECT_THAT(Take(), ElementsAre("forward", "send", "decide"));
  EXPECT_TRUE(engine_->Step());
  EXPECT_THAT(Take(), ElementsAre("forward", "send", "decide", "send", "finish"))
      << "nothing is left to run";
  EXPECT_TRUE(engine_->idle());
}

TEST_F(DeliveriesTest, ComeBeforeAWaitForDrafts) {
  UseDevice();
  GenerationRequest request = Greedy(10);
  request.seed.reset();
  SubmitPlain(1, request);
  EXPECT_TRUE(engine_->Step());
  EXPECT_THAT(Take(), ElementsAre("forward", "decide", "send"));
  EXPECT_FALSE(engine_->Step()) << "it waits for its draft";
}

// Forward waits for the end of such a pass.
TEST_F(DeliveriesTest, PassOfCopiedLogitsComesAfter) {
  UseDevice();
  GenerationRequest request = Plain(2);
  request.logprobs = 1;
  SubmitPlain(1, request);
  EXPECT_TRUE(engine_->Step());
  EXPECT_THAT(Take(), ElementsAre("forward", "decide"));
  EXPECT_TRUE(engine_->Step());
  EXPECT_THAT(Take(), ElementsAre("send", "forward", "decide", "send", "finish"));
}

TEST_F(DeliveriesTest, PromptChunkWithoutLogitsComesAfter) {
  UseDevice();
  Restart({.admission = {.prefix_cache = false}, .scheduler = {.token_budget = 8}});
  SubmitPlain(1, Plain(1));
  GenerationRequest longer = Plain(1);
  longer.prompt.assign(20, 3);
  SubmitPlain(2, longer);
  EXPECT_TRUE(engine_->Step());
  EXPECT_THAT(Take(), ElementsAre("forward", "decide"));
  EXPECT_TRUE(engine_->Step());
  EXPECT_THAT(Take(), ElementsAre("send", "finish", "forward"));
}

TEST_F(DeliveriesTest, CancelComesAfterWhatWaits) {
  UseDevice();
  SubmitPlain(1, Plain(5));
  EXPECT_TRUE(engine_->Step());
  Take();
  engine_->Cancel(1, Status(Code::kCancelled, "gone"));
  EXPECT_THAT(Take(), ElementsAre("send", "fail"));
  EXPECT_TRUE(engine_->idle());
}

// A caller that cancels a request that has just ended goes on after its last calls.
TEST_F(DeliveriesTest, CancelAfterTheEndComesLast) {
  UseDevice();
  SubmitPlain(1, Plain(1));
  SubmitPlain(2, Plain(5));
  EXPECT_TRUE(engine_->Step());
  EXPECT_THAT(Take(), ElementsAre("forward", "decide"));
  engine_->Cancel(1, Status(Code::kCancelled, "gone"));
  EXPECT_THAT(Take(), ElementsAre("send", "finish", "send"));
}

TEST_F(DeliveriesTest, FailedPassLosesNone) {
  UseDevice();
  SubmitPlain(1, Plain(5));
  EXPECT_TRUE(engine_->Step());
  Take();
  model_.FailNextForward(Internal("broken"));
  EXPECT_TRUE(engine_->Step());
  EXPECT_THAT(Take(), ElementsAre("send", "fail"));
  EXPECT_TRUE(engine_->idle());
}

TEST_F(DeliveriesTest, FailedRequestsHearAtOnce) {
  UseDevice();
  GenerationRequest asking = Plain(5);
  asking.logprobs = 2;
  SubmitPlain(1, Plain(5));
  SubmitPlain(2, asking);
  model_.FailNextForward(ResourceExhausted("no memory"));
  EXPECT_TRUE(engine_->Step());
  EXPECT_THAT(Take(), ElementsAre("fail"));
  EXPECT_FALSE(engine_->idle()) << "the other goes on";
}

TEST_F(DeliveriesTest, EndOfEngineLosesNone) {
  UseDevice();
  SubmitPlain(1, Plain(5));
  EXPECT_TRUE(engine_->Step());
  EXPECT_THAT(Take(), ElementsAre("forward", "decide"));
  engine_.reset();
  EXPECT_THAT(Take(), ElementsAre("send", "fail"));
}

TEST_F(DeliveriesTest, StoppedThreadLosesNone) {
  UseDevice();
  std::promise<void> stopping;
  model_.set_on_forward([stop = stopping.get_future().share()](int) { stop.wait(); });
  EngineThread thread(engine_.get());
  thread.Post([&] { SubmitPlain(1, Plain(200)); });
  stopping.set_value();
  thread.Stop();
  engine_.reset();
  const auto sends = std::count(events_.begin(), events_.end(), "send");
  EXPECT_EQ(sends, std::count(events_.begin(), events_.end(), "decide"));
  EXPECT_NE(events_.back(), "send");
}

// A verifier that drains ends when its engine is idle.
TEST_F(DeliveriesTest, DrainedEngineHasMadeThem) {
  UseDevice();
  std::promise<std::string> last;
  EngineThread thread(engine_.get());
  // Asks right after each step.
  model_.set_on_forward([&](int) {
    thread.Post([&] {
      if (engine_->idle()) last.set_value(events_.back());
    });
  });
  thread.Post([&] {
    SubmitPlain(1, Plain(20));
    engine_->Drain();
  });
  EXPECT_EQ(last.get_future().get(), "finish");
}

}  // namespace
}  // namespace outrider
