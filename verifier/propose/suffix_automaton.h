// The suffix automaton of a growing text (Blumer et al. 1985): it knows every substring, so that
// the longest suffix of the text that stood in it before, of any length, is at hand after each
// token, and what has followed it how often. Drafts from it: SAM decoding (Hu et al. 2024); counts,
// scores and a draft length that grows with the match: SuffixDecoding (Oliaro et al. 2024).
//
// Cost: appending n tokens takes O(n) steps in all, whatever the text; a single token may take
// O(n). Memory: a text of n tokens has at most 2n states and 3n transitions, n of them beside each
// state's first (Blumer et al.): some 100 bytes a token, at most 180.
// When full: forgets the older half of the text and builds the rest anew, so that a token is built
// in twice at most on average; that one call takes as long as half of max_tokens calls do.
// Thread: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/types.h"
#include "verifier/propose/index_table.h"

namespace outrider {

// A place in the automaton: the last `length` tokens that were read stand somewhere in the text.
struct SuffixMatch {
  int state = 0;
  int length = 0;
};

// What a continuation may be.
struct ContinuationLimits {
  int max_length = 0;
  // Fewer tokens of context foretell nothing: the continuation ends there.
  int min_match = 1;
  // Ends where its estimated probability as a whole falls below this.
  double min_probability = 0;
};

class SuffixAutomaton {
 public:
  // Ends a text: nothing continues over it, and no match holds it.
  static constexpr TokenId kBreak = -1;
  // Occurrences are counted and dated for this many of the longest repeated suffixes of each
  // prefix. All, in natural text; shorter ones lag behind in text like "aaaa", where they do not
  // matter, and each token stays O(1).
  static constexpr int kCountedSuffixes = 64;
  // Continuations are chosen among the first that a context has had and so many of the latest.
  static constexpr int kScannedBranches = 64;

  // REQUIRES: 2 <= max_tokens <= 2^29.
  explicit SuffixAutomaton(int max_tokens);

  // A token (>= 0) or kBreak.
  void Append(TokenId token);

  // The longest suffix of the text that ends earlier in it, too.
  SuffixMatch OwnMatch() const;
  // The longest suffix of another text that stands in this one: `match` was it before `token`.
  // REQUIRES: nothing was appended since `match` was made. O(1) amortized over the other text.
  SuffixMatch Step(SuffixMatch match, TokenId token) const;

  // Appends to `out` the most frequent continuation of a match, token by token, the latest among
  // equals; where the text ends, the context is shortened. Returns its score, SuffixDecoding's: the
  // sum over its tokens of the estimated probability that the text comes so far, in tokens.
  double Continue(SuffixMatch match, const ContinuationLimits& limits,
                  std::vector<TokenId>* out) const;

  // Tokens held, breaks included.
  int size() const { return static_cast<int>(text_.size()); }
  // Grows with every call of Append: tells whether a SuffixMatch is still good.
  int64_t version() const { return version_; }
  int states() const { return static_cast<int>(states_.size()); }
  int64_t transitions() const { return transitions_; }
  size_t bytes() const;
  // Hash slots and states looked at so far: what the time goes by.
  int64_t steps() const { return steps_ + table_.probes(); }

 private:
  // The substrings that end at the same places; `length` is the longest's.
  struct State {
    int32_t length = 0;
    int32_t link = -1;  // the state of their longest suffix that ends elsewhere, too
    int32_t end = 0;    // where the latest ended
    int32_t count = 0;  // how often
    TokenId token = 0;  // the first transition: most states have no other
    int32_t target = -1;
    int32_t more = -1;  // further ones: the latest in edges_
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
  // Calls visit(token, target) for the transitions that are considered.
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
