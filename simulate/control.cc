#include "simulate/control.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "common/base/input_file.h"
#include "common/math/philox.h"
#include "simulate/scenario.h"
#include "verifier/control/controller.h"

namespace outrider {
namespace {

constexpr int kMaxSeeds = 1 << 16;
constexpr double kMostRounds = 2e9;
constexpr int kPromptRows = 64;
constexpr double kMs = 1e-3;

struct Totals {
  double ms = 0;
  double rounds = 0;
  std::vector<int64_t> pulls;  // [arms of the controller]
};

// Accepted draft tokens: a truncated geometric distribution, from one uniform random number per
// round that all arms and policies share.
int Accepted(double acceptance, int length, uint32_t seed, uint32_t request, uint32_t round) {
  const double coin = UnitInterval(Philox({{request, round, 0, 0}}, seed, 0));
  double reach = 1;
  int accepted = 0;
  while (accepted < length && coin < (reach *= acceptance)) ++accepted;
  return accepted;
}

class Player {
 public:
  explicit Player(const ControlScenario& scenario) : scenario_(scenario), arms_(ArmsOf(scenario)) {}

  Result<Totals> Play(const std::string& policy, int seeds) {
    Totals totals;
    for (int seed = 0; seed < seeds; ++seed) {
      std::unique_ptr<Controller> controller;
      for (int request = 0; request < scenario_.requests; ++request) {
        if (!controller || !scenario_.shared) {
          OUTRIDER_ASSIGN(controller,
                          Controller::Create({.policy = policy,
                                              .shared = scenario_.shared,
                                              .seed = static_cast<uint64_t>(seed) << 32 |
                                                      static_cast<uint64_t>(request)},
                                             arms_));
          totals.pulls.resize(static_cast<size_t>(controller->arms().size()));
          for (const int rows : {1, kPromptRows}) {
            controller->costs().ObserveStep(rows, 0, kMs * VerifyMs(rows, 0));
          }
        }
        PlayRequest(*controller, static_cast<uint32_t>(seed), static_cast<uint32_t>(request),
                    &totals);
      }
    }
    return totals;
  }

  double PlainMs() const {
    double ms = 0;
    for (int round = 0; round < scenario_.tokens; ++round) {
      ms += VerifyMs(scenario_.sessions.At(round), round);
    }
    return ms;
  }

 private:
  double VerifyMs(double rows, int round) const {
    return scenario_.base_ms.At(round) + scenario_.per_row_ms.At(round) * rows;
  }

  void PlayRequest(Controller& controller, uint32_t seed, uint32_t request, Totals* totals) {
    const ArmSet& arms = controller.arms();
    CostModel& costs = controller.costs();
    const auto session = controller.Open("scenario", "");
    streams_.resize(static_cast<size_t>(arms.proposers()));
    for (int tokens = 0, round = 0; tokens < scenario_.tokens; ++round) {
      for (int i = 0; i < arms.size(); ++i) {
        if (arms.arm(i).plain()) continue;
        const ScenarioArm& arm = scenario_.arms[static_cast<size_t>(i)];
        streams_[static_cast<size_t>(arms.facts(i).proposer)] = {
            .round_trip = kMs * scenario_.rtt_ms.At(std::max(0, round - 1)),
            .draft_depth = kMs * arm.draft_ms.At(std::max(0, round - 1))};
      }
      const double sessions = scenario_.sessions.At(round);
      const Choice choice = session->Choose({.allowed = arms.given(),
                                             .step_sessions = sessions,
                                             .remaining = scenario_.tokens - tokens,
                                             .streams = streams_});
      const ArmSet::Facts& facts = arms.facts(choice.arm);
      const double verify_ms = VerifyMs(sessions * facts.rows, round);
      double draft_ms = 0, rtt_ms = 0;
      Outcome outcome;
      if (facts.sequences > 0) {
        const ScenarioArm& arm = scenario_.arms[static_cast<size_t>(choice.arm)];
        outcome.accepted = Accepted(arm.acceptance.At(round), facts.length, seed, request,
                                    static_cast<uint32_t>(round));
        draft_ms = facts.length * arm.draft_ms.At(round);
        rtt_ms = scenario_.rtt_ms.At(round);
        costs.ObserveDraft(facts, facts.length, kMs * draft_ms);
        costs.ObserveRoundTrip(facts.proposer, kMs * rtt_ms);
      }
      costs.ObserveStep(sessions * facts.rows, 0, kMs * verify_ms);
      outcome.emitted = std::min(outcome.accepted + 1, scenario_.tokens - tokens);
      outcome.truncated = outcome.emitted <= outcome.accepted;
      outcome.seconds = kMs * (verify_ms + draft_ms + rtt_ms);
      session->Observe(outcome);
      tokens += outcome.emitted;
      totals->ms += verify_ms + draft_ms + rtt_ms;
      totals->rounds += 1;
      totals->pulls[static_cast<size_t>(choice.arm)] += 1;
    }
  }

  const ControlScenario& scenario_;
  const std::vector<Arm> arms_;
  std::vector<StreamEstimate> streams_;
};

}  // namespace

Result<std::string> SimulateControl(std::string_view scenario_json,
                                    const SimulateControlOptions& options) {
  OUTRIDER_ASSIGN(const ControlScenario scenario, ParseControlScenario(scenario_json));
  if (options.seeds < 1 || options.seeds > kMaxSeeds) {
    return InvalidArgument("seeds is " + std::to_string(options.seeds) + ", must be from 1 to " +
                           std::to_string(kMaxSeeds));
  }
  const double requests = static_cast<double>(options.seeds) * scenario.requests;
  if (requests * scenario.tokens * static_cast<double>(scenario.arms.size() + 1) > kMostRounds) {
    return InvalidArgument("seeds * requests * tokens * (arms + 1) must not exceed 2e9");
  }
  Player player(scenario);
  OUTRIDER_ASSIGN(const Totals totals, player.Play(options.policy, options.seeds));
  std::string best_arm;
  double best_ms = 0, fewest_rounds = 0;
  for (const ScenarioArm& arm : scenario.arms) {
    OUTRIDER_ASSIGN(const Totals fixed, player.Play("fixed:" + arm.name, options.seeds));
    if (best_arm.empty() || fixed.ms < best_ms) {
      best_ms = fixed.ms;
      best_arm = arm.name;
    }
    if (fewest_rounds == 0 || fixed.rounds < fewest_rounds) fewest_rounds = fixed.rounds;
  }
  OUTRIDER_ASSIGN(const ArmSet arms, ArmSet::Create(ArmsOf(scenario)));
  nlohmann::json pulls = nlohmann::json::object();
  for (int i = 0; i < arms.size(); ++i) {
    const int64_t count = totals.pulls[static_cast<size_t>(i)];
    if (count > 0 || (arms.given() & ArmSet::Bit(i)) != 0) pulls[arms.arm(i).name] = count;
  }
  const double plain_ms = player.PlainMs();
  const nlohmann::json out = {{"policy", options.policy},
                              {"mean_ms", totals.ms / requests},
                              {"best_fixed_arm", best_arm},
                              {"best_fixed_ms", best_ms / requests},
                              {"plain_ms", plain_ms},
                              {"ratio_to_best_fixed", totals.ms / best_ms},
                              {"ratio_to_plain", totals.ms / requests / plain_ms},
                              {"pulls", pulls},
                              {"regret_rounds", (totals.rounds - fewest_rounds) / requests}};
  // Names may contain invalid UTF-8.
  return out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

Result<std::string> RunSimulateControl(const SimulateControlOptions& options) {
  OUTRIDER_ASSIGN(const std::string text, ReadFile(options.scenario_path, kMaxPromptFileBytes));
  Result<std::string> report = SimulateControl(text, options);
  return report.ok() ? report : report.status().Annotate(options.scenario_path);
}

}  // namespace outrider
