// Texts of finished requests, for the drafts of later ones: a few suffix automata for each client.
//
// Isolation: a draft that is right saves time, so a text speaks of itself by the speed of whoever
// drafts from it: guess a prompt, see how fast it goes, and learn whether somebody had that text.
// Hence texts are kept by client key and no client drafts from another's; `shared` gives that up,
// for places where all clients may know each other's texts. The key is as good as who gives it out:
// clients that share one (the empty one is a key like any other) are one client here. That others
// are busy shows in any case: their texts push a client's own out.
//
// Exactness: a draft must not depend on the coins that verify it, and requests with one seed toss
// the same coins. A request that drafts from a text made with its own seed is biased, by as much
// as all of it (PointMassLaw.BreaksWhereTheDraftKnowsTheCoins). And a seed repeats a text only
// while the drafting is the same, which no store is. So requests whose client chose the seed stay
// out, with their texts and with their drafts (LocalProposer sees to it); seeds that the verifier
// draws do not come twice.
//
// Bound: max_tokens of text in all, at some 100 bytes a token (suffix_automaton.h) and 600 a
// segment. A segment holds texts of one client up to an eighth of max_tokens. When full, the
// segment that was used least recently goes, whoever it belongs to; to be used is to take a text in
// or to be where a session's text was found.
// Thread: engine thread only. Adding a text takes time linear in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/types.h"
#include "verifier/propose/suffix_automaton.h"

namespace outrider {

struct SuffixStoreOptions {
  int max_tokens = 0;   // of all clients together, an end mark a text included; 0: off
  bool shared = false;  // all clients draft from all texts
};

class SuffixStore {
 public:
  // Of a session's tokens so many are looked at; longer matches are not told apart.
  static constexpr int kContext = 64;

  // Where a session stands in its client's segments. Starts empty; the store's alone to read.
  struct Cursor {
    struct Place {
      uint64_t segment = 0;  // its id, 0: none
      int64_t version = 0;
      SuffixMatch match;
    };
    std::vector<Place> places;
    int64_t observed = 0;  // tokens of the session that the places have seen
  };

  // Where a session's text goes on. `automaton`: nullptr if nothing matches; valid until Add.
  struct Found {
    const SuffixAutomaton* automaton = nullptr;
    SuffixMatch match;
  };

  explicit SuffixStore(const SuffixStoreOptions& options) : options_(options) {}

  bool on() const { return max_text() > 1; }

  // A finished request's text: its output, with or without the prompt. Of a text longer than an
  // eighth of max_tokens the end is kept.
  void Add(std::string_view client, std::span<const TokenId> text);

  // The longest suffix of a session's text that is in a text of its client, if it is at least
  // `min_match` tokens; the latest segment among equals. `observed` counts the session's tokens,
  // `tail` is their end: kContext of them, or all. O(new tokens) for each segment of the client,
  // kContext where the segment has changed.
  Found Find(std::string_view client, std::span<const TokenId> tail, int64_t observed,
             int min_match, Cursor* cursor);

  int64_t tokens() const { return tokens_; }
  int64_t segments() const { return static_cast<int64_t>(segments_.size()); }
  // Tokens that had to go so far.
  int64_t evicted_tokens() const { return evicted_tokens_; }
  size_t bytes() const;

 private:
  struct Segment {
    uint64_t id;
    std::string client;
    SuffixAutomaton text;
  };
  using Segments = std::list<Segment>;
  // A client's, oldest first. Two in a row hold more than an eighth together, so they are few.
  using ClientSegments = std::vector<Segments::iterator>;

  // Of one text with its end mark.
  int max_text() const { return options_.max_tokens / 8; }
  std::string_view KeyOf(std::string_view client) const {
    return options_.shared ? std::string_view() : client;
  }
  void Touch(Segments::iterator segment) {
    segments_.splice(segments_.begin(), segments_, segment);
  }
  void EvictLast();

  SuffixStoreOptions options_;
  Segments segments_;  // the last used first
  std::map<std::string, ClientSegments, std::less<>> clients_;
  uint64_t next_id_ = 1;
  int64_t tokens_ = 0;
  int64_t evicted_tokens_ = 0;
};

}  // namespace outrider
