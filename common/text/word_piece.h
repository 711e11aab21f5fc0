// WordPiece (Schuster and Nakajima 2012; BERT's tokenization.py): the longest token that a word
// begins with, then the longest that goes on, and so forth; the unknown token for a word that
// cannot be cut so.
//
// Thread: any (immutable).
#pragma once

#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/text/token_trie.h"
#include "common/text/tokenizer_spec.h"
#include "common/text/vocabulary.h"

namespace outrider {

class WordPiece {
 public:
  // kInvalidArgument: the unknown token is not in the vocabulary.
  static Result<WordPiece> Create(const TokenizerSpec& spec, const Vocabulary& vocabulary);

  // Appends the ids of a word.
  void Encode(std::string_view word, std::vector<TokenId>& ids) const;

 private:
  WordPiece(const TokenizerSpec& spec, const Vocabulary& vocabulary);

  TokenTrie words_;          // tokens as they are
  TokenTrie continuations_;  // those with the prefix of a continuation, without it
  TokenId unk_ = -1;
  size_t most_characters_ = 0;  // of a word; a longer one is unknown
};

}  // namespace outrider
