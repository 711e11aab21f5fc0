// The suffix automaton of a growing text (Blumer et al. 1985). It knows every substring, so after
// each token it has the longest suffix, of any length, that occurred before, and how often each
// token followed it. Drafts from it: SAM decoding (Hu et al. 2024); counts, scores and a draft
// length that grows with the match: SuffixDecoding (Oliaro et al. 2024).
//
// Cost: appending n tokens takes O(n) steps in all; a single token may take O(n). Memory: a text of
// n tokens has at most 2n states and 3n transitions, n of them beside each state's first (Blumer et
// al.): some 100 bytes a token, at most 180.
// When full: forgets the older half of the text and builds the rest again, so that a token is added
// at most twice on average; that call takes as long as half of max_tokens calls.
// Thread: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/types.h"
#include "verifier/propose/index_table.h"

namespace outrider {

// A position in the automaton: the last `length` tokens read occur somewhere in the text.
struct SuffixMatch {
  int state = 0;
  int length = 0;
};

// Limits of a continuation.
struct ContinuationLimits {
  int max_length = 0;
  // The continuation ends if its context gets shorter than this, as that predicts nothing.
  int min_match = 1;
  // The continuation ends if its estimated total probability falls below this.
  double min_probability = 0;
};

class SuffixAutomaton {
 public:
  // Ends a text: no continuation crosses it, and no match contains it.
  static constexpr TokenId kBreak = -1;
  // Occurrences are counted and dated for this many of the longest repeated suffixes of each
  // prefix: all of them in natural text. In text like "aaaa" shorter ones are not up to date, which
  // does not matter there, and each token stays O(1).
  static constexpr int kCountedSuffixes = 64;
  // Continuations are chosen among the first ones of a context and this many of the latest.
  static constexpr int kScannedBranches = 64;

  // REQUIRES: 2 <= max_tokens <= 2^29.
  explicit SuffixAutomaton(int max_tokens);

  // A token (>= 0) or kBreak.
  void Append(TokenId token);

  // The longest suffix of the text that ends earlier in it, too.
  SuffixMatch OwnMatch() const;
  // The longest suffix of another text that occurs in this one; `match` was the longest before
  // `token`. REQUIRES: nothing was appended since `match` was made. O(1) amortized over the other
  // text.
  SuffixMatch Step(SuffixMatch match, TokenId token) const;

  // Appends to `out` the most frequent continuation of a match, token by token, the latest among
  // equals; at the end of the text the context is shortened. Returns SuffixDecoding's score: the
  // sum over its tokens of the estimated probability that the text gets that far, in tokens.
  double Continue(SuffixMatch match, const ContinuationLimits& limits,
                  std::vector<TokenId>* out) const;

  // Tokens held, breaks included.
  int size() const { return static_cast<int>(text_.size()); }
  // Changes with every Append, which invalidates SuffixMatch values.
  int64_t version() const { return version_; }
  int states() const { return static_cast<int>(states_.size()); }
  int64_t transitions() const { return transitions_; }
  size_t bytes() const;
  // Hash slots and states visited so far, a measure of time.
  int64_t steps() const { return steps_ + table_.probes(); }

 private:
  // The substrings with the same end positions; `length` is the longest's.
  struct State {
    int32_t length = 0;
    int32_t link = -1;  // state of their longest suffix with other end positions
    int32_t end = 0;    // latest end position
    int32_t count = 0;  // number of occurrences
    TokenId token = 0;  // of the first transition; most states have no other
    int32_t target = -1;
    int32_t more = -1;  // further transitions: the latest in edges_
  };
  struct Edge {
    int32_t state;
    TokenId token;
    int32_t target;
    int32_t next;  // of the same state
  };
  struct Branch {
    TokenId token = kBreak;
    int32_t target = -1;
  };
  const State& at(int state) const { return states_[static_cast<size_t>(state)]; }
  State& at(int state) { return states_[static_cast<size_t>(state)]; }

  void Extend(TokenId token);
  int Clone(int state, int length);
  int Target(int state, TokenId token) const;
  int FindEdge(int state, TokenId token) const;
  void AddTransition(int state, TokenId token, int target);
  void SetTarget(int state, TokenId token, int target);
  bool Ahead(int state, int other) const;
  // Calls visit(token, target) for the transitions under consideration.
  template <class Visit>
  void ForEachBranch(int state, const Visit& visit) const;

  int max_tokens_;
  std::vector<TokenId> text_;
  std::vector<State> states_;
  std::vector<Edge> edges_;
  IndexTable table_;  // of edges_
  int last_ = 0;      // the state of the whole text
  int64_t version_ = 0;
  int64_t transitions_ = 0;
  mutable int64_t steps_ = 0;
};

}  // namespace outrider
