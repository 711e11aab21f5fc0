// The normalizer of a tokenizer: steps that rewrite a text segment before it is split.
//
// Thread: any (immutable).
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/status.h"
#include "common/text/character_map.h"
#include "common/text/pattern.h"
#include "common/text/tokenizer_spec.h"

namespace outrider {

class Normalizer {
 public:
  static Result<Normalizer> Create(const std::vector<NormalizerStep>& steps);

  // kInvalidArgument: the result would exceed 16 MiB, or an error of Pattern::FindAll. An empty
  // segment stays empty.
  // REQUIRES: `text` is well-formed UTF-8.
  Result<std::string> Normalize(std::string_view text, MatchBudget* budget) const;

 private:
  struct Replace {
    Pattern pattern;
    std::string content;
  };
  using Step = std::variant<UnicodeFormStep, PrependStep, Replace, LowercaseStep, StripAccentsStep,
                            StripStep, NmtStep, BertStep, CharacterMap>;
  struct Apply;  // one step

  static Result<Step> MakeStep(const NormalizerStep& step);

  std::vector<Step> steps_;
};

}  // namespace outrider
