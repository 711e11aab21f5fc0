#include "simulate/command_line.h"

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/version.h"
#include "common/command_line/command_line.h"
#include "common/json/json.h"
#include "common/spec/draft.h"
#include "simulate/control.h"
#include "simulate/fleet/fleet.h"
#include "simulate/simulate.h"

namespace outrider {
namespace {

constexpr int kFailed = 1;
constexpr int kUsageError = 2;

void AddRuleFlags(CLI::App& app, SimulateOptions* o) {
  // Not ->required(), because control has no pair.
  app.add_option("--pair", o->pair_path, "JSON file with the target and draft chains");
  app.add_option("--rule", o->algorithm, "The verification rule")
      ->check(CLI::IsMember(AlgorithmNames()))
      ->capture_default_str();
  app.add_option("--draft-length", o->draft_length,
                 "Draft tokens per sequence and round; by default the tree's depth, or else 4")
      ->check(CLI::Range(0, 16));
  app.add_option("--paths", o->drafts,
                 "Draft sequences per round; token, block and greedy-block take one")
      ->capture_default_str();
  app.add_option("--tree", o->tree,
                 "A draft tree instead of --paths: children of each node by depth, as in 3,2,1,1")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--rounds", o->rounds, "Generations to sample")->capture_default_str();
  app.add_option("--seed", o->seed, "Seed of the sampled generations")->capture_default_str();
  app.add_option("--chain", o->chain, "Rounds over which emitted tokens are counted (mean_tokens)")
      ->capture_default_str();
  app.add_flag("--exact", o->exact, "Enumerate instead of sampling");
  app.add_flag("--integer-law", o->integer_distributions,
               "Round the draft distributions to the integers of the wire");
}

CLI::App* AddControl(CLI::App& app, SimulateControlOptions* o) {
  CLI::App* const control =
      app.add_subcommand("control", "Run the controller on arms with given acceptance and costs");
  control->add_option("--scenario", o->scenario_path, "JSON file (docs/control_results.md)")
      ->required();
  control
      ->add_option("--policy", o->policy,
                   "adaptive, ucbspec, exp3spec, ucb-tuned, fixed (the first arm) or fixed:ARM,..")
      ->capture_default_str();
  control->add_option("--seeds", o->seeds, "Repetitions of the scenario")->capture_default_str();
  return control;
}

CLI::App* AddFleet(CLI::App& app, FleetOptions* o, std::string* fit_path) {
  CLI::App* const fleet = app.add_subcommand(
      "fleet", "Run verifiers and drafters with given pass times, network, load and failures");
  fleet->add_option("--scenario", o->scenario_path, "JSON file (docs/fleet.md)")->required();
  fleet
      ->add_option("--layout", o->layout,
                   "split (drafters as services), colocated (in the verifiers' processes and on "
                   "their devices), plain (no drafters) or all")
      ->capture_default_str();
  fleet->add_option("--seed", o->seed, "Seed of arrivals, lengths and the network")
      ->capture_default_str();
  auto* const rates = fleet->add_option(
      "--rates", o->rates_path, "Advance requests by the rates in this file: for large fleets");
  fleet
      ->add_option("--fit", *fit_path,
                   "Measure the rates and write them to this file, instead of running the scenario")
      ->excludes(rates);
  return fleet;
}

// Returns the exit code.
int RunFleetCommand(const FleetOptions& options, const std::string& fit_path, bool as_json,
                    std::ostream& out, std::ostream& err) {
  SetLogLevel(LogLevel::kError);  // of the simulated processes
  if (!fit_path.empty()) {
    const Status fitted =
        FitFleet(options, fit_path, [&](const std::string& run) { err << run << std::endl; });
    if (!fitted.ok()) err << "error: " << fitted.ToString() << std::endl;
    return fitted.ok() ? 0 : kFailed;
  }
  const Result<FleetReport> report = RunFleet(options);
  if (!report.ok()) {
    err << "error: " << report.status().ToString() << std::endl;
    return kFailed;
  }
  out << (as_json ? FleetJson(*report) + "\n" : FleetTable(*report)) << std::flush;
  return 0;
}

void Print(const std::string& result, bool as_json, std::ostream& out) {
  if (as_json) {
    out << result << std::endl;
    return;
  }
  const Result<JsonValue> json = ParseJsonObject(result, "the result");
  if (!json.ok()) return;  // it is our own JSON
  (void)json->ForEachMember([&](const std::string& key, const JsonValue& value) {
    if (!value.is_object()) {
      out << key << ": " << value.Dump() << "\n";
      return Status();
    }
    out << key << ":\n";
    return value.ForEachMember([&](const std::string& entry, const JsonValue& number) {
      out << "  " << entry << "  " << number.Dump() << "\n";
      return Status();
    });
  });
  out << std::flush;
}

int ParseAndRun(int argc, const char* const* argv, std::ostream& out, std::ostream& err) {
  CLI::App app("Runs verification on a pair of toy Markov chains, without models and services",
               "outrider-simulate");
  app.set_version_flag("--version", kVersion);
  bool json = false;
  SimulateOptions options;
  AddRuleFlags(app, &options);
  SimulateControlOptions control_options;
  CLI::App* const control = AddControl(app, &control_options);
  FleetOptions fleet_options;
  std::string fit_path;
  CLI::App* const fleet = AddFleet(app, &fleet_options, &fit_path);
  for (CLI::App* const command : {&app, control, fleet}) {
    command->add_flag("--json", json, "One JSON object");
  }
  if (const auto code = ParseCommandLine(app, argc, argv, out, err)) return *code;
  if (fleet->parsed()) return RunFleetCommand(fleet_options, fit_path, json, out, err);
  if (!control->parsed() && options.pair_path.empty()) {
    err << "--pair is required" << std::endl;
    return kUsageError;
  }
  const Result<std::string> result =
      control->parsed() ? RunSimulateControl(control_options) : RunSimulate(options);
  if (!result.ok()) {
    err << "error: " << result.status().ToString() << std::endl;
    return kFailed;
  }
  Print(*result, json, out);
  return 0;
}

}  // namespace

int RunSimulateCommandLine(int argc, const char* const* argv, std::ostream& out,
                           std::ostream& err) {
  return CheckWritten(ParseAndRun(argc, argv, out, err), out, err);
}

}  // namespace outrider
