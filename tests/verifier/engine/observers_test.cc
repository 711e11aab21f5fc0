// The metrics that result from the engine's events, without an engine.
#include <gmock/gmock.h>

#include <chrono>
#include <vector>

#include "common/metrics/registry.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_model.h"
#include "verifier/engine/batch_entry.h"
#include "verifier/engine/metrics_observer.h"
#include "verifier/engine/proposer_shares.h"
#include "verifier/engine/session.h"
#include "verifier/engine/speedup_observer.h"

namespace outrider {
namespace {

using ::testing::DoubleEq;
using ::testing::DoubleNear;

constexpr Duration kSecond = std::chrono::seconds(1);

class ObserversTest : public ::testing::Test {
 protected:
  static DraftTree Draft() { return DraftTree::Chain(std::vector<TokenId>{1, 2, 3}, {}); }

  MetricsRegistry registry_;
  VerifierMetrics metrics_{registry_};
  FakeModel model_{{}};
  testing::FakeClock clock_;
  Session session_;
};

class MetricsObserverTest : public ObserversTest {
 protected:
  MetricsObserver observer_{&metrics_, &model_};
};

TEST_F(MetricsObserverTest, CountsARequestsLife) {
  session_.tokens = {1, 2, 3, 4, 5};
  session_.prompt_tokens = 5;
  session_.times.submitted = clock_.Now();
  clock_.Advance(kSecond);
  session_.times.admitted = clock_.Now();
  observer_.OnAdmitted(session_, /*looked_up=*/5, /*cached=*/4, /*is_first=*/true);
  EXPECT_EQ(metrics_.prompt_tokens_total.value(), 5);
  EXPECT_EQ(metrics_.prefix_cache_queries_total.value(), 5);
  EXPECT_EQ(metrics_.prefix_cache_hits_total.value(), 4);
  EXPECT_THAT(metrics_.request_queue_time_seconds.sum(), DoubleEq(1));

  observer_.OnPreempted(session_);
  observer_.OnAdmitted(session_, 5, 0, /*is_first=*/false);
  EXPECT_EQ(metrics_.num_preemptions_total.value(), 1);
  EXPECT_EQ(metrics_.prefix_cache_queries_total.value(), 10);
  EXPECT_EQ(metrics_.prompt_tokens_total.value(), 5) << "once a request";
  EXPECT_EQ(metrics_.request_queue_time_seconds.count(), 1u);

  session_.summary.reason = FinishReason::kLength;
  session_.summary.prefill_seconds = 2;
  session_.summary.decode_seconds = 3;
  observer_.OnEnded(session_, Status(), clock_.Now() + 5 * kSecond);
  EXPECT_EQ(metrics_.request_success_length.value(), 1);
  EXPECT_THAT(metrics_.e2e_request_latency_seconds.sum(), DoubleEq(6));
  EXPECT_THAT(metrics_.request_prefill_time_seconds.sum(), DoubleEq(2));
  EXPECT_THAT(metrics_.request_decode_time_seconds.sum(), DoubleEq(3));
  EXPECT_THAT(metrics_.request_inference_time_seconds.sum(), DoubleEq(5));
}

TEST_F(MetricsObserverTest, ObservesEachRequestsTokens) {
  session_.summary.prompt_tokens = 11;
  session_.summary.completion_tokens = 1;
  session_.summary.decode_seconds = 0;
  observer_.OnEnded(session_, Status(), clock_.Now());
  EXPECT_EQ(metrics_.request_time_per_output_token_seconds.count(), 0u) << "one token, no time";
  EXPECT_EQ(metrics_.request_params_max_tokens.count(), 0u) << "it set none";
  session_.request.max_tokens = 20;
  session_.summary.completion_tokens = 5;
  session_.summary.decode_seconds = 2;
  observer_.OnEnded(session_, Status(), clock_.Now());
  EXPECT_THAT(metrics_.request_time_per_output_token_seconds.sum(), DoubleEq(0.5));
  EXPECT_THAT(metrics_.request_prompt_tokens.sum(), DoubleEq(22));
  EXPECT_THAT(metrics_.request_generation_tokens.sum(), DoubleEq(6));
  EXPECT_THAT(metrics_.request_params_max_tokens.sum(), DoubleEq(20));
}

TEST_F(MetricsObserverTest, CancelledRequestsHaveNoTimes) {
  observer_.OnEnded(session_, Status(Code::kCancelled, "gone"), clock_.Now());
  EXPECT_EQ(metrics_.request_success_abort.value(), 1);
  EXPECT_EQ(metrics_.e2e_request_latency_seconds.count(), 0u);
  observer_.OnEnded(session_, Status(), clock_.Now());
  EXPECT_EQ(metrics_.request_success_stop.value(), 1);
}

TEST_F(MetricsObserverTest, ObservesEachRequestsAcceptance) {
  observer_.OnEnded(session_, Status(), clock_.Now());
  EXPECT_EQ(metrics_.spec_decode_request_acceptance_rate.count(), 0u) << "it had no drafts";
  session_.summary.drafted_tokens = 8;
  session_.summary.accepted_tokens = 2;
  observer_.OnEnded(session_, Status(), clock_.Now());
  EXPECT_EQ(metrics_.spec_decode_request_acceptance_rate.count(), 1u);
  EXPECT_THAT(metrics_.spec_decode_request_acceptance_rate.sum(), DoubleEq(0.25));
}

TEST_F(MetricsObserverTest, CountsRounds) {
  session_.times.submitted = clock_.Now();
  clock_.Advance(2 * kSecond);
  observer_.OnRound(session_, {.tokens = {1}}, clock_.Now());
  EXPECT_EQ(metrics_.plain_rounds_total.value(), 1);
  EXPECT_THAT(metrics_.time_to_first_token_seconds.sum(), DoubleEq(2));
  EXPECT_EQ(metrics_.inter_token_latency_seconds.count(), 0u);

  session_.round = 2;
  session_.times.last_token = clock_.Now();
  clock_.Advance(3 * kSecond);
  observer_.OnRound(session_, {.tokens = {1, 2, 3}, .accepted = 2, .drafted = 5}, clock_.Now());
  EXPECT_EQ(metrics_.rounds_total.value(), 2);
  EXPECT_EQ(metrics_.plain_rounds_total.value(), 1);
  EXPECT_EQ(metrics_.generation_tokens_total.value(), 4);
  EXPECT_EQ(metrics_.spec_decode_num_drafts_total.value(), 1);
  EXPECT_EQ(metrics_.spec_decode_num_draft_tokens_total.value(), 5);
  EXPECT_EQ(metrics_.spec_decode_num_accepted_tokens_total.value(), 2);
  EXPECT_EQ(metrics_.accepted_per_position()[1].value(), 1);
  EXPECT_EQ(metrics_.accepted_per_position()[2].value(), 0);
  EXPECT_EQ(metrics_.inter_token_latency_seconds.count(), 3u) << "one a token";
  EXPECT_THAT(metrics_.inter_token_latency_seconds.sum(), DoubleNear(3, 1e-9));
}

TEST_F(MetricsObserverTest, CountsRefusalsByReason) {
  observer_.OnRequestRefused(Refusal::kQueueFull);
  observer_.OnRequestRefused(Refusal::kClientShare);
  observer_.OnRequestRefused(Refusal::kClientShare);
  observer_.OnRequestRefused(Refusal::kDraining);
  EXPECT_EQ(metrics_.requests_refused_queue_full.value(), 1);
  EXPECT_EQ(metrics_.requests_refused_client_share.value(), 2);
  EXPECT_EQ(metrics_.requests_refused_draining.value(), 1);
}

TEST_F(MetricsObserverTest, ShowsWhatTheEngineHolds) {
  std::vector<Session> sessions(4);
  sessions[3].request.logprobs = 1;  // its rows are copied from the device
  std::vector<BatchEntry> batch;
  for (Session& session : sessions) batch.push_back({.session = &session, .ends_round = true});
  batch[0].ends_round = false;
  observer_.OnForward({.batch = batch, .rows = 17});
  EXPECT_EQ(metrics_.device_rounds_total.value(), 0) << "the host decides";
  EXPECT_EQ(metrics_.engine_host_seconds.count(), 0u) << "the engine waited before it";
  model_.set_decide([](const RoundBatch&, const LogitRows&) { return Decisions(); });
  observer_.OnForward({.batch = batch, .rows = 0, .host_seconds = 0.25});
  EXPECT_THAT(metrics_.engine_host_seconds.sum(), DoubleEq(0.25));
  EXPECT_THAT(metrics_.batch_rows.sum(), DoubleEq(17));
  EXPECT_EQ(metrics_.device_rounds_total.value(), 2);
  const EngineLevels levels{.running = 3,
                            .waiting = 4,
                            .total_pages = 100,
                            .free_pages = 40,
                            .cached_pages = 5,
                            .sequence_pages = 50};
  observer_.OnStepEnd(levels, std::nullopt, clock_.Now());
  EXPECT_EQ(metrics_.engine_step_seconds.count(), 0u) << "nothing was computed";
  observer_.OnStepEnd(levels, 0.5, clock_.Now());
  EXPECT_THAT(metrics_.engine_step_seconds.sum(), DoubleEq(0.5));
  EXPECT_EQ(metrics_.num_requests_running.value(), 3);
  EXPECT_EQ(metrics_.num_requests_waiting.value(), 4);
  EXPECT_EQ(metrics_.kv_pages_used.value(), 60);
  EXPECT_EQ(metrics_.prefix_cache_pages.value(), 5);
  EXPECT_THAT(metrics_.kv_cache_usage_perc.value(), DoubleEq(0.6));
  EXPECT_THAT(metrics_.kv_cache_requests_perc.value(), DoubleEq(0.5));
  observer_.OnDraftLate(session_);
  EXPECT_EQ(metrics_.draft_timeouts_total.value(), 1);
  observer_.OnNotFinite(session_);
  EXPECT_EQ(metrics_.requests_not_finite.value(), 1);
}

class SpeedupObserverTest : public ObserversTest {
 protected:
  SpeedupObserverTest() { session_.id = 1; }

  // A step of one second in which the sequence's round ends with `tokens` tokens.
  void Step(int tokens, bool ends_request = false) {
    observer_.OnStepBegin(clock_.Now());
    const std::vector<BatchEntry> batch = {{.session = &session_, .pending = 1, .tokens = {1}}};
    observer_.OnForward({.batch = batch, .rows = 1});
    clock_.Advance(kSecond);
    observer_.OnRound(session_, {.tokens = std::vector<TokenId>(static_cast<size_t>(tokens))},
                      clock_.Now());
    if (ends_request) observer_.OnEnded(session_, Status(), clock_.Now());
    observer_.OnStepEnd({}, 1.0, clock_.Now());
  }
  double RoundSeconds() const { return metrics_.round_seconds_total.value(); }

  SpeedupObserver observer_{&metrics_};
};

TEST_F(SpeedupObserverTest, CountsRoundsAfterTheFirst) {
  Step(1);
  EXPECT_EQ(RoundSeconds(), 0) << "the first round has the prompt in it";
  Step(1);
  Step(1);
  EXPECT_THAT(RoundSeconds(), DoubleEq(2));
  EXPECT_THAT(metrics_.round_seconds_if_plain_total.value(), DoubleEq(2)) << "all were plain";
}

TEST_F(SpeedupObserverTest, PreemptedSequencesBeginAgain) {
  Step(1);
  Step(1);
  observer_.OnPreempted(session_);
  clock_.Advance(100 * kSecond);
  observer_.OnStepEnd({}, std::nullopt, clock_.Now());
  Step(1);
  EXPECT_THAT(RoundSeconds(), DoubleEq(1)) << "the wait for pages, and computing the text again";
  Step(1);
  EXPECT_THAT(RoundSeconds(), DoubleEq(2));
}

TEST_F(SpeedupObserverTest, LastRoundCountsToo) {
  Step(1);
  Step(1, /*ends_request=*/true);
  EXPECT_THAT(RoundSeconds(), DoubleEq(1));
  Session next;
  next.id = 1;  // as a new request might have
  observer_.OnStepBegin(clock_.Now());
  const std::vector<BatchEntry> batch = {{.session = &next, .pending = 1, .tokens = {1}}};
  observer_.OnForward({.batch = batch, .rows = 1});
  clock_.Advance(kSecond);
  observer_.OnRound(next, {.tokens = {1}}, clock_.Now());
  observer_.OnStepEnd({}, 1.0, clock_.Now());
  EXPECT_THAT(RoundSeconds(), DoubleEq(1)) << "nothing is left of the one that ended";
}

TEST_F(ObserversTest, ProposerSharesTellWhoDrafted) {
  ProposerShares shares;
  EXPECT_EQ(shares.Get()[static_cast<size_t>(Proposer::Kind::kNone)], 0);
  shares.OnRound(session_, {.tokens = {1}}, clock_.Now());
  EXPECT_THAT(shares.Get()[static_cast<size_t>(Proposer::Kind::kNone)], DoubleEq(1));
  session_.drafting = DraftingState(Duration::zero());
  session_.drafting.Await({.round = 1}, {.usual = kSecond}, true, clock_.Now());
  session_.drafting.TakeDraft(Draft(), clock_.Now());
  shares.OnRound(session_, {.tokens = {1}, .drafted = 3}, clock_.Now());
  EXPECT_THAT(shares.Get()[static_cast<size_t>(Proposer::Kind::kModel)], DoubleNear(0.5, 0.01));
}

}  // namespace
}  // namespace outrider
