// Where tokens begin in their text, in characters (code points), as in OpenAI's `text_offset`.
//
// Owner: one text. Thread: not synchronised.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/types.h"
#include "common/text/tokenizer.h"

namespace outrider {

class TextOffsets {
 public:
  // The tokenizer must outlive it. `starts_text`: see Detokenizer. `begin`: characters before the
  // first token.
  TextOffsets(const Tokenizer& tokenizer, bool starts_text, int64_t begin);

  // The offset of the character to which the token's first byte belongs, so tokens that share a
  // character have the same. A token without text begins where the text continues. `is_text`: false
  // for a special token that is left out.
  int64_t Push(TokenId id, bool is_text);

  // Characters so far: complete ones, and those including an incomplete one.
  int64_t complete() const { return complete_; }
  int64_t begun() const { return complete_ + (pending_.empty() ? 0 : 1); }

 private:
  const Tokenizer* tokenizer_;
  bool strip_space_;
  int64_t complete_;
  std::string pending_;  // start of an incomplete character
};

}  // namespace outrider
