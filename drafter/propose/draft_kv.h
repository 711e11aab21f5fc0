// The KV of one session: a trunk with the committed tokens, and one model sequence for each branch
// of the draft in progress, which shares the trunk's full pages. Every page that a plan may need is
// promised before its first token is drawn, so that a draft that has begun never runs out of pages:
// giving one up because of what was drawn would change its distribution.
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

// The model's free pages less those promised to running plans. Kept prefixes give theirs up when
// they are needed.
class PageBudget {
 public:
  // `prefixes` may be nullptr: none are kept.
  explicit PageBudget(const Model* model, PrefixCache* prefixes = nullptr)
      : model_(model), prefixes_(prefixes) {}
  // Negative while a session holds pages that were promised to another.
  int64_t free_pages() const { return model_->free_pages() - promised_; }
  void Promise(int64_t pages) { promised_ += pages; }
  // Lets go of the prefix that was used least recently. False: none is kept.
  bool EvictPrefix() { return prefixes_ != nullptr && prefixes_->EvictOne(); }
  // Whether so many pages are free, where prefixes have to give way for them.
  bool MakeRoom(int64_t pages) {
    while (free_pages() < pages) {
      if (!EvictPrefix()) return false;
    }
    return true;
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
  // Gives all pages and promises back.
  ~DraftKv();
  DraftKv(const DraftKv&) = delete;
  DraftKv& operator=(const DraftKv&) = delete;

  // Secures the pages of a draft of `shape` after `length` committed tokens: the trunk's at once,
  // the branches' as a promise; earlier promises are void. kResourceExhausted when there are not
  // enough: the session has to be given up then, as it may hold some that were promised to another.
  Status Secure(int length, const DraftShape& shape);
  // Gives each of `frontier`, the nodes of `draft` to be fed next, a sequence that holds the path
  // before it: its parent's own for the first child, forks of it for the others.
  void Branch(const DraftTree& draft, std::span<const int32_t> frontier);
  // Drops what the trunk holds from `length` on: tokens that were fed before it was known that the
  // draft ends before them.
  void Drop(int length);
  // The draft is complete: pages that it was promised and did not take are free again.
  void Settle();
  // A new sequence with the first `length` tokens of the one that holds `node`, which the caller
  // owns. kResourceExhausted when no page is free.
  Result<SequenceId> Fork(int node, int length) const;
  // The trunk, which is the caller's from now on. Nothing else may be asked of this object then.
  SequenceId TakeTrunk();
  // Ends the draft: the path to `node` is accepted, of which the first `length` tokens are kept,
  // the trunk's included. REQUIRES: the node is the root or was fed.
  void Keep(int node, int length);

  // The sequence that the node's token is in or will be fed to. REQUIRES: the node is the root or
  // was in the frontier of a Branch.
  SequenceId sequence(int node) const;

 private:
  int64_t PagesFor(int64_t tokens) const;

  Model* model_;
  PageBudget* budget_;
  int64_t promised_ = 0;
  int length_ = 0;   // the trunk's, of the plan
  int longest_ = 0;  // tokens that a sequence may hold at most
  std::vector<SequenceId> sequences_;
  std::vector<SequenceId> of_node_;  // -1: never to be fed, or not yet
};

}  // namespace outrider
