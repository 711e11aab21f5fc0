// The KV of one session: a trunk with the committed tokens, and one model sequence for each branch
// of the draft in progress, which shares the trunk's full pages. Every page that a plan may need is
// reserved before its first token is sampled, so that a started draft never runs out of pages:
// abandoning one because of its tokens would change its distribution.
//
// Thread: the owner of the model.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/model/model.h"
#include "common/model/prefix_cache.h"
#include "common/spec/draft_tree.h"

namespace outrider {

// The model's free pages less those reserved for running plans. Kept prefixes are evicted when
// their pages are needed.
class PageBudget {
 public:
  // `prefixes` may be nullptr: none are kept.
  explicit PageBudget(const Model* model, PrefixCache* prefixes = nullptr)
      : model_(model), prefixes_(prefixes) {}
  int64_t free_pages() const { return model_->free_pages() - promised_; }
  void Promise(int64_t pages) { promised_ += pages; }
  // Whether `pages` pages are free, after evicting prefixes if necessary: none if not.
  bool MakeRoom(int64_t pages) {
    const int64_t wanted = promised_ + pages;
    if (prefixes_ == nullptr || model_->free_pages() >= wanted) return free_pages() >= pages;
    return wanted <= model_->total_pages() && prefixes_->MakeRoom(static_cast<int>(wanted));
  }

 private:
  const Model* model_;
  PrefixCache* prefixes_;
  int64_t promised_ = 0;
};

class DraftKv {
 public:
  // `model` and `budget` must outlive it. Takes ownership of `trunk`.
  DraftKv(Model* model, PageBudget* budget, SequenceId trunk);
  // Returns all pages and reservations.
  ~DraftKv();
  DraftKv(const DraftKv&) = delete;
  DraftKv& operator=(const DraftKv&) = delete;

  // Secures the pages of a draft of `shape` after `length` committed tokens, whether it is under
  // way or not: allocates the trunk's and reserves the branches'; earlier reservations are void.
  // kResourceExhausted: there are not enough, kOutOfRange: nor would all of the model's be. None
  // are allocated or reserved then, so that a draft under way must end.
  Status Secure(int length, const DraftShape& shape);
  // Gives each of `frontier`, the nodes of `draft` to be fed next, a sequence with the path before
  // it: its parent's own for the first child, forks of it for the others.
  void Branch(const DraftTree& draft, std::span<const int32_t> frontier);
  // Truncates the trunk to `length` tokens: the others were fed before the draft was known to end
  // earlier.
  void Drop(int length);
  // The draft is complete: reserved pages that it did not use are free again.
  void FreeUnusedPages();
  // A new sequence with the first `length` tokens of the one that holds `node`. The caller owns it.
  // kResourceExhausted: no page is free.
  Result<SequenceId> Fork(int node, int length) const;
  // Hands the trunk over to the caller. This object must not be used afterwards.
  SequenceId TakeTrunk();
  // Ends the draft: the path to `node` is accepted, and the first `length` tokens including the
  // trunk's are kept. REQUIRES: the node is the root or was fed.
  void Keep(int node, int length);

  // The sequence that the node's token is in or will be fed to. REQUIRES: the node is the root or
  // was in the frontier of a Branch.
  SequenceId sequence(int node) const;

 private:
  Model* model_;
  PageBudget* budget_;
  int64_t promised_ = 0;
  int length_ = 0;   // of the trunk in the plan
  int longest_ = 0;  // the most tokens of a sequence
  std::vector<SequenceId> sequences_;
  std::vector<SequenceId> node_sequence_;  // -1: never fed, or not yet
};

}  // namespace outrider
