// What a grammar's source and its compiled form may take. Compiling stops at the first limit that
// it reaches, so a hostile source costs no more than one at the limits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/spec/grammar_source.h"

namespace outrider::grammar {

struct GrammarLimits {
  size_t source_bytes = kMaxGrammarBytes;
  int nesting = 64;           // groups, brackets and levels of JSON in each other
  int repetitions = 100'000;  // the largest count of a repetition, of a length or of items
  int rules = 1 << 14;        // those that compiling adds included
  int expressions = 1 << 17;  // parts of all rules
  int nodes = 1 << 17;        // of the compiled automaton
  size_t bytes = 8 << 20;     // likewise
  // Of compiling, from reading the source to the last follow set; a step takes some 5 to 100 ns.
  int64_t steps = 16'000'000;
};

// Counts the steps of compiling.
//
// Thread: one owner.
class StepBudget {
 public:
  explicit StepBudget(int64_t steps) : left_(steps) {}

  // Whether `steps` more were left.
  bool Spend(int64_t steps) { return (left_ -= steps) >= 0; }
  int64_t left() const { return left_; }
  bool spent() const { return left_ < 0; }

 private:
  int64_t left_;
};

}  // namespace outrider::grammar
