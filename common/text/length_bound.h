// Bounds the length of a text with a given number of tokens, so that a text can be refused by its
// bytes before any work proportional to it.
//
// Thread: any.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "common/text/tokenizer_spec.h"

namespace outrider {

// NFC shortens a text at most to a quarter: the worst case is U+0390, 2 bytes, from a
// PROSGEGRAMMENI with two marks, 7 bytes.
inline constexpr size_t kNfcShrinks = 4;

// Bytes of text that one token stands for at most: the longest token's, times what the normalizer
// may shorten a text by. nullopt where a token may stand for text of any length: an added token
// that takes white space along (lstrip, rstrip), unknown characters fused into one token, a Split
// that removes its matches, UnicodeScripts, a Replace by a regular expression or by nothing, any
// other step of the normalizer that may drop a part of a text. `normalized_tokens`: the added
// tokens that are matched in normalized text, as they are found.
std::optional<size_t> MostBytesPerToken(const TokenizerSpec& spec,
                                        const std::vector<AddedTokenSpec>& normalized_tokens);

}  // namespace outrider
