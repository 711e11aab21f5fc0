// A model that copies: a Llama with three layers whose weights are constructed, not trained, as an
// induction circuit (Olsson et al. 2022, "In-context Learning and Induction Heads"). It repeats the
// prompt with some names changed, like an edit of a program: for tests and benchmarks of drafts
// that are copied from the text.
//
// Each token has a random code of +-1. Layer 1: head k attends to the token k = 1, .., 6 places
// back and adds its code, permuted by k, to a context, which thus encodes which tokens were there
// in which order. Layer 2 adds the contexts from 6 and 12 places back, permuted and with smaller
// weights: they decide between places whose nearest contexts are equal. Layer 3: one head compares
// the context up to here with the context before every token, and copies the tokens with the best
// match, which may have a few differences. The output head reads the copied code. Without a match,
// the attention goes to the BOS token, which has no code, and all logits are about 0.
//
// So the distribution is sharp where a long context recurs with one continuation, less so where it
// recurs with several, and flat where it is new.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"

namespace outrider {

struct CopyingOptions {
  // Words (old, new): where the text has `old`, the copy has `new`. Only tokens that are the word,
  // alone or after one character such as a space, are renamed.
  std::vector<std::pair<std::string, std::string>> renames;
  int intermediate_size = 64;  // of the MLPs, which are zero: adds cost, changes nothing
  // The logit of a token that is copied with certainty; the other logits are around 0, with a
  // standard deviation of a thirteenth of it.
  double sharpness = 11;
  int max_position_embeddings = 1024;
  uint64_t seed = 1;  // of the codes
};

// Writes the model to `directory`, with the tokenizer of the checkpoint `tokenizer`, which must
// begin prompts with a BOS token. kInvalidArgument: a rename that matches no token.
Status MakeCopyingCheckpoint(const std::filesystem::path& directory,
                             const std::filesystem::path& tokenizer, const CopyingOptions& options);

}  // namespace outrider
