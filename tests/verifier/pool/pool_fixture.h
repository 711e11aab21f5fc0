// A drafter pool with a clock and links that record what the pool sends.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/fake_clock.h"
#include "verifier/pool/drafter_pool.h"

namespace outrider {

class RecordingLink : public DrafterLink {
 public:
  void SendVocabulary(const VocabularyEntries& v) override { vocabulary = v; }
  void SendWelcome(const DrafterWelcome& w) override { welcome = w; }
  void SendDemand(const DrafterDemand& d) override { demands.push_back(d); }
  void SendOpen(SessionOpening s) override {
    opened.push_back(s.session);
    plans[s.session] = s.plan;
  }
  void SendVerdicts(std::vector<SessionVerdict> decisions) override {
    ++batches;
    for (const SessionVerdict& d : decisions) {
      next[d.session] = d.next;
      plans[d.session] = d.plan;
    }
  }
  void SendClose(uint64_t session) override { closed.push_back(session); }
  void SendDrain() override { drained = true; }
  void Close(const Status& reason) override {
    closed_with = reason;
    is_closed = true;
  }

  VocabularyEntries vocabulary;
  DrafterWelcome welcome;
  std::vector<DrafterDemand> demands;
  std::vector<uint64_t> opened;
  std::map<uint64_t, DraftPlan> plans;
  std::map<uint64_t, std::vector<TokenId>> next;
  std::vector<uint64_t> closed;
  int batches = 0;
  bool drained = false;
  Status closed_with;
  bool is_closed = false;
};

class RecordingConsumer final : public DraftConsumer {
 public:
  void OnDraft(uint64_t session, uint32_t, const DraftTree& draft, bool is_complete) override {
    drafts[session] = draft;
    complete[session] = is_complete;
  }
  void OnDrafterLost(uint64_t session) override { lost.push_back(session); }

  void OnDrafterBack(uint64_t session) override { back.push_back(session); }
  void OnRefused(uint64_t session) override { refused.push_back(session); }

  std::map<uint64_t, DraftTree> drafts;
  std::map<uint64_t, bool> complete;
  std::vector<uint64_t> lost;
  std::vector<uint64_t> back;
  std::vector<uint64_t> refused;
};

inline constexpr int kVocabulary = 100;
inline constexpr Duration kLongTime = std::chrono::hours(1);

inline TokenizerFingerprint Fingerprint() {
  return {.vocabulary = 1, .merges = 2, .special_tokens = 3, .vocab_size = kVocabulary};
}

// A target that sends its vocabulary to drafters with another one.
inline TargetIdentity TranslatedTarget() {
  auto vocabulary = std::make_shared<VocabularyEntries>();
  for (int i = 0; i < kVocabulary; ++i) {
    EXPECT_TRUE(vocabulary->Add(TokenKind::kText, "t" + std::to_string(i)).ok());
  }
  return {.model = "large",
          .tokenizer = Fingerprint(),
          .vocab_size = 112,
          .vocabulary = std::move(vocabulary)};
}

inline DrafterHello Hello(const std::string& name) {
  return {.name = name,
          .model = "small",
          .tokenizer = Fingerprint(),
          .vocab_size = 128,
          .max_sessions = 2,
          .max_draft_length = 4,
          .max_draft_tokens = 12,
          .max_context = 64};
}

inline DraftDistribution OutputDistribution(std::vector<TokenId> ids,
                                            std::vector<uint32_t> weights) {
  return {.ids = std::move(ids), .weights = std::move(weights)};
}

// A draft of one token; with `more` its first part.
inline DraftChunk OneToken(bool more = false) {
  return {
      .tokens = {5}, .distributions = {OutputDistribution({5}, {kDraftWeightTotal})}, .more = more};
}

class Pool : public ::testing::Test {
 protected:
  static constexpr auto kTick = std::chrono::milliseconds(10);

  Pool() { pool_.set_consumer(&consumer_); }

  std::shared_ptr<RecordingLink> Join(uint64_t id, const DrafterHello& hello) {
    auto link = std::make_shared<RecordingLink>();
    const Status status = pool_.roster().Join(id, hello, link);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return link;
  }

  // A drafter that has already drafted in time.
  std::shared_ptr<RecordingLink> JoinShown(uint64_t id, const DrafterHello& hello) {
    auto link = Join(id, hello);
    const uint64_t session = 1000 + id;
    EXPECT_TRUE(Open(session, 1));
    clock_.Advance(kTick);
    pool_.OnDrafts(id, {{.session = session, .round = 1, .chunk = OneToken()}}, 0);
    pool_.Close(session);
    const DrafterWelcome welcome = link->welcome;
    *link = {};
    link->welcome = welcome;
    consumer_ = {};
    return link;
  }

  bool Open(uint64_t session, int length = 4, DraftKind kind = DraftKind::kSampled) {
    return OpenShape(session, Sequences(1, length), kind);
  }
  bool OpenShape(uint64_t session, DraftShape shape, DraftKind kind = DraftKind::kSampled) {
    if (!pool_.HasRoom(static_cast<int>(tokens_.size()) + shape.length)) return false;
    pool_.Open({.session = session,
                .tokens = tokens_,
                .prompt_tokens = 3,
                .seed = 9,
                .kind = kind,
                .plan = {.round = 1, .shape = std::move(shape)}});
    return true;
  }

  // Decides a round with token 5; the next plan is a chain of four.
  void Decide(uint64_t session, uint32_t round) {
    pool_.Decide({.session = session,
                  .round = round,
                  .next = {5},
                  .plan = {.round = round + 1, .shape = Sequences(1, 4)}});
  }

  testing::FakeClock clock_;
  RecordingConsumer consumer_;
  std::vector<TokenId> tokens_ = {1, 2, 3};
  DrafterPool pool_{{.model = "large", .tokenizer = Fingerprint(), .vocab_size = 112},
                    {.mass = 0.999f, .max_entries = 32},
                    nullptr,
                    &clock_};
};

}  // namespace outrider
