// How fast requests advance at a verifier, by how many run there and how many drafters serve it:
// what a fleet that is too large for every round is simulated by. rate_fit.h measures it.
//
// Thread: any; no state.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "simulate/fleet/fleet_scenario.h"

namespace outrider {

// A verifier at which this many requests run. Its requests share it equally.
struct RatePoint {
  double requests = 0;
  double first_seconds = 0;         // from admission to the first chunk, less the prompt's part:
  double prompt_token_seconds = 0;  // for each token of it that is not cached
  double first_tokens = 1;          // in the first chunk
  double token_seconds = 0;         // of a request, for each token after it
  double drafted = 0;               // draft tokens for each token of output
  double accepted = 0;              // of these, accepted
  double verifier_busy = 0;         // share of the time in passes
  double drafter_seconds = 0;       // of passes, for each token of output
};

// Verifiers that so many drafters serve each.
struct RateColumn {
  double drafters = 0;
  std::vector<RatePoint> points;  // by ascending requests; at least one
};

struct LayoutRates {
  std::vector<RateColumn> columns;  // by ascending drafters

  // Linear between points and columns; beyond the outermost it is theirs. REQUIRES: columns.
  RatePoint At(double requests, double drafters) const;
};

struct RateTable {
  std::string scenario;  // FleetScenario::rate_key of the scenario it is for
  std::array<LayoutRates, kFleetLayouts> layouts;  // by FleetLayout; without columns: not measured

  const LayoutRates& of(FleetLayout layout) const { return layouts[static_cast<size_t>(layout)]; }
  LayoutRates& of(FleetLayout layout) { return layouts[static_cast<size_t>(layout)]; }
};

// One JSON object.
std::string RatesJson(const RateTable& table);
// kInvalidArgument names the member that is invalid.
Result<RateTable> ParseRates(std::string_view json);

}  // namespace outrider
