// The normalizer "Precompiled" of a tokenizer.json: sentencepiece's table of replacements, a
// double-array trie over bytes (darts-clone) and the texts that its values point to.
// https://github.com/google/sentencepiece/blob/master/src/normalizer.cc and
// https://github.com/huggingface/spm_precompiled
//
// Thread: any (immutable).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace outrider {

// The bytes of a text in base64; nullopt: it is none.
std::optional<std::string> FromBase64(std::string_view text);

class CharacterMap {
 public:
  // The bytes of "precompiled_charsmap": the length of the trie in 4 bytes, the trie, the texts.
  // kInvalidArgument when the length is not that of a trie.
  static Result<CharacterMap> Parse(std::string_view bytes);
  // Replaces grapheme clusters of less than 6 bytes, and else single characters, that the table
  // holds the beginning of: what the Hugging Face library does, whose ids are wanted. Stops where
  // the result has more than `most` bytes. REQUIRES: `text` is well-formed UTF-8. The result is,
  // too.
  std::string Rewrite(std::string_view text, size_t most) const;

 private:
  // The text that the shortest entry with which `text` begins stands for; nullopt: there is none.
  std::optional<std::string_view> Find(std::string_view text) const;

  std::vector<uint32_t> units_;
  std::string texts_;
};

}  // namespace outrider
