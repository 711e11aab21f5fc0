// Caches the KV of prompts and texts for requests that begin the same way: a radix tree over whole
// pages of tokens. Entries are sequences of the model; new sequences fork them and share their
// pages (the model counts references), so an entry costs only the pages that no other sequence
// uses. The least recently used entry is evicted first when pages are needed.
//
// Sharing does not change any text: the KV of a token depends only on the tokens before it, bit for
// bit.
//
// Cost: that of the pages of one text, whatever the number of entries that share them. Only the
// search for a page among those that follow the same prefix takes the logarithm of their number,
// and MakeRoom, where pages are lacking, looks at all pages at most.
//
// Thread: the owner of the model.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
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
  // Evicts entries until `pages` of the model's pages are free: the least recently used first, but
  // none whose pages other sequences hold, too. Returns false, and evicts none, if that would not
  // free enough.
  bool MakeRoom(int pages);

  // Pages that entries hold, alone or shared with sequences.
  int Pages() const { return pages_; }
  int entries() const { return static_cast<int>(entries_.size()); }
  // Nodes and pages visited so far, a measure of time.
  int64_t steps() const { return steps_; }

 private:
  struct Node;
  struct Entry {
    SequenceId sequence;
    Node* end;  // the node of its last page, always a leaf: a longer text replaces its prefixes
  };
  using Entries = std::list<Entry>;  // most recently used first
  using Page = std::vector<TokenId>;
  struct Node {
    Node* parent = nullptr;
    const Page* page = nullptr;  // its key among the parent's children
    std::map<Page, std::unique_ptr<Node>> children;
    // One of the entries that hold this page: a leaf's own, and otherwise that of one of the
    // children. So the nodes with the same entry are the end of its path, without gaps.
    Entries::iterator entry;
    uint64_t hash = kNoPages;
    int slot = PrefixDigest::kNoSlot;  // in the digest
  };

  Page PageAt(std::span<const TokenId> tokens, size_t index) const;
  // The deepest node on the tokens' path, and its depth in pages.
  std::pair<Node*, size_t> Descend(std::span<const TokenId> tokens);
  void Touch(Entries::iterator entry) { entries_.splice(entries_.begin(), entries_, entry); }
  // The parent's new child for this page, which `entry` holds.
  Node* AddChild(Node* parent, Page page, Entries::iterator entry);
  void RemoveChild(Node* child);
  // Removes the entry and the nodes that only it holds.
  void Remove(Entries::iterator entry);
  // Removes the entry, which no node names.
  void Drop(Entries::iterator entry);
  // Whether evicting all entries would free `pages` pages.
  bool CanFree(int pages) const;
  // Adds 1 or -1 to the number of entries that hold each of this one's pages.
  void CountPages(const Entry& entry, int change);

  Model* model_;
  PrefixDigest* digest_;
  size_t page_tokens_;
  Node root_;
  Entries entries_;
  // [total_pages]: entries that hold each of the model's pages. A node's page may be several of
  // these, because sequences that computed the same text at the same time share none.
  std::vector<int32_t> page_entries_;
  int pages_ = 0;  // those that an entry holds
  int64_t steps_ = 0;
};

}  // namespace outrider
