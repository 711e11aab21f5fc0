#include "client/plan_command.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <string>

#include "client/number_text.h"
#include "client/plan.h"

namespace outrider {
namespace {

// JSON has no infinity, so null means "always".
nlohmann::json Bound(double ms) { return std::isinf(ms) ? nlohmann::json() : nlohmann::json(ms); }

std::string Words(double ms) {
  if (ms < 0) return "never";
  return std::isinf(ms) ? "at any round trip" : "up to " + NumberText(ms, 1) + " ms of round trip";
}

std::string ClientsText(double clients) {
  if (clients < kMaxPlanClients) return NumberText(clients, 0);
  return "more than " + std::to_string(kMaxPlanClients - 1);
}

void PrintJson(const PlanReport& report, std::ostream& out) {
  nlohmann::json json;
  for (const PlannedLayout& l : report.layouts) {
    json["layouts"].push_back({{"layout", l.name},
                               {"draft_length", l.draft_length},
                               {"tokens_per_round", l.tokens_per_round},
                               {"one_request_tokens_per_second", l.one_request},
                               {"full_batch_tokens_per_second", l.full_batch},
                               {"clients", l.clients},
                               {"drafters", l.drafters},
                               {"mbit_to_verifier", l.mbit_to_verifier},
                               {"mbit_to_drafters", l.mbit_to_drafters},
                               {"price_per_million_tokens", l.per_million}});
  }
  json["fastest"] = report.fastest;
  json["largest"] = report.largest;
  json["cheapest"] = report.cheapest;
  json["capacity_ratio"] = report.capacity_ratio;
  for (const BreakEven& b : report.break_even) {
    json["break_even_rtt_ms"].push_back({{"layout", b.layout},
                                         {"against", b.against},
                                         {"one_request", Bound(b.one_request_ms)},
                                         {"full_batch", Bound(b.full_batch_ms)}});
  }
  out << json.dump() << std::endl;
}

void PrintTable(const PlanReport& report, const PlanOptions& options, std::ostream& out) {
  const auto cell = [&out](const std::string& text, int width) { out << std::setw(width) << text; };
  const bool priced = !report.cheapest.empty();
  const bool capped =
      std::any_of(report.layouts.begin(), report.layouts.end(),
                  [](const PlannedLayout& l) { return l.clients >= kMaxPlanClients; });
  const int clients_width = capped ? 17 : 8;
  out << std::left << std::setw(10) << "layout" << std::right;
  cell("length", 7);
  cell("tok/round", 10);
  cell("tok/s alone", 12);
  cell("tok/s of " + std::to_string(options.sessions), 14);
  cell("clients", clients_width);
  cell("drafters", 9);
  cell("Mbit/s in", 10);
  cell("out", 7);
  if (priced) cell("per million", 12);
  out << "\n";
  for (const PlannedLayout& l : report.layouts) {
    out << std::left << std::setw(10) << l.name << std::right;
    cell(std::to_string(l.draft_length), 7);
    cell(NumberText(l.tokens_per_round, 2), 10);
    cell(NumberText(l.one_request, 1), 12);
    cell(NumberText(l.full_batch, 1), 14);
    cell(ClientsText(l.clients), clients_width);
    cell(std::to_string(l.drafters), 9);
    cell(NumberText(l.mbit_to_verifier, 2), 10);
    cell(NumberText(l.mbit_to_drafters, 2), 7);
    if (priced) cell(NumberText(l.per_million, 3), 12);
    out << "\n";
  }
  out << "\nmost for one request: " << report.fastest << "\nmost for all: " << report.largest
      << "\n";
  if (priced) out << "cheapest: " << report.cheapest << "\n";
  out << "a saturated verifier that does not draft itself has time for "
      << NumberText(report.capacity_ratio, 2) << " times the clients\n";
  for (const BreakEven& b : report.break_even) {
    out << b.layout << " beats " << b.against << ": one request " << Words(b.one_request_ms)
        << ", all " << Words(b.full_batch_ms) << "\n";
  }
  out << std::flush;
}

}  // namespace

Status RunPlan(const PlanFlags& flags, const Console& console) {
  OUTRIDER_ASSIGN(const PlanReport report, MakePlan(flags.options));
  if (flags.options.verify_row_ms == 0) {
    console.err << "warning: --t-verify-row is 0: draft tokens and further requests then cost the "
                   "verifier nothing, and every figure for several requests is too good\n";
  }
  if (flags.json) {
    PrintJson(report, console.out);
  } else {
    PrintTable(report, flags.options, console.out);
  }
  return Status();
}

}  // namespace outrider
