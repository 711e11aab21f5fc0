// Texts of finished requests, from which later ones draft: a few suffix automata for each client.
//
// Isolation: an accepted draft saves time, so speed reveals a text to anybody who drafts from it:
// guess a prompt, measure the speed, and learn whether somebody had that text. Therefore texts are
// kept by client key, and no client drafts from another's. `shared` gives this up, for deployments
// where all clients may know each other's texts. A key is only as good as its issuer: clients that
// share one (the empty one is a key, too) count as one client. That others are busy shows in any
// case, because their texts evict a client's own.
//
// Exactness: a draft must not depend on the random numbers that verify it, and requests with the
// same seed have the same ones. A request that drafts from a text made with its own seed is biased,
// in the worst case completely (PointMassDistribution.BreaksIfDraftKnowsCoins). Also, a seed only
// repeats a text if the drafts repeat, and a store changes. So requests with a seed chosen by the
// client, whose text depends on their drafts, do not use the store, neither for their texts nor for
// their drafts (Planner::Open ensures this). Seeds drawn by the verifier do not repeat.
//
// Bound: max_tokens of text in all, at some 100 bytes a token (suffix_automaton.h) and 600 a
// segment. A segment holds texts of one client up to an eighth of max_tokens. When full, the least
// recently used segment of any client is evicted; adding a text and matching a session's text count
// as use.
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
  int max_tokens = 0;   // of all clients together, with an end mark per text; 0: off
  bool shared = false;  // all clients draft from all texts
};

class SuffixStore {
 public:
  // Number of the session's last tokens that are compared; longer matches count as equal.
  static constexpr int kContext = 64;

  // A session's position in its client's segments. Starts empty; only the store reads it.
  struct Cursor {
    struct Place {
      uint64_t segment = 0;  // id of a segment; 0: none
      int64_t version = 0;
      SuffixMatch match;
    };
    std::vector<Place> places;
    int64_t observed = 0;  // tokens of the session that the positions include
  };

  // Where a session's text continues. `automaton`: nullptr if nothing matches; valid until Add.
  struct Found {
    const SuffixAutomaton* automaton = nullptr;
    SuffixMatch match;
  };

  explicit SuffixStore(const SuffixStoreOptions& options) : options_(options) {}

  bool on() const { return max_text() > 1; }

  // Adds a finished request's text: its output, with or without the prompt. Of a text longer than
  // an eighth of max_tokens only the end is kept.
  void Add(std::string_view client, std::span<const TokenId> text);

  // The longest suffix of a session's text, of at least `min_match` tokens, that occurs in a text
  // of its client; the latest segment among equals. `observed`: the number of the session's tokens;
  // `tail`: the last kContext of them, or all. O(new tokens) for each segment of the client,
  // O(kContext) if the segment has changed.
  Found Find(std::string_view client, std::span<const TokenId> tail, int64_t observed,
             int min_match, Cursor* cursor);

  int64_t tokens() const { return tokens_; }
  size_t bytes() const;

 private:
  struct Segment {
    uint64_t id;
    std::string client;
    SuffixAutomaton text;
  };
  using Segments = std::list<Segment>;
  // A client's segments, oldest first. Two in a row hold more than an eighth together, so they are
  // few.
  using ClientSegments = std::vector<Segments::iterator>;

  // The longest text, with its end mark.
  int max_text() const { return options_.max_tokens / 8; }
  std::string_view KeyOf(std::string_view client) const {
    return options_.shared ? std::string_view() : client;
  }
  void Touch(Segments::iterator segment) {
    segments_.splice(segments_.begin(), segments_, segment);
  }
  void EvictLast();

  SuffixStoreOptions options_;
  Segments segments_;  // most recently used first
  std::map<std::string, ClientSegments, std::less<>> clients_;
  uint64_t next_id_ = 1;
  int64_t tokens_ = 0;
};

}  // namespace outrider
