#include "common/model/prefix_cache.h"

#include <algorithm>
#include <utility>

namespace outrider {

PrefixCache::PrefixCache(Model* model, PrefixDigest* digest)
    : model_(model),
      digest_(digest),
      page_tokens_(static_cast<size_t>(model->page_tokens())),
      page_entries_(static_cast<size_t>(model->total_pages())) {}

PrefixCache::~PrefixCache() {
  while (EvictOne()) {
  }
}

PrefixCache::Page PrefixCache::PageAt(std::span<const TokenId> tokens, size_t index) const {
  const auto page = tokens.subspan(index * page_tokens_, page_tokens_);
  return {page.begin(), page.end()};
}

std::pair<PrefixCache::Node*, size_t> PrefixCache::Descend(std::span<const TokenId> tokens) {
  Node* node = &root_;
  size_t depth = 0;
  for (; (depth + 1) * page_tokens_ <= tokens.size(); ++depth) {
    const auto child = node->children.find(PageAt(tokens, depth));
    if (child == node->children.end()) break;
    node = child->second.get();
    ++steps_;
  }
  return {node, depth};
}

SequenceId PrefixCache::Fork(std::span<const TokenId> tokens) {
  const auto [node, depth] = Descend(tokens);
  if (depth == 0) return model_->NewSequence();
  const Entries::iterator entry = node->entry;
  Touch(entry);
  // Whole pages are shared and none is copied, so this cannot run out of pages.
  Result<SequenceId> fork = model_->Fork(entry->sequence, static_cast<int>(depth * page_tokens_));
  return fork.ok() ? *fork : model_->NewSequence();
}

void PrefixCache::Insert(std::span<const TokenId> tokens, SequenceId sequence) {
  const size_t pages =
      std::min(tokens.size(), static_cast<size_t>(model_->length(sequence))) / page_tokens_;
  tokens = tokens.first(pages * page_tokens_);
  auto [node, depth] = Descend(tokens);
  if (depth == pages) {  // all of it is cached already (or there is no whole page)
    if (pages > 0) Touch(node->entry);
    model_->Release(sequence);
    return;
  }
  // A fork keeps only the whole pages. It copies nothing, so it cannot fail.
  Result<SequenceId> whole = model_->Fork(sequence, static_cast<int>(tokens.size()));
  model_->Release(sequence);
  if (!whole.ok()) return;
  // If the cached part of the path ends at a leaf, that leaf's entry is a prefix of the new one.
  Node* const shared = node;
  const bool covers = shared != &root_ && shared->children.empty();
  entries_.push_front({*whole, nullptr});
  const Entries::iterator entry = entries_.begin();
  for (size_t page = depth; page < pages; ++page) {
    node = AddChild(node, PageAt(tokens, page), entry);
  }
  entry->end = node;
  CountPages(*entry, 1);
  if (!covers) return;
  const Entries::iterator covered = shared->entry;
  for (node = shared; node != &root_ && node->entry == covered; node = node->parent) {
    node->entry = entry;
    ++steps_;
  }
  Drop(covered);
}

bool PrefixCache::EvictOne() {
  if (entries_.empty()) return false;
  Remove(std::prev(entries_.end()));
  return true;
}

bool PrefixCache::MakeRoom(int pages) {
  if (model_->free_pages() >= pages) return true;
  if (!CanFree(pages - model_->free_pages())) return false;
  for (auto next = entries_.end(); model_->free_pages() < pages && next != entries_.begin();) {
    const Entries::iterator entry = std::prev(next);
    // No other entry holds the last page. A sequence that does holds those before it, too.
    const int32_t last_page = model_->Pages(entry->sequence).back();
    if (model_->page_holders()[static_cast<size_t>(last_page)] == 1) {
      Remove(entry);
    } else {
      next = entry;
    }
  }
  return model_->free_pages() >= pages;
}

bool PrefixCache::CanFree(int pages) const {
  const std::span<const int32_t> holders = model_->page_holders();
  for (size_t page = 0; page < page_entries_.size() && pages > 0; ++page) {
    if (page_entries_[page] > 0 && page_entries_[page] == holders[page]) --pages;
  }
  return pages <= 0;
}

PrefixCache::Node* PrefixCache::AddChild(Node* parent, Page page, Entries::iterator entry) {
  auto child = std::make_unique<Node>();
  child->parent = parent;
  child->entry = entry;
  if (digest_ != nullptr) {
    child->hash = ExtendPageHash(parent->hash, page);
    child->slot = digest_->Add(child->hash);
  }
  const auto added = parent->children.emplace(std::move(page), std::move(child)).first;
  added->second->page = &added->first;
  ++steps_;
  return added->second.get();
}

void PrefixCache::RemoveChild(Node* child) {
  if (digest_ != nullptr) digest_->Remove(child->slot);
  auto& siblings = child->parent->children;
  siblings.erase(siblings.find(*child->page));
}

void PrefixCache::Remove(Entries::iterator entry) {
  Node* node = entry->end;
  while (node != &root_ && node->children.empty()) {
    Node* const parent = node->parent;
    RemoveChild(node);
    node = parent;
    ++steps_;
  }
  for (; node != &root_ && node->entry == entry; node = node->parent) {
    node->entry = node->children.begin()->second->entry;
    ++steps_;
  }
  Drop(entry);
}

void PrefixCache::Drop(Entries::iterator entry) {
  CountPages(*entry, -1);
  model_->Release(entry->sequence);
  entries_.erase(entry);
}

void PrefixCache::CountPages(const Entry& entry, int change) {
  for (const int32_t page : model_->Pages(entry.sequence)) {
    int32_t& entries = page_entries_[static_cast<size_t>(page)];
    const bool was_held = entries > 0;
    entries += change;
    pages_ += static_cast<int>(entries > 0) - static_cast<int>(was_held);
    ++steps_;
  }
}

}  // namespace outrider
