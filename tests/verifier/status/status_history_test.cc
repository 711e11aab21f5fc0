#include "verifier/status/status_history.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace outrider {
namespace {

using Json = nlohmann::json;
using std::chrono::seconds;

const Time kStart = Time(seconds(1000));

StatusHistory Make() {
  return StatusHistory({.model = "m", .version = "1", .policy = "adaptive", .arms = {"plain", "a"}},
                       kStart);
}

// `i` seconds after the start, at 100 tokens and 10 rounds of arm "a" per second.
StatusSample At(int i) {
  StatusSample sample{.time = kStart + seconds(i),
                      .running = 2,
                      .kv_requests = 0.25,
                      .tokens = 100.0 * i,
                      .finished = 4.0 * i,
                      .failed = 1.0 * i,
                      .refused = 2.0 * i,
                      .first_tokens = 5.0 * i,
                      .first_token_seconds = 0.5 * i,
                      .next_tokens = 95.0 * i,
                      .next_token_seconds = 0.95 * i,
                      .drafts = 10.0 * i,
                      .drafted = 40.0 * i,
                      .accepted = 30.0 * i,
                      .steps = 20.0 * i,
                      .step_seconds = 0.2 * i,
                      .rows = 60.0 * i,
                      .round_seconds = 2.0 * i,
                      .round_seconds_if_plain = 4.0 * i};
  sample.accepted_per_position = {9.0 * i, 6.0 * i, 0, 0};
  sample.arms = {{}, {.rounds = 10.0 * i, .tokens = 100.0 * i, .seconds = 2.0 * i, .expected = 60}};
  return sample;
}

Json Read(const StatusHistory& history, Time now) { return Json::parse(history.ToJson(now)); }

TEST(StatusHistory, IsEmptyBeforeFirstSample) {
  const Json json = Read(Make(), kStart + seconds(3));
  EXPECT_EQ(json["model"], "m");
  EXPECT_EQ(json["uptime_seconds"], 3);
  EXPECT_FALSE(json.contains("history"));
}

TEST(StatusHistory, OneSampleHasNoRates) {
  StatusHistory history = Make();
  history.Add(At(1), {});
  const Json json = Read(history, kStart + seconds(4));
  EXPECT_EQ(json["history"], Json::array());
  EXPECT_EQ(json["age_seconds"], 3);
  EXPECT_EQ(json["window"]["speedup"], 0);
  EXPECT_EQ(json["accepted_by_position"], Json::array());
}

TEST(StatusHistory, CountersBecomeRatesAndShares) {
  StatusHistory history = Make();
  for (int i = 0; i <= 10; ++i) history.Add(At(i), {});
  const Json json = Read(history, kStart + seconds(10));
  ASSERT_EQ(json["history"].size(), 10u);
  const Json& second = json["history"][9];
  EXPECT_EQ(second["tokens_per_second"], 100);
  EXPECT_EQ(second["plain_tokens_per_second"], 50);
  EXPECT_EQ(second["rows"], 3);
  EXPECT_EQ(second["seconds"], 1);
  EXPECT_EQ(second["first_token_ms"], 100);
  EXPECT_EQ(second["next_token_ms"], 10);
  EXPECT_EQ(second["finished"], 4);
  EXPECT_EQ(second["failed"], 1);
  EXPECT_EQ(second["refused"], 2);
  EXPECT_EQ(json["window"]["first_token_ms"], 100);
  EXPECT_EQ(json["window"]["next_token_ms"], 10);
  EXPECT_EQ(json["window"]["failed"], 10);
  EXPECT_EQ(json["requests"]["finished"], 40) << "since the start";
  EXPECT_EQ(second["step_ms"], 10);
  EXPECT_EQ(second["acceptance"], 0.75);
  EXPECT_EQ(second["kv_requests"], 0.25);
  EXPECT_EQ(second["arm_rounds"], Json::parse("[0, 10]"));
  EXPECT_EQ(json["window"]["tokens_per_second"], 100);
  EXPECT_EQ(json["window"]["speedup"], 2);
  EXPECT_EQ(json["window"]["speedup_error"], 0.05) << "the estimate's own, for there is no spread";
  EXPECT_EQ(json["window"]["round_seconds"], 20);
  EXPECT_EQ(json["window"]["tokens_per_drafted_round"], 4);
  EXPECT_EQ(json["accepted_by_position"], Json::parse("[0.9, 0.6]"))
      << "without those never reached";
  EXPECT_EQ(json["arms"][1]["rounds"], 100);
  EXPECT_EQ(json["arms"][1]["tokens_per_second"], 50);
  EXPECT_EQ(json["arms"][0]["tokens_per_second"], 0);
}

// One sequence, then 24 at a time, each slower, and no draft: the speedup is 1, with no
// uncertainty.
TEST(StatusHistory, SpeedupOfPlainRoundsIsOne) {
  StatusHistory history = Make();
  double tokens = 0, spent = 12345.678;  // in rounds since the start; there were drafts earlier
  for (int i = 0; i <= 100; ++i) {
    StatusSample sample = At(i);
    tokens += i < 90 ? 100 : 24 * 20;
    spent += i < 90 ? 1 / 3.0 : 24 / 3.0;
    sample.tokens = tokens;
    sample.round_seconds = spent;
    sample.round_seconds_if_plain = spent + 77.7;
    history.Add(std::move(sample), {});
  }
  const Json window = Read(history, kStart + seconds(100))["window"];
  EXPECT_EQ(window["speedup"], 1);
  EXPECT_LT(window["speedup_error"], 1e-6);
  EXPECT_EQ(window["about_one"], false) << "it is certain";
}

TEST(StatusHistory, SpeedupIsOneWithinItsError) {
  const auto window = [](double speedup, double spread) {
    StatusHistory history = Make();
    double plain = 0;
    for (int i = 0; i <= 100; ++i) {
      StatusSample sample = At(i);
      sample.round_seconds = i;
      sample.round_seconds_if_plain = plain;
      plain += speedup + (i % 2 == 0 ? spread : -spread);
      history.Add(std::move(sample), {});
    }
    Json json = Read(history, kStart + seconds(100))["window"];
    EXPECT_NEAR(json["speedup"].get<double>(), speedup, 1e-9);
    return json;
  };
  // Two standard errors of the mean of a hundred seconds, and the estimate's own error.
  const auto error = [&](double spread) {
    return window(1.09, spread)["speedup_error"].get<double>();
  };
  EXPECT_NEAR(error(0.5) - error(0), 2 * 0.5 / 10, 0.002);
  EXPECT_EQ(window(1.09, 0.5)["about_one"], true);
  EXPECT_EQ(window(1.09, 0.01)["about_one"], false);
  EXPECT_EQ(window(0.7, 0.5)["about_one"], false);
}

TEST(StatusHistory, ForgetsAfterTwoMinutes) {
  StatusHistory history = Make();
  for (int i = 0; i <= 500; ++i) history.Add(At(i), {});
  const Json json = Read(history, kStart + seconds(500));
  EXPECT_EQ(json["history"].size(), 120u);
  EXPECT_EQ(json["window"]["seconds"], 120);
  EXPECT_EQ(json["window"]["drafted_rounds"], 1200);
}

TEST(StatusHistory, KeepsAnHourByHalfMinutes) {
  StatusHistory history = Make();
  for (int i = 0; i <= 5000; ++i) history.Add(At(i), {});
  const Json json = Read(history, kStart + seconds(5000));
  ASSERT_EQ(json["hour"].size(), 120u);
  EXPECT_EQ(json["hour"][0]["seconds"], 30);
  EXPECT_EQ(json["hour"][119]["tokens_per_second"], 100);
  EXPECT_EQ(json["hour"][119]["finished"], 120);
  EXPECT_EQ(json["hour"][119]["first_token_ms"], 100);
}

TEST(StatusHistory, NamesAreJsonWhateverTheyAre) {
  StatusHistory history = Make();
  StatusNow now;
  now.drafters = {{.name = "\xff</script>\"", .model = "d", .sessions = 1, .silent = true}};
  now.faults = {{.what = "drafters lost", .count = 2}};
  now.engine.clients = 3;
  for (int i = 0; i < 300; ++i) now.engine.sessions.push_back({.id = 1, .phase = "prefill"});
  history.Add(At(0), now);
  const Json json = Read(history, kStart);
  EXPECT_EQ(json["drafters"][0]["name"], "\xef\xbf\xbd</script>\"");
  EXPECT_EQ(json["drafters"][0]["state"], "suspended");
  EXPECT_EQ(json["faults"][0]["count"], 2);
  EXPECT_EQ(json["sessions"]["clients"], 3);
  EXPECT_EQ(json["sessions"]["prefilling"], 300);
  EXPECT_EQ(json["sessions"]["oldest"].size(), 20u);
}

}  // namespace
}  // namespace outrider
