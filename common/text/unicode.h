// The properties of characters that tokenizers ask for. Tables: utf8proc (Unicode 15); where the
// Hugging Face library has those of Unicode 9, script_ranges.h and newer_marks.h.
//
// Thread: any.
#pragma once

#include <string>
#include <string_view>

#include "common/text/tokenizer_spec.h"

namespace outrider {

// A normalization form, as of Unicode 9. O(n log n) for any text: the reordering in utf8proc's own
// NFC, as in most libraries, is quadratic in the length of a run of combining marks. REQUIRES:
// `text` is well-formed UTF-8.
std::string ToUnicodeForm(std::string_view text, UnicodeForm form);

// Whether normalization leaves it alone though Unicode 15 does not: a combining mark, or a
// character with a decomposition, that Unicode 9 lacks.
bool IsNewerMark(char32_t code);

// The property White_Space.
bool IsWhiteSpace(char32_t code);

// Whether \w matches it in the regex syntax of Unicode TR 18: letters, marks, decimal digits,
// letter numbers, connectors, and the two joiners.
bool IsWordCharacter(char32_t code);

// A number for the script of a character, as the Hugging Face library has them: Hiragana and
// Katakana are Han. 0: it has none, as a space.
int ScriptOf(char32_t code);

}  // namespace outrider
