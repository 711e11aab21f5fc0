// Turns a row of logits into the law that is sampled: the fully warped one, the same for plain
// decoding, for drafting and for verification (exactness rule 2).
#pragma once

#include <span>
#include <vector>

#include "common/base/types.h"
#include "common/spec/sampling_params.h"

namespace outrider {

// One session's transforms with the token counts that its penalties need.
//
// Semantics (those of vLLM and Hugging Face where both agree): each filter sees what the one before
// it left. top-k keeps k tokens; top-p keeps the smallest set whose share of the mass reaches
// top_p, the token that crosses it included; min-p keeps what has at least min_p times the largest
// probability. Ties go to the lower id. The most likely token always stays.
//
// A NaN logit is a token that is never sampled; a row without any logit above -infinity becomes a
// point mass on token 0. Callers end a request, or a draft, at a row that is not finite (IsFinite
// of softmax.h): this only keeps a broken row from being a crash.
//
// Thread: the owner of the session.
class Warper {
 public:
  // `vocab_size`: entries of a logits row. Ids from `allowed` on are never sampled (rows padded
  // beyond the tokenizer). REQUIRES: 0 < allowed <= vocab_size, params valid for vocab_size.
  Warper(const SamplingParams& params, int vocab_size, int allowed);

  // Gives these tokens probability 0 in the rows of the first `min_output` output tokens. A row's
  // place in the output is that of its own draft path, so drafts are verified against the same
  // distribution that plain decoding samples from. REQUIRES: no output has been observed.
  void SuppressBefore(int min_output, std::vector<TokenId> tokens);
  // What is suppressed in the row after the observed output; empty once it is long enough.
  std::span<const TokenId> Suppressed() const;
  // Whether a row `depth` tokens further has these tokens back.
  bool SuppressionEndsWithin(int depth) const {
    return !Suppressed().empty() && output_tokens_ + depth >= min_output_;
  }

  void ObservePrompt(std::span<const TokenId> tokens);
  void ObserveOutput(TokenId token);

  // In place: logits [vocab_size] become probabilities that sum to 1 (temperature 0: a point mass).
  // `pending`: output tokens behind the observed ones (the draft tokens that lead to this row).
  void Warp(std::span<float> row, std::span<const TokenId> pending);

  // The most likely token after penalties, bias and suppression (lowest id on ties); what greedy
  // decoding emits.
  TokenId Argmax(std::span<const float> row, std::span<const TokenId> pending);

  // What the seed-stable rule emits at `position`, and the `count` - 1 runners-up: the race
  // (race.h) of the law that Warp makes. Overwrites the row.
  std::vector<TokenId> Race(std::span<float> row, std::span<const TokenId> pending, int count,
                            uint64_t seed, uint32_t position);

  // What the penalties read, by rising token: of every token of prompt and output, how often it
  // stands in the output. Empty without penalties.
  struct SeenToken {
    TokenId token = 0;
    int in_output = 0;
  };
  std::vector<SeenToken> Seen() const;

  const SamplingParams& params() const { return params_; }
  int vocab_size() const { return vocab_size_; }
  int allowed() const { return allowed_; }

 private:
  void Count(TokenId token, int change);
  // Penalties, bias and suppression, in place on the allowed part of a row.
  void AdjustLogits(std::span<float> logits, std::span<const TokenId> pending);
  void Truncate(std::span<float> probs) const;

  SamplingParams params_;
  int vocab_size_;
  int allowed_;
  // What the penalties read; empty without penalties. `seen_`: every token of prompt and output,
  // once, rising, possibly with some that were only pending once and have count 0 now.
  std::vector<int> prompt_counts_;
  std::vector<int> output_counts_;
  std::vector<TokenId> seen_;
  std::vector<bool> is_seen_;
  int output_tokens_ = 0;  // observed
  int min_output_ = 0;     // `suppressed_` have probability 0 before it
  std::vector<TokenId> suppressed_;
  std::vector<float> scratch_;
};

// The token at `coin` in [0, 1) of a law of probabilities; never one of probability 0.
// -1 if all are 0.
TokenId SampleRow(std::span<const float> probs, double coin);

}  // namespace outrider
