// Scenarios for the tests of `outrider simulate fleet`.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "simulate/fleet/fleet.h"

namespace outrider::testing {

// One verifier, one drafter, no network, one client: a verifier of 20 ms, a drafter of 2 ms a
// depth, drafts of four tokens.
inline nlohmann::json SmallFleet() {
  return {{"seconds", 60},
          {"zones", {{{"verifiers", 1}, {"drafters", 1}}}},
          {"network", {{"within_ms", 0}}},
          {"verifier", {{"t_ms", 20}, {"t_row_ms", 0.1}, {"price", 10}}},
          {"drafter", {{"t_ms", 2}, {"t_row_ms", 0.05}, {"price", 1}, {"ahead_tokens", 0}}},
          {"policy", "fixed"},
          {"draft_length", 4},
          {"classes", {{{"acceptance", 0.7}, {"prompt_tokens", 16}, {"output_tokens", 400}}}},
          {"arrivals", {{"clients", 1}}}};
}

inline FleetScenario ParsedFleet(const nlohmann::json& json) {
  const Result<FleetScenario> scenario = ParseFleetScenario(json.dump(), "");
  EXPECT_TRUE(scenario.ok()) << scenario.status().ToString();
  return scenario.ok() ? *scenario : FleetScenario();
}

inline FleetFigures RunOf(const nlohmann::json& json, FleetLayout layout = FleetLayout::kSplit,
                          uint64_t seed = 1) {
  return SimulateFleet(ParsedFleet(json), layout, seed);
}

}  // namespace outrider::testing
