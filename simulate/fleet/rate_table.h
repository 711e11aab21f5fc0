// What a verifier's pass brings to the requests that decode there, by how many they are and how
// many drafters serve it: what a fleet that is too large for every round is simulated by.
// rate_fit.h measures it.
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

// A verifier at which this many requests decode: they have had their first chunk of tokens. All
// fare alike.
struct RatePoint {
  double requests = 0;
  double pass_rows = 0;        // of each of them in a pass: text and draft tokens
  double pass_tokens = 0;      // that each of them gains by a pass
  double idle_seconds = 0;     // between two passes
  double first_tokens = 1;     // in a request's first chunk
  double drafted = 0;          // draft tokens for each token of output
  double accepted = 0;         // of these, accepted
  double drafter_seconds = 0;  // of drafters' passes, for each token of output
  double plan_seconds = 0;     // from plans to drafts, for each token of output
};

// `part` of the way from one point to another.
RatePoint Between(const RatePoint& a, const RatePoint& b, double part);

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
