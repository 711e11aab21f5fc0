// Drafts for one session without a model and a round trip: prompt lookup in its own text, and a
// suffix automaton over its text and those of earlier requests (suffix_store.h).
//
// The engine feeds every committed token and asks for a draft when a round begins; the answer is
// immediate. point_draft.h turns it into a DraftTree and says when that is exact.
//
// Cost: O(1) amortized for a token, O(length) for a proposal; a proposal reuses its memory. A long
// prompt takes time (about a microsecond a token), so it may be observed in pieces, as it is
// computed. Memory: prompt_lookup.h and suffix_automaton.h, each bounded by its max_tokens.
// Thread: engine thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/types.h"
#include "verifier/propose/prompt_lookup.h"
#include "verifier/propose/suffix_automaton.h"
#include "verifier/propose/suffix_store.h"

namespace outrider {

enum class LocalSource {
  kLookup,
  kSuffix,
};

struct LocalProposerOptions {
  PromptLookupOptions lookup;     // max_tokens 0: off
  int suffix_max_tokens = 32768;  // of the session's text; 0: off, including the store
  int suffix_min_match = 2;
  // A draft of a suffix automaton is at most this many times as long as its match, and ends once
  // its probability falls below this: SuffixDecoding's alpha and threshold.
  double suffix_length_per_match = 1;
  double suffix_min_probability = 0.1;
};

struct LocalProposal {
  std::vector<TokenId> tokens;  // empty: no proposal
  int match_length = 0;         // context tokens that occurred before, followed by `tokens`
  // Expected accepted tokens, if continuations are as frequent as they have been. Lookup knows one
  // occurrence and expects all.
  double score = 0;
};

class LocalProposer {
 public:
  // `options` and `store` (may be nullptr) must outlive the proposer.
  LocalProposer(const LocalProposerOptions& options, SuffixStore* store, std::string client);

  // The session's next tokens, each once: first its prompt, then its output.
  void Observe(std::span<const TokenId> tokens);

  // A sequence of at most `max_length` tokens that follow the observed ones. Valid until the next
  // call.
  const LocalProposal& Propose(LocalSource source, int max_length);

  // Adds the finished session's text, its output or all of it, to the store.
  void Remember(std::span<const TokenId> text);

  size_t bytes() const;

 private:
  void ProposeSuffix(int max_length);
  void Continue(const SuffixAutomaton& text, SuffixMatch match, int max_length,
                LocalProposal* proposal) const;

  const LocalProposerOptions& options_;
  SuffixStore* store_;  // nullptr: not used
  std::string client_;
  std::optional<PromptLookup> lookup_;
  std::optional<SuffixAutomaton> suffix_;
  std::vector<TokenId> tail_;  // for the store: at least kContext tokens, fewer at first
  int64_t observed_ = 0;
  SuffixStore::Cursor cursor_;
  LocalProposal proposal_, other_;
};

}  // namespace outrider
