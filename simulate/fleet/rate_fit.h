// Measures what passes bring (rate_table.h) in runs of every round: a few verifiers of the
// scenario, each with a fixed number of clients that send one request after the other, for several
// such numbers and several numbers of drafters.
//
// Thread: any; no state.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "common/base/status.h"
#include "simulate/fleet/fleet_scenario.h"
#include "simulate/fleet/rate_table.h"

namespace outrider {

struct RateFitOptions {
  int verifiers = 4;  // of a run, unless the scenario has fewer or more zones than that
  double seconds =
      20;  // that count of a run, at least; four times a request's time if that is more
  uint64_t seed = 1;
};

// `on_run`: called before each run, with what it measures. kInvalidArgument: no request decoded in
// one.
Result<RateTable> FitRates(const FleetScenario& scenario, std::span<const FleetLayout> layouts,
                           const RateFitOptions& options,
                           const std::function<void(const std::string&)>& on_run);

}  // namespace outrider
