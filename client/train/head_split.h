// Splits examples into those for training and those for measuring.
//
// Thread: any; no state.
#pragma once

#include "client/train/head_loss.h"
#include "common/training/head_data.h"

namespace outrider {

struct HeadSplit {
  HeadExamples training, held_out;
};

// Holds out every tenth prompt, at least the first one, in the order of PromptIds, which are
// unrelated to content. All texts of a prompt are on the same side, and texts of other prompts are
// different. Either side may be empty if there are too few prompts.
HeadSplit SplitByPrompt(const HeadData& data);

}  // namespace outrider
