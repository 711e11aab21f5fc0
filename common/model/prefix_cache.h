// Caches the KV of prompts and texts for requests that begin the same way: a radix tree over whole
// pages of tokens. Entries are sequences of the model; new sequences fork them and share their
// pages (the model counts references), so an entry costs only the pages that no other sequence
// uses. The least recently used entry is evicted first when pages are needed.
//
// Sharing does not change any text: the KV of a token depends only on the tokens before it, bit for
// bit.
//
// Thread: the owner of the model.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/base/types.h"
#include "common/model/model.h"
#include "common/routing/page_hashes.h"
#include "common/routing/prefix_digest.h"

namespace outrider {

class PrefixCache {
 public:
  // The model must outlive the cache, which releases its entries on destruction. `digest`, if there
  // is one, lists every page held, by the hash of the tokens up to its end; it must outlive the
  // cache.
  explicit PrefixCache(Model* model, PrefixDigest* digest = nullptr);
  ~PrefixCache();
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  // Returns a new sequence with the longest cached prefix of `tokens` (whole pages, possibly none),
  // which the caller owns. Its length is model->length().
  SequenceId Fork(std::span<const TokenId> tokens);

  // Takes ownership of a sequence with the KV of `tokens`, at least of its whole pages.
  void Insert(std::span<const TokenId> tokens, SequenceId sequence);

  // Evicts the least recently used entry. Returns false if there is none.
  bool EvictOne();

  // Pages that entries hold, alone or shared with sequences.
  int Pages() const;
  int entries() const { return static_cast<int>(entries_.size()); }

 private:
  struct Node;
  struct Entry {
    SequenceId sequence;
    Node* end;  // the node of its last page
  };
  using Entries = std::list<Entry>;  // most recently used first
  using Page = std::vector<TokenId>;
  struct Node {
    Node* parent = nullptr;
    const Page* page = nullptr;  // its key among the parent's children
    std::map<Page, std::unique_ptr<Node>> children;
    std::vector<Entries::iterator> through;  // entries that hold this page
    uint64_t hash = kNoPages;
    int slot = PrefixDigest::kNoSlot;  // in the digest
  };

  Page PageAt(std::span<const TokenId> tokens, size_t index) const;
  // The deepest node on the tokens' path, and its depth in pages.
  std::pair<Node*, size_t> Descend(std::span<const TokenId> tokens);
  void Touch(Entries::iterator entry) { entries_.splice(entries_.begin(), entries_, entry); }
  // The parent's new child for this page.
  Node* AddChild(Node* parent, Page page);
  void RemoveChild(Node* child);
  void Remove(Entries::iterator entry);

  Model* model_;
  PrefixDigest* digest_;
  size_t page_tokens_;
  Node root_;
  Entries entries_;
  mutable std::optional<int> pages_;  // nullopt: must be recounted
};

}  // namespace outrider
