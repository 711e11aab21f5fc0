// What `outrider simulate` runs, and the figures that it enumerates or samples.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "common/base/types.h"
#include "common/spec/draft.h"
#include "common/spec/draft_tree.h"
#include "simulate/pair.h"

namespace outrider {

// Rounds of one rule over drafts of one shape, from the start of both chains.
struct Simulation {
  MarkovPair pair;
  Rule rule = Rule::kBlock;
  bool greedy_block = false;  // instead of `rule`: no service has it
  DraftShape shape;
  int chain = 1;  // rounds over which tokens are counted
};

inline constexpr std::string_view kGreedyBlockName = "greedy-block";
inline std::string_view AlgorithmName(const Simulation& simulation) {
  return simulation.greedy_block ? kGreedyBlockName : RuleName(simulation.rule);
}

// Means over generations from the start. Standard errors are 0 if nothing was sampled.
struct SimulationFigures {
  int64_t rounds = 0;  // generations sampled; 0 when enumerated
  // [shape.length + 1] Pr(i draft tokens are accepted in round 1)
  std::vector<double> accepted_distribution;
  double mean_accepted = 0;
  double standard_error = 0;
  std::vector<double> mean_tokens;  // [chain] emitted by the first 1, 2, .. rounds
  std::vector<double> mean_tokens_error;
  std::vector<double> first_token_distribution;  // [vocab]
  // Of the first shape.length + 1 tokens.
  std::map<std::vector<TokenId>, double> sequence_distribution;
};

}  // namespace outrider
