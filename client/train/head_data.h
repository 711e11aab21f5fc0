// Examples for an acceptance head, from both models (SpecDec++, section 3.2): the target writes a
// text; at each of its places the draft model draws a token from its own law, which is labelled
// with min(1, p / q) under the laws that serving uses; and the draft model reads the text again
// with most of its tokens replaced by its own draws (token mixing), whose last hidden states are
// the features.
//
// Thread: the owner of both models.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "client/train/head_loss.h"
#include "common/base/status.h"
#include "common/model/model.h"
#include "common/spec/draft_law.h"
#include "common/spec/sampling_params.h"

namespace outrider {

struct HeadDataOptions {
  SamplingParams sampling;
  DraftLawLimits law_limits;
  int vocab = 0;         // ids below this exist
  int max_tokens = 128;  // of a text
  // The share of the target's own tokens that stay; published: 15 %.
  double kept = 0.15;
  uint64_t seed = 1;
};

// Adds the examples of one text behind `prompt`; `index` tells texts apart. A text ends at
// max_tokens, at an end of sequence or with the context.
Status AddHeadExamples(Model& target, Model& drafter, std::span<const TokenId> prompt,
                       uint32_t index, const HeadDataOptions& options, HeadExamples* examples);

}  // namespace outrider
