// KV of prompts and texts, kept for requests that begin the same way: a radix tree over whole pages
// of tokens. Entries are sequences of the model; sessions fork them and share their pages
// (reference counts are the model's), so holding an entry costs only the pages that nobody else
// holds. The least recently used entry goes first when pages are needed.
//
// Sharing changes no text: KV of a token depends on the tokens before it alone, bit for bit.
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

namespace outrider {

class PrefixCache {
 public:
  // The model must outlive the cache, which gives back what it holds at its end.
  explicit PrefixCache(Model* model);
  ~PrefixCache();
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  // A new sequence with the longest held prefix of `tokens` (whole pages, it may be none): the
  // caller's. Its length is model->length().
  SequenceId Fork(std::span<const TokenId> tokens);

  // Takes over a sequence that holds KV of `tokens`, at least its whole pages.
  void Insert(std::span<const TokenId> tokens, SequenceId sequence);

  // Lets go of the least recently used entry. False: nothing is held.
  bool EvictOne();

  // Pages that entries hold, alone or with sessions.
  int Pages() const;
  int entries() const { return static_cast<int>(entries_.size()); }

 private:
  struct Node;
  struct Entry {
    SequenceId sequence;
    Node* end;  // the node of its last page
  };
  using Entries = std::list<Entry>;  // most recently used first
  struct Node {
    Node* parent = nullptr;
    std::map<std::vector<TokenId>, std::unique_ptr<Node>> children;  // by the page's tokens
    std::vector<Entries::iterator> through;                          // entries that hold this page
  };

  std::vector<TokenId> Page(std::span<const TokenId> tokens, size_t index) const;
  // The deepest node on the tokens' path, and its depth in pages.
  std::pair<Node*, size_t> Descend(std::span<const TokenId> tokens);
  void Touch(Entries::iterator entry) { entries_.splice(entries_.begin(), entries_, entry); }
  void Remove(Entries::iterator entry);

  Model* model_;
  size_t page_tokens_;
  Node root_;
  Entries entries_;
  mutable std::optional<int> pages_;  // nullopt: to be counted anew
};

}  // namespace outrider
