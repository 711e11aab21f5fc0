#include "client/bench_report.h"

#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "client/number_text.h"

namespace outrider {
namespace {

void AddRow(std::string* table, const std::string& name, const std::string& value) {
  char line[256];
  std::snprintf(line, sizeof line, "%-28s %s\n", name.c_str(), value.c_str());
  *table += line;
}

// "-": not measured.
std::string Text(const std::optional<Percentiles>& p) {
  if (!p.has_value()) return "-";
  return NumberText(p->mean, 1) + " / " + NumberText(p->p50, 1) + " / " + NumberText(p->p95, 1) +
         " / " + NumberText(p->p99, 1);
}

nlohmann::ordered_json Json(const std::optional<Percentiles>& p) {
  if (!p.has_value()) return nullptr;
  return {{"mean", p->mean}, {"p50", p->p50}, {"p95", p->p95}, {"p99", p->p99}};
}

}  // namespace

std::string BenchTable(const BenchReport& report) {
  std::string table;
  if (report.interrupted) table += "interrupted: these are the results until then\n";
  AddRow(&table, "requests ok", std::to_string(report.requests_ok));
  if (report.interrupted) {
    AddRow(&table, "requests interrupted", std::to_string(report.requests_interrupted));
  }
  AddRow(&table, "requests failed", std::to_string(report.requests_failed));
  for (const auto& [code, count] : report.errors) {
    AddRow(&table, "  " + code, std::to_string(count));
  }
  if (report.requests_refused > 0) {
    AddRow(&table, "  of these refused", std::to_string(report.requests_refused));
    AddRow(&table, "  ms to it mean/p50/p95/p99", Text(report.refusal_ms));
  }
  if (report.started_per_second.has_value()) {
    AddRow(&table, "requests started per second", NumberText(*report.started_per_second, 1));
  }
  if (report.start_delay_ms.has_value()) {
    AddRow(&table, "late ms mean/p50/p95/p99", Text(report.start_delay_ms));
  }
  AddRow(&table, "seconds", NumberText(report.seconds, 2));
  AddRow(&table, "prompt tokens, cached",
         std::to_string(report.prompt_tokens) + ", " + std::to_string(report.cached_prompt_tokens));
  AddRow(&table, "completion tokens", std::to_string(report.completion_tokens));
  AddRow(&table, "tokens per second", NumberText(report.tokens_per_second, 1));
  AddRow(&table, "TTFT ms mean/p50/p95/p99", Text(report.ttft_ms));
  AddRow(&table, "ITL ms mean/p50/p95/p99", Text(report.itl_ms));
  AddRow(&table, "TPOT ms mean/p50/p95/p99", Text(report.tpot_ms));
  AddRow(&table, "latency ms mean/p50/p95/p99", Text(report.latency_ms));
  AddRow(&table, "rounds", std::to_string(report.rounds));
  AddRow(&table, "tokens drafted, accepted",
         std::to_string(report.drafted_tokens) + ", " + std::to_string(report.accepted_tokens));
  if (report.drafted_tokens > 0) {
    AddRow(&table, "accepted per drafted round", NumberText(report.accepted_per_round, 3));
    for (const auto& [domain, accepted] : report.accepted_per_round_by_domain) {
      AddRow(&table, "  " + domain, NumberText(accepted, 3));
    }
  }
  uint64_t chosen = 0;
  for (const auto& [proposer, rounds] : report.rounds_by_proposer) chosen += rounds;
  for (const auto& [proposer, rounds] : report.rounds_by_proposer) {
    const double share = static_cast<double>(rounds) / static_cast<double>(chosen);
    AddRow(&table, "rounds, " + proposer + " chosen", NumberText(100 * share, 1) + " %");
  }
  if (report.verifiers.size() > 1) {
    AddRow(&table, "requests, most in flight", "");
    for (const BenchReport::Verifier& verifier : report.verifiers) {
      AddRow(&table, "  " + verifier.address,
             std::to_string(verifier.requests) + ", " + std::to_string(verifier.most_in_flight));
    }
    AddRow(&table, "in flight above 1.25 of mean", std::to_string(report.most_above_bound));
  }
  return table;
}

std::string BenchJson(const BenchReport& report) {
  nlohmann::ordered_json json;
  json["interrupted"] = report.interrupted;
  json["requests_ok"] = report.requests_ok;
  json["requests_interrupted"] = report.requests_interrupted;
  json["requests_failed"] = report.requests_failed;
  json["requests_refused"] = report.requests_refused;
  if (report.started_per_second.has_value()) {
    json["started_per_second"] = *report.started_per_second;
  }
  if (report.start_delay_ms.has_value()) {
    json["start_delay_ms"] = Json(report.start_delay_ms);
  }
  json["prompt_tokens"] = report.prompt_tokens;
  json["cached_prompt_tokens"] = report.cached_prompt_tokens;
  json["completion_tokens"] = report.completion_tokens;
  json["seconds"] = report.seconds;
  json["tokens_per_second"] = report.tokens_per_second;
  json["ttft_ms"] = Json(report.ttft_ms);
  json["itl_ms"] = Json(report.itl_ms);
  json["tpot_ms"] = Json(report.tpot_ms);
  json["latency_ms"] = Json(report.latency_ms);
  json["refusal_ms"] = Json(report.refusal_ms);
  json["accepted_per_round"] = report.accepted_per_round;
  json["rounds"] = report.rounds;
  json["drafted_tokens"] = report.drafted_tokens;
  json["accepted_tokens"] = report.accepted_tokens;
  json["accepted_per_round_by_domain"] = report.accepted_per_round_by_domain;
  json["rounds_by_proposer"] = report.rounds_by_proposer;
  json["errors"] = report.errors;
  json["verifiers"] = nlohmann::ordered_json::array();
  for (const BenchReport::Verifier& verifier : report.verifiers) {
    json["verifiers"].push_back({{"address", verifier.address},
                                 {"requests", verifier.requests},
                                 {"most_in_flight", verifier.most_in_flight}});
  }
  json["most_above_bound"] = report.most_above_bound;
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace outrider
