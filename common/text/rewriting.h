// Text rewrites used by normalizers of a tokenizer.json, as the Hugging Face library does them.
// Time: linear, except for the forms of ToUnicodeForm (common/text/unicode.h).
//
// Thread: any. REQUIRES: texts are well-formed UTF-8.
#pragma once

#include <string>
#include <string_view>

#include "common/text/tokenizer_spec.h"

namespace outrider {

// Maps each character separately: the last sigma of a word is not special.
std::string ToLowerCase(std::string_view text);

// Removes combining marks: all of them, or only those without a width.
std::string WithoutMarks(std::string_view text, bool nonspacing_alone);

std::string WithoutOuterSpace(std::string_view text, bool left, bool right);

// sentencepiece's "nmt" rules: removes control characters, and replaces separators and direction
// marks by spaces.
std::string AfterNmt(std::string_view text);

// BERT's normalization, as in its tokenization.py.
std::string AfterBert(std::string_view text, const BertStep& step);

}  // namespace outrider
