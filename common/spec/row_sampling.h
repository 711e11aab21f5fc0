// The distribution of one logits row: its inputs, in types that a GPU can also read, and its
// computation on the host. It is the same for plain decoding, for drafting and for verification
// (exactness rule 2).
//
// Semantics (those of vLLM and Hugging Face where both agree): each filter sees what the previous
// one left. top-k keeps k tokens; top-p keeps the smallest set whose share of the mass reaches
// top_p, including the token that crosses it; min-p keeps tokens with at least min_p times the
// largest probability. Ties go to the lower id. The most likely token always stays.
//
// A token with a NaN logit is never sampled. A row without any logit above -infinity becomes a
// point mass on token 0. Callers end a request, or a draft, at a row that is not finite (IsFinite
// of softmax.h); this only prevents a crash.
//
// Thread: any; no state.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/types.h"
#include "common/math/host_device.h"

namespace outrider {

// SamplingParams (meanings and ranges: sampling_params.h) without lists.
struct RowSampling {
  float temperature = 1.f;
  int32_t top_k = 0;
  float top_p = 1.f;
  float min_p = 0.f;
  float repetition_penalty = 1.f;
  float presence_penalty = 0.f;
  float frequency_penalty = 0.f;

  OUTRIDER_HD bool greedy() const { return temperature == 0.f; }
  OUTRIDER_HD bool has_penalties() const {
    return repetition_penalty != 1.f || presence_penalty != 0.f || frequency_penalty != 0.f;
  }
  // Whether top-k, top-p or min-p may remove some of `n` tokens.
  OUTRIDER_HD bool truncates(int n) const {
    return (top_k > 0 && top_k < n) || top_p < 1.f || min_p > 0.f;
  }
};

// A token of the prompt or the output.
struct SeenToken {
  TokenId token = 0;
  int32_t in_output = 0;  // count
  friend bool operator==(const SeenToken&, const SeenToken&) = default;
};
struct TokenBias {
  TokenId token = 0;
  float bias = 0.f;
};

// A sequence of tokens that the output must not complete, as a range of an array.
struct BadWord {
  int32_t first = 0, size = 0;  // size >= 2: single tokens are excluded by the mask
};

// What the distributions of a sequence's next rows depend on, apart from their logits and the draft
// tokens before them.
struct SamplingState {
  RowSampling sampling;
  std::span<const SeenToken> seen = {};      // ascending tokens; may be empty without penalties
  std::span<const TokenBias> biases = {};    // ascending tokens, each once
  std::span<const TokenId> suppressed = {};  // have probability 0 in rows with fewer than
  int suppressed_rows = 0;                   // this many draft tokens before them
  // Tokens that may be sampled at all (MaskHolds); empty: all tokens.
  std::span<const uint32_t> mask = {};
  // After the first tokens of a bad word, its last token has probability 0. `recent`: the last
  // output tokens, as many as a bad word may need.
  std::span<const BadWord> bad_words = {};
  std::span<const TokenId> bad_tokens = {};  // of the bad words
  std::span<const TokenId> recent = {};
};

// The number of 32-bit words in a mask of `vocab_size` tokens.
constexpr int MaskWords(int vocab_size) { return (vocab_size + 31) / 32; }
OUTRIDER_HD inline bool MaskHolds(const uint32_t* mask, TokenId token) {
  return (mask[token >> 5] >> (token & 31) & 1u) != 0;
}

// Whether all of `word` but its last token precede a row. before(i): the token i + 1 positions
// before the row; -1: the output has none there.
template <class Before>
OUTRIDER_HD bool IsBegun(const BadWord& word, const TokenId* bad_tokens, const Before& before) {
  const TokenId* last = bad_tokens + word.first + word.size - 1;
  for (int i = 0; i + 1 < word.size; ++i) {
    if (before(i) != last[-1 - i]) return false;
  }
  return true;
}

// A logit after penalties. in_output: the token's count in the output, including draft tokens
// before the row. Products are rounded before they are added, on a GPU as well.
OUTRIDER_HD inline float PenalizedLogit(const RowSampling& sampling, int in_output, float logit) {
  float x = logit > 0.f ? logit / sampling.repetition_penalty : logit * sampling.repetition_penalty;
#if defined(__CUDA_ARCH__)
  x -= __fmul_rn(sampling.frequency_penalty, static_cast<float>(in_output));
#else
  x -= sampling.frequency_penalty * static_cast<float>(in_output);
#endif
  if (in_output > 0) x -= sampling.presence_penalty;
  return x;
}

// In the following, ids from `allowed` on are never sampled, and `path` has the draft tokens before
// the row. REQUIRES: 0 < allowed <= row.size().

// Turns logits into probabilities that sum to 1, in place (temperature 0: a point mass).
void MakeDistribution(const SamplingState& state, int allowed, std::span<const TokenId> path,
                      std::span<float> row);

// The most likely token after penalties, bias and masks (lowest id among equals), which greedy
// decoding emits. Overwrites the row.
TokenId MostLikely(const SamplingState& state, int allowed, std::span<const TokenId> path,
                   std::span<float> row);

// The `count` most likely tokens, in descending order; fewer if the rest is excluded. Overwrites
// the row.
std::vector<TokenId> TopTokens(const SamplingState& state, int allowed,
                               std::span<const TokenId> path, std::span<float> row, int count);

// The token that the Gumbel rule emits at `position`, and the `count` - 1 runners-up: the race
// (race.h) of MakeDistribution's distribution. Overwrites the row.
std::vector<TokenId> RaceOrder(const SamplingState& state, int allowed,
                               std::span<const TokenId> path, std::span<float> row, int count,
                               uint64_t seed, uint32_t position);

// The token at `coin`, a uniform random number in [0, 1), of a distribution; never one of
// probability 0. -1 if all are 0.
TokenId SampleRow(std::span<const float> probs, double coin);

}  // namespace outrider
