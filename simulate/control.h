// `outrider simulate control`: the production controller (verifier/control) on a scenario whose
// acceptance and costs are given, beside every fixed arm on the same coins.
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
  int seeds = 20;                   // the whole scenario is played so often
};

// One JSON object:
//   policy
//   mean_ms              of a request, over all requests and seeds
//   best_fixed_arm       the scenario's arm that takes the least time
//   best_fixed_ms        its mean_ms
//   plain_ms             of plain decoding, whether it is an arm or not
//   ratio_to_best_fixed  mean_ms / best_fixed_ms
//   ratio_to_plain       mean_ms / plain_ms
//   pulls                {arm: rounds}, over all requests and seeds. Plain decoding, which
//   "adaptive"
//                        may always choose, is there although no arm of the scenario if it was
//                        chosen
//   regret_rounds        rounds of a request above those of the fixed arm with the fewest: the
//                        stopping-time regret of BanditSpec, (1) and (2)
//
// A round of a chain arm takes length * draft_ms + rtt_ms + base + per_row * sessions * (length +
// 1) and yields 1 to length + 1 tokens, of a "none" arm base + per_row * sessions and one token;
// the last round of a request counts in full. Before its first round a controller has measured a
// step of one row and one of 64; streams say what their round trip and their drafting took the
// round before. Not shared: each request has a new controller. kInvalidArgument: what is wrong in
// the scenario or the options, or that this is too much to play.
Result<std::string> SimulateControl(std::string_view scenario_json,
                                    const SimulateControlOptions& options);

// The same on the file at options.scenario_path; kNotFound if it cannot be read.
Result<std::string> RunSimulateControl(const SimulateControlOptions& options);

}  // namespace outrider
