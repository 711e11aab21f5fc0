// A model that copies: a Llama of three layers whose weights are written down, not trained, as an
// induction circuit (Olsson et al. 2022, "In-context Learning and Induction Heads"). Its text
// repeats the prompt with names changed, as an edit of a program does: for tests and benchmarks of
// drafts that come from the text.
//
// Each token has a random code of +-1. Layer 1: head k attends to the token k = 1, .., 6 places
// back and adds its code, permuted by k, to a context, which so says what stood there in which
// order. Layer 2 adds the contexts of 6 and 12 places back, permuted and smaller: they decide where
// the near ones are equal. Layer 3: one head compares the context up to here with the context in
// front of every token, and copies the tokens where it fits best, a few differences allowed. The
// output head reads the copied code. Where nothing fits, the attention rests on the BOS token,
// which has no code: all logits are about 0.
//
// So the law is sharp where a long context recurs with one continuation, softer where it recurs
// with several, flat where it is new.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"

namespace outrider {

struct CopyingOptions {
  // Words (old, new): where a text says `old`, the copy says `new`. Only tokens that are the word,
  // alone or behind one character such as a space, are renamed.
  std::vector<std::pair<std::string, std::string>> renames;
  int intermediate_size = 64;  // of the MLPs, which are zero: costs time, changes nothing
  // Logit of a token that is copied for certain; the others' are around 0, with a thirteenth of it
  // for their standard deviation.
  double sharpness = 11;
  int max_position_embeddings = 1024;
  uint64_t seed = 1;  // of the codes
};

// Writes to `directory` the model with the tokenizer of the checkpoint `tokenizer`, which must have
// a BOS token in front of prompts. kInvalidArgument: a rename that no token fits.
Status MakeCopyingCheckpoint(const std::filesystem::path& directory,
                             const std::filesystem::path& tokenizer, const CopyingOptions& options);

}  // namespace outrider
