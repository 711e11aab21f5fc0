// `outrider simulate`: verification without models, services or network. Runs the production rules
// (common/rules) on a pair of toy Markov chains, to show a rule's distribution and acceptance on
// examples of the size in papers.
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
  std::vector<int> tree = {};            // k_1 .. k_G instead of K: children of each node by depth
  int64_t rounds = 100000;               // N: sampled generations; ignored with exact
  int chain = 1;                         // R: rounds over which emitted tokens are counted, 1 to 64
  uint64_t seed = 0;
  bool exact = false;
  bool integer_distributions = false;  // round the draft distributions to the integers of the wire
};

// Returns one JSON object:
//   algorithm, draft_length, drafts (sequences in all), exact, rounds (0 if exact)
//   tree               as given, if given
//   mean_accepted      draft tokens accepted in a generation's first round
//   standard_error     of mean_accepted (0 if exact)
//   accepted_law       [G + 1] Pr(i draft tokens are accepted in the first round)
//   acceptance_first_token  Pr(at least one is)
//   alpha_first_token  the maximum of that over all rules with as many i.i.d. drafts (SpecTr's
//                      alpha_k). Gumbel's candidates are distinct, so several may exceed it.
//   mean_tokens, mean_tokens_error  [R] tokens emitted by the first 1, 2, .. rounds
//   first_token_law    [V]
//   sequence_law       {"0,1,2": probability}: the first G + 1 tokens of a generation, from as
//                      many rounds as needed; only sequences that occurred (exact: can occur)
//   kseq               spectr: the plan at the first token {"rho", "beta", "residual": [V]}
// Sampled: each generation has its own seed; rows are double, but float for gumbel and, for the
// target, with integer_distributions: see sample.h. Exact: draft tokens and random numbers are
// enumerated in double. kInvalidArgument: a field of the options or the pair is invalid, or there
// is too much to enumerate.
Result<std::string> Simulate(std::string_view pair_json, const SimulateOptions& options);

// The same for the file at options.pair_path; kNotFound if it cannot be read.
Result<std::string> RunSimulate(const SimulateOptions& options);

}  // namespace outrider
