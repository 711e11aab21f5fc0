#include "simulate/fleet/fleet_scenario.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <utility>

#include "common/base/fnv_hash.h"
#include "common/base/input_file.h"
#include "common/json/json.h"
#include "drafter/subset/verifier_subset.h"
#include "verifier/control/controller.h"

namespace outrider {
namespace {

constexpr double kMaxSeconds = 86400;
constexpr double kMaxPlans = 1e4;  // at a drafter
constexpr double kMaxMs = 1e5;
constexpr double kMaxRate = 1e5;
constexpr int kMaxTokens = 1 << 16;
constexpr int kMaxKvTokens = 1 << 24;
constexpr int kMaxClasses = 16;
constexpr int kMaxZones = 16;
constexpr int kMaxEvents = 256;
constexpr int kMaxClients = 1 << 16;
constexpr size_t kMaxTraceLines = size_t{1} << 20;
constexpr double kMaxPrice = 1e6;
constexpr double kMaxFactor = 1e3;

struct KindName {
  FleetEvent::Kind kind;
  const char* name;
};
constexpr KindName kKindNames[] = {
    {FleetEvent::Kind::kKillDrafters, "kill_drafters"},
    {FleetEvent::Kind::kKillVerifiers, "kill_verifiers"},
    {FleetEvent::Kind::kSlowDrafters, "slow_drafters"},
    {FleetEvent::Kind::kSlowVerifiers, "slow_verifiers"},
    {FleetEvent::Kind::kPartition, "partition"},
    {FleetEvent::Kind::kUpdateDrafters, "update_drafters"},
    {FleetEvent::Kind::kUpdateVerifiers, "update_verifiers"},
};

Status ReadNumber(const JsonValue& json, double low, double high, double* out) {
  if (json.absent()) return Status();
  OUTRIDER_ASSIGN(*out, json.Number(low, high));
  return Status();
}

Status ReadDistribution(const JsonValue& json, double low, double high, Distribution* out) {
  if (json.absent()) return Status();
  OUTRIDER_ASSIGN(*out, Distribution::Parse(json, low, high));
  return Status();
}

// Calls `parse` for each item of an array with at least `least` and at most `most` items.
template <class Item, class Parse>
Status ReadArray(const JsonValue& json, size_t least, size_t most, std::vector<Item>* out,
                 Parse parse) {
  if (!json.is_array() || json.size() < least || json.size() > most) {
    return json.Wrong("an array of " + std::to_string(least) + " to " + std::to_string(most));
  }
  for (size_t i = 0; i < json.size(); ++i) {
    OUTRIDER_ASSIGN(out->emplace_back(), parse(json[i]));
  }
  return Status();
}

Result<FleetZone> ParseZone(const JsonValue& json) {
  OUTRIDER_TRY(json.AllowOnly({"verifiers", "drafters"}));
  FleetZone zone;
  OUTRIDER_TRY(json["verifiers"].Read(&zone.verifiers, 0, kMaxFleetVerifiers));
  OUTRIDER_TRY(json["drafters"].Read(&zone.drafters, 0, kMaxFleetDrafters));
  return zone;
}

Status ReadNetwork(const JsonValue& json, FleetNetworkScenario* network) {
  if (json.absent()) return Status();
  OUTRIDER_TRY(json.AllowOnly({"within_ms", "between_ms", "loss", "retransmit_ms"}));
  OUTRIDER_TRY(ReadDistribution(json["within_ms"], 0, kMaxMs, &network->within_ms));
  OUTRIDER_TRY(ReadDistribution(json["between_ms"], 0, kMaxMs, &network->between_ms));
  OUTRIDER_TRY(ReadNumber(json["loss"], 0, 0.5, &network->loss));
  return ReadNumber(json["retransmit_ms"], 0, kMaxMs, &network->retransmit_ms);
}

Status ReadCost(const JsonValue& json, PassCost* cost) {
  OUTRIDER_ASSIGN(const double first, json["t_ms"].Number(1e-3, kMaxMs));
  double further = 0;
  OUTRIDER_TRY(ReadNumber(json["t_row_ms"], 0, kMaxMs, &further));
  *cost = {.first_row = first / 1e3, .further_row = further / 1e3};
  return Status();
}

Status ReadVerifier(const JsonValue& json, FleetVerifierScenario* verifier) {
  OUTRIDER_TRY(json.AllowOnly(
      {"t_ms", "t_row_ms", "sessions", "waiting", "kv_tokens", "token_budget", "price"}));
  OUTRIDER_TRY(ReadCost(json, &verifier->cost));
  OUTRIDER_TRY(json["sessions"].Read(&verifier->sessions, 1, 4096));
  OUTRIDER_TRY(json["waiting"].Read(&verifier->waiting, 1, 1 << 20));
  OUTRIDER_TRY(json["kv_tokens"].Read(&verifier->kv_tokens, 1024, kMaxKvTokens));
  OUTRIDER_TRY(json["token_budget"].Read(&verifier->token_budget, 64, 1 << 16));
  return ReadNumber(json["price"], 0, kMaxPrice, &verifier->price);
}

Status ReadDrafter(const JsonValue& json, FleetDrafterScenario* drafter) {
  OUTRIDER_TRY(json.AllowOnly(
      {"t_ms", "t_row_ms", "sessions", "kv_tokens", "ahead_tokens", "subset", "price"}));
  OUTRIDER_TRY(ReadCost(json, &drafter->cost));
  OUTRIDER_TRY(json["sessions"].Read(&drafter->sessions, 1, 4096));
  OUTRIDER_TRY(json["kv_tokens"].Read(&drafter->kv_tokens, 1024, kMaxKvTokens));
  OUTRIDER_TRY(json["ahead_tokens"].Read(&drafter->ahead_tokens, 0, 4096));
  OUTRIDER_TRY(json["subset"].Read(&drafter->subset, 0, kMaxSubset));
  return ReadNumber(json["price"], 0, kMaxPrice, &drafter->price);
}

Result<FleetClass> ParseClass(const JsonValue& json) {
  OUTRIDER_TRY(json.AllowOnly(
      {"share", "acceptance", "prompt_tokens", "output_tokens", "prefixes", "prefix_tokens"}));
  FleetClass result;
  OUTRIDER_TRY(ReadNumber(json["share"], 1e-6, 1e6, &result.share));
  OUTRIDER_TRY(ReadNumber(json["acceptance"], 0, 1, &result.acceptance));
  OUTRIDER_TRY(ReadDistribution(json["prompt_tokens"], 1, kMaxTokens, &result.prompt_tokens));
  OUTRIDER_TRY(ReadDistribution(json["output_tokens"], 1, kMaxTokens, &result.output_tokens));
  OUTRIDER_TRY(json["prefixes"].Read(&result.prefixes, 0, 1 << 20));
  OUTRIDER_TRY(json["prefix_tokens"].Read(&result.prefix_tokens, 0, kMaxTokens));
  return result;
}

// The next number of a line, which ends at a comma or at its end.
template <class Number>
bool TakeNumber(std::string_view* line, Number* out) {
  const std::string_view field = line->substr(0, line->find(','));
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), *out);
  if (error != std::errc() || end != field.data() + field.size()) return false;
  line->remove_prefix(std::min(line->size(), field.size() + 1));
  return true;
}

Result<std::vector<TracedRequest>> ReadTrace(const std::filesystem::path& path, int classes) {
  OUTRIDER_ASSIGN(const std::string text, ReadFile(path, kMaxPromptFileBytes));
  std::vector<TracedRequest> trace;
  std::string_view rest = text;
  for (size_t number = 1; !rest.empty(); ++number) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (line.empty() || line.front() == '#') continue;
    TracedRequest request;
    const bool is_read = TakeNumber(&line, &request.at) &&
                         TakeNumber(&line, &request.prompt_tokens) &&
                         TakeNumber(&line, &request.output_tokens) &&
                         (line.empty() || TakeNumber(&line, &request.request_class));
    const bool is_valid = is_read && line.empty() && request.at >= 0 && request.at <= kMaxSeconds &&
                          request.prompt_tokens >= 1 && request.prompt_tokens <= kMaxTokens &&
                          request.output_tokens >= 1 && request.output_tokens <= kMaxTokens &&
                          request.request_class >= 0 && request.request_class < classes;
    if (!is_valid || (!trace.empty() && request.at < trace.back().at)) {
      return InvalidArgument(
          path.string() + ":" + std::to_string(number) +
          ": must be seconds,prompt_tokens,output_tokens[,class] in ascending order of seconds");
    }
    if (trace.size() == kMaxTraceLines) {
      return InvalidArgument(path.string() + ": more than " + std::to_string(kMaxTraceLines) +
                             " requests");
    }
    trace.push_back(request);
  }
  if (trace.empty()) return InvalidArgument(path.string() + ": no request");
  return trace;
}

Status ReadArrivals(const JsonValue& json, const std::string& folder, int classes,
                    FleetArrivals* arrivals) {
  OUTRIDER_TRY(json.AllowOnly({"rate_per_s", "swing", "day_s", "trace", "clients", "pause_s"}));
  const int kinds = static_cast<int>(!json["rate_per_s"].absent()) +
                    static_cast<int>(!json["trace"].absent()) +
                    static_cast<int>(!json["clients"].absent());
  if (kinds != 1) return json.Error("must have one of rate_per_s, trace and clients");
  OUTRIDER_TRY(ReadNumber(json["rate_per_s"], 1e-6, kMaxRate, &arrivals->rate));
  OUTRIDER_TRY(ReadNumber(json["swing"], 0, 1, &arrivals->swing));
  OUTRIDER_TRY(ReadNumber(json["day_s"], 1, kMaxSeconds, &arrivals->day));
  OUTRIDER_TRY(json["clients"].Read(&arrivals->clients, 1, kMaxClients));
  OUTRIDER_TRY(ReadDistribution(json["pause_s"], 0, kMaxSeconds, &arrivals->pause));
  if (json["trace"].absent()) return Status();
  OUTRIDER_ASSIGN(const std::string path, json["trace"].String());
  OUTRIDER_ASSIGN(arrivals->trace, ReadTrace(std::filesystem::path(folder) / path, classes));
  return Status();
}

Status ReadPartitionZones(const JsonValue& json, size_t zones, FleetEvent* event) {
  if (!json.is_array() || json.size() != 2) return json.Wrong("two zones, as in [0, 1]");
  for (const size_t i : {size_t{0}, size_t{1}}) {
    OUTRIDER_ASSIGN(event->zones[i], json[i].Int(0, static_cast<int>(zones) - 1));
  }
  return event->zones[0] != event->zones[1] ? Status() : json.Error("must be two zones");
}

Result<FleetEvent> ParseEvent(const JsonValue& json, size_t zones) {
  OUTRIDER_TRY(json.AllowOnly(
      {"kind", "at_s", "count", "restart_s", "factor", "for_s", "zones", "surge", "drain_s"}));
  FleetEvent event;
  const auto* const named =
      std::find_if(std::begin(kKindNames), std::end(kKindNames),
                   [&](const KindName& k) { return json["kind"].Is(k.name); });
  if (named == std::end(kKindNames)) {
    std::string names;
    for (const KindName& k : kKindNames) names += (names.empty() ? "" : ", ") + std::string(k.name);
    return json["kind"].Wrong("one of " + names);
  }
  event.kind = named->kind;
  OUTRIDER_ASSIGN(event.at, json["at_s"].Number(0, kMaxSeconds));
  OUTRIDER_TRY(json["count"].Read(&event.count, 1, kMaxFleetDrafters));
  if (const JsonValue restart = json["restart_s"]; !restart.absent()) {
    OUTRIDER_ASSIGN(event.restart, restart.Number(0, kMaxSeconds));
  }
  OUTRIDER_TRY(ReadNumber(json["factor"], 0.01, kMaxFactor, &event.factor));
  OUTRIDER_TRY(ReadNumber(json["for_s"], 0, kMaxSeconds, &event.lasts));
  OUTRIDER_TRY(ReadNumber(json["drain_s"], 0, kMaxSeconds, &event.drain));
  OUTRIDER_TRY(json["surge"].Read(&event.surge));
  if (event.kind == FleetEvent::Kind::kPartition) {
    OUTRIDER_TRY(ReadPartitionZones(json["zones"], zones, &event));
  } else if (!json["zones"].absent()) {
    return json["zones"].Error("only a partition has zones");
  }
  return event;
}

Result<FleetScaling> ParseScaling(const JsonValue& json, int most) {
  FleetScaling scaling;
  OUTRIDER_ASSIGN(scaling.least, json["least"].Int(1, most));
  OUTRIDER_ASSIGN(scaling.most, json["most"].Int(scaling.least, most));
  OUTRIDER_TRY(ReadNumber(json["busy"], 0.01, 1, &scaling.busy));
  return scaling;
}

Status ReadAutoscaler(const JsonValue& json, std::optional<FleetAutoscaler>* out) {
  if (json.absent()) return Status();
  OUTRIDER_TRY(json.AllowOnly({"every_s", "lag_s", "stabilization_s", "verifiers", "drafters"}));
  FleetAutoscaler scaler;
  OUTRIDER_TRY(ReadNumber(json["every_s"], 0.1, kMaxSeconds, &scaler.every));
  OUTRIDER_TRY(ReadNumber(json["lag_s"], 0, kMaxSeconds, &scaler.lag));
  OUTRIDER_TRY(ReadNumber(json["stabilization_s"], 0, kMaxSeconds, &scaler.stabilization));
  if (const JsonValue verifiers = json["verifiers"]; !verifiers.absent()) {
    OUTRIDER_TRY(verifiers.AllowOnly({"least", "most", "busy"}));
    OUTRIDER_ASSIGN(scaler.verifiers, ParseScaling(verifiers, kMaxFleetVerifiers));
  }
  if (const JsonValue drafters = json["drafters"]; !drafters.absent()) {
    OUTRIDER_TRY(drafters.AllowOnly({"least", "most", "busy", "plans"}));
    OUTRIDER_ASSIGN(scaler.drafters, ParseScaling(drafters, kMaxFleetDrafters));
    const JsonValue plans = drafters["plans"];
    if (!plans.absent() && !drafters["busy"].absent())
      return plans.Error("cannot be given beside busy");
    OUTRIDER_TRY(ReadNumber(plans, 0.01, kMaxPlans, &scaler.drafters->plans));
  }
  *out = scaler;
  return Status();
}

Status ReadTimes(const JsonValue& json, FleetScenario* scenario) {
  OUTRIDER_ASSIGN(scenario->seconds, json["seconds"].Number(0.1, kMaxSeconds));
  scenario->warm_up = scenario->seconds / 6;
  OUTRIDER_TRY(ReadNumber(json["warm_up_s"], 0, scenario->seconds, &scenario->warm_up));
  scenario->interval = scenario->seconds / 20;
  OUTRIDER_TRY(ReadNumber(json["interval_s"], scenario->seconds / 10000, scenario->seconds,
                          &scenario->interval));
  return Status();
}

Status ReadPolicy(const JsonValue& json, FleetScenario* scenario) {
  OUTRIDER_TRY(json["policy"].Read(&scenario->policy));
  const std::vector<std::string>& names = PolicyNames();
  if (std::find(names.begin(), names.end(), scenario->policy) == names.end()) {
    return json["policy"].Wrong("a policy of outrider-verifier, as adaptive or fixed");
  }
  return json["draft_length"].Read(&scenario->draft_length, 1, 16);
}

Status ReadRouting(const JsonValue& json, FleetRouting* routing) {
  if (json.absent() || json.Is("round_robin")) return Status();
  *routing = FleetRouting::kPrefix;
  return json.Is("prefix") ? Status() : json.Wrong("\"round_robin\" or \"prefix\"");
}

Status CheckCounts(const JsonValue& json, const FleetScenario& scenario) {
  if (scenario.verifiers() < 1 || scenario.verifiers() > kMaxFleetVerifiers) {
    return json["zones"].Error("must have 1 to " + std::to_string(kMaxFleetVerifiers) +
                               " verifiers in all");
  }
  if (scenario.drafters() > kMaxFleetDrafters) {
    return json["zones"].Error("must have at most " + std::to_string(kMaxFleetDrafters) +
                               " drafters in all");
  }
  return Status();
}

std::string RateKeyOf(const JsonValue& json) {
  FnvHash hash;
  const auto add = [&hash](const JsonValue& value) {
    hash.Add(value.absent() ? std::string() : value.Dump());
  };
  for (const char* const name : {"network", "policy", "draft_length", "classes", "routing"}) {
    add(json[name]);
  }
  for (const char* const name :
       {"t_ms", "t_row_ms", "sessions", "waiting", "kv_tokens", "token_budget"}) {
    add(json["verifier"][name]);
  }
  for (const char* const name :
       {"t_ms", "t_row_ms", "sessions", "kv_tokens", "ahead_tokens", "subset"}) {
    add(json["drafter"][name]);
  }
  hash.Add(uint64_t{json["zones"].size()});
  // A client's requests begin when a pass ends, others at any time.
  hash.Add(uint64_t{!json["arrivals"]["clients"].absent()});
  add(json["arrivals"]["pause_s"]);
  return std::to_string(hash.value());
}

}  // namespace

const char* LayoutName(FleetLayout layout) {
  switch (layout) {
    case FleetLayout::kSplit: return "split";
    case FleetLayout::kColocated: return "colocated";
    case FleetLayout::kPlain: return "plain";
  }
  return "";
}

int FleetScenario::verifiers() const {
  int count = 0;
  for (const FleetZone& zone : zones) count += zone.verifiers;
  return count;
}

int FleetScenario::drafters() const {
  int count = 0;
  for (const FleetZone& zone : zones) count += zone.drafters;
  return count;
}

Status CheckRoundLimits(const FleetScenario& scenario) {
  int verifiers = scenario.verifiers();
  int drafters = scenario.drafters();
  if (scenario.autoscaler.has_value()) {
    const FleetAutoscaler& scaler = *scenario.autoscaler;
    verifiers = std::max(verifiers, scaler.verifiers.value_or(FleetScaling{}).most);
    drafters = std::max(drafters, scaler.drafters.value_or(FleetScaling{}).most);
  }
  if (verifiers <= kMaxRoundVerifiers && drafters <= kMaxRoundDrafters) return Status();
  return InvalidArgument(std::to_string(verifiers) + " verifiers and " + std::to_string(drafters) +
                         " drafters are too many to simulate every round (at most " +
                         std::to_string(kMaxRoundVerifiers) + " and " +
                         std::to_string(kMaxRoundDrafters) +
                         "); measure rates with --fit FILE, then run with --rates FILE");
}

Result<FleetScenario> ParseFleetScenario(std::string_view text, const std::string& folder) {
  OUTRIDER_ASSIGN(const JsonValue json, ParseJsonObject(text, "the scenario"));
  OUTRIDER_TRY(json.AllowOnly({"seconds", "warm_up_s", "interval_s", "zones", "network", "verifier",
                               "drafter", "policy", "draft_length", "classes", "arrivals",
                               "routing", "events", "autoscaler"}));
  FleetScenario scenario;
  OUTRIDER_TRY(ReadTimes(json, &scenario));
  OUTRIDER_TRY(ReadArray(json["zones"], 1, kMaxZones, &scenario.zones, ParseZone));
  OUTRIDER_TRY(CheckCounts(json, scenario));
  OUTRIDER_TRY(ReadNetwork(json["network"], &scenario.network));
  OUTRIDER_TRY(ReadVerifier(json["verifier"], &scenario.verifier));
  OUTRIDER_TRY(ReadDrafter(json["drafter"], &scenario.drafter));
  OUTRIDER_TRY(ReadPolicy(json, &scenario));
  OUTRIDER_TRY(ReadArray(json["classes"], 1, kMaxClasses, &scenario.classes, ParseClass));
  OUTRIDER_TRY(ReadArrivals(json["arrivals"], folder, static_cast<int>(scenario.classes.size()),
                            &scenario.arrivals));
  OUTRIDER_TRY(ReadRouting(json["routing"], &scenario.routing));
  if (!json["events"].absent()) {
    OUTRIDER_TRY(ReadArray(
        json["events"], 0, kMaxEvents, &scenario.events,
        [&](const JsonValue& event) { return ParseEvent(event, scenario.zones.size()); }));
  }
  OUTRIDER_TRY(ReadAutoscaler(json["autoscaler"], &scenario.autoscaler));
  scenario.rate_key = RateKeyOf(json);
  return scenario;
}

}  // namespace outrider
