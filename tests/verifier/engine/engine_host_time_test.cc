// The time that the host takes between two forward passes, as the engine measures it.
#include <gmock/gmock.h>

#include <chrono>

#include "tests/verifier/engine/engine_fixture.h"

namespace outrider {
namespace {

using ::testing::DoubleEq;

// A forward pass takes 10 s, and processing a sequence's verdict 1 s.
class HostTimeTest : public EngineTest {
 protected:
  HostTimeTest() {
    model_.set_on_forward([this](int) { clock_.Advance(std::chrono::seconds(10)); });
    model_.set_on_truncate([this] { clock_.Advance(std::chrono::seconds(1)); });
    Restart({.admission = {.prefix_cache = false}}, &metrics_);
  }
  const Histogram& host_seconds() const { return metrics_.engine_host_seconds; }
};

TEST_F(HostTimeTest, RunsFromPassToPass) {
  GenerationRequest request = Greedy(4);
  request.speculation.enabled = false;
  Submit(1, request);
  while (engine_->Step()) {
  }
  EXPECT_EQ(host_seconds().count(), 3u);
  EXPECT_THAT(host_seconds().sum(), DoubleEq(3));
  clock_.Advance(std::chrono::seconds(100));
  request.max_tokens = 1;
  Submit(2, request);
  engine_->Step();
  EXPECT_EQ(host_seconds().count(), 3u) << "there was no request in between";
}

TEST_F(HostTimeTest, FailedPassesDoNotCount) {
  GenerationRequest request = Greedy(4), asking = request;
  request.speculation.enabled = asking.speculation.enabled = false;
  asking.logprobs = 1;
  Submit(1, request);
  Submit(2, asking);
  engine_->Step();
  model_.FailNextForward(ResourceExhausted("no memory"));
  engine_->Step();
  engine_->Step();
  EXPECT_EQ(host_seconds().count(), 0u);
  engine_->Step();
  EXPECT_EQ(host_seconds().count(), 1u);
}

TEST_F(HostTimeTest, WaitingForDraftsDoesNotCount) {
  const auto sink = Submit(1, Greedy(40));
  while (sink->tokens.size() < 10) {
    if (engine_->Step()) continue;
    clock_.Advance(std::chrono::milliseconds(1));
    Draft(source_.plan(1).round, std::vector<TokenId>{1, 2, 3, 4});
  }
  EXPECT_GT(sink->chunks.size(), 2u);
  EXPECT_EQ(host_seconds().count(), 0u);
}

}  // namespace
}  // namespace outrider
