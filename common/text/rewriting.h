// Rewrites of a text that normalizers of a tokenizer.json are made of, as the Hugging Face library
// does them. Time: linear, but for the forms of ToUnicodeForm (common/text/unicode.h).
//
// Thread: any. REQUIRES: texts are well-formed UTF-8.
#pragma once

#include <string>
#include <string_view>

#include "common/text/tokenizer_spec.h"

namespace outrider {

// Each character by itself: no context decides about the last sigma of a word.
std::string ToLowerCase(std::string_view text);

// Without combining marks: all of them, or those without a width alone.
std::string WithoutMarks(std::string_view text, bool nonspacing_alone);

std::string WithoutOuterSpace(std::string_view text, bool left, bool right);

// sentencepiece's rules "nmt": control characters go, separators and marks of direction become
// spaces.
std::string AfterNmt(std::string_view text);

// BERT's, as its tokenization.py has it.
std::string AfterBert(std::string_view text, const BertStep& step);

}  // namespace outrider
