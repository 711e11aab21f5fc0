// PAIR.json of `outrider simulate`: two first-order Markov chains over a small vocabulary.
//   {"vocab": V, "target": {"initial": [V numbers], "transition": [V rows of V numbers]},
//    "draft": {the same}}
//
// Thread: any; no state.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/math/accept.h"
#include "common/spec/draft_distribution.h"

namespace outrider {

inline constexpr int kMaxSimulatedVocab = 1024;

struct MarkovChain {
  // [1 + vocab] rows of vocab: the distribution of the first token, then those after each token.
  std::vector<std::vector<double>> rows;

  // `last`: the previous token, -1 at the start.
  const std::vector<double>& Row(TokenId last) const { return rows[static_cast<size_t>(last + 1)]; }
};

struct MarkovPair {
  int vocab = 0;
  MarkovChain target;
  MarkovChain draft;
  std::vector<TokenId> ids;  // 0 .. vocab - 1

  // The draft distribution after `last`, in the form that rules read.
  SparseRow<double> DraftRow(TokenId last) const {
    return {ids.data(), draft.Row(last).data(), vocab, 1};
  }
};

// kInvalidArgument, with the field and the row, for anything else: entries that are not numbers,
// negative or not finite, rows of the wrong size or whose sum is not within 1e-6 of 1. Rows are
// divided by their sum, so that decimals like 0.333333 do not distort the distributions.
Result<MarkovPair> ParsePair(std::string_view json);

// The integer distribution that a row has on the wire, without truncation.
DraftDistribution WireDistribution(std::span<const double> row);

// Rounds every row of the chain to its integer distribution. Tokens below half a unit are then
// never drafted.
void RoundToIntegers(MarkovChain* chain);

}  // namespace outrider
