// Limits of a grammar's source and its compiled form. Compiling stops at the first one reached, so
// a hostile source costs no more than one at the limits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/spec/grammar_source.h"

namespace outrider::grammar {

struct GrammarLimits {
  size_t source_bytes = kMaxGrammarBytes;
  int nesting = 64;           // nesting of groups, brackets and levels of JSON
  int repetitions = 100'000;  // the largest count of a repetition, of a length or of items
  int rules = 1 << 14;        // including those that compiling adds
  int expressions = 1 << 17;  // over all rules
  int nodes = 1 << 17;        // of the compiled automaton
  size_t bytes = 8 << 20;     // of the compiled automaton
  // For compiling, from parsing the source to the last follow set; a step takes some 5 to 100 ns.
  int64_t steps = 16'000'000;
};

// Counts the steps of compiling.
//
// Thread: one owner.
class StepBudget {
 public:
  explicit StepBudget(int64_t steps) : left_(steps) {}

  // Takes `steps`. Returns whether they were left.
  bool Spend(int64_t steps) { return (left_ -= steps) >= 0; }
  int64_t left() const { return left_; }
  bool spent() const { return left_ < 0; }

 private:
  int64_t left_;
};

}  // namespace outrider::grammar
