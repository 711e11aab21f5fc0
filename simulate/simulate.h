// `outrider simulate`: verification without models, services or network. Runs the production rules
// (common/rules) on a pair of toy Markov chains, to see a rule's law and its gain on paper-sized
// examples.
//
// Thread: any; no state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace outrider {

// The names of the services' rules, and greedy-block.
std::vector<std::string> AlgorithmNames();

struct SimulateOptions {
  std::string pair_path = {};            // PAIR.json, see pair.h
  std::string algorithm = "block";       // one of AlgorithmNames()
  std::optional<int> draft_length = {};  // G: 0 to 16; unset: the tree's, else 4
  int drafts = 1;                        // K: i.i.d. sequences, 1 to 16
  std::vector<int> tree = {};            // k_1 .. k_G in place of K: draws of each draw at a depth
  int64_t rounds = 100000;               // N: sampled generations; not read when exact
  int chain = 1;                         // R: rounds over which emitted tokens are counted, 1 to 64
  uint64_t seed = 0;
  bool exact = false;
  bool integer_law = false;  // round the draft's rows to the integers of the wire
};

// One JSON object:
//   algorithm, draft_length, drafts (sequences in all), exact, rounds (0 when exact)
//   tree               as given, if given
//   mean_accepted      draft tokens accepted in a generation's first round
//   standard_error     of mean_accepted (0 when exact)
//   accepted_law       [G + 1] Pr(i draft tokens are accepted in the first round)
//   acceptance_first_token  Pr(at least one is)
//   alpha_first_token  the most that it can be for any rule that has as many i.i.d. draws (SpecTr's
//                      alpha_k). Gumbel's candidates are distinct: several may pass it.
//   mean_tokens, mean_tokens_error  [R] tokens emitted by the first 1, 2, .. rounds
//   first_token_law    [V]
//   sequence_law       {"0,1,2": probability}: the first G + 1 tokens of a generation, made of as
//                      many rounds as it takes; only what has occurred (exact: can occur)
//   kseq               spectr: the plan at the first token {"rho", "beta", "residual": [V]}
// Sampled: each generation has its own seed; rows are double, but float for gumbel and (the
// target's) with integer_law: sample.h. Exact: draws and coins are enumerated in double.
// kInvalidArgument: the field that is wrong, in the options or in the pair, or that this is too
// much to enumerate.
Result<std::string> Simulate(std::string_view pair_json, const SimulateOptions& options);

// The same on the file at options.pair_path; kNotFound if it cannot be read.
Result<std::string> RunSimulate(const SimulateOptions& options);

}  // namespace outrider
