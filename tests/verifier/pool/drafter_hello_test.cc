// Which drafters the pool takes, and what it tells them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/verifier/pool/pool_fixture.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

TEST_F(Pool, WelcomesOtherLogitsPadding) {
  const auto link = Join(1, Hello("d"));
  EXPECT_EQ(link->welcome.vocab_limit, kVocabulary);
  EXPECT_EQ(link->welcome.distribution_limits.max_entries, 32);
}

TEST_F(Pool, RefusesOtherTokenizerAndSaysWhy) {
  DrafterHello hello = Hello("d");
  hello.tokenizer.vocab_size = 90;
  const Status status = pool_.roster().Join(1, hello, std::make_shared<RecordingLink>());
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("90"));
  EXPECT_THAT(status.message(), HasSubstr("100"));
  EXPECT_FALSE(Open(1)) << "a refused drafter gets no session";

  hello = Hello("d");
  hello.tokenizer.merges = 77;
  EXPECT_THAT(pool_.roster().Join(2, hello, std::make_shared<RecordingLink>()).message(),
              HasSubstr("merge"));
}

class TranslatingPool : public Pool {
 protected:
  TranslatingPool() {
    pool_.set_consumer(&consumer_);
    translating_ = std::make_unique<DrafterPool>(TranslatedTarget(), DraftDistributionLimits{},
                                                 nullptr, &clock_);
    translating_->set_consumer(&consumer_);
  }
  static DrafterHello HelloOfOtherVocabulary(bool translates = true) {
    DrafterHello hello = Hello("d");
    hello.tokenizer.vocabulary = 99;
    hello.vocab_size = 60;
    hello.translates = translates;
    return hello;
  }
  // The status for a drafter that was sent the vocabulary.
  Status ReportMatch(uint64_t id, VocabularyMatch match) {
    const auto link = std::make_shared<RecordingLink>();
    EXPECT_TRUE(translating_->roster().Join(id, HelloOfOtherVocabulary(), link).ok());
    EXPECT_EQ(link->vocabulary.size(), kVocabulary);
    EXPECT_EQ(link->welcome.vocab_limit, 0) << "not yet";
    EXPECT_FALSE(translating_->HasRoom(4));
    const Status status = translating_->roster().OnMatch(id, match);
    if (status.ok()) welcome_ = link->welcome;
    return status;
  }

  std::unique_ptr<DrafterPool> translating_;
  DrafterWelcome welcome_;
};

TEST_F(TranslatingPool, WelcomesWhoSharesMostTokens) {
  EXPECT_TRUE(ReportMatch(1, {.shared = 35, .tokens = 50}).ok());
  EXPECT_EQ(welcome_.vocab_limit, kVocabulary) << "ids are the target's";
  EXPECT_TRUE(translating_->HasRoom(4));
  const std::vector<DrafterSnapshot> drafters = translating_->roster().Snapshot();
  ASSERT_EQ(drafters.size(), 1u);
  EXPECT_EQ(drafters[0].match, (VocabularyMatch{.shared = 35, .tokens = 50}));
  EXPECT_EQ(drafters[0].target_tokens, kVocabulary);
}

TEST_F(TranslatingPool, RefusesWhoSharesTooFew) {
  const Status status = ReportMatch(1, {.shared = 34, .tokens = 50});
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
    const Status status = ReportMatch(++id, match);
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr(std::to_string(match.shared) + " shared of "));
    EXPECT_FALSE(translating_->HasRoom(4));
  }
}

TEST_F(TranslatingPool, RefusesMatchesOutOfTurn) {
  const VocabularyMatch match{.shared = 40, .tokens = 50};
  EXPECT_EQ(translating_->roster().OnMatch(1, match).code(), Code::kFailedPrecondition);
  EXPECT_TRUE(ReportMatch(1, match).ok());
  EXPECT_EQ(translating_->roster().OnMatch(1, match).code(), Code::kFailedPrecondition);
  EXPECT_TRUE(translating_->roster()
                  .Join(2, HelloOfOtherVocabulary(), std::make_shared<RecordingLink>())
                  .ok());
  translating_->roster().Leave(2);
  EXPECT_EQ(translating_->roster().OnMatch(2, match).code(), Code::kFailedPrecondition);
  EXPECT_TRUE(translating_->roster()
                  .Join(3, HelloOfOtherVocabulary(), std::make_shared<RecordingLink>())
                  .ok());
  translating_->roster().Drain();
  EXPECT_EQ(translating_->roster().OnMatch(3, match).code(), Code::kUnavailable);
}

TEST_F(TranslatingPool, RefusesWhoDoesNotTranslate) {
  const auto link = std::make_shared<RecordingLink>();
  const Status status =
      translating_->roster().Join(1, HelloOfOtherVocabulary(/*translates=*/false), link);
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("the token strings differ"));
  EXPECT_EQ(link->vocabulary.size(), 0);
  EXPECT_EQ(pool_.roster().Join(1, HelloOfOtherVocabulary(), link).code(),
            Code::kFailedPrecondition)
      << "nothing to send";
}

TEST_F(Pool, RefusesUnknownProtocols) {
  DrafterHello hello = Hello("d");
  for (const ProtocolRange range : {ProtocolRange{.lowest = 5, .highest = 6}, {1, 2}, {4, 3}}) {
    hello.protocol = range;
    const Status status = pool_.roster().Join(1, hello, std::make_shared<RecordingLink>());
    EXPECT_EQ(status.code(), Code::kFailedPrecondition);
    EXPECT_THAT(status.message(), HasSubstr("the verifier speaks 3 to 4"));
  }
}

TEST_F(Pool, AgreesOnTheHighestCommonProtocol) {
  DrafterHello hello = Hello("d");
  uint64_t id = 0;
  for (const auto& [range, agreed] : std::vector<std::pair<ProtocolRange, int>>{
           {{.lowest = 3, .highest = 3}, 3}, {{3, 4}, 4}, {{4, 5}, 4}, {{2, 3}, 3}}) {
    hello.protocol = range;
    const auto link = std::make_shared<RecordingLink>();
    EXPECT_TRUE(pool_.roster().Join(++id, hello, link).ok());
    EXPECT_EQ(link->welcome.protocol, agreed) << ToString(range);
  }
}

TEST_F(Pool, RefusesDraftersBeyondTheirNumber) {
  DrafterPool pool({.model = "large", .tokenizer = Fingerprint(), .vocab_size = 112}, {}, nullptr,
                   &clock_, {.max_drafters = 2, .zone = "zone-a"});
  pool.set_consumer(&consumer_);
  const auto link = std::make_shared<RecordingLink>();
  EXPECT_TRUE(pool.roster().Join(1, Hello("a"), link).ok());
  EXPECT_EQ(link->welcome.zone, "zone-a");
  EXPECT_TRUE(pool.roster().Join(2, Hello("b"), link).ok());
  const Status status = pool.roster().Join(3, Hello("c"), link);
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("--max-drafters"));
  pool.roster().Leave(1);
  EXPECT_TRUE(pool.roster().Join(4, Hello("d"), link).ok());
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
  EXPECT_EQ(pool_.roster().Snapshot().size(), 1u) << "it is not a drafter of this verifier";
  hello.tokenizer.merges = 77;
  EXPECT_EQ(pool_.roster().Join(3, hello, visit).code(), Code::kFailedPrecondition)
      << "it would not fit";
}

TEST_F(Pool, TellsDraftersWhatItWants) {
  DrafterHello old = Hello("old");
  old.protocol = {.lowest = 3, .highest = 3};
  const auto unaware = Join(1, old);
  const auto a = Join(2, Hello("a"));
  EXPECT_EQ(a->demands.back(), (DrafterDemand{.wanted = 1, .attached = 2}));
  pool_.roster().TellDemand({.running = 0, .waiting = 0});
  EXPECT_EQ(a->demands.size(), 1u) << "only what has changed";
  pool_.roster().Leave(1);
  pool_.roster().TellDemand({.running = 0, .waiting = 0});
  EXPECT_EQ(a->demands.back(), (DrafterDemand{.wanted = 1, .attached = 1}));
  pool_.roster().OnLoad(2, {.sessions = 0, .session_limit = 0});
  pool_.roster().TellDemand({.running = 30, .waiting = 0});
  EXPECT_EQ(a->demands.back(), (DrafterDemand{.wanted = 4, .attached = 1}));
  EXPECT_TRUE(unaware->demands.empty());
}

TEST_F(Pool, TellsOnlyTheNewcomerOnJoining) {
  const auto a = Join(1, Hello("a"));
  const auto b = Join(2, Hello("b"));
  EXPECT_EQ(b->demands, (std::vector<DrafterDemand>{{.wanted = 1, .attached = 2}}));
  EXPECT_EQ(a->demands, (std::vector<DrafterDemand>{{.wanted = 1, .attached = 1}}));
  pool_.roster().TellDemand({.running = 0, .waiting = 0});
  EXPECT_EQ(a->demands.back(), (DrafterDemand{.wanted = 1, .attached = 2}));
  EXPECT_EQ(b->demands.size(), 1u) << "it knows";
}

TEST_F(Pool, DrainTellsDraftersAndOpensNothing) {
  const auto link = Join(1, Hello("a"));
  pool_.roster().Drain();
  EXPECT_TRUE(link->drained);
  EXPECT_FALSE(Open(1));
  EXPECT_FALSE(pool_.roster().Join(2, Hello("b"), std::make_shared<RecordingLink>()).ok());
}

}  // namespace
}  // namespace outrider
