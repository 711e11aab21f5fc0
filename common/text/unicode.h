// The properties of characters that tokenizers ask for. Tables: utf8proc (Unicode 15); of scripts,
// script_ranges.h (Unicode 9).
//
// Thread: any.
#pragma once

#include <string>
#include <string_view>

#include "common/text/tokenizer_spec.h"

namespace outrider {

// A normalization form. O(n log n) for any text: the reordering in utf8proc's own NFC, as in most
// libraries, is quadratic in the length of a run of combining marks. REQUIRES: `text` is
// well-formed UTF-8.
std::string ToUnicodeForm(std::string_view text, UnicodeForm form);

// The property White_Space.
bool IsWhiteSpace(char32_t code);

// Whether \w matches it in the regex syntax of Unicode TR 18: letters, marks, decimal digits,
// letter numbers, connectors, and the two joiners.
bool IsWordCharacter(char32_t code);

// A number for the script of a character, as the Hugging Face library has them: Hiragana and
// Katakana are Han. 0: it has none, as a space.
int ScriptOf(char32_t code);

}  // namespace outrider
