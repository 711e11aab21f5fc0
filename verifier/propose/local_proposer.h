// The proposers that need no model and no round trip, for one session: prompt lookup over its own
// text, and a suffix automaton over it together with texts of earlier requests (suffix_store.h).
//
// The engine feeds every committed token, whoever drafted it, and asks for a draft when a round
// begins: it is there at once. point_draft.h makes a DraftTree of it and says when that is exact.
//
// Cost: O(1) amortized for a token, O(length) for a proposal; a proposal reuses its memory. A long
// prompt takes time (about a microsecond a token): it may be observed in pieces, as it is computed.
// Memory: prompt_lookup.h and suffix_automaton.h, each bounded by its max_tokens.
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
  int suffix_max_tokens = 32768;  // of the session's text; 0: off, and with it the store
  int suffix_min_match = 2;
  // A draft of a suffix automaton is at most so many times as long as its match, and ends where it
  // has become less likely than this: SuffixDecoding's alpha and threshold.
  double suffix_length_per_match = 1;
  double suffix_min_probability = 0.1;
  // A draft ends behind one of these: the text does, too.
  std::vector<TokenId> end_tokens;
};

struct LocalProposal {
  std::vector<TokenId> tokens;  // empty: nothing to propose
  int match_length = 0;         // tokens of context that stood elsewhere, followed by `tokens`
  // How many of the tokens will stand if continuations are as frequent as they have been; lookup
  // knows one occurrence and says all.
  double score = 0;
};

class LocalProposer {
 public:
  // `options` and `store` (nullptr: none) outlive the proposer. `chosen_seed`: the client chose the
  // seed of coins that the text depends on, so that the session stays out of the store, as
  // suffix_store.h says. Not so at temperature 0 and under gumbel, where no draft changes the text.
  LocalProposer(const LocalProposerOptions& options, SuffixStore* store, std::string client,
                bool chosen_seed);

  // The session's next tokens, each once: its prompt, then its output.
  void Observe(std::span<const TokenId> tokens);

  // One sequence of at most `max_length` tokens behind the observed ones. Valid until the next
  // call.
  const LocalProposal& Propose(LocalSource source, int max_length);

  // Adds the finished session's text, its output or all, to the store.
  void Remember(std::span<const TokenId> text);

  size_t bytes() const;

 private:
  void ProposeSuffix(int max_length);
  void Continue(const SuffixAutomaton& text, SuffixMatch match, int max_length,
                LocalProposal* proposal) const;
  void CutBehindEnd(LocalProposal* proposal) const;

  const LocalProposerOptions& options_;
  SuffixStore* store_;  // nullptr: stays out of it
  std::string client_;
  std::optional<PromptLookup> lookup_;
  std::optional<SuffixAutomaton> suffix_;
  std::vector<TokenId> tail_;  // for the store: kContext tokens or more, fewer at first
  int64_t observed_ = 0;
  SuffixStore::Cursor cursor_;
  LocalProposal proposal_, other_;
};

}  // namespace outrider
