// `outrider simulate`: verification without models, services or network. Runs the production rules
// (verifier/rules) on a pair of toy Markov chains, to see a rule's law and its gain on paper-sized
// examples.
//
// Thread: any; no state.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace outrider {

struct SimulateOptions {
  std::string pair_path = {};       // PAIR.json, see simulate_pair.h
  std::string algorithm = "block";  // "token" or "block"
  int draft_length = 4;             // G: 0 to 16
  int drafts = 1;                   // K: both rules verify one draft
  int64_t rounds = 100000;          // N: sampled generations; not read when exact
  uint64_t seed = 0;
  bool exact = false;
};

// One JSON object:
//   algorithm, draft_length, drafts, exact, rounds (0 when exact)
//   mean_accepted      draft tokens accepted in a generation's first round
//   standard_error     of mean_accepted (0 when exact)
//   first_token_law    [V]
//   sequence_law       {"0,1,2": probability}: the first G + 1 tokens of a generation, made of as
//                      many rounds as it takes; only what has occurred (exact: can occur)
// Sampled: each generation has its own seed; drafts come from the integer laws that travel on the
// wire, rows are float. Exact: drafts are enumerated and coins integrated out in double, without
// rounding the draft's rows; refused beyond 2^24 cells over all contexts.
// kInvalidArgument: the field that is wrong, in the options or in the pair.
Result<std::string> Simulate(std::string_view pair_json, const SimulateOptions& options);

// The same on the file at options.pair_path; kNotFound if it cannot be read.
Result<std::string> RunSimulate(const SimulateOptions& options);

}  // namespace outrider
