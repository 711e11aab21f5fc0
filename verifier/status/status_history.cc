#include "verifier/status/status_history.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

namespace outrider {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kSamples = 121;      // one per second: two minutes between the first and the last
constexpr size_t kHourSamples = 121;  // one every kHourStep: an hour between the first and the last
constexpr Duration kHourStep = std::chrono::seconds(30);
constexpr size_t kShownSessions = 20;  // the oldest ones

// Relative error of the estimated plain decoding time, for rounds that drafts touched
// (docs/metrics.md, "The speedup").
constexpr double kPlainTimeError = 0.05;

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
                    {"state", d.silent ? "suspended" : (d.sessions > 0 ? "drafting" : "ready")},
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

// The changes between two samples, as rates and means.
Json Interval(const StatusSample& from, const StatusSample& to) {
  const double seconds = Seconds(to.time - from.time);
  Json arms = Json::array();
  for (size_t i = 0; i < to.arms.size(); ++i) {
    arms.push_back(Rounded(Ratio(to.arms[i].rounds - from.arms[i].rounds, seconds)));
  }
  const double steps = to.steps - from.steps;
  const double tokens_per_second = Ratio(to.tokens - from.tokens, seconds);
  return {
      {"tokens_per_second", Rounded(tokens_per_second)},
      {"plain_tokens_per_second",
       Rounded(tokens_per_second * Ratio(to.round_seconds - from.round_seconds,
                                         to.round_seconds_if_plain - from.round_seconds_if_plain))},
      {"seconds", Rounded(seconds)},
      {"first_token_ms", Rounded(1e3 * Ratio(to.first_token_seconds - from.first_token_seconds,
                                             to.first_tokens - from.first_tokens))},
      {"next_token_ms", Rounded(1e3 * Ratio(to.next_token_seconds - from.next_token_seconds,
                                            to.next_tokens - from.next_tokens))},
      {"finished", to.finished - from.finished},
      {"failed", to.failed - from.failed},
      {"refused", to.refused - from.refused},
      {"running", to.running},
      {"waiting", to.waiting},
      {"kv_requests", Rounded(to.kv_requests)},
      {"rows", Rounded(Ratio(to.rows - from.rows, steps))},
      {"step_ms", Rounded(Ratio(to.step_seconds - from.step_seconds, steps) * 1e3)},
      {"acceptance", Rounded(Ratio(to.accepted - from.accepted, to.drafted - from.drafted))},
      {"arm_rounds", std::move(arms)}};
}

// The speculative-decoding speedup of a window: the time that plain decoding would have taken over
// the time of the rounds.
struct Speedup {
  double ratio = 0;    // 0: no round ended
  double error = 0;    // the true value is assumed within ratio +- error
  double seconds = 0;  // of the rounds that it is computed from

  // Whether it shows neither a benefit nor a loss of drafts. Plain decoding, exactly 1, does not
  // count.
  bool IsAboutOne() const {
    constexpr double kShown = 0.005;  // less does not show on the page
    return error >= kShown && std::abs(ratio - 1) <= error;
  }
};

Speedup SpeedupOf(const std::deque<StatusSample>& samples) {
  Speedup speedup;
  const StatusSample &first = samples.front(), &last = samples.back();
  speedup.seconds = last.round_seconds - first.round_seconds;
  if (speedup.seconds <= 0) return speedup;
  speedup.ratio = (last.round_seconds_if_plain - first.round_seconds_if_plain) / speedup.seconds;
  // Twice the standard error of a ratio of sums over the window's intervals (Cochran 1977, 6.3),
  // plus the possible error of the estimate.
  double squares = 0, touched = 0;
  int intervals = 0;
  for (size_t i = 1; i < samples.size(); ++i) {
    const StatusSample &from = samples[i - 1], &to = samples[i];
    const double took = to.round_seconds - from.round_seconds;
    if (took <= 0) continue;
    ++intervals;
    const double plain = to.round_seconds_if_plain - from.round_seconds_if_plain;
    squares += (plain - speedup.ratio * took) * (plain - speedup.ratio * took);
    constexpr double kSame = 1e-9;  // rounding error of equal counters after a long run
    if (std::abs(plain - took) > kSame * to.round_seconds) touched += took;
  }
  speedup.error = kPlainTimeError * touched / speedup.seconds;
  if (intervals > 1) {
    speedup.error += 2 * std::sqrt(squares * intervals / (intervals - 1)) / speedup.seconds;
  }
  return speedup;
}

void AddEngine(const EngineSnapshot& engine, Json* json) {
  int prefilling = 0;
  for (const SessionSnapshot& s : engine.sessions) {
    prefilling += std::string_view(s.phase) == "prefill" ? 1 : 0;
  }
  (*json)["draining"] = engine.draining;
  (*json)["sessions"] = {{"running", engine.running},
                         {"waiting", engine.waiting},
                         {"prefilling", prefilling},
                         {"clients", engine.clients},
                         {"oldest", SessionsJson(engine.sessions)}};
  (*json)["kv_pages"] = {
      {"total", engine.total_pages}, {"free", engine.free_pages}, {"cached", engine.cached_pages}};
}

Json WindowJson(const StatusSample& first, const StatusSample& last, const Speedup& speedup) {
  const double drafts = last.drafts - first.drafts;
  return {
      {"seconds", Rounded(Seconds(last.time - first.time))},
      {"acceptance", Rounded(Ratio(last.accepted - first.accepted, last.drafted - first.drafted))},
      {"drafted_rounds", drafts},
      {"tokens_per_drafted_round",
       Rounded(drafts > 0 ? 1 + (last.accepted - first.accepted) / drafts : 0)},
      {"tokens_per_second",
       Rounded(Ratio(last.tokens - first.tokens, Seconds(last.time - first.time)))},
      {"first_token_ms", Rounded(1e3 * Ratio(last.first_token_seconds - first.first_token_seconds,
                                             last.first_tokens - first.first_tokens))},
      {"next_token_ms", Rounded(1e3 * Ratio(last.next_token_seconds - first.next_token_seconds,
                                            last.next_tokens - first.next_tokens))},
      {"finished", last.finished - first.finished},
      {"failed", last.failed - first.failed},
      {"refused", last.refused - first.refused},
      {"round_seconds", Rounded(speedup.seconds)},
      {"speedup", Rounded(speedup.ratio)},
      {"speedup_error", Rounded(speedup.error)},
      {"about_one", speedup.IsAboutOne()}};
}

Json HistoryJson(const std::deque<StatusSample>& samples) {
  Json history = Json::array();
  for (size_t i = 1; i < samples.size(); ++i) {
    history.push_back(Interval(samples[i - 1], samples[i]));
  }
  return history;
}

// The share of drafted rounds that accepted each position, up to the last visible one.
Json PositionsJson(const StatusSample& first, const StatusSample& last) {
  constexpr double kSeen = 0.005;  // a smaller share is shown as 0.00
  Json positions = Json::array();
  for (size_t i = 0; i < last.accepted_per_position.size(); ++i) {
    positions.push_back(
        Rounded(Ratio(last.accepted_per_position[i] - first.accepted_per_position[i],
                      last.drafts - first.drafts)));
  }
  while (!positions.empty() && positions.back() < kSeen) positions.erase(positions.size() - 1);
  return positions;
}

Json ArmsJson(const std::vector<std::string>& names, const StatusSample& first,
              const StatusSample& last) {
  Json arms = Json::array();
  for (size_t i = 0; i < last.arms.size(); ++i) {
    const StatusSample::Arm &from = first.arms[i], &to = last.arms[i];
    arms.push_back(
        {{"name", names[i]},
         {"rounds", to.rounds - from.rounds},
         {"tokens_per_second", Rounded(Ratio(to.tokens - from.tokens, to.seconds - from.seconds))},
         {"expected_tokens_per_second", Rounded(to.expected)}});
  }
  return arms;
}

}  // namespace

StatusSample SampleOf(Time time, const EngineSnapshot& engine, const VerifierMetrics& metrics) {
  StatusSample sample{
      .time = time,
      .running = engine.running,
      .waiting = engine.waiting,
      .kv_requests = metrics.kv_cache_requests_perc.value(),
      .tokens = metrics.generation_tokens_total.value(),
      .finished = metrics.request_success_stop.value() + metrics.request_success_length.value(),
      .failed = metrics.request_success_abort.value(),
      .refused = metrics.requests_refused_queue_full.value() +
                 metrics.requests_refused_client_share.value() +
                 metrics.requests_refused_draining.value() +
                 metrics.requests_refused_tokenizer_queue.value(),
      .first_tokens = static_cast<double>(metrics.time_to_first_token_seconds.count()),
      .first_token_seconds = metrics.time_to_first_token_seconds.sum(),
      .next_tokens = static_cast<double>(metrics.inter_token_latency_seconds.count()),
      .next_token_seconds = metrics.inter_token_latency_seconds.sum(),
      .drafts = metrics.spec_decode_num_drafts_total.value(),
      .drafted = metrics.spec_decode_num_draft_tokens_total.value(),
      .accepted = metrics.spec_decode_num_accepted_tokens_total.value(),
      .steps = static_cast<double>(metrics.engine_step_seconds.count()),
      .step_seconds = metrics.engine_step_seconds.sum(),
      .rows = metrics.batch_rows.sum(),
      .round_seconds = metrics.round_seconds_total.value(),
      .round_seconds_if_plain = metrics.round_seconds_if_plain_total.value(),
  };
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
  return {
      {"drafts that did not come in time", m.draft_timeouts_total.value()},
      {"draft tokens that came too late", m.draft_tokens_late_total.value()},
      {"sessions moved to another drafter", m.sessions_moved_total.value()},
      {"drafters lost", m.drafters_left_gone.value()},
      {"drafters closed for a protocol error or a flood",
       m.drafters_left_protocol_error.value() + m.drafters_left_overload.value()},
      {"drafters refused", m.drafters_refused_total.value()},
      {"requests refused, the queue full",
       m.requests_refused_queue_full.value() + m.requests_refused_client_share.value()},
      {"requests refused, draining", m.requests_refused_draining.value()},
      {"requests refused, too many texts to tokenize", m.requests_refused_tokenizer_queue.value()},
      {"requests ended by logits that are not finite", m.requests_not_finite.value()},
      {"requests cancelled or failed", m.request_success_abort.value()},
      {"requests preempted for want of pages", m.num_preemptions_total.value()},
      {"trace spans lost", m.trace_spans.dropped.value() + m.trace_spans.not_sent.value()}};
}

StatusHistory::StatusHistory(Served served, Time started)
    : served_(std::move(served)), started_(started) {}

void StatusHistory::Add(StatusSample sample, StatusNow now) {
  if (hour_.empty() || sample.time - hour_.back().time >= kHourStep) {
    hour_.push_back(sample);
    if (hour_.size() > kHourSamples) hour_.pop_front();
  }
  samples_.push_back(std::move(sample));
  if (samples_.size() > kSamples) samples_.pop_front();
  now_ = std::move(now);
}

std::string StatusHistory::ToJson(Time now) const {
  Json json = {{"model", served_.model},
               {"version", served_.version},
               {"policy", served_.policy},
               {"port", served_.port},
               {"uptime_seconds", std::round(Seconds(now - started_))}};
  const auto dump = [&json] {
    // Drafters choose their names, which may be invalid UTF-8.
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  if (samples_.empty()) return dump();
  const StatusSample &first = samples_.front(), &last = samples_.back();
  json["age_seconds"] = Rounded(Seconds(now - last.time));
  AddEngine(now_.engine, &json);
  json["drafters"] = DraftersJson(now_.drafters);
  json["window"] = WindowJson(first, last, SpeedupOf(samples_));
  json["accepted_by_position"] = PositionsJson(first, last);
  json["arms"] = ArmsJson(served_.arms, first, last);
  Json faults = Json::array();
  for (const StatusFault& fault : now_.faults) {
    faults.push_back({{"what", fault.what}, {"count", fault.count}});
  }
  json["faults"] = std::move(faults);
  json["requests"] = {
      {"finished", last.finished}, {"failed", last.failed}, {"refused", last.refused}};
  json["history"] = HistoryJson(samples_);
  json["hour"] = HistoryJson(hour_);
  return dump();
}

}  // namespace outrider
