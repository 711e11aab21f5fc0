#include "common/kv/page_table.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/check.h"

namespace outrider {
namespace {

Status PagesOut(int needed, const PagePool& pool) {
  return ResourceExhausted("KV pages: " + std::to_string(needed) + " needed, " +
                           std::to_string(pool.free_pages()) + " of " +
                           std::to_string(pool.total_pages()) + " free");
}

}  // namespace

PageTable::PageTable(PagePool* pool, int page_tokens) : pool_(pool), page_tokens_(page_tokens) {
  OUTRIDER_CHECK(page_tokens > 0);
}

PageTable::~PageTable() { DropPages(); }

PageTable::PageTable(PageTable&& other) noexcept
    : pool_(other.pool_),
      page_tokens_(other.page_tokens_),
      length_(std::exchange(other.length_, 0)),
      pages_(std::exchange(other.pages_, {})),
      append_begin_(std::exchange(other.append_begin_, 0)),
      append_parents_(std::exchange(other.append_parents_, {})) {}

PageTable& PageTable::operator=(PageTable&& other) noexcept {
  if (this == &other) return *this;
  DropPages();
  pool_ = other.pool_;
  page_tokens_ = other.page_tokens_;
  length_ = std::exchange(other.length_, 0);
  pages_ = std::exchange(other.pages_, {});
  append_begin_ = std::exchange(other.append_begin_, 0);
  append_parents_ = std::exchange(other.append_parents_, {});
  return *this;
}

void PageTable::DropPages() {
  for (const int32_t page : pages_) pool_->Drop(page);
  pages_.clear();
}

int32_t PageTable::Slot(int position) const {
  const auto page = static_cast<size_t>(position / page_tokens_);
  OUTRIDER_CHECK(position >= 0 && page < pages_.size());
  return pages_[page] * page_tokens_ + position % page_tokens_;
}

int PageTable::PagesNeeded(int tokens) const {
  if (tokens <= length_) return 0;
  const auto wanted = static_cast<size_t>(PagesFor(tokens, page_tokens_));
  size_t needed = wanted > pages_.size() ? wanted - pages_.size() : 0;
  for (size_t i = WritePage(); i < std::min(wanted, pages_.size()); ++i) {
    if (pool_->references(pages_[i]) > 1) ++needed;
  }
  return static_cast<int>(needed);
}

Status PageTable::Reserve(int tokens, std::vector<SlotCopy>* copies) {
  const int needed = PagesNeeded(tokens);
  if (needed > pool_->free_pages()) return PagesOut(needed, *pool_);
  if (tokens <= length_) return Status();
  const auto wanted = static_cast<size_t>(PagesFor(tokens, page_tokens_));
  for (size_t i = WritePage(); i < std::min(wanted, pages_.size()); ++i) {
    const int32_t shared = pages_[i];
    if (pool_->references(shared) == 1) continue;
    pages_[i] = pool_->Take();
    // Only the first page can have tokens below the length; later ones have none yet.
    if (i == WritePage()) CopyTokens(shared, pages_[i], length_ % page_tokens_, copies);
    pool_->Drop(shared);
  }
  while (pages_.size() < wanted) pages_.push_back(pool_->Take());
  return Status();
}

void PageTable::Append(int count, std::span<const int32_t> parents) {
  OUTRIDER_CHECK(count >= 0 && PagesNeeded(length_ + count) == 0);
  OUTRIDER_CHECK(parents.empty() || parents.size() == static_cast<size_t>(count));
  append_begin_ = length_;
  append_parents_.assign(parents.begin(), parents.end());
  length_ += count;
}

void PageTable::KeepPath(std::span<const int32_t> path, std::vector<SlotCopy>* copies) {
  const int appended = length_ - append_begin_;
  for (size_t depth = 0; depth < path.size(); ++depth) {
    const int32_t node = path[depth];
    OUTRIDER_CHECK(node >= 0 && node < appended);
    const int32_t parent =
        append_parents_.empty() ? node - 1 : append_parents_[static_cast<size_t>(node)];
    OUTRIDER_CHECK(parent == (depth == 0 ? -1 : path[depth - 1]));
    // node >= depth, so no copy overwrites the source of a later one.
    const int position = append_begin_ + static_cast<int>(depth);
    if (append_begin_ + node != position) {
      copies->push_back({Slot(append_begin_ + node), Slot(position)});
    }
  }
  Truncate(append_begin_ + static_cast<int>(path.size()));
}

void PageTable::Truncate(int length) {
  OUTRIDER_CHECK(length >= 0 && length <= length_);
  length_ = length;
  append_begin_ = length;
  append_parents_.clear();
}

Result<PageTable> PageTable::Fork(int length, std::vector<SlotCopy>* copies) {
  OUTRIDER_CHECK(length >= 0 && length <= length_);
  // The nodes of a tree may still be moved (KeepPath), so their pages are copied, not shared.
  const int settled = append_parents_.empty() ? length : std::min(length, append_begin_);
  const size_t shared = static_cast<size_t>(settled / page_tokens_);
  const auto wanted = static_cast<size_t>(PagesFor(length, page_tokens_));
  const int needed = static_cast<int>(wanted - shared);
  if (needed > pool_->free_pages()) return PagesOut(needed, *pool_);

  PageTable fork(pool_, page_tokens_);
  fork.pages_.reserve(wanted);
  for (size_t i = 0; i < wanted; ++i) {
    if (i < shared) {
      pool_->Share(pages_[i]);
      fork.pages_.push_back(pages_[i]);
      continue;
    }
    fork.pages_.push_back(pool_->Take());
    const int page_begin = static_cast<int>(i) * page_tokens_;
    CopyTokens(pages_[i], fork.pages_[i], std::min(length - page_begin, page_tokens_), copies);
  }
  fork.length_ = length;
  fork.append_begin_ = length;
  return fork;
}

void PageTable::CopyTokens(int32_t from_page, int32_t to_page, int count,
                           std::vector<SlotCopy>* copies) {
  for (int i = 0; i < count; ++i) {
    copies->push_back({from_page * page_tokens_ + i, to_page * page_tokens_ + i});
  }
}

}  // namespace outrider
