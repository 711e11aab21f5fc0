#include "verifier/pool/drafter_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/fake_clock.h"

namespace outrider {
namespace {

using testing::FakeClock;
using ::testing::HasSubstr;

class RecordingLink final : public DrafterLink {
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

constexpr int kVocabulary = 100;
constexpr Duration kLongTime = std::chrono::hours(1);

TokenizerFingerprint Fingerprint() {
  return {.vocabulary = 1, .merges = 2, .special_tokens = 3, .vocab_size = kVocabulary};
}

DrafterHello Hello(const std::string& name) {
  return {.name = name,
          .model = "small",
          .tokenizer = Fingerprint(),
          .vocab_size = 128,
          .max_sessions = 2,
          .max_draft_length = 4,
          .max_draft_tokens = 12,
          .max_context = 64};
}

DraftDistribution OutputDistribution(std::vector<TokenId> ids, std::vector<uint32_t> weights) {
  return {.ids = std::move(ids), .weights = std::move(weights)};
}

class Pool : public ::testing::Test {
 protected:
  static constexpr auto kTick = std::chrono::milliseconds(10);

  Pool() { pool_.set_consumer(&consumer_); }

  std::shared_ptr<RecordingLink> Join(uint64_t id, const DrafterHello& hello) {
    auto link = std::make_shared<RecordingLink>();
    const Status status = pool_.Join(id, hello, link);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return link;
  }

  // A drafter that has already drafted in time.
  std::shared_ptr<RecordingLink> JoinShown(uint64_t id, const DrafterHello& hello) {
    auto link = Join(id, hello);
    const uint64_t session = 1000 + id;
    EXPECT_TRUE(Open(session, 1));
    clock_.Advance(kTick);
    pool_.OnDrafts(id,
                   {{.session = session,
                     .round = 1,
                     .chunk = {.tokens = {5},
                               .distributions = {{.ids = {5}, .weights = {kDraftWeightTotal}}}}}},
                   0);
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

  FakeClock clock_;
  RecordingConsumer consumer_;
  std::vector<TokenId> tokens_ = {1, 2, 3};
  DrafterPool pool_{{.model = "large", .tokenizer = Fingerprint(), .vocab_size = 112},
                    {.mass = 0.999f, .max_entries = 32},
                    nullptr,
                    &clock_};
};

TEST_F(Pool, WelcomesAPairWhoseLogitsArePaddedDifferently) {
  const auto link = Join(1, Hello("d"));
  EXPECT_EQ(link->welcome.vocab_limit, kVocabulary);
  EXPECT_EQ(link->welcome.distribution_limits.max_entries, 32);
}

TEST_F(Pool, RefusesAnotherTokenizerWithWordsThatSayWhatDiffers) {
  DrafterHello hello = Hello("d");
  hello.tokenizer.vocab_size = 90;
  const Status status = pool_.Join(1, hello, std::make_shared<RecordingLink>());
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("90"));
  EXPECT_THAT(status.message(), HasSubstr("100"));
  EXPECT_FALSE(Open(1)) << "a refused drafter gets no session";

  hello = Hello("d");
  hello.tokenizer.merges = 77;
  EXPECT_THAT(pool_.Join(2, hello, std::make_shared<RecordingLink>()).message(),
              HasSubstr("merge"));
}

class TranslatingPool : public Pool {
 protected:
  TranslatingPool() {
    auto vocabulary = std::make_shared<VocabularyEntries>();
    for (int i = 0; i < kVocabulary; ++i) {
      EXPECT_TRUE(vocabulary->Add(TokenKind::kText, "t" + std::to_string(i)).ok());
    }
    pool_.set_consumer(&consumer_);
    translating_ = std::make_unique<DrafterPool>(TargetIdentity{.model = "large",
                                                                .tokenizer = Fingerprint(),
                                                                .vocab_size = 112,
                                                                .vocabulary = vocabulary},
                                                 DraftDistributionLimits{}, nullptr, &clock_);
    translating_->set_consumer(&consumer_);
  }
  static DrafterHello Other(bool translates = true) {
    DrafterHello hello = Hello("d");
    hello.tokenizer.vocabulary = 99;
    hello.vocab_size = 60;
    hello.translates = translates;
    return hello;
  }
  // The status for a drafter that was sent the vocabulary.
  Status Match(uint64_t id, VocabularyMatch match) {
    const auto link = std::make_shared<RecordingLink>();
    EXPECT_TRUE(translating_->Join(id, Other(), link).ok());
    EXPECT_EQ(link->vocabulary.size(), kVocabulary);
    EXPECT_EQ(link->welcome.vocab_limit, 0) << "not yet";
    EXPECT_FALSE(translating_->HasRoom(4));
    const Status status = translating_->OnMatch(id, match);
    if (status.ok()) welcome_ = link->welcome;
    return status;
  }

  std::unique_ptr<DrafterPool> translating_;
  DrafterWelcome welcome_;
};

TEST_F(TranslatingPool, WelcomesWhoSharesMostTokens) {
  EXPECT_TRUE(Match(1, {.shared = 35, .tokens = 50}).ok());
  EXPECT_EQ(welcome_.vocab_limit, kVocabulary) << "ids are the target's";
  EXPECT_TRUE(translating_->HasRoom(4));
  const std::vector<DrafterSnapshot> drafters = translating_->Snapshot();
  ASSERT_EQ(drafters.size(), 1u);
  EXPECT_EQ(drafters[0].match, (VocabularyMatch{.shared = 35, .tokens = 50}));
  EXPECT_EQ(drafters[0].target_tokens, kVocabulary);
}

TEST_F(TranslatingPool, RefusesWhoSharesTooFew) {
  const Status status = Match(1, {.shared = 34, .tokens = 50});
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("only 68 % of its 50 tokens are among the 100 of large"));
  EXPECT_FALSE(translating_->HasRoom(4));
}

TEST_F(TranslatingPool, RefusesNumbersThatDoNotFit) {
  uint64_t id = 0;
  for (const VocabularyMatch& match :
       {VocabularyMatch{.shared = 0, .tokens = 0}, VocabularyMatch{.shared = 51, .tokens = 50},
        VocabularyMatch{.shared = 61, .tokens = 61}, VocabularyMatch{.shared = -1, .tokens = 50},
        VocabularyMatch{.shared = 40, .tokens = -50}}) {
    const Status status = Match(++id, match);
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr(std::to_string(match.shared) + " shared of "));
    EXPECT_FALSE(translating_->HasRoom(4));
  }
}

TEST_F(TranslatingPool, RefusesMatchesOutOfTurn) {
  const VocabularyMatch match{.shared = 40, .tokens = 50};
  EXPECT_EQ(translating_->OnMatch(1, match).code(), Code::kFailedPrecondition);
  EXPECT_TRUE(Match(1, match).ok());
  EXPECT_EQ(translating_->OnMatch(1, match).code(), Code::kFailedPrecondition);
  EXPECT_TRUE(translating_->Join(2, Other(), std::make_shared<RecordingLink>()).ok());
  translating_->Leave(2);
  EXPECT_EQ(translating_->OnMatch(2, match).code(), Code::kFailedPrecondition);
  EXPECT_TRUE(translating_->Join(3, Other(), std::make_shared<RecordingLink>()).ok());
  translating_->Drain();
  EXPECT_EQ(translating_->OnMatch(3, match).code(), Code::kUnavailable);
}

TEST_F(TranslatingPool, RefusesWhoDoesNotTranslate) {
  const auto link = std::make_shared<RecordingLink>();
  const Status status = translating_->Join(1, Other(/*translates=*/false), link);
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("the token strings differ"));
  EXPECT_EQ(link->vocabulary.size(), 0);
  EXPECT_EQ(pool_.Join(1, Other(), link).code(), Code::kFailedPrecondition) << "nothing to send";
}

TEST_F(Pool, RefusesProtocolsThatItDoesNotSpeak) {
  DrafterHello hello = Hello("d");
  for (const ProtocolRange range : {ProtocolRange{.lowest = 5, .highest = 6}, {1, 2}, {4, 3}}) {
    hello.protocol = range;
    const Status status = pool_.Join(1, hello, std::make_shared<RecordingLink>());
    EXPECT_EQ(status.code(), Code::kFailedPrecondition);
    EXPECT_THAT(status.message(), HasSubstr("the verifier speaks 3 to 4"));
  }
}

TEST_F(Pool, RefusesDraftersBeyondTheirNumber) {
  DrafterPool pool({.model = "large", .tokenizer = Fingerprint(), .vocab_size = 112}, {}, nullptr,
                   &clock_, {.max_drafters = 2, .zone = "zone-a"});
  pool.set_consumer(&consumer_);
  const auto link = std::make_shared<RecordingLink>();
  EXPECT_TRUE(pool.Join(1, Hello("a"), link).ok());
  EXPECT_EQ(link->welcome.zone, "zone-a");
  EXPECT_TRUE(pool.Join(2, Hello("b"), link).ok());
  const Status status = pool.Join(3, Hello("c"), link);
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("--max-drafters"));
  pool.Leave(1);
  EXPECT_TRUE(pool.Join(4, Hello("d"), link).ok());
}

TEST_F(Pool, VisitLearnsTheDemandAndEnds) {
  Join(1, Hello("a"));
  DrafterHello hello = Hello("visitor");
  hello.visit = true;
  const auto visit = Join(2, hello);
  EXPECT_EQ(visit->welcome.model, "large");
  EXPECT_EQ(visit->demands, (std::vector<DrafterDemand>{{.wanted = 1, .attached = 1}}));
  EXPECT_TRUE(visit->is_closed);
  EXPECT_TRUE(visit->closed_with.ok());
  EXPECT_EQ(pool_.Snapshot().size(), 1u) << "it is no drafter of this verifier";
  hello.tokenizer.merges = 77;
  EXPECT_EQ(pool_.Join(3, hello, visit).code(), Code::kFailedPrecondition) << "it would not fit";
}

TEST_F(Pool, TellsDraftersWhatItWants) {
  DrafterHello old = Hello("old");
  old.protocol = {.lowest = 3, .highest = 3};
  const auto unaware = Join(1, old);
  const auto a = Join(2, Hello("a"));
  EXPECT_EQ(a->demands.back(), (DrafterDemand{.wanted = 1, .attached = 2}));
  pool_.TellDemand({.running = 0, .waiting = 0});
  EXPECT_EQ(a->demands.size(), 1u) << "only what has changed";
  pool_.Leave(1);
  pool_.TellDemand({.running = 0, .waiting = 0});
  EXPECT_EQ(a->demands.back(), (DrafterDemand{.wanted = 1, .attached = 1}));
  pool_.OnLoad(2, {.sessions = 0, .session_limit = 0});
  pool_.TellDemand({.running = 30, .waiting = 0});
  EXPECT_EQ(a->demands.back(), (DrafterDemand{.wanted = 4, .attached = 0}));
  EXPECT_TRUE(unaware->demands.empty());
}

TEST_F(Pool, TellsOnlyTheNewcomerOnJoining) {
  const auto a = Join(1, Hello("a"));
  const auto b = Join(2, Hello("b"));
  EXPECT_EQ(b->demands, (std::vector<DrafterDemand>{{.wanted = 1, .attached = 2}}));
  EXPECT_EQ(a->demands, (std::vector<DrafterDemand>{{.wanted = 1, .attached = 1}}));
  pool_.TellDemand({.running = 0, .waiting = 0});
  EXPECT_EQ(a->demands.back(), (DrafterDemand{.wanted = 1, .attached = 2}));
  EXPECT_EQ(b->demands.size(), 1u) << "it knows";
}

TEST_F(Pool, AgreesOnTheHighestCommonProtocol) {
  DrafterHello hello = Hello("d");
  uint64_t id = 0;
  for (const auto& [range, agreed] : std::vector<std::pair<ProtocolRange, int>>{
           {{.lowest = 3, .highest = 3}, 3}, {{3, 4}, 4}, {{4, 5}, 4}, {{2, 3}, 3}}) {
    hello.protocol = range;
    const auto link = std::make_shared<RecordingLink>();
    EXPECT_TRUE(pool_.Join(++id, hello, link).ok());
    EXPECT_EQ(link->welcome.protocol, agreed) << ToString(range);
  }
}

TEST_F(Pool, SpreadsSessionsAndKeepsToTheirLimits) {
  const auto a = JoinShown(1, Hello("a"));
  const auto b = JoinShown(2, Hello("b"));
  for (uint64_t s = 1; s <= 4; ++s) EXPECT_TRUE(Open(s));
  EXPECT_EQ(a->opened.size(), 2u);
  EXPECT_EQ(b->opened.size(), 2u);
  EXPECT_FALSE(Open(5)) << "both are full";
  pool_.Close(a->opened[0]);
  EXPECT_TRUE(Open(5));
}

TEST_F(Pool, PlansAreCutToWhatTheDrafterCan) {
  const auto link = Join(1, Hello("a"));
  EXPECT_TRUE(Open(1, 16));
  EXPECT_EQ(link->plans[1].shape.length, 4);
  const std::vector<TokenId> next = {5};
  pool_.Decide(
      {.session = 1, .round = 1, .next = next, .plan = {.round = 2, .shape = Sequences(1, 9)}});
  pool_.Flush();
  EXPECT_EQ(link->plans[1].shape.length, 4);
  EXPECT_EQ(link->plans[1].round, 2u);
}

TEST_F(Pool, SendsOneMessageAStepWithItsOwnCopyOfTheTokens) {
  const auto link = JoinShown(1, Hello("a"));
  Open(1);
  Open(2);
  for (uint64_t s = 1; s <= 2; ++s) {
    std::vector<TokenId> next = {static_cast<TokenId>(10 * s), 7};
    pool_.Decide(
        {.session = s, .round = 1, .next = next, .plan = {.round = 2, .shape = Sequences(1, 4)}});
    next.assign({0, 0});
  }
  EXPECT_EQ(link->batches, 0);
  pool_.Flush();
  EXPECT_EQ(link->batches, 1);
  EXPECT_EQ(link->next[1], (std::vector<TokenId>{10, 7}));
  EXPECT_EQ(link->next[2], (std::vector<TokenId>{20, 7}));
  pool_.Flush();
  EXPECT_EQ(link->batches, 1);
}

TEST_F(Pool, CountsAcceptedTokensByDepth) {
  Join(1, Hello("a"));
  ASSERT_TRUE(OpenShape(1, Sequences(2, 2), DraftKind::kArgmax));
  // Nodes 1 and 2 continue the committed tokens, node 3 continues 1, node 4 continues 2.
  pool_.OnDrafts(
      1, {{.session = 1, .round = 1, .chunk = {.tokens = {5, 6, 7, 8}, .parents = {0, 0, 1, 2}}}},
      0);
  pool_.Decide({.session = 1,
                .round = 1,
                .node = 4,
                .next = {9},
                .plan = {.round = 2, .shape = Sequences(1, 4)}});
  EXPECT_EQ(pool_.Snapshot().at(0).drafted_tokens, 4u);
  EXPECT_EQ(pool_.Snapshot().at(0).accepted_tokens, 2u);
}

TEST_F(Pool, DeliversAGoodDraft) {
  Join(1, Hello("a"));
  Open(1);
  pool_.OnDrafts(
      1,
      {{.session = 1,
        .round = 1,
        .chunk = {.tokens = {5}, .distributions = {OutputDistribution({5, 6}, {65535, 1})}}}},
      0);
  EXPECT_EQ(consumer_.drafts[1].Path(1), std::vector<TokenId>{5});
  EXPECT_TRUE(consumer_.complete[1]);
}

// An early draft for the case that round 1 ends with node 1 and token 9.
DraftPart EarlyPart(uint64_t session, uint32_t round = 2) {
  return {.session = session,
          .round = round,
          .chunk = {.tokens = {5}, .distributions = {OutputDistribution({5, 6}, {65535, 1})}},
          .early = RoundEnd{.node = 1, .next = 9}};
}

class EarlyPool : public Pool {
 protected:
  EarlyPool() {
    link_ = Join(1, Hello("a"));
    Open(1, 1);
    pool_.OnDrafts(
        1,
        {{.session = 1,
          .round = 1,
          .chunk = {.tokens = {8}, .distributions = {OutputDistribution({8}, {65536})}}}},
        0);
    consumer_ = {};
  }
  void Decide(uint32_t round, uint32_t next_round) {
    pool_.Decide({.session = 1,
                  .round = round,
                  .node = 1,
                  .next = {9},
                  .plan = {.round = next_round, .shape = Sequences(1, 1)}});
  }

  std::shared_ptr<RecordingLink> link_;
};

TEST_F(EarlyPool, HasTheDraftWhenThePlanIsMade) {
  pool_.OnDrafts(1, {EarlyPart(1)}, 0);
  EXPECT_TRUE(consumer_.drafts.empty()) << "nobody waits for it yet";
  EXPECT_TRUE(std::isnan(pool_.Timing(1, 0)->last) || pool_.Timing(1, 0)->early == 0);
  Decide(1, 2);
  const DraftTree* const draft = pool_.EarlyDraft(1);
  ASSERT_NE(draft, nullptr);
  EXPECT_EQ(draft->Path(1), std::vector<TokenId>{5});
  EXPECT_GT(pool_.Timing(1, 0)->early, 0);
  EXPECT_EQ(pool_.Snapshot().at(0).drafted_tokens, 2u);
}

TEST_F(EarlyPool, HandsOnTheDraftThatCrossedTheVerdict) {
  Decide(1, 2);
  EXPECT_EQ(pool_.EarlyDraft(1), nullptr);
  pool_.OnDrafts(1, {EarlyPart(1)}, 0);
  EXPECT_EQ(consumer_.drafts[1].Path(1), std::vector<TokenId>{5});
  EXPECT_TRUE(consumer_.complete[1]);
}

TEST_F(EarlyPool, DropsWhatIsForRoundsThatHadNoPlan) {
  Decide(1, 5);  // plain rounds happened in between
  EXPECT_EQ(pool_.EarlyDraft(1), nullptr);
  pool_.OnDrafts(1, {EarlyPart(1)}, 0);
  EXPECT_TRUE(consumer_.drafts.empty());
  EXPECT_TRUE(link_->closed_with.ok());
}

TEST_F(EarlyPool, DropsWhatIsForClosedSessionsAsOftenAsItMayHaveCrossed) {
  pool_.Close(1);
  for (int i = 0; i < kMaxEarlyDrafts; ++i) pool_.OnDrafts(1, {EarlyPart(1)}, 0);
  EXPECT_TRUE(link_->closed_with.ok());
  pool_.OnDrafts(1, {EarlyPart(1)}, 0);
  EXPECT_THAT(link_->closed_with.message(), HasSubstr("a draft nobody asked for"));
}

TEST_F(EarlyPool, ClosesStreamsOfTooManyOrInvalidOnes) {
  for (int i = 0; i < kMaxEarlyDrafts; ++i) pool_.OnDrafts(1, {EarlyPart(1)}, 0);
  EXPECT_TRUE(link_->closed_with.ok());
  pool_.OnDrafts(1, {EarlyPart(1)}, 0);
  EXPECT_THAT(link_->closed_with.message(), HasSubstr("more than 4 early drafts"));
  EXPECT_EQ(consumer_.lost, std::vector<uint64_t>{1});

  const auto other = Join(2, Hello("b"));
  Open(2, 1);
  pool_.OnDrafts(2, {EarlyPart(2, 4)}, 0);
  EXPECT_THAT(other->closed_with.message(), HasSubstr("a draft nobody asked for"));
}

TEST_F(Pool, RefusedSessionIsFreeForAnotherDrafter) {
  const auto a = Join(1, Hello("a"));
  Open(1);
  const auto b = Join(2, Hello("b"));
  pool_.OnDrafts(1, {{.session = 1, .round = 1, .chunk = {}}}, 0);
  EXPECT_EQ(consumer_.refused, std::vector<uint64_t>{1});
  EXPECT_TRUE(a->closed_with.ok());
  EXPECT_EQ(pool_.DrafterName(1), "");
  pool_.Close(1);
  EXPECT_TRUE(a->closed.empty()) << "it has forgotten the session by itself";
  EXPECT_TRUE(Open(1));
}

TEST_F(Pool, LeavingDrafterLosesItsSessionsOnly) {
  const auto a = JoinShown(1, Hello("a"));
  JoinShown(2, Hello("b"));
  for (uint64_t s = 1; s <= 4; ++s) Open(s);
  pool_.Leave(1);
  EXPECT_EQ(consumer_.lost, a->opened);
  pool_.Leave(1);
  EXPECT_EQ(consumer_.lost.size(), 2u);
  EXPECT_FALSE(Open(5));
}

class CountingPool : public Pool {
 protected:
  CountingPool() { counting_.set_consumer(&consumer_); }

  void Join(uint64_t id) {
    EXPECT_TRUE(counting_.Join(id, Hello("d"), std::make_shared<RecordingLink>()).ok());
  }

  MetricsRegistry registry_;
  VerifierMetrics metrics_{registry_, "m"};
  DrafterPool counting_{{.model = "large", .tokenizer = Fingerprint(), .vocab_size = 112},
                        {.mass = 0.999f, .max_entries = 32},
                        &metrics_,
                        &clock_};
};

TEST_F(CountingPool, CountsWhyDraftersLeftOnceForEach) {
  for (uint64_t id = 1; id <= 5; ++id) Join(id);
  counting_.Leave(1);  // as when a read fails, before the reason is known
  counting_.Leave(1);
  EXPECT_EQ(metrics_.drafters_connected.value(), 4);
  counting_.OnStreamEnd(1, StreamEnd::kClosed);
  counting_.OnStreamEnd(2, StreamEnd::kGone);
  counting_.OnStreamEnd(3, StreamEnd::kGone);
  counting_.OnStreamEnd(4, StreamEnd::kOverload);
  // The pool closes this one: it sent a draft for a round that was not requested.
  counting_.Open({.session = 1,
                  .tokens = tokens_,
                  .prompt_tokens = 3,
                  .plan = {.round = 1, .shape = Sequences(1, 2)}});
  counting_.OnDrafts(5, {{.session = 1, .round = 7, .chunk = {.tokens = {5}}}}, 0);
  counting_.OnStreamEnd(5, StreamEnd::kOverload);
  counting_.OnStreamEnd(6, StreamEnd::kProtocolError);  // never joined
  EXPECT_EQ(metrics_.drafters_left_closed.value(), 1);
  EXPECT_EQ(metrics_.drafters_left_gone.value(), 2);
  EXPECT_EQ(metrics_.drafters_left_overload.value(), 1);
  EXPECT_EQ(metrics_.drafters_left_protocol_error.value(), 1);
  EXPECT_EQ(metrics_.drafters_connected.value(), 0);
}

TEST_F(CountingPool, MeasuresRoundTripsAndTokensThatCameTooLate) {
  Join(1);
  const auto draft = [](uint32_t round) {
    return DraftPart{.session = 1,
                     .round = round,
                     .chunk = {.tokens = {5, 6},
                               .distributions = {OutputDistribution({5}, {65536}),
                                                 OutputDistribution({6}, {65536})}},
                     .seconds = 0.010};
  };
  const std::vector<TokenId> next = {5};
  const auto decide = [&](uint32_t round) {
    counting_.Decide({.session = 1,
                      .round = round,
                      .next = next,
                      .plan = {.round = round + 1, .shape = Sequences(1, 2)}});
    counting_.Flush();
  };
  counting_.Open({.session = 1,
                  .tokens = tokens_,
                  .prompt_tokens = 3,
                  .plan = {.round = 1, .shape = Sequences(1, 2)}});
  counting_.OnDrafts(1, {draft(1)}, 100);
  EXPECT_EQ(metrics_.draft_round_trip_seconds.count(), 0u) << "it read the prompt before";
  decide(1);
  clock_.Advance(std::chrono::milliseconds(30));
  counting_.OnDrafts(1, {draft(2)}, 100);
  EXPECT_EQ(metrics_.draft_round_trip_seconds.count(), 1u);
  EXPECT_EQ(metrics_.draft_drafting_seconds.count(), 1u);
  decide(2);
  decide(3);  // without its draft, which arrives now
  counting_.OnDrafts(1, {draft(3)}, 100);
  EXPECT_EQ(metrics_.draft_round_trip_seconds.count(), 1u);
  EXPECT_EQ(metrics_.draft_tokens_late_total.value(), 2);
  EXPECT_EQ(metrics_.draft_bytes_received_total.value(), 300);
}

TEST_F(Pool, DraftsThatCrossedOurMessagesAreIgnored) {
  const auto link = JoinShown(1, Hello("a"));
  Open(1);
  Open(2);
  const DraftChunk part{
      .tokens = {5}, .distributions = {OutputDistribution({5}, {65536})}, .more = true};
  const std::vector<TokenId> next = {5};
  pool_.OnDrafts(1, {{.session = 1, .round = 1, .chunk = part}}, 0);
  pool_.Decide(
      {.session = 1, .round = 1, .next = next, .plan = {.round = 2, .shape = Sequences(1, 4)}});
  pool_.Close(2);
  consumer_.drafts.clear();
  // The outstanding parts: three of four depths of session 1, and session 2's four.
  for (int i = 0; i < 3; ++i) pool_.OnDrafts(1, {{.session = 1, .round = 1, .chunk = part}}, 0);
  for (int i = 0; i < 4; ++i) pool_.OnDrafts(1, {{.session = 2, .round = 1, .chunk = part}}, 0);
  pool_.OnDrafts(42, {{.session = 1, .round = 1, .chunk = part}}, 0);
  EXPECT_TRUE(consumer_.drafts.empty());
  EXPECT_TRUE(link->closed_with.ok());
  // The eighth was not requested.
  pool_.OnDrafts(1, {{.session = 2, .round = 1, .chunk = part}}, 0);
  EXPECT_EQ(link->closed_with.code(), Code::kInvalidArgument);
  EXPECT_THAT(link->closed_with.message(), HasSubstr("nobody asked for"));
  EXPECT_EQ(consumer_.lost, std::vector<uint64_t>{1});
}

TEST_F(Pool, DraftsForNothingCloseTheStreamAtOnce) {
  const DraftChunk chunk{.tokens = {5}, .distributions = {OutputDistribution({5}, {65536})}};
  const std::vector<DraftPart> floods = {
      {.session = 99, .round = 1, .chunk = chunk},  // a session that it never had
      {.session = 1, .round = 7, .chunk = chunk},   // a round that has not been planned yet
      {.session = 99, .round = 1, .chunk = {}},     // a refusal without a plan
      {.session = 2, .round = 1, .chunk = chunk},   // another drafter's session
  };
  const auto good = Join(1000, Hello("good"));
  Open(2);
  for (uint64_t id = 0; id < floods.size(); ++id) {
    const auto link = Join(id, Hello("bad"));
    Open(1);
    pool_.OnDrafts(id, {floods[id]}, 0);
    EXPECT_THAT(link->closed_with.message(), HasSubstr("nobody asked for")) << id;
    pool_.Close(1);
  }
  EXPECT_EQ(pool_.DrafterName(2), "good");
  EXPECT_TRUE(good->closed_with.ok());
  EXPECT_TRUE(consumer_.drafts.empty());
}

TEST_F(Pool, RefusesADraftOfAFutureRound) {
  const auto link = Join(1, Hello("a"));
  Open(1);
  Open(2);
  pool_.Close(2);
  const DraftChunk chunk{.tokens = {5}, .distributions = {OutputDistribution({5}, {65536})}};
  pool_.OnDrafts(1, {{.session = 1, .round = 2, .chunk = chunk}}, 0);
  EXPECT_THAT(link->closed_with.message(), HasSubstr("round 2"));
}

TEST_F(Pool, ADraftThatCameWholeLeavesNothingToCross) {
  const auto link = Join(1, Hello("a"));
  Open(1);
  const DraftChunk chunk{.tokens = {5}, .distributions = {OutputDistribution({5}, {65536})}};
  const std::vector<TokenId> next = {5};
  pool_.OnDrafts(1, {{.session = 1, .round = 1, .chunk = chunk}}, 0);
  pool_.Decide(
      {.session = 1, .round = 1, .next = next, .plan = {.round = 2, .shape = Sequences(1, 4)}});
  EXPECT_TRUE(link->closed_with.ok());
  pool_.OnDrafts(1, {{.session = 1, .round = 1, .chunk = chunk}}, 0);
  EXPECT_FALSE(link->closed_with.ok());
}

struct BadDraft {
  const char* words;
  DraftChunk chunk;
};

class HostileDrafter : public Pool, public ::testing::WithParamInterface<BadDraft> {};

TEST_P(HostileDrafter, IsClosedWithAReasonAndHarmsNobodyElse) {
  const auto bad = Join(1, Hello("bad"));
  Open(1);
  const auto good = Join(2, Hello("good"));
  Open(2);
  pool_.OnDrafts(1, {{.session = 1, .round = 1, .chunk = GetParam().chunk}}, 0);
  EXPECT_EQ(bad->closed_with.code(), Code::kInvalidArgument);
  EXPECT_THAT(bad->closed_with.message(), HasSubstr(GetParam().words));
  EXPECT_EQ(consumer_.lost, std::vector<uint64_t>{1});
  EXPECT_TRUE(consumer_.drafts.empty());
  EXPECT_TRUE(good->closed_with.ok());
  EXPECT_EQ(pool_.DrafterName(2), "good");
}

INSTANTIATE_TEST_SUITE_P(
    Pool, HostileDrafter,
    ::testing::Values(
        BadDraft{"vocabulary",
                 {.tokens = {100}, .distributions = {OutputDistribution({100}, {65536})}}},
        BadDraft{"vocabulary",
                 {.tokens = {-1}, .distributions = {OutputDistribution({-1}, {65536})}}},
        BadDraft{"sum", {.tokens = {5}, .distributions = {OutputDistribution({5, 6}, {65536, 1})}}},
        BadDraft{"not among", {.tokens = {5}, .distributions = {OutputDistribution({6}, {65536})}}},
        BadDraft{"twice",
                 {.tokens = {5}, .distributions = {OutputDistribution({5, 5}, {65535, 1})}}},
        BadDraft{"no row", {.tokens = {5}, .distributions = {}}},
        BadDraft{
            "rows for",
            {.tokens = {5}, .distributions = std::vector(2, OutputDistribution({5}, {65536}))}},
        BadDraft{"asked for length 4",
                 {.tokens = {5, 5, 5, 5, 5},
                  .distributions = std::vector(5, OutputDistribution({5}, {65536}))}},
        BadDraft{"2 draws, asked for 1",
                 {.tokens = {5, 5},
                  .parents = {0, 0},
                  .distributions = {OutputDistribution({5}, {65536})}}},
        BadDraft{
            "after node 9",
            {.tokens = {5}, .parents = {9}, .distributions = {OutputDistribution({5}, {65536})}}},
        BadDraft{"1 parents for 2",
                 {.tokens = {5, 5},
                  .parents = {0},
                  .distributions = {OutputDistribution({5}, {65536})}}}));

// One token more or less would bias a rule that depends on the number at a prefix.
TEST_F(Pool, AcceptsExactlyThePlannedDrawsAtEveryPrefix) {
  const DraftDistribution distribution = OutputDistribution({5, 6}, {32768, 32768});
  const auto bad = Join(1, Hello("bad"));
  OpenShape(1, {.length = 2, .branching = {2}});
  pool_.OnDrafts(
      1, {{.session = 1, .round = 1, .chunk = {.tokens = {5}, .distributions = {distribution}}}},
      0);
  EXPECT_THAT(bad->closed_with.message(), HasSubstr("1 draws, asked for 2"));

  const auto good = Join(2, Hello("good"));
  OpenShape(1, {.length = 2, .branching = {2}});
  // Both sequences begin with 5: one node sampled twice, which must be continued twice.
  pool_.OnDrafts(2,
                 {{.session = 1,
                   .round = 1,
                   .chunk = {.tokens = {5, 5, 6, 5},
                             .parents = {0, 0, 1, 1},
                             .distributions = {distribution, distribution}}}},
                 0);
  EXPECT_TRUE(good->closed_with.ok()) << good->closed_with.ToString();
  EXPECT_EQ(consumer_.drafts[1].size(), 3);
  EXPECT_EQ(consumer_.drafts[1].total_draws(), 4);
}

TEST_F(Pool, PutsADraftTogetherFromItsParts) {
  const auto link = Join(1, Hello("a"));
  const DraftDistribution distribution = OutputDistribution({5, 6}, {32768, 32768});
  Open(1);
  DraftChunk part{.tokens = {5, 6}, .distributions = {distribution, distribution}, .more = true};
  pool_.OnDrafts(1, {{.session = 1, .round = 1, .chunk = part}}, 0);
  EXPECT_EQ(consumer_.drafts[1].Path(2), (std::vector<TokenId>{5, 6}));
  EXPECT_FALSE(consumer_.complete[1]);
  part.more = false;
  pool_.OnDrafts(1, {{.session = 1, .round = 1, .chunk = part}}, 0);
  EXPECT_EQ(consumer_.drafts[1].Path(4), (std::vector<TokenId>{5, 6, 5, 6}));
  EXPECT_TRUE(consumer_.complete[1]);
  EXPECT_TRUE(link->closed_with.ok());
  pool_.OnDrafts(1, {{.session = 1, .round = 1, .chunk = part}}, 0);
  EXPECT_THAT(link->closed_with.message(), HasSubstr("after the last one"));
}

TEST_F(Pool, PlansAreCutToTheDrawsThatTheDrafterTakes) {
  const auto link = Join(1, Hello("a"));
  EXPECT_TRUE(OpenShape(1, Sequences(4, 4)));
  EXPECT_EQ(link->plans[1].shape, Sequences(4, 3)) << "12 draws";
}

TEST_F(Pool, GreedySessionsTakeNoRows) {
  const auto link = Join(1, Hello("a"));
  Open(1, 4, DraftKind::kArgmax);
  pool_.OnDrafts(1,
                 {{.session = 1,
                   .round = 1,
                   .chunk = {.tokens = {5}, .distributions = {OutputDistribution({5}, {65536})}}}},
                 0);
  EXPECT_EQ(link->closed_with.code(), Code::kInvalidArgument);
}

TEST_F(Pool, TimeoutFollowsWhatTheDrafterShows) {
  JoinShown(1, Hello("a"));
  Open(1);
  const Duration first = pool_.SetTimeout(1, kLongTime).usual;
  const DraftChunk chunk{.tokens = {5}, .distributions = {OutputDistribution({5}, {65536})}};
  pool_.OnDrafts(1, {{.session = 1, .round = 1, .chunk = chunk}}, 0);
  const std::vector<TokenId> next = {5};
  for (uint32_t round = 2; round < 60; ++round) {
    pool_.Decide({.session = 1,
                  .round = round - 1,
                  .next = next,
                  .plan = {.round = round, .shape = Sequences(1, 4)}});
    clock_.Advance(std::chrono::milliseconds(30));
    pool_.OnDrafts(1, {{.session = 1, .round = round, .chunk = chunk}}, 0);
  }
  EXPECT_EQ(first, std::chrono::milliseconds(30)) << "10, and four deviations of half as much";
  EXPECT_GE(pool_.SetTimeout(1, kLongTime).usual, std::chrono::milliseconds(30));
  EXPECT_LT(pool_.SetTimeout(1, kLongTime).usual, std::chrono::milliseconds(31))
      << "they are all alike";
  EXPECT_NEAR(pool_.Snapshot()[0].round_trip_ms, 30, 1);
}

TEST_F(Pool, TimingTellsTheNetworkFromTheDrafting) {
  EXPECT_FALSE(pool_.Timing(1, 3).has_value()) << "nobody there";
  Join(1, Hello("a"));
  EXPECT_TRUE(std::isnan(pool_.Timing(1, 3)->network));
  Open(1);
  const std::vector<TokenId> next = {5};
  DraftChunk chunk{
      .tokens = {5, 5},
      .distributions = {OutputDistribution({5}, {65536}), OutputDistribution({5}, {65536})}};
  pool_.OnDrafts(1, {{.session = 1, .round = 1, .chunk = chunk}}, 0);
  for (uint32_t round = 2; round < 60; ++round) {
    pool_.Decide({.session = 1,
                  .round = round - 1,
                  .next = next,
                  .plan = {.round = round, .shape = Sequences(1, 4)}});
    clock_.Advance(std::chrono::milliseconds(30));
    pool_.OnDrafts(1, {{.session = 1, .round = round, .chunk = chunk, .seconds = 0.012}}, 0);
  }
  for (const uint64_t session : {1, 2}) {  // its own, and one that would be assigned to it
    const DraftTiming timing = *pool_.Timing(session, 3);
    EXPECT_NEAR(timing.network, 0.018, 1e-3);
    EXPECT_NEAR(timing.depth, 0.006, 1e-4);
  }
  EXPECT_NEAR(pool_.Timing(1, 3)->last, 0.012, 1e-9);
}

// Rounds of a session that its drafter answers in time, or not.
class LateDrafts : public Pool {
 protected:
  void Plan(uint64_t session) {
    const uint32_t round = ++rounds_[session];
    pool_.Decide({.session = session,
                  .round = round,
                  .next = next_,
                  .plan = {.round = round + 1, .shape = Sequences(1, 4)}});
    clock_.Advance(kTick);
  }
  // A part with `more` is not the last one.
  void Answer(uint64_t drafter, uint64_t session, bool more = false, uint32_t rounds_ago = 0) {
    const DraftChunk chunk{
        .tokens = {5}, .distributions = {OutputDistribution({5}, {65536})}, .more = more};
    const uint32_t round = rounds_[session] + 1 - rounds_ago;
    pool_.OnDrafts(drafter, {{.session = session, .round = round, .chunk = chunk}}, 0);
  }
  // Whether the session is reassigned, now that its draft is late.
  bool MovesLate(uint64_t session) {
    pool_.MarkLate(session);
    return pool_.ReassignSession(session);
  }
  bool Suspended() { return pool_.Snapshot()[0].silent; }
  // Opens a session that has had drafts.
  void Settle(uint64_t drafter, uint64_t session) {
    Open(session);
    rounds_[session] = 0;
    ASSERT_EQ(pool_.DrafterName(session), drafter == 1 ? "a" : "b");
    Answer(drafter, session);
    for (int i = 0; i < 3; ++i) {
      Plan(session);
      Answer(drafter, session);
    }
  }

  std::map<uint64_t, uint32_t> rounds_;
  std::vector<TokenId> next_ = {5};
};

TEST_F(LateDrafts, OfASilentDrafterMoveItsSessionsAtOnce) {
  const auto a = JoinShown(1, Hello("a"));
  Settle(1, 1);
  JoinShown(2, Hello("b"));
  Plan(1);
  EXPECT_TRUE(MovesLate(1));
  EXPECT_EQ(a->closed, std::vector<uint64_t>{1});
  EXPECT_EQ(pool_.DrafterName(1), "");
  Open(1);
  EXPECT_EQ(pool_.DrafterName(1), "b");
  // No session goes there until it is time to try it.
  Open(2);
  EXPECT_EQ(pool_.DrafterName(2), "b");
  pool_.OnLoad(1, {.sessions = 0});
  EXPECT_FALSE(Open(3)) << "what it says of itself is no draft";
}

TEST_F(LateDrafts, OfOneThatSpeaksMoveASessionThatIsOftenLate) {
  const auto a = JoinShown(1, Hello("a"));
  Settle(1, 1);
  Settle(1, 2);
  Join(2, Hello("b"));
  Plan(2);
  Plan(1);
  Answer(1, 2);
  EXPECT_FALSE(MovesLate(1));
  Plan(1);
  pool_.OnLoad(1, {.sessions = 2});
  EXPECT_TRUE(MovesLate(1)) << "a new drafter is likely to do better";
}

TEST_F(LateDrafts, OfTheOnlyDrafterStayAndHearOfItsReturn) {
  const auto a = JoinShown(1, Hello("a"));
  Settle(1, 1);
  Plan(1);
  EXPECT_FALSE(MovesLate(1));
  EXPECT_EQ(pool_.DrafterName(1), "a");
  EXPECT_FALSE(Open(2)) << "a suspended drafter gets no new sessions";
  EXPECT_EQ(pool_.SetTimeout(1, kLongTime).usual, Duration::zero());
  EXPECT_TRUE(consumer_.back.empty());
  Answer(1, 1);
  EXPECT_EQ(consumer_.back, std::vector<uint64_t>{1});
  EXPECT_GT(pool_.SetTimeout(1, kLongTime).usual, Duration::zero());
  Open(2);
  EXPECT_EQ(pool_.DrafterName(2), "a");
}

TEST_F(LateDrafts, PartsWithoutAnEndSuspendTheirDrafter) {
  const auto a = JoinShown(1, Hello("a"));
  Settle(1, 1);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(Suspended()) << i;
    Plan(1);
    Answer(1, 1, /*more=*/true);
    EXPECT_FALSE(MovesLate(1)) << "there is no other";
  }
  EXPECT_TRUE(Suspended());
  EXPECT_FALSE(Open(2));
  Plan(1);
  Answer(1, 1, /*more=*/true);
  EXPECT_TRUE(consumer_.back.empty()) << "a part is no draft";
  JoinShown(2, Hello("b"));
  EXPECT_TRUE(pool_.ReassignSession(1)) << "though it is not late again";
}

TEST_F(LateDrafts, OfANewDrafterAreWaitedForOnce) {
  Join(1, Hello("a"));
  Open(1);
  const DraftTimeout timeout = pool_.SetTimeout(1, kLongTime);
  EXPECT_EQ(timeout.usual, std::chrono::milliseconds(250));
  EXPECT_TRUE(timeout.trial);
  EXPECT_FALSE(Open(2)) << "one request tries it";
  EXPECT_FALSE(pool_.Snapshot()[0].silent);
  clock_.Advance(kTick);
  Answer(1, 1, /*more=*/true);
  pool_.MarkLate(1);
  EXPECT_EQ(pool_.SetTimeout(1, kLongTime).usual, Duration::zero()) << "a part is no draft";
  Answer(1, 1);
  EXPECT_GT(pool_.SetTimeout(1, kLongTime).usual, Duration::zero());
  EXPECT_TRUE(Open(2));
}

// Whether each of them is new, or one of them reconnects again and again.
TEST_F(LateDrafts, OfManyNewDraftersAreSeldomWaitedFor) {
  int waits = 0;
  for (uint64_t id = 1; id <= 100; ++id) {
    Join(id, Hello("new"));
    ASSERT_TRUE(Open(id));
    if (pool_.SetTimeout(id, kLongTime).usual > Duration::zero()) ++waits;
    clock_.Advance(std::chrono::milliseconds(200));
    pool_.Leave(id);
  }
  EXPECT_EQ(waits, 2) << "in 20 s";
}

TEST_F(LateDrafts, TeachTheirTimeAlsoAfterTheNextPlan) {
  JoinShown(1, Hello("a"));
  Settle(1, 1);
  EXPECT_NEAR(pool_.Snapshot()[0].round_trip_ms, 10, 0.1);
  const Duration before = pool_.SetTimeout(1, kLongTime).usual;
  Plan(1);
  Answer(1, 1, /*more=*/true);
  clock_.Advance(std::chrono::milliseconds(190));
  pool_.MarkLate(1);
  const double bound = pool_.Snapshot()[0].round_trip_ms;
  EXPECT_NEAR(bound, 10 + 190. / 8, 0.1) << "of which it has taken 200 so far";
  Plan(1);
  clock_.Advance(std::chrono::milliseconds(390));
  Answer(1, 1, /*more=*/false, /*rounds_ago=*/1);
  EXPECT_NEAR(pool_.Snapshot()[0].round_trip_ms, bound + (600 - bound) / 8, 0.1);
  EXPECT_GT(pool_.SetTimeout(1, kLongTime).usual,
            std::max(before, Duration(std::chrono::milliseconds(600))));
}

TEST_F(LateDrafts, OfTheFirstRoundSayNothing) {
  JoinShown(1, Hello("a"));
  Open(1);  // processes a prompt
  Join(2, Hello("b"));
  clock_.Advance(std::chrono::seconds(1));
  EXPECT_FALSE(MovesLate(1));
  EXPECT_TRUE(Open(2));
}

TEST_F(LateDrafts, ASuspendedDrafterIsTriedThoughAnotherIsWell) {
  JoinShown(1, Hello("a"));
  Settle(1, 1);
  JoinShown(2, Hello("b"));
  Settle(2, 2);
  Plan(1);
  EXPECT_TRUE(MovesLate(1));
  Open(1);
  EXPECT_EQ(pool_.DrafterName(1), "b");
  pool_.Close(1);
  clock_.Advance(std::chrono::seconds(1));
  Open(3);
  EXPECT_EQ(pool_.DrafterName(3), "a");
  EXPECT_TRUE(pool_.SetTimeout(3, kLongTime).trial);
  EXPECT_FALSE(pool_.ReassignSession(3)) << "it has some time";
  Open(4);
  EXPECT_EQ(pool_.DrafterName(4), "b") << "one at a time";
  rounds_[3] = 0;
  Answer(1, 3);
  pool_.Close(4);
  Open(5);
  EXPECT_EQ(pool_.DrafterName(5), "a") << "it is well";
}

// A long text takes longer to process than a draft is worth waiting for.
TEST_F(LateDrafts, ATrialThatReadsAPromptIsRepeatedAtOnce) {
  JoinShown(1, Hello("a"));
  Settle(1, 1);
  Plan(1);
  pool_.MarkLate(1);
  pool_.Close(1);
  clock_.Advance(std::chrono::seconds(1));
  tokens_.assign(40, 1);
  ASSERT_TRUE(Open(3));
  rounds_[3] = 0;
  clock_.Advance(std::chrono::seconds(2));
  Answer(1, 3);
  EXPECT_TRUE(Suspended());
  const std::optional<DraftTiming> timing = pool_.Timing(3, 0);
  ASSERT_TRUE(timing.has_value()) << "the controller may ask once more";
  EXPECT_TRUE(timing->trial);
  Plan(3);
  Answer(1, 3);
  EXPECT_FALSE(Suspended());
}

TEST_F(LateDrafts, OfAStallAreForgottenWithIt) {
  JoinShown(1, Hello("a"));
  Settle(1, 1);
  Plan(1);
  clock_.Advance(std::chrono::seconds(5));
  pool_.MarkLate(1);
  Plan(1);
  const auto answer = [this](uint32_t rounds_ago, double seconds) {
    pool_.OnDrafts(1,
                   {{.session = 1,
                     .round = rounds_[1] + 1 - rounds_ago,
                     .chunk = {.tokens = {5}, .distributions = {OutputDistribution({5}, {65536})}},
                     .seconds = seconds}},
                   0);
  };
  answer(1, 5);
  ASSERT_TRUE(Suspended());
  answer(0, 0.004);
  ASSERT_FALSE(Suspended());
  const DraftTiming timing = *pool_.Timing(1, 0);
  EXPECT_NEAR(timing.network, 0.006, 1e-3);
  EXPECT_NEAR(timing.depth, 0.004, 1e-3);
}

// It refuses shortly before the deadline, every time.
TEST_F(LateDrafts, RefusalsThatTakeLongSuspendTheirDrafter) {
  JoinShown(1, Hello("a"));
  Settle(1, 1);
  const auto refuse = [this](Duration after) {
    Open(2);
    clock_.Advance(after);
    pool_.OnDrafts(1, {{.session = 2, .round = 1}}, 0);
  };
  for (int i = 0; i < 10; ++i) refuse(kTick);
  EXPECT_FALSE(Suspended()) << "who is full may say so";
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(Suspended()) << i;
    refuse(std::chrono::milliseconds(240));
  }
  EXPECT_TRUE(Suspended());
}

TEST_F(LateDrafts, NoSessionMovesToADrafterThatCannotHoldIt) {
  JoinShown(1, Hello("a"));
  Settle(1, 1);
  DrafterHello small = Hello("small");
  small.max_context = 6;
  JoinShown(2, small);
  Plan(1);
  EXPECT_FALSE(MovesLate(1)) << "it has 8 tokens and a plan of 4";
}

TEST_F(LateDrafts, ATrialThatBringsNothingEnds) {
  JoinShown(1, Hello("a"));
  Settle(1, 1);
  DrafterHello b = Hello("b");
  b.max_context = 1024;
  JoinShown(2, b);
  Plan(1);
  EXPECT_TRUE(MovesLate(1));
  clock_.Advance(std::chrono::seconds(1));
  Open(3);
  EXPECT_EQ(pool_.DrafterName(3), "a");
  rounds_[3] = 0;
  for (int i = 0; i < 99; ++i) {
    Plan(3);
    EXPECT_FALSE(pool_.ReassignSession(3)) << i;
  }
  Plan(3);
  EXPECT_TRUE(pool_.ReassignSession(3));
}

TEST_F(LateDrafts, OfANewDrafterThatNeverAnswersCostOneSessionNotAll) {
  JoinShown(1, Hello("a"));
  Settle(1, 1);
  Join(2, Hello("mute"));
  Open(2);
  EXPECT_EQ(pool_.DrafterName(2), "mute") << "a new one is tried";
  Open(3);
  EXPECT_EQ(pool_.DrafterName(3), "a") << "but not with all";
  rounds_[2] = 0;
  Plan(2);
  EXPECT_FALSE(pool_.ReassignSession(2)) << "it may be reading a prompt";
  clock_.Advance(std::chrono::seconds(1));
  pool_.Close(3);
  EXPECT_TRUE(pool_.ReassignSession(2));
  Open(2);
  EXPECT_EQ(pool_.DrafterName(2), "a");
}

TEST_F(LateDrafts, ASuspendedDrafterIsTriedWithOneSessionLaterAndLater) {
  Join(1, Hello("a"));
  Settle(1, 1);
  Plan(1);
  pool_.MarkLate(1);
  pool_.Close(1);
  int tries = 0;
  uint64_t session = 10;
  for (int i = 0; i < 1000; ++i) {  // 10 s
    clock_.Advance(kTick);
    if (!Open(++session)) continue;
    ++tries;
    EXPECT_FALSE(Open(1000 + session)) << "one at a time";
    clock_.Advance(kTick);
    EXPECT_FALSE(MovesLate(session)) << "there is no other";
    pool_.Close(session);
  }
  EXPECT_GE(tries, 3);
  EXPECT_LE(tries, 6);
}

// Two drafters, one fast over a slow network, one slow and nearby: the shares follow their measured
// times.
TEST_F(Pool, SpreadsSessionsByTheExpectedTimeOfADraft) {
  DrafterHello roomy = Hello("far");
  roomy.max_sessions = 100;
  const auto far = Join(1, roomy);
  roomy.name = "near";
  const auto near = Join(2, roomy);
  Open(1);
  Open(2);
  ASSERT_EQ(far->opened.size(), 1u);
  ASSERT_EQ(near->opened.size(), 1u);
  const DraftChunk chunk{.tokens = {5}, .distributions = {OutputDistribution({5}, {65536})}};
  const std::vector<TokenId> next = {5};
  for (uint32_t round = 1; round < 40; ++round) {
    // 20 ms of network and 1 ms of drafting, against 4 ms of drafting.
    clock_.Advance(std::chrono::milliseconds(4));
    pool_.OnDrafts(2, {{.session = 2, .round = round, .chunk = chunk, .seconds = 0.004}}, 0);
    clock_.Advance(std::chrono::milliseconds(17));
    pool_.OnDrafts(1, {{.session = 1, .round = round, .chunk = chunk, .seconds = 0.001}}, 0);
    for (uint64_t s = 1; s <= 2; ++s) {
      pool_.Decide({.session = s,
                    .round = round,
                    .next = next,
                    .plan = {.round = round + 1, .shape = Sequences(1, 4)}});
    }
  }
  EXPECT_NEAR(pool_.Snapshot()[0].drafting_ms, 1, 0.1);
  EXPECT_NEAR(pool_.Snapshot()[0].round_trip_ms, 21, 1);
  EXPECT_NEAR(pool_.Snapshot()[1].drafting_ms, 4, 0.1);
  for (uint64_t s = 3; s <= 6; ++s) EXPECT_TRUE(Open(s));
  EXPECT_EQ(near->opened.size(), 5u) << "a draft in 8 ms at most, against 22";
}

TEST_F(Pool, ADrafterThatSaysItIsFullTakesNoMore) {
  const auto a = Join(1, Hello("a"));
  pool_.OnLoad(1, {.sessions = 2});  // for other verifiers
  EXPECT_FALSE(Open(1));
  pool_.OnLoad(1, {.sessions = 1});
  EXPECT_TRUE(Open(1));
  pool_.OnLoad(77, {.sessions = 1});
}

TEST_F(Pool, ADraftersLimitForUsIsKept) {
  const auto a = JoinShown(1, Hello("a"));
  pool_.OnLoad(1, {.sessions = 2, .session_limit = 1});
  EXPECT_TRUE(Open(1)) << "full of others' sessions, it makes room for ours";
  EXPECT_FALSE(Open(2)) << "but for one alone";
  pool_.OnLoad(1, {.sessions = 2, .session_limit = 2});
  EXPECT_TRUE(Open(2));
  pool_.OnLoad(1, {.sessions = 2, .session_limit = 9});
  EXPECT_FALSE(Open(3)) << "no more than its hello says";
  pool_.Close(1);
  pool_.OnLoad(1, {.sessions = 1, .session_limit = 0});
  EXPECT_FALSE(Open(3)) << "it lets us go";
  EXPECT_EQ(pool_.DrafterName(2), "a") << "and finishes what it has";
}

TEST_F(Pool, OfNewDraftersTheOneWithFewerSessionsOfOthersComesFirst) {
  Join(1, Hello("busy"));
  Join(2, Hello("idle"));
  pool_.OnLoad(1, {.sessions = 1});
  pool_.OnLoad(2, {.sessions = 0});
  EXPECT_TRUE(Open(1));
  EXPECT_EQ(pool_.DrafterName(1), "idle");
}

TEST_F(Pool, DrainTellsDraftersAndOpensNothing) {
  const auto link = Join(1, Hello("a"));
  pool_.Drain();
  EXPECT_TRUE(link->drained);
  EXPECT_FALSE(Open(1));
  EXPECT_FALSE(pool_.Join(2, Hello("b"), std::make_shared<RecordingLink>()).ok());
}

}  // namespace
}  // namespace outrider
