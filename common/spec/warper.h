// One sequence's sampling parameters with the tokens that its penalties count: what turns its rows
// of logits into the distributions that are sampled (row_sampling.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/types.h"
#include "common/spec/row_sampling.h"
#include "common/spec/sampling_params.h"

namespace outrider {

// Thread: the owner of the sequence.
class Warper {
 public:
  // `vocab_size`: entries of a logits row. Ids from `allowed` on are never sampled (rows padded
  // beyond the tokenizer). REQUIRES: 0 < allowed <= vocab_size, params valid for vocab_size.
  Warper(const SamplingParams& params, int vocab_size, int allowed);

  // Gives these tokens probability 0 in the rows of the first `min_output` output tokens. A row's
  // place in the output is that of its own draft path, so drafts are verified against the same
  // distribution that plain decoding samples from. REQUIRES: no output has been observed.
  void SuppressBefore(int min_output, std::vector<TokenId> tokens);

  void ObservePrompt(std::span<const TokenId> tokens);
  void ObserveOutput(TokenId token);

  // After the observed tokens. Points into this object, until it observes another.
  SamplingState state() const;

  // MakeDistribution, MostLikely and RaceOrder of a row [vocab_size]. `path`: the draft tokens
  // before it, which follow the observed ones.
  void Warp(std::span<float> row, std::span<const TokenId> path) const;
  TokenId Argmax(std::span<float> row, std::span<const TokenId> path) const;
  std::vector<TokenId> Race(std::span<float> row, std::span<const TokenId> path, int count,
                            uint64_t seed, uint32_t position) const;

  const SamplingParams& params() const { return params_; }
  int vocab_size() const { return vocab_size_; }
  int allowed() const { return allowed_; }

 private:
  SamplingParams params_;
  RowSampling sampling_;           // of params_, as are
  std::vector<TokenBias> biases_;  // these
  int vocab_size_;
  int allowed_;
  std::vector<SeenToken> seen_;  // rising; empty without penalties
  int output_tokens_ = 0;        // observed
  int min_output_ = 0;           // `suppressed_` have probability 0 before it
  std::vector<TokenId> suppressed_;
};

// The token at `coin` in [0, 1) of a distribution; never one of probability 0. -1 if all are 0.
TokenId SampleRow(std::span<const float> probs, double coin);

}  // namespace outrider
