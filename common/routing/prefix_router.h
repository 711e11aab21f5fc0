// Chooses a verifier for each request, so that requests that begin alike meet where the keys and
// values of their prefix are, and no verifier gets much more than its part.
//
// Which prefix decides. A request's key is the hash of its prompt up to some page (page_hashes.h).
// A fixed page would be wrong: after the first page of a system prompt that all chats share, one
// key would hold all of the load, and a page much later differs in prompts that share a long
// document. So the router counts how many of the recent requests share each prefix
// (prefix_shares.h). A prefix that more requests have than one verifier may take (bound / verifiers
// of them) has to be held by several verifiers anyway, so the page after it decides; the first page
// with a smaller share is the key. Chats below one system prompt are then spread, and the turns of
// a chat stay together. Routers that see the same traffic agree without talking to each other, and
// nothing has to be remembered for each verifier, as approximate radix trees of other routers do.
// A prompt that is shared to its end has its last page as the key.
//
// Where a key goes. Consistent hashing with bounded loads (Mirrokni, Thorup, Zadimoghaddam 2018): a
// request goes to the first verifier of its key's list that has less than
// ceil(bound * (requests in flight + 1) / verifiers) in flight. The list is that of Chen, Coleman
// and Shrivastava 2021: the key's hash is hashed again for each next position on the ring, so a
// full verifier's overflow is spread over all others. At most 1 / bound of the verifiers are full,
// so this takes bound / (bound - 1) positions on average, 5 for 1.25, however many verifiers there
// are. When a verifier comes or leaves, a key changes only to or from that one, apart from what the
// bound moves and from keys whose page changes with the number of verifiers.
//
// The bound holds when a request is placed: running requests are not moved when others end.
//
//   PrefixRouter router;
//   for (const std::string& name : names) router.Add(name);
//   const int verifier = router.Choose(pages);  // TextPageHashes or TokenPageHashes
//   router.Begin(verifier);
//   ...                                          // the request runs
//   router.End(verifier);
//
// Costs of a choice: O(pages), plus O(log verifiers) for each position.
//
// Thread: one owner.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/routing/hash_ring.h"
#include "common/routing/prefix_shares.h"

namespace outrider {

class PrefixRouter {
 public:
  PrefixRouter();

  // Adds a verifier, which serves from now on, and returns its index: 0, 1, 2 ... Where keys go
  // depends on the names, not on the indices.
  int Add(const std::string& name);
  // A verifier that does not serve is never chosen, and its requests in flight do not count.
  void SetServing(int verifier, bool serving);

  int verifiers() const { return static_cast<int>(verifiers_.size()); }
  int serving() const { return serving_; }
  bool is_serving(int verifier) const { return At(verifier).serving; }
  int in_flight(int verifier) const { return At(verifier).in_flight; }

  // The verifier for a request whose prompt has these pages, and counts them; -1: none serves.
  // `pages`: hashes of its prefixes by length, as PageHashes give them.
  int Choose(std::span<const uint64_t> pages);
  // The most requests in flight that a verifier may have once another request is placed.
  int Limit() const;

  // A request begins, or ends, at a verifier, however it was chosen.
  void Begin(int verifier);
  void End(int verifier);

  // Index of the page that decides where a request with these pages goes; 0 without pages.
  size_t DecidingPage(std::span<const uint64_t> pages) const;

 private:
  struct Verifier {
    std::string name;
    int in_flight = 0;
    bool serving = false;
  };
  const Verifier& At(int verifier) const { return verifiers_[static_cast<size_t>(verifier)]; }
  Verifier& At(int verifier) { return verifiers_[static_cast<size_t>(verifier)]; }
  // The first one of the key's list with less than `limit` in flight.
  int FirstBelow(int limit, uint64_t key) const;

  std::vector<Verifier> verifiers_;
  HashRing ring_;  // of those that serve
  PrefixShares shares_;
  int serving_ = 0;
  int64_t in_flight_ = 0;  // of those that serve
};

}  // namespace outrider
