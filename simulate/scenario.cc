#include "simulate/scenario.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>

namespace outrider {
namespace {

using Json = nlohmann::json;

constexpr double kMaxMs = 1e6;
constexpr int kMaxCount = 1 << 20;
constexpr int kMaxSessions = 1 << 16;

Status CheckMembers(const Json& json, const std::string& where,
                    std::initializer_list<std::string_view> known,
                    std::initializer_list<std::string_view> needed) {
  if (!json.is_object()) return InvalidArgument(where + " must be an object");
  for (const auto& [key, value] : json.items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      return InvalidArgument(where + ": unknown member \"" + key + "\"");
    }
  }
  for (const std::string_view key : needed) {
    if (!json.contains(key)) {
      return InvalidArgument(where + ": member \"" + std::string(key) + "\" is missing");
    }
  }
  return Status();
}

struct Range {
  double least;
  double most;
};

std::string ToText(double value) {
  std::string text = std::to_string(value);
  text.erase(std::min(text.find_last_not_of('0'), text.size()) + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

Result<double> ParseNumber(const Json& json, const std::string& where, Range range) {
  const double value = json.is_number() ? json.get<double>() : std::nan("");
  if (!(value >= range.least && value <= range.most)) {
    return InvalidArgument(where + " must be a number from " + ToText(range.least) + " to " +
                           ToText(range.most));
  }
  return value;
}

Result<int> ParseCount(const Json& json, const std::string& where, int least, int most) {
  const bool whole = json.is_number_integer() && json >= least && json <= most;
  if (!whole) {
    return InvalidArgument(where + " must be a whole number from " + std::to_string(least) +
                           " to " + std::to_string(most));
  }
  return json.get<int>();
}

Result<Steps> ParseSteps(const Json& json, const std::string& where, Range range) {
  if (!json.is_array()) {
    OUTRIDER_ASSIGN(const double value, ParseNumber(json, where, range));
    return Steps(value);
  }
  std::vector<std::pair<int, double>> steps;
  for (const Json& entry : json) {
    const std::string at = where + "[" + std::to_string(steps.size()) + "]";
    if (!entry.is_array() || entry.size() != 2) {
      return InvalidArgument(at + " must be [from_round, number]");
    }
    OUTRIDER_ASSIGN(const int from, ParseCount(entry[0], at + "[0]", 0, kMaxCount));
    OUTRIDER_ASSIGN(const double value, ParseNumber(entry[1], at + "[1]", range));
    if (steps.empty() ? from != 0 : from <= steps.back().first) {
      return InvalidArgument(at + "[0]: rounds must start at 0 and rise");
    }
    steps.emplace_back(from, value);
  }
  if (steps.empty()) return InvalidArgument(where + " must not be empty");
  return Steps(std::move(steps));
}

Result<ScenarioArm> ParseArm(const Json& json, const std::string& where) {
  OUTRIDER_TRY(CheckMembers(json, where, {"name", "kind", "acceptance", "length", "draft_ms"},
                            {"name", "kind"}));
  ScenarioArm arm;
  if (!json["name"].is_string() || json["name"].get<std::string>().empty()) {
    return InvalidArgument(where + ".name must be a string that is not empty");
  }
  arm.name = json["name"].get<std::string>();
  if (json["kind"] != "chain" && json["kind"] != "none") {
    return InvalidArgument(where + ".kind must be \"chain\" or \"none\"");
  }
  arm.plain = json["kind"] == "none";
  if (!arm.plain) {
    OUTRIDER_TRY(CheckMembers(json, where, {"name", "kind", "acceptance", "length", "draft_ms"},
                              {"acceptance", "length", "draft_ms"}));
  }
  // A plain arm may carry them, and does not use them.
  const auto part = [&](const char* name) { return json.contains(name) ? json[name] : Json(0); };
  OUTRIDER_ASSIGN(arm.acceptance, ParseSteps(part("acceptance"), where + ".acceptance", {0, 1}));
  OUTRIDER_ASSIGN(arm.draft_ms, ParseSteps(part("draft_ms"), where + ".draft_ms", {0, kMaxMs}));
  OUTRIDER_ASSIGN(arm.length, ParseCount(part("length"), where + ".length", 0, kMaxArmLength));
  if (arm.plain) arm.length = 0;
  return arm;
}

}  // namespace

double Steps::At(int round) const {
  const auto behind =
      std::upper_bound(steps_.begin(), steps_.end(), round,
                       [](int at, const std::pair<int, double>& step) { return at < step.first; });
  return std::prev(behind)->second;
}

Result<ControlScenario> ParseControlScenario(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return InvalidArgument("the scenario is not JSON");
  OUTRIDER_TRY(
      CheckMembers(json, "the scenario",
                   {"arms", "verify_ms", "rtt_ms", "tokens", "requests", "shared", "sessions"},
                   {"arms", "verify_ms", "rtt_ms", "tokens", "requests", "shared"}));
  ControlScenario scenario;
  const Json& arms = json["arms"];
  if (!arms.is_array() || arms.empty() || arms.size() > static_cast<size_t>(kMaxArms)) {
    return InvalidArgument("arms must be an array of 1 to " + std::to_string(kMaxArms) + " arms");
  }
  for (const Json& arm : arms) {
    OUTRIDER_ASSIGN(ScenarioArm parsed,
                    ParseArm(arm, "arms[" + std::to_string(scenario.arms.size()) + "]"));
    scenario.arms.push_back(std::move(parsed));
  }
  const Json& verify = json["verify_ms"];
  OUTRIDER_TRY(CheckMembers(verify, "verify_ms", {"base", "per_row"}, {"base", "per_row"}));
  OUTRIDER_ASSIGN(scenario.base_ms, ParseSteps(verify["base"], "verify_ms.base", {0, kMaxMs}));
  OUTRIDER_ASSIGN(scenario.per_row_ms,
                  ParseSteps(verify["per_row"], "verify_ms.per_row", {0, kMaxMs}));
  if (scenario.base_ms == Steps(0) && scenario.per_row_ms == Steps(0)) {
    return InvalidArgument("verify_ms: a step must take some time");
  }
  OUTRIDER_ASSIGN(scenario.rtt_ms, ParseSteps(json["rtt_ms"], "rtt_ms", {0, kMaxMs}));
  OUTRIDER_ASSIGN(scenario.tokens, ParseCount(json["tokens"], "tokens", 1, kMaxCount));
  OUTRIDER_ASSIGN(scenario.requests, ParseCount(json["requests"], "requests", 1, kMaxCount));
  if (!json["shared"].is_boolean()) return InvalidArgument("shared must be true or false");
  scenario.shared = json["shared"].get<bool>();
  if (json.contains("sessions")) {
    OUTRIDER_ASSIGN(scenario.sessions, ParseSteps(json["sessions"], "sessions", {1, kMaxSessions}));
  }
  OUTRIDER_TRY(ArmSet::Create(ArmsOf(scenario)).status());
  return scenario;
}

std::vector<Arm> ArmsOf(const ControlScenario& scenario) {
  std::vector<Arm> arms;
  for (const ScenarioArm& arm : scenario.arms) {
    Arm& plan = arms.emplace_back(Arm{.name = arm.name});
    if (arm.plain) continue;
    const auto first =
        std::find_if(scenario.arms.begin(), scenario.arms.end(), [&](const ScenarioArm& other) {
          return !other.plain && other.acceptance == arm.acceptance &&
                 other.draft_ms == arm.draft_ms;
        });
    plan.proposer = {.kind = Proposer::Kind::kModel, .name = first->name};
    plan.shape = Sequences(1, arm.length);
  }
  return arms;
}

}  // namespace outrider
