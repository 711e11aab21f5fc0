// `outrider simulate fleet`: a discrete-event simulation of verifiers and drafters that runs the
// production code (engine, scheduler, admission, drafter pool, controller, drafting loop) round by
// round on simulated clocks. Only the models' passes and the network are made up.
//
// Thread: any; no state.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "simulate/fleet/fleet_figures.h"
#include "simulate/fleet/fleet_scenario.h"

namespace outrider {

// The same scenario, layout and seed give the same figures.
FleetFigures SimulateFleet(const FleetScenario& scenario, FleetLayout layout, uint64_t seed);

struct FleetOptions {
  std::string scenario_path = {};  // FILE.json, see fleet_scenario.h
  uint64_t seed = 1;
  std::string layout = "all";  // split, colocated, plain, or all three
};

struct FleetLayoutFigures {
  FleetLayout layout = FleetLayout::kSplit;
  FleetFigures figures;
};

struct FleetReport {
  double interval_seconds = 0;
  std::vector<FleetLayoutFigures> layouts;
};

// Runs the scenario at options.scenario_path. kNotFound if it cannot be read, kInvalidArgument if
// it or the options are invalid.
Result<FleetReport> RunFleet(const FleetOptions& options);

// One JSON object: {"layouts": [{"layout", ..figures.., "timeline": [..]}]}.
std::string FleetJson(const FleetReport& report);
// A line for each layout.
std::string FleetTable(const FleetReport& report);

}  // namespace outrider
