// Text from the tokens of one generation as they come. No character is ever split: the bytes of
// one that is not complete wait for the next token.
//
// Owner: one per generation. Thread: not synchronised.
#pragma once

#include <string>

#include "common/base/types.h"
#include "common/text/tokenizer.h"
#include "common/text/utf8.h"

namespace outrider {

class Detokenizer {
 public:
  // `tokenizer` must outlive this. `starts_text`: the tokens are a text of their own, so the one
  // space that a SentencePiece tokenizer put before it goes; false for the continuation of a
  // prompt, where that space is real.
  Detokenizer(const Tokenizer& tokenizer, bool skip_special, bool starts_text);

  // The text that is now certain, maybe "". Ids without token add nothing. `is_shown`: a special
  // token is text even where others are skipped.
  std::string Push(TokenId id, bool is_shown = false);

  // The rest; an incomplete character becomes U+FFFD. Call once, last.
  std::string Finish();

 private:
  const Tokenizer& tokenizer_;
  const bool skip_special_;
  bool strip_space_;
  Utf8Stream stream_;
};

}  // namespace outrider
