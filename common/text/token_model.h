// Splits a piece of text into tokens by BPE, Unigram or WordPiece, as the tokenizer specifies.
//
// Thread: any (immutable); the scratch belongs to the caller.
#pragma once

#include <string_view>
#include <variant>
#include <vector>

#include "common/base/fnv_hash.h"
#include "common/base/status.h"
#include "common/base/types.h"
#include "common/text/bpe.h"
#include "common/text/pattern.h"
#include "common/text/tokenizer_spec.h"
#include "common/text/unigram.h"
#include "common/text/vocabulary.h"
#include "common/text/word_piece.h"

namespace outrider {

// Memory that calls reuse.
struct TokenScratch {
  MatchBudget budget;
  BpeScratch bpe;
  UnigramScratch unigram;
};

class TokenModel {
 public:
  // `vocabulary` must outlive this. Errors are those of the three kinds.
  static Result<TokenModel> Create(const TokenizerSpec& spec, const Vocabulary& vocabulary);

  // Appends the ids of `piece`. Errors are those of Bpe::Encode.
  Status Encode(std::string_view piece, TokenScratch& scratch, std::vector<TokenId>& ids) const;

  // Adds what determines how a piece is split, besides the vocabulary.
  void AddTo(FnvHash* hash) const;

 private:
  using Kind = std::variant<Bpe, Unigram, WordPiece>;
  explicit TokenModel(Kind kind) : kind_(std::move(kind)) {}

  Kind kind_;
};

}  // namespace outrider
