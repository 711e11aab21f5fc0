#include "verifier/status/status_history.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

namespace outrider {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kSamples = 121;       // one a second: two minutes between the first and the last
constexpr size_t kShownSessions = 20;  // of the oldest

// A few tokens for the model's word, until rounds have shown more.
constexpr double kPriorTokens = 20;
constexpr double kKeptASecond = 0.98;
constexpr double kLeastCalibration = 0.2;

double Ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

// Four digits are more than a pixel shows.
double Rounded(double value) {
  if (!std::isfinite(value) || value == 0) return 0;
  const double scale = std::pow(10, 3 - std::floor(std::log10(std::abs(value))));
  return std::round(value * scale) / scale;
}

Json DraftersJson(const std::vector<DrafterSnapshot>& drafters) {
  Json list = Json::array();
  for (const DrafterSnapshot& d : drafters) {
    list.push_back({{"name", d.name},
                    {"model", d.model},
                    {"state", d.silent ? "silent" : (d.sessions > 0 ? "drafting" : "ready")},
                    {"sessions", d.sessions},
                    {"max_sessions", d.max_sessions},
                    {"round_trip_ms", Rounded(d.round_trip_ms)},
                    {"drafting_ms", Rounded(d.drafting_ms)},
                    {"drafted_tokens", d.drafted_tokens},
                    {"accepted_tokens", d.accepted_tokens},
                    {"connected_seconds", std::round(d.connected_seconds)}});
  }
  return list;
}

Json SessionsJson(const std::vector<SessionSnapshot>& sessions) {
  Json list = Json::array();
  for (const SessionSnapshot& s : sessions) {
    if (list.size() == kShownSessions) break;
    list.push_back({{"id", s.id},
                    {"phase", s.phase},
                    {"prompt_tokens", s.prompt_tokens},
                    {"completion_tokens", s.completion_tokens},
                    {"drafter", s.drafter},
                    {"drafted_tokens", s.drafted_tokens},
                    {"accepted_tokens", s.accepted_tokens}});
  }
  return list;
}

// What happened between two samples, as rates and means.
Json Interval(const StatusSample& from, const StatusSample& to) {
  const double seconds = Seconds(to.at - from.at);
  Json arms = Json::array();
  for (size_t i = 0; i < to.arms.size(); ++i) {
    arms.push_back(Rounded(Ratio(to.arms[i].rounds - from.arms[i].rounds, seconds)));
  }
  const double steps = to.steps - from.steps;
  return {{"tokens_per_second", Rounded(Ratio(to.tokens - from.tokens, seconds))},
          {"plain_tokens_per_second", Rounded(to.plain_tokens_per_second)},
          {"running", to.running},
          {"waiting", to.waiting},
          {"kv_requests", Rounded(to.kv_requests)},
          {"rows", Rounded(Ratio(to.rows - from.rows, steps))},
          {"step_ms", Rounded(Ratio(to.step_seconds - from.step_seconds, steps) * 1e3)},
          {"acceptance", Rounded(Ratio(to.accepted - from.accepted, to.drafted - from.drafted))},
          {"arm_rounds", std::move(arms)}};
}

// The seconds of the window in which it is known what plain decoding would do, on average: what the
// two speeds are compared over.
struct Speeds {
  double now = 0, plain = 0, seconds = 0;
};
Speeds CompareSpeeds(const std::deque<StatusSample>& samples) {
  Speeds speeds;
  for (size_t i = 1; i < samples.size(); ++i) {
    const StatusSample &from = samples[i - 1], &to = samples[i];
    // Seconds that began or ended without requests compare nothing.
    if (from.plain_tokens_per_second <= 0 || to.plain_tokens_per_second <= 0) continue;
    const double seconds = Seconds(to.at - from.at);
    speeds.seconds += seconds;
    speeds.now += to.tokens - from.tokens;
    speeds.plain += seconds * (from.plain_tokens_per_second + to.plain_tokens_per_second) / 2;
  }
  speeds.now = Ratio(speeds.now, speeds.seconds);
  speeds.plain = Ratio(speeds.plain, speeds.seconds);
  return speeds;
}

}  // namespace

StatusSample SampleOf(Time at, const EngineSnapshot& engine, const VerifierMetrics& metrics) {
  StatusSample sample{
      .at = at,
      .running = engine.running,
      .waiting = engine.waiting,
      .plain_tokens_per_second = engine.plain_tokens_per_second,
      .kv_requests = metrics.kv_cache_requests_perc.value(),
      .tokens = metrics.generation_tokens_total.value(),
      .drafts = metrics.spec_decode_num_drafts_total.value(),
      .drafted = metrics.spec_decode_num_draft_tokens_total.value(),
      .accepted = metrics.spec_decode_num_accepted_tokens_total.value(),
      .steps = static_cast<double>(metrics.engine_step_seconds.count()),
      .step_seconds = metrics.engine_step_seconds.sum(),
      .rows = metrics.batch_rows.sum(),
  };
  for (const SessionSnapshot& session : engine.sessions) {
    sample.decoding += std::string_view(session.phase) == "decode" ? 1 : 0;
  }
  for (const Counter& counter : metrics.accepted_per_position()) {
    sample.accepted_per_position.push_back(counter.value());
  }
  for (const VerifierMetrics::Arm& arm : metrics.arms) {
    sample.arms.push_back({.rounds = arm.rounds.value(),
                           .tokens = arm.tokens.value(),
                           .seconds = arm.seconds.value(),
                           .expected = arm.expected_tokens_per_second.value()});
  }
  return sample;
}

std::vector<StatusFault> FaultsOf(const VerifierMetrics& m) {
  return {{"drafts that did not come in time", m.draft_timeouts_total.value()},
          {"draft tokens that came too late", m.draft_tokens_late_total.value()},
          {"sessions moved to another drafter", m.sessions_moved_total.value()},
          {"drafters lost", m.drafters_left_gone.value()},
          {"drafters closed for nonsense or a flood",
           m.drafters_left_nonsense.value() + m.drafters_left_overload.value()},
          {"drafters refused", m.drafters_refused_total.value()},
          {"requests refused, the queue full",
           m.requests_refused_queue_full.value() + m.requests_refused_client_share.value()},
          {"requests refused, draining", m.requests_refused_draining.value()},
          {"requests cancelled or failed", m.request_success_abort.value()},
          {"requests preempted for want of pages", m.num_preemptions_total.value()},
          {"trace spans lost", m.trace_spans_dropped_total.value()}};
}

StatusHistory::StatusHistory(Served served, Time started)
    : served_(std::move(served)),
      started_(started),
      plain_measured_(kPriorTokens),
      plain_predicted_(kPriorTokens) {
  const auto plain = std::find(served_.arms.begin(), served_.arms.end(), "plain");
  if (plain != served_.arms.end()) plain_arm_ = static_cast<size_t>(plain - served_.arms.begin());
}

void StatusHistory::Calibrate(const StatusSample& from, const StatusSample& to) {
  if (!plain_arm_.has_value() || to.decoding == 0 || to.plain_tokens_per_second <= 0) return;
  const StatusSample::Arm &before = from.arms[*plain_arm_], &after = to.arms[*plain_arm_];
  // Of one session.
  const double predicted = to.plain_tokens_per_second / to.decoding;
  plain_measured_ = kKeptASecond * plain_measured_ + (after.tokens - before.tokens);
  plain_predicted_ = kKeptASecond * plain_predicted_ + (after.seconds - before.seconds) * predicted;
}

void StatusHistory::Add(StatusSample sample, StatusNow now) {
  if (!samples_.empty()) Calibrate(samples_.back(), sample);
  // Beside sessions that wait for drafts a plain round is faster than among plain ones: never up.
  sample.plain_tokens_per_second *=
      std::clamp(Ratio(plain_measured_, plain_predicted_), kLeastCalibration, 1.0);
  samples_.push_back(std::move(sample));
  if (samples_.size() > kSamples) samples_.pop_front();
  now_ = std::move(now);
}

std::string StatusHistory::ToJson(Time now) const {
  Json json = {{"model", served_.model},
               {"version", served_.version},
               {"policy", served_.policy},
               {"uptime_seconds", std::round(Seconds(now - started_))}};
  const auto dump = [&json] {
    // Drafters' names are what they like.
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  if (samples_.empty()) return dump();
  const StatusSample &first = samples_.front(), &last = samples_.back();
  const EngineSnapshot& engine = now_.engine;
  int prefilling = 0;
  for (const SessionSnapshot& s : engine.sessions) {
    prefilling += std::string_view(s.phase) == "prefill" ? 1 : 0;
  }
  json["age_seconds"] = Rounded(Seconds(now - last.at));
  json["draining"] = engine.draining;
  json["sessions"] = {{"running", engine.running},
                      {"waiting", engine.waiting},
                      {"prefilling", prefilling},
                      {"clients", engine.clients},
                      {"oldest", SessionsJson(engine.sessions)}};
  json["kv_pages"] = {
      {"total", engine.total_pages}, {"free", engine.free_pages}, {"cached", engine.cached_pages}};
  json["drafters"] = DraftersJson(now_.drafters);

  const double drafts = last.drafts - first.drafts;
  const Speeds speeds = CompareSpeeds(samples_);
  json["window"] = {
      {"seconds", Rounded(Seconds(last.at - first.at))},
      {"acceptance", Rounded(Ratio(last.accepted - first.accepted, last.drafted - first.drafted))},
      {"drafted_rounds", drafts},
      {"tokens_per_drafted_round",
       Rounded(drafts > 0 ? 1 + (last.accepted - first.accepted) / drafts : 0)},
      {"compared_seconds", Rounded(speeds.seconds)},
      {"tokens_per_second", Rounded(speeds.now)},
      {"plain_tokens_per_second", Rounded(speeds.plain)},
      {"gain", Rounded(Ratio(speeds.now, speeds.plain))}};
  Json positions = Json::array();
  for (size_t i = 0; i < last.accepted_per_position.size(); ++i) {
    positions.push_back(
        Rounded(Ratio(last.accepted_per_position[i] - first.accepted_per_position[i], drafts)));
  }
  constexpr double kSeen = 0.005;
  while (!positions.empty() && positions.back() < kSeen) positions.erase(positions.size() - 1);
  json["accepted_by_position"] = std::move(positions);

  Json arms = Json::array();
  for (size_t i = 0; i < last.arms.size(); ++i) {
    const StatusSample::Arm &from = first.arms[i], &to = last.arms[i];
    arms.push_back(
        {{"name", served_.arms[i]},
         {"rounds", to.rounds - from.rounds},
         {"tokens_per_second", Rounded(Ratio(to.tokens - from.tokens, to.seconds - from.seconds))},
         {"expected_tokens_per_second", Rounded(to.expected)}});
  }
  json["arms"] = std::move(arms);

  Json faults = Json::array();
  for (const StatusFault& fault : now_.faults) {
    faults.push_back({{"what", fault.what}, {"count", fault.count}});
  }
  json["faults"] = std::move(faults);
  Json history = Json::array();
  for (size_t i = 1; i < samples_.size(); ++i) {
    history.push_back(Interval(samples_[i - 1], samples_[i]));
  }
  json["history"] = std::move(history);
  return dump();
}

}  // namespace outrider
