// Unigram (Kudo 2018, "Subword Regularization", section 3.2): splits a piece into the tokens with
// the largest sum of scores, with the same result as the Hugging Face library, also for ties.
//
// O(n) for a piece of n bytes, as tokens have at most kMaxPieceBytes.
//
// Thread: any (immutable); the scratch belongs to the caller.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/text/token_trie.h"
#include "common/text/tokenizer_spec.h"
#include "common/text/vocabulary.h"

namespace outrider {

// Memory that calls reuse.
struct UnigramScratch {
  // The best path to a byte of the piece.
  struct Node {
    double score = 0;
    int32_t start = -1;  // start of its last token; -1: not reached
    TokenId id = 0;
  };
  std::vector<Node> nodes;
};

class Unigram {
 public:
  // `vocabulary` must outlive this. kInvalidArgument: no unknown token.
  static Result<Unigram> Create(const TokenizerSpec& spec, const Vocabulary& vocabulary);

  // Appends the ids of `piece`. A run of characters without a token becomes its bytes if there is a
  // token for each, or else one unknown token.
  void Encode(std::string_view piece, UnigramScratch& scratch, std::vector<TokenId>& ids) const;

  // By id, for the fingerprint.
  const std::vector<double>& scores() const { return scores_; }

 private:
  Unigram(const TokenizerSpec& spec, const Vocabulary& vocabulary);
  void FindBest(std::string_view piece, UnigramScratch& scratch) const;
  // Appends, in reverse, the ids of a run of unknown characters.
  void AppendUnknown(std::string_view run, std::vector<TokenId>& ids) const;

  const Vocabulary* vocabulary_;
  TokenTrie trie_;
  std::vector<double> scores_;
  TokenId unk_ = -1;
  double unk_score_ = 0;
  bool falls_back_ = false;              // there is a token for each byte
  std::array<TokenId, 256> byte_ids_{};  // -1: none
};

}  // namespace outrider
