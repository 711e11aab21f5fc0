// WordPiece (Schuster and Nakajima 2012; BERT's tokenization.py): takes the longest token with
// which a word begins, then the longest that continues it, and so on; a word that cannot be split
// this way becomes the unknown token.
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

  TokenTrie words_;          // tokens at the start of a word
  TokenTrie continuations_;  // tokens with the continuation prefix, without it
  TokenId unk_ = -1;
  size_t most_characters_ = 0;  // of a word; a longer one is unknown
};

}  // namespace outrider
