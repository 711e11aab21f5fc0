// Prompt lookup decoding (Saxena 2023; "ngram" in vLLM and llama.cpp): finds the last n tokens
// earlier in the session's own text, prompt and output, and drafts what followed them there.
//
// Cost: an appended token touches one hash slot for each n; a proposal copies tokens. No scans.
// Memory: at most 8 + 24 (max_n - min_n + 1) bytes per token held.
// When full: forgets the older half of the text and indexes the rest again, so that a token is
// indexed at most twice on average.
// Thread: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/types.h"
#include "verifier/propose/index_table.h"

namespace outrider {

struct PromptLookupOptions {
  int min_n = 2;           // tokens that must match, >= 1
  int max_n = 4;           // matches are sought up to this length
  int max_tokens = 32768;  // of text held, at least 2 max_n
};

class PromptLookup {
 public:
  explicit PromptLookup(const PromptLookupOptions& options);

  void Append(TokenId token);

  // The longest n in [min_n, max_n] whose last n tokens occur earlier in the text; 0 if none does.
  int match_length() const { return match_length_; }
  // Appends to `out` the `length` tokens that followed the most recent earlier occurrence. If they
  // reach the end of the text they continue with themselves, as in LZ77, so that a repetition of
  // any period goes on. Appends nothing without a match.
  void Continue(int length, std::vector<TokenId>* out) const;

  // Tokens held.
  int size() const { return static_cast<int>(text_.size()); }
  size_t bytes() const;
  // Hash slots probed so far.
  int64_t probes() const;

 private:
  void Index();

  PromptLookupOptions options_;
  std::vector<TokenId> text_;
  std::vector<IndexTable> ends_;  // [max_n - min_n + 1]: where each n-gram ended last
  int match_length_ = 0;
  size_t match_end_ = 0;  // of text_: the position after the earlier occurrence
};

}  // namespace outrider
