// The two forms of a fleet run's figures.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "simulate/fleet/fleet.h"

namespace outrider {
namespace {

constexpr double kMs = 1e3;

// null without any.
nlohmann::json QuantilesMs(const LogHistogram& histogram) {
  if (histogram.count() == 0) return nullptr;
  return {{"mean", kMs * histogram.Mean()},
          {"p50", kMs * histogram.Quantile(0.5)},
          {"p90", kMs * histogram.Quantile(0.9)},
          {"p99", kMs * histogram.Quantile(0.99)}};
}

// null without any.
nlohmann::json MeanMs(double seconds, int64_t count) {
  if (count == 0) return nullptr;
  return kMs * seconds / static_cast<double>(count);
}

// The mean number that a drafter has at hand (Little's law); null without drafters as services.
nlohmann::json PlansAtDrafter(const FleetFigures& figures) {
  if (figures.drafter_hours == 0) return nullptr;
  return figures.plan_seconds / (figures.drafter_hours * 3600);
}

nlohmann::json TimelineJson(const FleetFigures& figures) {
  nlohmann::json timeline = nlohmann::json::array();
  double begin = 0;
  for (const FleetInterval& i : figures.timeline) {
    timeline.push_back({{"begin_s", begin},
                        {"tokens_per_second", i.tokens / i.seconds},
                        {"arrived", i.arrived},
                        {"rejected", i.rejected},
                        {"failed", i.failed},
                        {"first_token_ms", MeanMs(i.first_token_seconds, i.first_tokens)},
                        {"between_tokens_ms", MeanMs(i.between_tokens_seconds, i.finished)},
                        {"verifiers", i.verifiers},
                        {"drafters", i.drafters},
                        {"verifier_busy", i.verifier_busy},
                        {"drafter_busy", i.drafter_busy}});
    begin += i.seconds;
  }
  return timeline;
}

}  // namespace

std::string FleetJson(const FleetReport& report) {
  nlohmann::json json;
  json["resolution"] = report.by_rates ? "rates" : "rounds";
  json["layouts"] = nlohmann::json::array();
  for (const auto& [layout, f] : report.layouts) {
    json["layouts"].push_back({{"layout", LayoutName(layout)},
                               {"tokens_per_second", f.TokensPerSecond()},
                               {"first_token_ms", QuantilesMs(f.first_token)},
                               {"between_tokens_ms", QuantilesMs(f.between_tokens)},
                               {"longest_pause_ms", QuantilesMs(f.longest_pause)},
                               {"arrived", f.arrived},
                               {"finished", f.finished},
                               {"rejected", f.rejected},
                               {"failed", f.failed},
                               {"draft_tokens", f.draft_tokens},
                               {"accepted_tokens", f.accepted_tokens},
                               {"verifier_busy", f.verifier_busy},
                               {"drafter_busy", f.drafter_busy},
                               {"drafter_plans", PlansAtDrafter(f)},
                               {"verifier_hours", f.verifier_hours},
                               {"drafter_hours", f.drafter_hours},
                               {"price_per_million_tokens", f.PricePerMillion()},
                               {"expelled_drafters", f.expelled},
                               {"timeline", TimelineJson(f)}});
  }
  return json.dump();
}

std::string FleetTable(const FleetReport& report) {
  std::string out =
      "layout         tok/s  first ms: p50      p99  between ms: p50      p99  arrived rejected "
      "failed  verifier drafter busy  per million\n";
  for (const auto& [layout, f] : report.layouts) {
    char line[256];
    std::snprintf(line, sizeof line,
                  "%-10s %9.1f %14.1f %8.1f %16.2f %8.2f %8lld %8lld %6lld %9.2f %12.2f %12.3f\n",
                  LayoutName(layout), f.TokensPerSecond(), kMs * f.first_token.Quantile(0.5),
                  kMs * f.first_token.Quantile(0.99), kMs * f.between_tokens.Quantile(0.5),
                  kMs * f.between_tokens.Quantile(0.99), static_cast<long long>(f.arrived),
                  static_cast<long long>(f.rejected), static_cast<long long>(f.failed),
                  f.verifier_busy, f.drafter_busy, f.PricePerMillion());
    out += line;
  }
  return out;
}

}  // namespace outrider
