// Searches for a literal or a regular expression of a tokenizer.json. Files are written for
// Oniguruma. PCRE2 with Unicode properties reads the patterns in use in the same way, except for
// \s, which is rewritten to the property White_Space (PCRE2's \s includes U+180E), and for
// characters newer than Unicode 14, which PCRE2 10.42 knows: those of 15.0, and CJK extension I,
// are added to each general category (newer_characters.h). Later ones count as unassigned.
//
// Thread: any. Only pattern.cc uses PCRE2.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/text/text_span.h"
#include "common/text/tokenizer_spec.h"

namespace outrider {

// The CPU time that a tokenizer's patterns may take for one text. A text may have a match for each
// character, and PCRE2 limits each of them alone and counts only backtracking: neither
// `[a-z]*9|[a-z]`, which reads all letters for each one, nor many costly matches end by its limits,
// and it does not say what a match has cost. Linear patterns take less than a second.
//
// Thread: one, also for the constructor.
class MatchBudget {
 public:
  explicit MatchBudget(int milliseconds = 10'000);

  // Counts a match to be made. False: the time is over.
  bool CountMatch();
  int milliseconds() const { return milliseconds_; }

 private:
  int milliseconds_;
  double end_;  // seconds of the thread's CPU time
  int matches_ = 0;
};

class Pattern {
 public:
  // kInvalidArgument with PCRE2's message: the expression does not compile. kUnimplemented with the
  // place: && or a class within a class, or one of \h \H \v \V, which PCRE2 reads in another way.
  static Result<Pattern> Create(const PatternSpec& spec);

  // All matches, left to right, without overlaps. kInvalidArgument: a match takes more steps or
  // memory than any linear one would, as it always does for this text, or `budget` is used up.
  // kResourceExhausted: the process has no memory.
  // REQUIRES: `text` is well-formed UTF-8.
  Result<std::vector<TextSpan>> FindAll(std::string_view text, MatchBudget* budget) const;

 private:
  struct Regex;
  std::string literal_;
  std::shared_ptr<const Regex> regex_;  // null: searches for literal_
};

}  // namespace outrider
