// How one sequence samples: its parameters and the tokens that its penalties count, from which
// row_sampling.h makes distributions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/types.h"
#include "common/spec/row_sampling.h"
#include "common/spec/sampling_params.h"

namespace outrider {

// Thread: the owner of the sequence.
class SequenceSampling {
 public:
  // `vocab_size`: length of a logits row. Ids from `allowed` on are never sampled (rows padded
  // beyond the tokenizer). REQUIRES: 0 < allowed <= vocab_size, params valid for vocab_size.
  SequenceSampling(const SamplingParams& params, int vocab_size, int allowed);

  // Gives these tokens probability 0 in the rows of the first `min_output` output tokens. A row's
  // index in the output counts its own draft path, so drafts are verified against the distribution
  // that plain decoding samples from. REQUIRES: no output has been observed.
  void SuppressBefore(int min_output, std::vector<TokenId> tokens);

  // Only tokens in `mask` [MaskWords(vocab_size)] are sampled.
  void Restrict(std::span<const uint32_t> mask);

  void ObservePrompt(std::span<const TokenId> tokens);
  void ObserveOutput(TokenId token);

  // Whether `token` may come next. If masks leave no token, a row's distribution is a point mass on
  // one that may not.
  bool Permits(TokenId token) const;

  // The state after the observed tokens. Points into this object, until it observes another.
  SamplingState state() const;

  int allowed() const { return allowed_; }

 private:
  RowSampling sampling_;
  std::vector<TokenBias> biases_;
  int vocab_size_;
  int allowed_;
  std::vector<SeenToken> seen_;  // ascending; empty without penalties
  int output_tokens_ = 0;        // observed
  int min_output_ = 0;           // `suppressed_` have probability 0 before it
  std::vector<TokenId> suppressed_;
  std::vector<uint32_t> mask_;
  std::vector<BadWord> bad_words_;
  std::vector<TokenId> bad_tokens_;
  size_t reach_ = 0;             // how many tokens before a row a bad word may have
  std::vector<TokenId> recent_;  // the last output tokens, at most `reach_`
};

}  // namespace outrider
