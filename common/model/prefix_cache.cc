#include "common/model/prefix_cache.h"

#include <algorithm>
#include <utility>

namespace outrider {

PrefixCache::PrefixCache(Model* model, PrefixDigest* digest)
    : model_(model), digest_(digest), page_tokens_(static_cast<size_t>(model->page_tokens())) {}

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
  }
  return {node, depth};
}

SequenceId PrefixCache::Fork(std::span<const TokenId> tokens) {
  const auto [node, depth] = Descend(tokens);
  if (depth == 0) return model_->NewSequence();
  const Entries::iterator entry = node->through.front();
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
    if (pages > 0) Touch(node->through.front());
    model_->Release(sequence);
    return;
  }
  // A fork keeps only the whole pages. It copies nothing, so it cannot fail.
  Result<SequenceId> whole = model_->Fork(sequence, static_cast<int>(tokens.size()));
  model_->Release(sequence);
  if (!whole.ok()) return;
  // Entries that end on this path are prefixes of the new one.
  std::vector<Entries::iterator> covered;
  for (const Node* ancestor = node; ancestor != &root_; ancestor = ancestor->parent) {
    for (const Entries::iterator entry : ancestor->through) {
      if (entry->end == ancestor) covered.push_back(entry);
    }
  }
  for (size_t page = depth; page < pages; ++page) {
    node = AddChild(node, PageAt(tokens, page));
  }
  entries_.push_front({*whole, node});
  pages_.reset();
  for (Node* ancestor = node; ancestor != &root_; ancestor = ancestor->parent) {
    ancestor->through.push_back(entries_.begin());
  }
  for (const Entries::iterator entry : covered) Remove(entry);
}

int PrefixCache::Pages() const {
  if (!pages_.has_value()) {
    std::vector<SequenceId> sequences;
    for (const Entry& entry : entries_) sequences.push_back(entry.sequence);
    pages_ = model_->PagesHeld(sequences);
  }
  return *pages_;
}

bool PrefixCache::EvictOne() {
  if (entries_.empty()) return false;
  Remove(std::prev(entries_.end()));
  return true;
}

PrefixCache::Node* PrefixCache::AddChild(Node* parent, Page page) {
  auto child = std::make_unique<Node>();
  child->parent = parent;
  if (digest_ != nullptr) {
    child->hash = ExtendPageHash(parent->hash, page);
    child->slot = digest_->Add(child->hash);
  }
  const auto added = parent->children.emplace(std::move(page), std::move(child)).first;
  added->second->page = &added->first;
  return added->second.get();
}

void PrefixCache::RemoveChild(Node* child) {
  if (digest_ != nullptr) digest_->Remove(child->slot);
  auto& siblings = child->parent->children;
  siblings.erase(siblings.find(*child->page));
}

void PrefixCache::Remove(Entries::iterator entry) {
  for (Node* ancestor = entry->end; ancestor != &root_;) {
    std::erase(ancestor->through, entry);
    Node* parent = ancestor->parent;
    if (ancestor->through.empty()) {
      RemoveChild(ancestor);
    }
    ancestor = parent;
  }
  model_->Release(entry->sequence);
  entries_.erase(entry);
  pages_.reset();
}

}  // namespace outrider
