// `outrider simulate fleet`: a discrete-event simulation of verifiers and drafters that runs the
// production code on simulated clocks, in one of two resolutions. Either every round is simulated
// (engine, scheduler, admission, drafter pool, controller, drafting loop), and only the models'
// passes and the network are made up. Or requests are routed, admitted and given to drafters by the
// production code, and advance at rates that were measured in runs of the first kind.
//
// Thread: any; no state.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "simulate/fleet/fleet_figures.h"
#include "simulate/fleet/fleet_scenario.h"
#include "simulate/fleet/rate_table.h"

namespace outrider {

// The same scenario, layout, seed and rates give the same figures. `rates`: of requests; nullptr:
// every round is simulated, REQUIRES: CheckRoundLimits.
FleetFigures SimulateFleet(const FleetScenario& scenario, FleetLayout layout, uint64_t seed,
                           const LayoutRates* rates = nullptr);

struct FleetOptions {
  std::string scenario_path = {};  // FILE.json, see fleet_scenario.h
  uint64_t seed = 1;
  std::string layout = "all";   // split, colocated, plain, or all three
  std::string rates_path = {};  // FILE.json of FitFleet; "": every round is simulated
};

struct FleetLayoutFigures {
  FleetLayout layout = FleetLayout::kSplit;
  FleetFigures figures;
};

struct FleetReport {
  bool by_rates = false;
  std::vector<FleetLayoutFigures> layouts;
};

// Runs the scenario at options.scenario_path. kNotFound if it cannot be read, kInvalidArgument if
// it or the options are invalid, or the rates are not this scenario's.
Result<FleetReport> RunFleet(const FleetOptions& options);
// Measures the rates of the scenario's layouts and writes them to `path`, for rates_path. Takes
// minutes; calls `on_run` before each run, with what it measures.
Status FitFleet(const FleetOptions& options, const std::string& path,
                const std::function<void(const std::string&)>& on_run);

// One JSON object: {"layouts": [{"layout", ..figures.., "timeline": [..]}]}.
std::string FleetJson(const FleetReport& report);
// A line for each layout.
std::string FleetTable(const FleetReport& report);

}  // namespace outrider
