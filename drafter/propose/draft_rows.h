// The rows behind nodes of a draft, in their order: the logits themselves, or what the model's
// device has read from them.
#pragma once

#include <cstddef>
#include <span>

#include "common/backend/pick_batch.h"

namespace outrider {

class DraftRows {
 public:
  DraftRows() = default;
  // [rows, vocab]; whoever draws from them overwrites them.
  explicit DraftRows(std::span<float> logits) : logits_(logits) {}
  explicit DraftRows(std::span<const PickedRow> picked) : picked_(picked) {}

  bool empty() const { return logits_.empty() && picked_.empty(); }
  bool on_device() const { return !picked_.empty(); }
  // Row `index`. REQUIRES: not on_device().
  std::span<float> Logits(size_t index, size_t vocab) const {
    return logits_.subspan(index * vocab, vocab);
  }
  // REQUIRES: on_device().
  const PickedRow& Picked(size_t index) const { return picked_[index]; }
  // Whether they are `count` rows of `vocab` logits, if they are logits.
  bool AreRows(size_t count, size_t vocab) const {
    return on_device() ? picked_.size() == count : logits_.size() == count * vocab;
  }

 private:
  std::span<float> logits_;
  std::span<const PickedRow> picked_;
};

}  // namespace outrider
