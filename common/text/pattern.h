// A literal or a regular expression of a tokenizer.json, ready to search. Files are written for
// Oniguruma; PCRE2 with Unicode properties reads the patterns in use the same way, but for \s,
// which is rewritten to the property White_Space (PCRE2's own takes U+180E too), and for characters
// that are newer than Unicode 14, which PCRE2 10.42 knows: those of 15.0, and CJK extension I, are
// added to each general category (newer_characters.h). Later ones count as unassigned.
//
// Thread: any. PCRE2 appears only in pattern.cc.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/text/tokenizer_spec.h"

namespace outrider {

struct TextSpan {
  size_t begin;
  size_t end;
  bool operator==(const TextSpan&) const = default;
};

class Pattern {
 public:
  // kInvalidArgument with PCRE2's words when the expression does not compile.
  static Result<Pattern> Create(const PatternSpec& spec);

  // All matches, left to right, none overlapping. kInvalidArgument when a match takes more steps or
  // memory than any linear one would, as it does whenever this text comes; kResourceExhausted when
  // the process has no memory.
  // REQUIRES: `text` is well-formed UTF-8.
  Result<std::vector<TextSpan>> FindAll(std::string_view text) const;

 private:
  struct Regex;
  std::string literal_;
  std::shared_ptr<const Regex> regex_;  // null: search for literal_
};

}  // namespace outrider
