// Where the tokens of a text begin in it, in characters (code points), as OpenAI's `text_offset`
// counts them.
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
  // The tokenizer must outlive it. `starts_text`: as Detokenizer has it. `begin`: characters in
  // front of the first token.
  TextOffsets(const Tokenizer& tokenizer, bool starts_text, int64_t begin);

  // The offset of the character that the token's first byte is a part of: tokens that share a
  // character have the same. A token that adds nothing to the text begins where the text goes on.
  // `is_text`: false for a special token that is left out.
  int64_t Push(TokenId id, bool is_text);

  // Characters so far: those that are whole, and with one that is not.
  int64_t complete() const { return complete_; }
  int64_t begun() const { return complete_ + (pending_.empty() ? 0 : 1); }

 private:
  const Tokenizer* tokenizer_;
  bool strip_space_;
  int64_t complete_;
  std::string pending_;  // the start of a character
};

}  // namespace outrider
