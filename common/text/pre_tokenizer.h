// Splits a segment of text into the pieces within which BPE merges: the pre-tokenizer of a
// tokenizer, without the mapping of bytes to characters (the model works on bytes).
//
// Thread: any (immutable).
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "common/base/status.h"
#include "common/text/pattern.h"
#include "common/text/tokenizer_spec.h"

namespace outrider {

// A text and its pieces, in order, none empty.
struct Pieces {
  std::string text;
  std::vector<TextSpan> spans;
};

class PreTokenizer {
 public:
  static Result<PreTokenizer> Create(const std::vector<PreTokenizerStep>& steps);

  // `at_text_start`: nothing comes before the segment, for PrependScheme::kFirst.
  // Errors: those of Pattern::FindAll. REQUIRES: `text` is well-formed UTF-8.
  Result<Pieces> Split(std::string text, bool at_text_start, MatchBudget* budget) const;

 private:
  struct Cut {
    Pattern pattern;
    SplitBehavior behavior;
    bool invert;
  };
  std::vector<std::variant<Cut, MetaspaceStep, PrefixSpaceStep, ScriptsStep>> steps_;
};

}  // namespace outrider
