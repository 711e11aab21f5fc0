#include "drafter/propose/grammar_compiler.h"

#include <gmock/gmock.h>

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tests/support/time_limit.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;

// Replaces the loop: the compiler waits with its first event until Open is called.
class ClosedEvents final : public LinkEvents {
 public:
  bool Push(LinkEvent event) override {
    MutexLock lock(mu_);
    sessions_.push_back(std::get<CompiledEvent>(event.message).opening.session);
    while (!open_) lock.Wait(opened_);
    return true;
  }
  void PushUrgent(LinkEvent) override {}

  void Open() {
    MutexLock lock(mu_);
    open_ = true;
    opened_.notify_all();
  }
  // Waits for `count` events, and returns the sessions of all.
  std::vector<uint64_t> Await(size_t count) {
    EXPECT_TRUE(testing::Await([&] { return sessions().size() >= count; }));
    return sessions();
  }

 private:
  std::vector<uint64_t> sessions() {
    MutexLock lock(mu_);
    return sessions_;
  }

  Mutex mu_;
  std::condition_variable opened_;
  bool open_ OUTRIDER_GUARDED_BY(mu_) = false;
  std::vector<uint64_t> sessions_ OUTRIDER_GUARDED_BY(mu_);
};

class GrammarCompilerTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kVerifier = 1, kOther = 2;

  static std::shared_ptr<const grammar::TokenTable> Letters() {
    const std::vector<std::string_view> bytes = {"a", "b", ""};
    return grammar::TokenTable::Create(bytes, {{2}}, 3).value();
  }
  static SessionOpening Opening(uint64_t session) {
    SessionOpening open{.session = session};
    open.sampling.grammar = {.kind = GrammarSource::Kind::kRegex, .text = "a*"};
    return open;
  }
  // Of an opening with `tokens` tokens.
  Code Submit(uint64_t connection, uint64_t session, size_t tokens = 1) {
    SessionOpening open = Opening(session);
    open.tokens.resize(tokens);
    return compiler_.Submit(connection, std::move(open)).status().code();
  }

  void TearDown() override { events_.Open(); }

  ClosedEvents events_;
  grammar::GrammarCache cache_{Letters(), {}};
  GrammarCompiler compiler_{&cache_, &events_};
};

TEST_F(GrammarCompilerTest, VerifiersTakeTurns) {
  EXPECT_EQ(Submit(kVerifier, 1), Code::kOk);
  events_.Await(1);
  for (const uint64_t session : {2, 3, 4}) EXPECT_EQ(Submit(kVerifier, session), Code::kOk);
  for (const uint64_t session : {11, 12}) EXPECT_EQ(Submit(kOther, session), Code::kOk);
  events_.Open();
  EXPECT_THAT(events_.Await(6), ElementsAre(1, 11, 2, 12, 3, 4));
}

TEST_F(GrammarCompilerTest, FullQueueIsItsVerifiers) {
  EXPECT_EQ(Submit(kVerifier, 0), Code::kOk);
  events_.Await(1);
  for (size_t i = 0; i < GrammarCompiler::kMostWaiting; ++i) {
    EXPECT_EQ(Submit(kVerifier, i + 1), Code::kOk);
  }
  EXPECT_EQ(Submit(kVerifier, 1000), Code::kResourceExhausted);
  EXPECT_EQ(Submit(kOther, 1001), Code::kOk);
  EXPECT_EQ(Submit(kOther, 1002), Code::kOk);
  compiler_.Forget(kVerifier);
  events_.Open();
  EXPECT_THAT(events_.Await(3), ElementsAre(0, 1001, 1002)) << "none of a connection that ended";
}

TEST_F(GrammarCompilerTest, QueueIsFullOfBytesToo) {
  EXPECT_EQ(Submit(kVerifier, 0), Code::kOk);
  events_.Await(1);
  const size_t quarter = GrammarCompiler::kMostWaitingBytes / 4 / sizeof(TokenId);
  for (uint64_t session = 1; session <= 4; ++session) {
    EXPECT_EQ(Submit(kVerifier, session, quarter), Code::kOk);
  }
  EXPECT_EQ(Submit(kVerifier, 5), Code::kResourceExhausted);
  EXPECT_EQ(Submit(kOther, 11), Code::kOk);
  events_.Open();
  events_.Await(6);
  EXPECT_EQ(Submit(kVerifier, 6), Code::kOk) << "the bytes were returned";
  EXPECT_THAT(events_.Await(7), ElementsAre(0, 11, 1, 2, 3, 4, 6));
}

}  // namespace
}  // namespace outrider
