// Examples to train on and examples to measure with.
//
// Thread: any; no state.
#pragma once

#include "client/train/head_loss.h"
#include "common/training/head_data.h"

namespace outrider {

struct HeadSplit {
  HeadExamples training, held_out;
};

// Keeps every tenth prompt from training, in the order of their PromptIds (which says nothing of
// them), the first one at least: all texts behind one prompt are on one side, and a text behind
// another prompt is another text. Either side may be empty where there are too few prompts.
HeadSplit SplitByPrompt(const HeadData& data);

}  // namespace outrider
