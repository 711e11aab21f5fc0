// One sequence's tokens in paged KV memory: token i is in slot pages[i / page_tokens] * page_tokens
// + i % page_tokens. Forks share full pages; a shared page is never written, but first replaced by
// a private copy. This class moves no data: it appends to a list of slot copies, which the caller
// performs in order before the next forward pass.
//
// Thread: the owner of the model; not synchronised. The pool must outlive its tables.
// When the pool is empty: Reserve and Fork return kResourceExhausted and change nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/kv/page_pool.h"

namespace outrider {

// Pages that `tokens` tokens take.
constexpr int64_t PagesFor(int64_t tokens, int page_tokens) {
  return (tokens + page_tokens - 1) / page_tokens;
}

class PageTable {
 public:
  PageTable(PagePool* pool, int page_tokens);
  ~PageTable();
  PageTable(PageTable&& other) noexcept;
  PageTable& operator=(PageTable&& other) noexcept;

  // Cached tokens.
  int length() const { return length_; }
  int page_tokens() const { return page_tokens_; }
  // The pages, in order; there may be more than the length needs.
  std::span<const int32_t> pages() const { return pages_; }
  // REQUIRES: the position is within the pages.
  int32_t Slot(int position) const;

  // Pages that Reserve(tokens) would take from the pool.
  int PagesNeeded(int tokens) const;
  // Makes room for `tokens` tokens in total; new ones go to pages that no other table shares.
  Status Reserve(int tokens, std::vector<SlotCopy>* copies);

  // Appends `count` tokens: a tree in which the parent of node i is parents[i] (-1: the last token
  // before this call), or a chain if `parents` is empty. REQUIRES: Reserve(length() + count) has
  // succeeded.
  void Append(int count, std::span<const int32_t> parents);
  // Keeps only those tokens of the last Append that are in `path`, ascending indices from a root to
  // a node. REQUIRES: no Truncate or KeepPath since that Append.
  void KeepPath(std::span<const int32_t> path, std::vector<SlotCopy>* copies);
  // Drops the tokens from `length` on, but keeps the pages. REQUIRES: 0 <= length <= length().
  void Truncate(int length);
  // Returns a second table with the first `length` tokens. REQUIRES: 0 <= length <= length().
  Result<PageTable> Fork(int length, std::vector<SlotCopy>* copies);

 private:
  void DropPages();
  // The first page to which tokens from length_ on are written.
  size_t WritePage() const { return static_cast<size_t>(length_ / page_tokens_); }
  void CopyTokens(int32_t from_page, int32_t to_page, int count, std::vector<SlotCopy>* copies);

  PagePool* pool_;
  int page_tokens_;
  int length_ = 0;
  std::vector<int32_t> pages_;

  // Tokens [append_begin_, length_) of the last Append, and their tree (empty: a chain).
  int append_begin_ = 0;
  std::vector<int32_t> append_parents_;
};

}  // namespace outrider
