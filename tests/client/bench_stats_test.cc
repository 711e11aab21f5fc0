#include "client/bench_stats.h"

#include <gmock/gmock.h>

#include <chrono>
#include <utility>

#include "client/bench_report.h"

namespace outrider {
namespace {

using ::testing::DoubleEq;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

TEST(Percentiles, AreLinearBetweenTheClosestRanks) {
  std::vector<double> values;
  for (int i = 100; i >= 0; --i) values.push_back(i);  // 0..100, unsorted
  const Percentiles p = PercentilesOf(values).value();
  EXPECT_DOUBLE_EQ(p.mean, 50);
  EXPECT_DOUBLE_EQ(p.p50, 50);
  EXPECT_DOUBLE_EQ(p.p95, 95);
  EXPECT_DOUBLE_EQ(p.p99, 99);
  EXPECT_DOUBLE_EQ(PercentilesOf({10, 20})->p50, 15);
  EXPECT_DOUBLE_EQ(PercentilesOf({10, 20})->p95, 19.5);
}

TEST(Percentiles, HandleOneValueAndNone) {
  EXPECT_DOUBLE_EQ(PercentilesOf({7})->p50, 7);
  EXPECT_DOUBLE_EQ(PercentilesOf({7})->p99, 7);
  EXPECT_DOUBLE_EQ(PercentilesOf({7, 8, 12})->mean, 9);
  EXPECT_FALSE(PercentilesOf({}).has_value());
}

TEST(TokenTimes, SharesGapAmongTokensOfChunk) {
  const Time sent;
  const auto after = [&](int ms) { return sent + std::chrono::milliseconds(ms); };
  TokenTimes times(sent);
  EXPECT_FALSE(times.ttft_ms().has_value());
  times.OnChunk(after(40), 3);
  times.OnChunk(after(50), 1);
  times.OnChunk(after(60), 0);  // text only: no token came
  times.OnChunk(after(80), 3);
  EXPECT_THAT(*times.ttft_ms(), DoubleNear(40, 1e-9));
  EXPECT_THAT(times.itl_ms(), ElementsAre(DoubleNear(10, 1e-9), DoubleNear(10, 1e-9),
                                          DoubleNear(10, 1e-9), DoubleNear(10, 1e-9)));
}

BenchRequest Record(const std::string& domain, uint64_t drafted_rounds, uint64_t accepted) {
  BenchRequest record;
  record.domain = domain;
  record.ttft_ms = 5;
  record.itl_ms = {1, 2};
  record.prompt_tokens = 32;
  record.cached_tokens = 16;
  record.completion_tokens = 10;
  record.rounds = drafted_rounds + 3;
  record.drafted_rounds = drafted_rounds;
  record.drafted_tokens = drafted_rounds * 4;
  record.accepted_tokens = accepted;
  return record;
}

TEST(Summarise, CountsAcceptedTokensByDomain) {
  const BenchReport report =
      Summarise({Record("code", 4, 12), Record("stories", 4, 2), Record("", 2, 1)}, 2.0, 1.0);
  EXPECT_EQ(report.requests_ok, 3);
  EXPECT_EQ(report.prompt_tokens, 96u);
  EXPECT_EQ(report.cached_prompt_tokens, 48u);
  EXPECT_EQ(report.completion_tokens, 30u);
  EXPECT_DOUBLE_EQ(report.tokens_per_second, 15);
  EXPECT_EQ(report.rounds, 19u);
  EXPECT_EQ(report.drafted_tokens, 40u);
  EXPECT_EQ(report.accepted_tokens, 15u);
  EXPECT_DOUBLE_EQ(report.accepted_per_round, 1.5);
  EXPECT_THAT(report.accepted_per_round_by_domain,
              ElementsAre(Pair("code", DoubleEq(3)), Pair("stories", DoubleEq(0.5))));
}

TEST(Summarise, FailedRequestAddsOnlyToErrors) {
  BenchRequest failed = Record("code", 4, 12);
  failed.status = Unavailable("gone");
  BenchRequest full = failed;
  full.status = ResourceExhausted("full");
  const BenchReport report = Summarise({failed, Record("stories", 1, 1), failed, full}, 1.0, 0.5);
  EXPECT_EQ(report.requests_ok, 1);
  EXPECT_EQ(report.requests_failed, 3);
  EXPECT_EQ(report.completion_tokens, 10u);
  EXPECT_THAT(report.errors, ElementsAre(Pair("RESOURCE_EXHAUSTED", 1), Pair("UNAVAILABLE", 2)));
  EXPECT_THAT(report.accepted_per_round_by_domain, ElementsAre(Pair("stories", DoubleEq(1))));
}

TEST(Summarise, TimesRefusalsBeforeFirstToken) {
  BenchRequest refused;
  refused.status = ResourceExhausted("full");
  refused.seconds = 0.004;
  BenchRequest cut = Record("", 1, 1);  // tokens came before
  cut.status = ResourceExhausted("the peer does not read");
  cut.seconds = 9;
  const BenchReport report = Summarise({refused, Record("", 1, 1), cut, refused}, 1.0, 0.5);
  EXPECT_EQ(report.requests_failed, 3);
  EXPECT_EQ(report.requests_refused, 2);
  EXPECT_DOUBLE_EQ(report.refusal_ms->p99, 4);
  EXPECT_DOUBLE_EQ(*report.started_per_second, 6) << "three gaps in half a second";
  EXPECT_FALSE(Summarise({refused}, 1.0, 1e-6).started_per_second.has_value());
}

TEST(Summarise, RequestsHaveTheirOwnTokenTime) {
  BenchRequest slow = Record("", 0, 0);
  slow.itl_ms = {10, 30};
  slow.seconds = 0.5;
  BenchRequest quick = Record("", 0, 0);
  quick.itl_ms = {1, 2, 3, 2, 2};
  quick.seconds = 0.1;
  BenchRequest of_one_token = Record("", 0, 0);
  of_one_token.itl_ms.clear();
  of_one_token.seconds = 0.3;
  const BenchReport report = Summarise({slow, quick, of_one_token}, 1.0, std::nullopt);
  EXPECT_DOUBLE_EQ(report.tpot_ms->mean, 11) << "each request counts once";
  EXPECT_DOUBLE_EQ(report.latency_ms->p50, 300);
  EXPECT_FALSE(report.start_delay_ms.has_value());
}

TEST(Summarise, InterruptedRequestCountsReceivedTokens) {
  BenchRequest cut = Record("code", 4, 12);
  cut.status = Status(Code::kCancelled, "cancelled");
  cut.interrupted = true;
  const BenchReport report = Summarise({cut, Record("code", 1, 1)}, 2.0, 1.0);
  EXPECT_EQ(report.requests_ok, 1);
  EXPECT_EQ(report.requests_interrupted, 1);
  EXPECT_EQ(report.requests_failed, 0);
  EXPECT_DOUBLE_EQ(report.tokens_per_second, 10) << "ten tokens of each, in two seconds";
  EXPECT_EQ(report.accepted_tokens, 13u);
}

TEST(Summarise, WithoutDraftsAcceptsNothingPerRound) {
  EXPECT_DOUBLE_EQ(Summarise({Record("", 0, 0)}, 1.0, std::nullopt).accepted_per_round, 0);
}

TEST(BenchReport, TableNamesErrorsAndDomains) {
  BenchRequest failed = Record("code", 4, 12);
  failed.status = Unavailable("gone");
  const std::string table = BenchTable(Summarise({failed, Record("stories", 2, 3)}, 1.0, 0.5));
  EXPECT_THAT(table, HasSubstr("UNAVAILABLE"));
  EXPECT_THAT(table, HasSubstr("stories"));
  EXPECT_THAT(table, ::testing::Not(HasSubstr("refus")));
  EXPECT_THAT(table, HasSubstr("1.500"));
}

TEST(BenchTable, LeavesOutWhatWasNotMeasured) {
  BenchRequest failed;
  failed.domain = "code";
  failed.status = Unavailable("gone");
  const BenchReport report = Summarise({failed, failed}, 1.0, std::nullopt);
  const std::string table = BenchTable(report);
  EXPECT_THAT(table, HasSubstr("TTFT ms mean/p50/p95/p99     -\n"));
  EXPECT_THAT(table, HasSubstr("ITL ms mean/p50/p95/p99      -\n"));
  EXPECT_THAT(table, ::testing::Not(HasSubstr("per drafted round")));
  EXPECT_THAT(table, ::testing::Not(HasSubstr("started per second")));
  EXPECT_THAT(BenchJson(report), HasSubstr("\"ttft_ms\":null,\"itl_ms\":null"));
}

// A request's first round has no choice, and a chosen drafter may not draft.
TEST(BenchTable, SharesAreOfChosenRounds) {
  BenchReport report;
  report.rounds = 6;
  report.rounds_by_proposer = {{"draft", 2}, {"plain", 1}};
  const std::string table = BenchTable(report);
  EXPECT_THAT(table, HasSubstr("rounds, draft chosen         66.7 %\n"));
  EXPECT_THAT(table, HasSubstr("rounds, plain chosen         33.3 %\n"));
}

}  // namespace
}  // namespace outrider
