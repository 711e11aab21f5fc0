// Converts the tokens of one generation to text as they arrive. Characters are never split: the
// bytes of an incomplete one wait for the next token.
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
  // `tokenizer` must outlive this. `starts_text`: the tokens form a text of their own, so the space
  // that a SentencePiece tokenizer puts before it is removed; false if they continue a prompt,
  // where that space is real.
  Detokenizer(const Tokenizer& tokenizer, bool skip_special, bool starts_text);

  // Returns the text that is now complete, perhaps "". Ids without a token add nothing. `is_shown`:
  // the special token is text even if others are skipped.
  std::string Push(TokenId id, bool is_shown = false);

  // Returns the rest; an incomplete character becomes U+FFFD. Call once, last.
  std::string Finish();

 private:
  const Tokenizer& tokenizer_;
  const bool skip_special_;
  bool strip_space_;
  Utf8Stream stream_;
};

}  // namespace outrider
