// Turns a row of logits into the law that is sampled: the fully warped one, the same for plain
// decoding, for drafting and for verification (exactness rule 2).
#pragma once

#include <span>
#include <vector>

#include "common/base/types.h"
#include "common/spec/sampling_params.h"

namespace outrider {

// One session's transforms with the token counts that its penalties need.
// Thread: the owner of the session.
class Warper {
 public:
  // `vocab_size`: entries of a logits row. Ids from `allowed` on are never sampled (rows padded
  // beyond the tokenizer).
  Warper(const SamplingParams& params, int vocab_size, int allowed);

  void ObservePrompt(std::span<const TokenId> tokens);
  void ObserveOutput(TokenId token);

  // In place: logits [vocab_size] become probabilities that sum to 1 (temperature 0: a point mass).
  // `pending`: output tokens behind the observed ones (the draft tokens that lead to this row).
  void Warp(std::span<float> row, std::span<const TokenId> pending);

  // The most likely token after penalties and bias (lowest id on ties); what greedy decoding emits.
  TokenId Argmax(std::span<const float> row, std::span<const TokenId> pending);

  const SamplingParams& params() const { return params_; }

 private:
  SamplingParams params_;
  int vocab_size_;
  int allowed_;
  // Per-token counts, empty without penalties.
  std::vector<int> prompt_counts_;
  std::vector<int> output_counts_;
  std::vector<float> scratch_;
};

// The token at `coin` in [0, 1) of a law of probabilities; never one of probability 0.
TokenId SampleRow(std::span<const float> probs, double coin);

}  // namespace outrider
