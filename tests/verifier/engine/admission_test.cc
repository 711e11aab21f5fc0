#include "verifier/engine/admission.h"

#include <gmock/gmock.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/fake_clock.h"
#include "tests/support/fake_model.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kPage = 4;  // tokens

// Records what the engine's other parts would be told.
class Events final : public EngineObserver {
 public:
  void OnRequestRefused(Refusal) override { ++refused; }
  void OnAdmitted(const Session& session, int looked_up, int cached, bool is_first) override {
    admitted.push_back(session.id);
    looked_up_tokens = looked_up;
    cached_tokens = cached;
    again = !is_first;
  }
  void OnPreempted(const Session& session) override { preempted.push_back(session.id); }

  int refused = 0, looked_up_tokens = 0, cached_tokens = 0;
  bool again = false;
  std::vector<uint64_t> admitted, preempted;
};

class AdmissionTest : public ::testing::Test {
 protected:
  void Start(const AdmissionOptions& options, int pages = 64) {
    model_ =
        std::make_unique<FakeModel>(FakeModelOptions{.page_tokens = kPage, .total_pages = pages});
    auto events = std::make_unique<Events>();
    events_ = events.get();
    observers_.Add(std::move(events));
    admission_ = std::make_unique<Admission>(options, &sessions_, model_.get(), &observers_);
  }
  ~AdmissionTest() override {
    for (auto& [id, session] : sessions_) admission_->Release(*session);
  }

  Session& Wait(uint64_t id, const std::string& client, int tokens = 3) {
    auto session = std::make_unique<Session>();
    session->id = id;
    session->request.client = client;
    for (int i = 0; i < tokens; ++i) session->tokens.push_back(i);
    session->prompt_tokens = tokens;
    return *sessions_.emplace(id, std::move(session)).first->second;
  }
  // As if a forward pass had computed the sequence's text.
  void Compute(Session& session) {
    const std::vector<int32_t> rows = {static_cast<int32_t>(session.pending()) - 1};
    const std::vector<TokenId> tokens(session.tokens.begin() + session.computed,
                                      session.tokens.end());
    const std::vector<ForwardSequence> batch = {
        {.sequence = session.sequence, .tokens = tokens, .logit_rows = rows}};
    ForwardOutput output;
    ASSERT_TRUE(admission_->Reserve(session, static_cast<int>(session.tokens.size())));
    ASSERT_TRUE(model_->Forward(batch, false, &output).ok());
    session.computed = static_cast<int>(session.tokens.size());
  }
  void AdmitAll() {
    while (admission_->AdmitNext(clock_.Now()) != nullptr) {
    }
  }

  testing::FakeClock clock_;
  SessionTable sessions_;
  EngineObservers observers_;
  Events* events_ = nullptr;
  std::unique_ptr<FakeModel> model_;
  std::unique_ptr<Admission> admission_;
};

TEST_F(AdmissionTest, TakesTurnsByClient) {
  Start({.max_running = 4});
  for (uint64_t id : {1, 2, 3}) Wait(id, "many");
  Wait(4, "few");
  Wait(5, "few");
  AdmitAll();
  EXPECT_THAT(events_->admitted, ElementsAre(1, 4, 2, 5));
  EXPECT_EQ(admission_->running(), 4);
  EXPECT_EQ(admission_->waiting(), 1);
}

TEST_F(AdmissionTest, PromptLogprobsLookUpNothing) {
  Start({});
  Wait(1, "a");
  AdmitAll();
  EXPECT_EQ(events_->looked_up_tokens, 3);
  Wait(2, "a").request.prompt_logprobs = 0;
  AdmitAll();
  EXPECT_EQ(events_->looked_up_tokens, 0);
}

TEST_F(AdmissionTest, SmallRequestsDoNotOvertake) {
  Start({}, /*pages=*/4);
  Wait(1, "a", kPage);
  Wait(2, "a", 3 * kPage);
  Wait(3, "a", 1);  // would fit
  AdmitAll();
  EXPECT_THAT(events_->admitted, ElementsAre(1));
  admission_->Release(*sessions_.at(1));
  sessions_.erase(1);
  AdmitAll();
  EXPECT_THAT(events_->admitted, ElementsAre(1, 2));
}

TEST_F(AdmissionTest, PreemptsTheYoungest) {
  Start({.prefix_cache = false}, /*pages=*/6);
  Session& oldest = Wait(1, "a");
  Wait(2, "a");
  Session& youngest = Wait(3, "a");
  AdmitAll();
  ASSERT_EQ(admission_->running(), 3);
  clock_.Advance(std::chrono::seconds(1));
  EXPECT_FALSE(admission_->Reserve(youngest, 6 * kPage)) << "the others are older";
  EXPECT_TRUE(youngest.is_running());
  EXPECT_TRUE(admission_->Reserve(oldest, 5 * kPage));
  EXPECT_THAT(events_->preempted, ElementsAre(3));
  EXPECT_FALSE(youngest.is_running());
  EXPECT_EQ(admission_->waiting(), 1);
  admission_->Release(oldest);
  sessions_.erase(1);
  const std::optional<Time> first_admitted = youngest.times.admitted;
  AdmitAll();
  EXPECT_TRUE(youngest.is_running());
  EXPECT_TRUE(events_->again);
  EXPECT_EQ(youngest.times.admitted, first_admitted) << "it waited in the queue only once";
}

TEST_F(AdmissionTest, CachedPrefixesMakeRoomFirst) {
  Start({}, /*pages=*/6);
  Session& first = Wait(1, "a", 2 * kPage);
  AdmitAll();
  Compute(first);
  admission_->CacheText(first);
  sessions_.erase(1);
  EXPECT_EQ(admission_->running(), 0);
  EXPECT_EQ(admission_->cached_pages(), 2);
  Session& older = Wait(2, "a", 1);
  Wait(3, "a", 1);
  AdmitAll();
  ASSERT_EQ(admission_->running(), 2);
  EXPECT_TRUE(admission_->Reserve(older, 4 * kPage));
  EXPECT_EQ(admission_->cached_pages(), 0);
  EXPECT_THAT(events_->preempted, IsEmpty());
}

TEST_F(AdmissionTest, KeepsPrefixesThatFreeTooLittle) {
  Start({}, /*pages=*/9);
  Session& first = Wait(1, "a", 4 * kPage);
  AdmitAll();
  Compute(first);
  admission_->SharePrompt(first);
  ASSERT_EQ(admission_->cached_pages(), 4);
  Wait(2, "a", 8 * kPage);
  EXPECT_EQ(admission_->AdmitNext(clock_.Now()), nullptr);
  EXPECT_EQ(admission_->cached_pages(), 4);
  EXPECT_FALSE(admission_->Reserve(first, 10 * kPage));
  EXPECT_EQ(admission_->cached_pages(), 4);
}

TEST_F(AdmissionTest, EvictsOnlyWhatFreesPages) {
  Start({}, /*pages=*/10);
  Session& first = Wait(1, "a", 2 * kPage);
  AdmitAll();
  Compute(first);
  admission_->SharePrompt(first);
  Session& second = Wait(2, "a", 2 * kPage);
  second.tokens[0] = 9;
  AdmitAll();
  Compute(second);
  admission_->CacheText(second);
  sessions_.erase(2);
  ASSERT_EQ(admission_->cached_pages(), 4);
  Wait(3, "a", 5 * kPage).tokens[0] = 10;
  EXPECT_NE(admission_->AdmitNext(clock_.Now()), nullptr);
  EXPECT_EQ(admission_->cached_pages(), 2) << "those of the running sequence";
}

TEST_F(AdmissionTest, PreemptsBeforeEvictingInVain) {
  Start({}, /*pages=*/8);
  Session& cached = Wait(1, "a", 2 * kPage);
  AdmitAll();
  Compute(cached);
  admission_->CacheText(cached);
  sessions_.erase(1);
  Session& older = Wait(2, "a", 1);
  Session& younger = Wait(3, "a", 1);
  AdmitAll();
  ASSERT_TRUE(admission_->Reserve(younger, 4 * kPage));
  ASSERT_EQ(admission_->cached_pages(), 2);
  EXPECT_TRUE(admission_->Reserve(older, 5 * kPage));
  EXPECT_THAT(events_->preempted, ElementsAre(3));
  EXPECT_EQ(admission_->cached_pages(), 2) << "the younger one's pages are enough";
}

TEST_F(AdmissionTest, SharesTextsOfFinishedRequests) {
  Start({});
  Session& first = Wait(1, "a", 2 * kPage);
  AdmitAll();
  Compute(first);
  admission_->CacheText(first);
  sessions_.erase(1);
  Session& same = Wait(2, "a", 2 * kPage + 1);
  AdmitAll();
  EXPECT_EQ(same.computed, 2 * kPage);
  EXPECT_EQ(events_->cached_tokens, 2 * kPage);
}

TEST_F(AdmissionTest, SharesWholePagesOfPrompts) {
  Start({});
  Session& first = Wait(1, "a", kPage + 2);
  AdmitAll();
  Compute(first);
  admission_->SharePrompt(first);
  EXPECT_EQ(admission_->cached_pages(), 1);
  Session& second = Wait(2, "a", kPage + 3);
  AdmitAll();
  EXPECT_EQ(second.computed, kPage);
}

TEST_F(AdmissionTest, LastTokenIsAlwaysComputed) {
  Start({});
  Session& first = Wait(1, "a", 2 * kPage);
  AdmitAll();
  Compute(first);
  admission_->SharePrompt(first);
  Session& same = Wait(2, "a", 2 * kPage);
  AdmitAll();
  EXPECT_EQ(same.computed, kPage) << "its logits are wanted";
}

TEST_F(AdmissionTest, RefusesBeyondTheQueue) {
  Start({.max_running = 0, .max_waiting = 3, .max_waiting_per_client = 2});
  Wait(1, "a");
  EXPECT_TRUE(admission_->CheckQueue("a").ok());
  Wait(2, "a");
  const Status share = admission_->CheckQueue("a");
  EXPECT_EQ(share.code(), Code::kResourceExhausted);
  EXPECT_THAT(share.message(), HasSubstr("no room for 1 more: 2 of 2 wait"));
  EXPECT_TRUE(admission_->CheckQueue("b").ok());
  Wait(3, "b");
  EXPECT_THAT(admission_->CheckQueue("c").message(), HasSubstr("no room for 1 more: 3 of 3 wait"));
  EXPECT_EQ(events_->refused, 2);
}

TEST_F(AdmissionTest, ManyFitTogetherOrNot) {
  Start({.max_running = 0, .max_waiting = 5, .max_waiting_per_client = 3});
  Wait(1, "a");
  EXPECT_TRUE(admission_->CheckQueue("a", 2).ok());
  EXPECT_THAT(admission_->CheckQueue("a", 3).message(),
              HasSubstr("no room for 3 more: 1 of 3 wait"));
  EXPECT_TRUE(admission_->CheckQueue("b", 3).ok());
  EXPECT_THAT(admission_->CheckQueue("b", 5).message(),
              HasSubstr("no room for 5 more: 1 of 5 wait"));
}

TEST_F(AdmissionTest, RetryFollowsThePace) {
  Start({.max_running = 1});
  EXPECT_EQ(admission_->RetryAfter(), std::chrono::seconds(1)) << "nothing is known yet";
  for (uint64_t id : {1, 2, 3}) Wait(id, "a");
  AdmitAll();
  admission_->RecordRequest(2);
  EXPECT_EQ(admission_->RetryAfter(), std::chrono::seconds(6)) << "after two that wait";
  admission_->RecordRequest(1000);
  EXPECT_EQ(admission_->RetryAfter(), std::chrono::seconds(30));
}

}  // namespace
}  // namespace outrider
