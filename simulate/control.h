// `outrider simulate control`: runs the production controller (verifier/control) on a scenario with
// given acceptance and costs, beside every fixed arm with the same random numbers.
//
// Thread: any; no state.
#pragma once

#include <string>
#include <string_view>

#include "common/base/status.h"

namespace outrider {

struct SimulateControlOptions {
  std::string scenario_path = {};   // FILE.json, see scenario.h
  std::string policy = "adaptive";  // ControllerOptions::policy
  int seeds = 20;                   // how often the whole scenario is repeated
};

// Returns one JSON object:
//   policy
//   mean_ms              of a request, over all requests and seeds
//   best_fixed_arm       the scenario's arm that takes the least time
//   best_fixed_ms        its mean_ms
//   plain_ms             of plain decoding, whether it is an arm or not
//   ratio_to_best_fixed  mean_ms / best_fixed_ms
//   ratio_to_plain       mean_ms / plain_ms
//   pulls                {arm: rounds}, over all requests and seeds. Includes plain decoding if
//                        "adaptive" chose it, even if it is not an arm of the scenario
//   regret_rounds        rounds of a request above those of the fixed arm with the fewest: the
//                        stopping-time regret of BanditSpec, (1) and (2)
//
// A round of a chain arm takes length * draft_ms + rtt_ms + base + per_row * sessions * (length +
// 1) and yields 1 to length + 1 tokens; one of a "none" arm takes base + per_row * sessions and
// yields one token. The last round of a request counts in full. Before its first round a controller
// has measured a step of one row and one of 64; streams report the round trip and drafting time of
// the round before. Without `shared` each request has a new controller. kInvalidArgument: the
// scenario or the options are invalid, or there is too much to simulate.
Result<std::string> SimulateControl(std::string_view scenario_json,
                                    const SimulateControlOptions& options);

// The same for the file at options.scenario_path; kNotFound if it cannot be read.
Result<std::string> RunSimulateControl(const SimulateControlOptions& options);

}  // namespace outrider
