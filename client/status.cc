#include "client/status.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "client/number_text.h"
#include "client/verifier_client.h"
#include "common/base/clock.h"
#include "common/base/escape_text.h"
#include "common/base/signals.h"

namespace outrider {
namespace {

using Row = std::vector<std::string>;

// A name that somebody else chose, as a terminal may show it.
std::string Shown(const std::string& name) {
  constexpr size_t kMaxShownCharacters = 100;
  return EscapeText(name, kMaxShownCharacters);
}

// Columns are as wide as their widest cell; the first row is the heading.
std::string Table(const std::vector<Row>& rows) {
  std::vector<size_t> widths(rows.front().size());
  for (const Row& row : rows) {
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string table;
  for (const Row& row : rows) {
    for (size_t c = 0; c < row.size(); ++c) {
      table += row[c];
      if (c + 1 < row.size()) table.append(widths[c] - row[c].size() + 2, ' ');
    }
    table += '\n';
  }
  return table;
}

std::string Percent(double share) {
  constexpr double kLeastShown = 0.001;
  if (share > 0 && share < kLeastShown) return "under 0.1 %";
  return NumberText(100 * share, share < 0.1 ? 1 : 0) + " %";
}

// What drafted the last rounds.
std::string Proposers(const v1::GetStatusResponse& status) {
  std::string text;
  for (const v1::ProposerShare& p : status.proposers()) {
    text += (text.empty() ? "" : ", ") +
            (p.proposer() == "none" ? "plain decoding" : Shown(p.proposer())) + " " +
            Percent(p.share());
  }
  return text.empty() ? "none yet" : text;
}

// "same", or the share of the drafter's tokens that the verifier also has.
std::string Vocabulary(const v1::DrafterStatus& drafter) {
  if (!drafter.has_vocabulary()) return "same";
  const v1::VocabularyStatus& v = drafter.vocabulary();
  return NumberText(100. * v.shared() / std::max(v.tokens(), 1u), 1) + " % of " +
         std::to_string(v.tokens()) + " (target " + std::to_string(v.target_tokens()) + ")";
}

std::string Tables(const v1::GetStatusResponse& status) {
  std::string text = "model " + Shown(status.model()) + ", version " + Shown(status.version()) +
                     ", up " + NumberText(status.uptime_seconds(), 0) + " s" +
                     (status.draining() ? ", draining" : "") + "\n";
  text += "sessions: " + std::to_string(status.sessions_running()) + " running, " +
          std::to_string(status.sessions_waiting()) +
          " waiting; KV pages: " + std::to_string(status.kv_pages_free()) + " of " +
          std::to_string(status.kv_pages_total()) + " free, " +
          std::to_string(status.kv_pages_cached()) + " cached\n\n";
  if (status.drafters().empty()) {
    text += "no drafter attached\n";
  } else {
    std::vector<Row> rows = {{"drafter", "model", "sessions", "connected", "drafted", "accepted",
                              "round trip", "drafting", "vocabulary"}};
    for (const v1::DrafterStatus& d : status.drafters()) {
      rows.push_back({Shown(d.name()), Shown(d.model()),
                      std::to_string(d.sessions()) + "/" + std::to_string(d.max_sessions()),
                      NumberText(d.connected_seconds(), 0) + " s",
                      std::to_string(d.drafted_tokens()), std::to_string(d.accepted_tokens()),
                      NumberText(d.round_trip_ms(), 1) + " ms",
                      NumberText(d.drafting_ms(), 1) + " ms", Vocabulary(d)});
    }
    text += Table(rows);
  }
  text += "last rounds: " + Proposers(status) + "\n";
  if (status.sessions().empty()) return text;
  std::vector<Row> rows = {
      {"session", "phase", "prompt", "completion", "drafted", "accepted", "drafter"}};
  for (const v1::SessionStatus& s : status.sessions()) {
    rows.push_back({std::to_string(s.id()), Shown(s.phase()), std::to_string(s.prompt_tokens()),
                    std::to_string(s.completion_tokens()), std::to_string(s.drafted_tokens()),
                    std::to_string(s.accepted_tokens()),
                    s.drafter().empty() ? "-" : Shown(s.drafter())});
  }
  return text + "\n" + Table(rows);
}

// Uses the message's own field names, so that the proto file documents the object.
std::string Json(const v1::GetStatusResponse& status) {
  nlohmann::ordered_json json;
  json["model"] = status.model();
  json["version"] = status.version();
  json["uptime_seconds"] = status.uptime_seconds();
  json["draining"] = status.draining();
  json["sessions_running"] = status.sessions_running();
  json["sessions_waiting"] = status.sessions_waiting();
  json["kv_pages_total"] = status.kv_pages_total();
  json["kv_pages_free"] = status.kv_pages_free();
  json["kv_pages_cached"] = status.kv_pages_cached();
  json["proposers"] = nlohmann::ordered_json::array();
  for (const v1::ProposerShare& p : status.proposers()) {
    json["proposers"].push_back({{"proposer", p.proposer()}, {"share", p.share()}});
  }
  json["drafters"] = nlohmann::ordered_json::array();
  for (const v1::DrafterStatus& d : status.drafters()) {
    nlohmann::ordered_json& drafter = json["drafters"].emplace_back();
    drafter["name"] = d.name();
    drafter["model"] = d.model();
    drafter["sessions"] = d.sessions();
    drafter["max_sessions"] = d.max_sessions();
    drafter["connected_seconds"] = d.connected_seconds();
    drafter["drafted_tokens"] = d.drafted_tokens();
    drafter["accepted_tokens"] = d.accepted_tokens();
    drafter["round_trip_ms"] = d.round_trip_ms();
    drafter["drafting_ms"] = d.drafting_ms();
    drafter["reported_sessions"] = d.reported_sessions();
    drafter["acceptance_head"] = d.acceptance_head();
    if (!d.has_vocabulary()) continue;
    drafter["vocabulary"] = {{"shared", d.vocabulary().shared()},
                             {"tokens", d.vocabulary().tokens()},
                             {"target_tokens", d.vocabulary().target_tokens()}};
  }
  json["sessions"] = nlohmann::ordered_json::array();
  for (const v1::SessionStatus& s : status.sessions()) {
    nlohmann::ordered_json& session = json["sessions"].emplace_back();
    session["id"] = s.id();
    session["phase"] = s.phase();
    session["prompt_tokens"] = s.prompt_tokens();
    session["completion_tokens"] = s.completion_tokens();
    session["drafter"] = s.drafter();
    session["drafted_tokens"] = s.drafted_tokens();
    session["accepted_tokens"] = s.accepted_tokens();
  }
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Looks until a signal comes. A verifier that does not answer is what one may be waiting for, so
// its error is shown and asked again.
void Watch(const VerifierClient& client, const StatusOptions& options, const std::stop_token& stop,
           const Console& console) {
  constexpr char kClear[] = "\x1b[H\x1b[2J";
  while (!stop.stop_requested()) {
    const auto status = client.GetStatus(stop);
    if (stop.stop_requested()) return;
    const std::string error = status.ok() ? "" : "error: " + status.status().ToString() + "\n";
    if (options.json) {
      if (status.ok()) console.out << Json(*status) << std::endl;
      console.err << error << std::flush;
    } else {
      console.out << (console.out_is_terminal ? kClear : "")
                  << (status.ok() ? Tables(*status) : error)
                  << (console.out_is_terminal ? "" : "\n") << std::flush;
    }
    if (!console.out.good()) return;  // nobody reads any more
    SleepUntil(SteadyClock().Now() + FromSeconds(options.watch_seconds), stop);
  }
}

}  // namespace

Status RunStatus(const StatusOptions& options, const Console& console) {
  std::optional<StopOnSignal> signals;  // before the client starts threads
  if (options.watch_seconds > 0) signals.emplace();
  OUTRIDER_ASSIGN(const VerifierClient client, VerifierClient::Create(options.connection));
  if (signals.has_value()) {
    Watch(client, options, signals->token(), console);
    return Status();
  }
  OUTRIDER_ASSIGN(const v1::GetStatusResponse status, client.GetStatus());
  if (options.json) {
    console.out << Json(status) << std::endl;
  } else {
    console.out << Tables(status) << std::flush;
  }
  return Status();
}

}  // namespace outrider
