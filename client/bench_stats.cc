#include "client/bench_stats.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace outrider {
namespace {

double Percentile(const std::vector<double>& sorted, double fraction) {
  const double rank = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(std::floor(rank));
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], rank - std::floor(rank));
}

// REQUIRES: not empty.
double MeanOf(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

struct Acceptance {
  uint64_t tokens = 0;
  uint64_t rounds = 0;

  void Add(const BenchRequest& record) {
    tokens += record.accepted_tokens;
    rounds += record.drafted_rounds;
  }
  double PerRound() const {
    return rounds == 0 ? 0 : static_cast<double>(tokens) / static_cast<double>(rounds);
  }
};

}  // namespace

void TokenTimes::OnChunk(Time now, int tokens) {
  if (tokens <= 0) return;  // text that arrives after its tokens
  const double ms = Seconds(now - last_) * 1e3;
  if (!ttft_ms_.has_value()) {
    ttft_ms_ = ms;
  } else {
    itl_ms_.insert(itl_ms_.end(), static_cast<size_t>(tokens), ms / tokens);
  }
  last_ = now;
}

std::optional<Percentiles> PercentilesOf(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  return Percentiles{.mean = MeanOf(values),
                     .p50 = Percentile(values, 0.50),
                     .p95 = Percentile(values, 0.95),
                     .p99 = Percentile(values, 0.99)};
}

BenchReport Summarise(const std::vector<BenchRequest>& records, double seconds,
                      std::optional<double> starting_seconds) {
  BenchReport report;
  report.seconds = seconds;
  std::vector<double> ttft_ms;
  std::vector<double> itl_ms;
  std::vector<double> tpot_ms;
  std::vector<double> latency_ms;
  std::vector<double> refusal_ms;
  std::vector<double> start_delay_ms;
  Acceptance all;
  std::map<std::string, Acceptance> by_domain;
  for (const BenchRequest& record : records) {
    if (record.start_delay_ms.has_value()) start_delay_ms.push_back(*record.start_delay_ms);
    if (!record.interrupted && !record.status.ok()) {
      ++report.requests_failed;
      ++report.errors[CodeName(record.status.code())];
      if (record.refused()) {
        ++report.requests_refused;
        refusal_ms.push_back(record.seconds * 1e3);
      }
      continue;
    }
    ++(record.interrupted ? report.requests_interrupted : report.requests_ok);
    report.prompt_tokens += record.prompt_tokens;
    report.cached_prompt_tokens += record.cached_tokens;
    report.completion_tokens += record.completion_tokens;
    report.rounds += record.rounds;
    report.drafted_tokens += record.drafted_tokens;
    report.accepted_tokens += record.accepted_tokens;
    if (record.ttft_ms.has_value()) ttft_ms.push_back(*record.ttft_ms);
    itl_ms.insert(itl_ms.end(), record.itl_ms.begin(), record.itl_ms.end());
    if (!record.itl_ms.empty()) tpot_ms.push_back(MeanOf(record.itl_ms));
    if (!record.interrupted) latency_ms.push_back(record.seconds * 1e3);
    for (const auto& [proposer, rounds] : record.rounds_by_proposer) {
      report.rounds_by_proposer[proposer] += rounds;
    }
    all.Add(record);
    if (!record.domain.empty()) by_domain[record.domain].Add(record);
  }
  report.ttft_ms = PercentilesOf(std::move(ttft_ms));
  report.itl_ms = PercentilesOf(std::move(itl_ms));
  report.tpot_ms = PercentilesOf(std::move(tpot_ms));
  report.latency_ms = PercentilesOf(std::move(latency_ms));
  report.refusal_ms = PercentilesOf(std::move(refusal_ms));
  report.start_delay_ms = PercentilesOf(std::move(start_delay_ms));
  report.accepted_per_round = all.PerRound();
  for (const auto& [domain, acceptance] : by_domain) {
    report.accepted_per_round_by_domain[domain] = acceptance.PerRound();
  }
  if (records.size() > 1 && starting_seconds.value_or(0) > 0) {
    report.started_per_second = static_cast<double>(records.size() - 1) / *starting_seconds;
  }
  if (seconds > 0) {
    report.tokens_per_second = static_cast<double>(report.completion_tokens) / seconds;
  }
  return report;
}

}  // namespace outrider
