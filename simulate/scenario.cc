#include "simulate/scenario.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/json/json.h"

namespace outrider {
namespace {

constexpr double kMaxMs = 1e6;
constexpr int kMaxCount = 1 << 20;
constexpr int kMaxSessions = 1 << 16;

struct Range {
  double least;
  double most;
};

Result<Steps> ParseSteps(const JsonValue& json, Range range) {
  if (!json.is_array()) {
    OUTRIDER_ASSIGN(const double value, json.Number(range.least, range.most));
    return Steps(value);
  }
  std::vector<std::pair<int, double>> steps;
  for (size_t i = 0; i < json.size(); ++i) {
    if (!json[i].is_array() || json[i].size() != 2) return json[i].Wrong("[from_round, number]");
    OUTRIDER_ASSIGN(const int from, json[i][0].Int(0, kMaxCount));
    OUTRIDER_ASSIGN(const double value, json[i][1].Number(range.least, range.most));
    if (steps.empty() ? from != 0 : from <= steps.back().first) {
      return json[i][0].Error("rounds must start at 0 and rise");
    }
    steps.emplace_back(from, value);
  }
  if (steps.empty()) return json.Error("must not be empty");
  return Steps(std::move(steps));
}

Result<ScenarioArm> ParseArm(const JsonValue& json) {
  OUTRIDER_TRY(json.AllowOnly({"name", "kind", "acceptance", "length", "draft_ms"}));
  ScenarioArm arm;
  OUTRIDER_ASSIGN(arm.name, json["name"].String());
  if (arm.name.empty()) return json["name"].Wrong("a string that is not empty");
  arm.plain = json["kind"].Is("none");
  if (!arm.plain && !json["kind"].Is("chain")) {
    return json["kind"].Wrong("\"chain\" or \"none\"");
  }
  // A plain arm may have them, but does not use them.
  if (!arm.plain || !json["acceptance"].absent()) {
    OUTRIDER_ASSIGN(arm.acceptance, ParseSteps(json["acceptance"], {0, 1}));
  }
  if (!arm.plain || !json["draft_ms"].absent()) {
    OUTRIDER_ASSIGN(arm.draft_ms, ParseSteps(json["draft_ms"], {0, kMaxMs}));
  }
  if (!arm.plain || !json["length"].absent()) {
    OUTRIDER_ASSIGN(arm.length, json["length"].Int(0, kMaxArmLength));
  }
  if (arm.plain) arm.length = 0;
  return arm;
}

}  // namespace

double Steps::At(int round) const {
  const auto after = std::upper_bound(
      steps_.begin(), steps_.end(), round,
      [](int value, const std::pair<int, double>& step) { return value < step.first; });
  return std::prev(after)->second;
}

Result<ControlScenario> ParseControlScenario(std::string_view text) {
  OUTRIDER_ASSIGN(const JsonValue json,
                  ParseJsonObject(text, "the scenario", {.repeated_members = true}));
  OUTRIDER_TRY(
      json.AllowOnly({"arms", "verify_ms", "rtt_ms", "tokens", "requests", "shared", "sessions"}));
  ControlScenario scenario;
  const JsonValue arms = json["arms"];
  if (!arms.is_array() || arms.size() == 0 || arms.size() > static_cast<size_t>(kMaxArms)) {
    return arms.Wrong("an array of 1 to " + std::to_string(kMaxArms) + " arms");
  }
  for (size_t i = 0; i < arms.size(); ++i) {
    OUTRIDER_ASSIGN(scenario.arms.emplace_back(), ParseArm(arms[i]));
  }
  const JsonValue verify = json["verify_ms"];
  OUTRIDER_TRY(verify.AllowOnly({"base", "per_row"}));
  OUTRIDER_ASSIGN(scenario.base_ms, ParseSteps(verify["base"], {0, kMaxMs}));
  OUTRIDER_ASSIGN(scenario.per_row_ms, ParseSteps(verify["per_row"], {0, kMaxMs}));
  if (scenario.base_ms == Steps(0) && scenario.per_row_ms == Steps(0)) {
    return verify.Error("a step must take some time");
  }
  OUTRIDER_ASSIGN(scenario.rtt_ms, ParseSteps(json["rtt_ms"], {0, kMaxMs}));
  OUTRIDER_ASSIGN(scenario.tokens, json["tokens"].Int(1, kMaxCount));
  OUTRIDER_ASSIGN(scenario.requests, json["requests"].Int(1, kMaxCount));
  OUTRIDER_ASSIGN(scenario.shared, json["shared"].Bool());
  if (!json["sessions"].absent()) {
    OUTRIDER_ASSIGN(scenario.sessions, ParseSteps(json["sessions"], {1, kMaxSessions}));
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
