// The normalizer "Precompiled" of a tokenizer.json: sentencepiece's table of replacements, a
// double-array trie over bytes (darts-clone) whose values point to replacement texts.
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

// Decodes base64; nullopt: `text` is invalid.
std::optional<std::string> FromBase64(std::string_view text);

class CharacterMap {
 public:
  // The bytes of "precompiled_charsmap": the length of the trie in 4 bytes, the trie, the texts.
  // kInvalidArgument: the length is not that of a trie.
  static Result<CharacterMap> Parse(std::string_view bytes);
  // Replaces grapheme clusters of less than 6 bytes, or else single characters, whose beginning is
  // in the table, exactly as the Hugging Face library does. Stops once the result exceeds
  // `max_bytes` bytes. REQUIRES: `text` is well-formed UTF-8. So is the result.
  std::string Rewrite(std::string_view text, size_t max_bytes) const;

 private:
  // The replacement for the shortest entry with which `text` begins; nullopt: there is none.
  std::optional<std::string_view> Find(std::string_view text) const;

  std::vector<uint32_t> units_;
  std::string texts_;
};

}  // namespace outrider
