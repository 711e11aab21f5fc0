// Unigram (Kudo 2018, "Subword Regularization", section 3.2): of all ways to cut a piece into
// tokens the one with the largest sum of scores, found as the Hugging Face library finds it, ties
// included.
//
// O(n) for a piece of n bytes: tokens have kMaxPieceBytes at most.
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
  // The best way to reach a byte of the piece.
  struct Node {
    double score = 0;
    int32_t start = -1;  // where its last token begins; -1: not reached
    TokenId id = 0;
  };
  std::vector<Node> nodes;
};

class Unigram {
 public:
  // `vocabulary` must outlive this. kInvalidArgument: no unknown token.
  static Result<Unigram> Create(const TokenizerSpec& spec, const Vocabulary& vocabulary);

  // Appends the ids of `piece`. Characters that no token holds become the bytes of their run where
  // there is a token for each, else one unknown token.
  void Encode(std::string_view piece, UnigramScratch& scratch, std::vector<TokenId>& ids) const;

  // By id: what a fingerprint is made of.
  const std::vector<double>& scores() const { return scores_; }

 private:
  Unigram(const TokenizerSpec& spec, const Vocabulary& vocabulary);
  void FindBest(std::string_view piece, UnigramScratch& scratch) const;
  // Appends what a run of unknown characters becomes, backwards.
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
