#include "drafter/propose/draft_kv.h"

#include <algorithm>
#include <string>

#include "common/base/check.h"
#include "common/kv/page_table.h"

namespace outrider {

DraftKv::DraftKv(Model* model, PageBudget* budget, SequenceId trunk)
    : model_(model), budget_(budget), sequences_{trunk}, node_sequence_{trunk} {}

DraftKv::~DraftKv() {
  FreeUnusedPages();
  for (const SequenceId sequence : sequences_) model_->Release(sequence);
}

Status DraftKv::Secure(int length, const DraftShape& shape) {
  FreeUnusedPages();
  length_ = length;
  // The last depth is never fed.
  longest_ = length + std::max(shape.length - 1, 0);
  // Only the trunk's, unless the plan of a draft under way changes.
  int64_t held = 0;
  for (const SequenceId sequence : sequences_) held += model_->PagesNeeded(sequence, longest_);

  // A fork costs more the earlier it branches off, and a depth has at most as many sequences as
  // draft tokens: in the worst case all tokens differ.
  int64_t promised = 0;
  int64_t sequences = 1;
  for (int depth = 0; depth + 1 < shape.length; ++depth) {
    const int64_t forks = sequences * (shape.draws(depth) - 1);
    const int64_t shared = (length + depth) / model_->page_tokens();
    promised += forks * (PagesFor(longest_, model_->page_tokens()) - shared);
    sequences += forks;
  }
  const int64_t whole = PagesFor(longest_, model_->page_tokens()) + promised;
  if (whole > model_->total_pages()) {
    return Status(Code::kOutOfRange, "a draft of " + std::to_string(sequences) +
                                         " sequences needs " + std::to_string(whole) +
                                         " KV pages, more than the " +
                                         std::to_string(model_->total_pages()) + " of the drafter");
  }
  if (!budget_->MakeRoom(held + promised)) {
    return ResourceExhausted("a draft of " + std::to_string(sequences) + " sequences needs " +
                             std::to_string(held + promised) + " more KV pages, " +
                             std::to_string(budget_->free_pages()) + " are free");
  }
  for (const SequenceId sequence : sequences_) {
    OUTRIDER_CHECK(model_->Reserve(sequence, longest_).ok());
  }
  budget_->Promise(promised);
  promised_ = promised;
  return Status();
}

void DraftKv::Branch(const DraftTree& draft, std::span<const int32_t> frontier) {
  const auto nodes = static_cast<size_t>(draft.size()) + 1;
  node_sequence_.resize(nodes, -1);
  std::vector<bool> goes_on(nodes, false);  // already continued by a child
  const int64_t free_before = model_->free_pages();
  for (const int32_t node : frontier) {
    const int parent = draft.parent(node);
    SequenceId sequence = this->sequence(parent);
    if (goes_on[static_cast<size_t>(parent)]) {
      Result<SequenceId> fork = model_->Fork(sequence, length_ + draft.depth(parent));
      OUTRIDER_CHECK(fork.ok());
      sequence = *fork;
      sequences_.push_back(sequence);
      OUTRIDER_CHECK(model_->Reserve(sequence, longest_).ok());
    }
    goes_on[static_cast<size_t>(parent)] = true;
    node_sequence_[static_cast<size_t>(node)] = sequence;
  }
  const int64_t taken = free_before - model_->free_pages();
  OUTRIDER_CHECK(taken <= promised_);
  promised_ -= taken;
  budget_->Promise(-taken);
}

void DraftKv::Drop(int length) {
  const SequenceId trunk = sequence(DraftTree::kRoot);
  if (model_->length(trunk) > length) model_->Truncate(trunk, length);
}

void DraftKv::FreeUnusedPages() {
  budget_->Promise(-promised_);
  promised_ = 0;
}

Result<SequenceId> DraftKv::Fork(int node, int length) const {
  if (!budget_->MakeRoom(1)) return ResourceExhausted("no KV page is free");
  return model_->Fork(sequence(node), length);
}

SequenceId DraftKv::TakeTrunk() {
  const SequenceId trunk = sequence(DraftTree::kRoot);
  std::erase(sequences_, trunk);
  return trunk;
}

void DraftKv::Keep(int node, int length) {
  const SequenceId kept = sequence(node);
  for (const SequenceId sequence : sequences_) {
    if (sequence != kept) model_->Release(sequence);
  }
  sequences_ = {kept};
  node_sequence_ = {kept};
  model_->Truncate(kept, length);
  FreeUnusedPages();
}

SequenceId DraftKv::sequence(int node) const {
  const SequenceId sequence = node_sequence_[static_cast<size_t>(node)];
  OUTRIDER_CHECK(sequence >= 0);
  return sequence;
}

}  // namespace outrider
