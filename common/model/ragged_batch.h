// Plans one forward pass on the host: every row's position, KV slot and parent, and every
// sequence's pages, flattened into the arrays that the kernels read (BatchLayout). Pure: no device,
// no model.
//
// Thread: the owner of the model. Call CheckShare for all sequences, reserve their pages, then
// Begin and one Add per sequence. The arrays keep their capacity, so a steady state allocates
// nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/backend/batch_layout.h"
#include "common/base/status.h"
#include "common/kv/page_table.h"
#include "common/model/model.h"

namespace outrider {

// Limits of a model.
struct BatchLimits {
  int vocab_size = 0;
  int max_positions = 0;
};

// Checks that `share` can follow `length` tokens: ids within the vocabulary, a tree (or chain) in
// node order, ascending logit rows, positions below the limit. kInvalidArgument says what is wrong.
Status CheckShare(const ForwardSequence& share, int length, const BatchLimits& limits);

// True when the nodes form a chain, whether or not `parents` is given.
bool IsChain(std::span<const int32_t> parents);

class RaggedBatch {
 public:
  // Starts a batch. `has_tree`: at least one share is not a chain.
  void Begin(bool has_tree);
  // REQUIRES: CheckShare has passed and the table has room for the share's tokens.
  void Add(const ForwardSequence& share, const PageTable& table);

  // Adds sequences of one row until there are `rows` rows, and logits rows until there are as many,
  // unless there are none. The added rows' results are not used: each has token 0 at position 0 and
  // sees only itself, in the first slot of `page`, which no sequence may have. REQUIRES: no Add
  // until the next Begin.
  void Pad(int rows, int32_t page, int page_tokens);

  // Including added ones.
  int rows() const { return static_cast<int>(tokens_.size()); }
  // Valid until the next Begin or Add.
  BatchLayout layout() const;
  // Rows whose logits are requested, ascending: without added ones.
  std::span<const int32_t> logit_rows() const {
    return std::span(logit_rows_).first(requested_logits_);
  }

 private:
  bool has_tree_ = false;
  std::vector<TokenId> tokens_;
  std::vector<int32_t> positions_;
  std::vector<int32_t> slots_;
  std::vector<int32_t> row_begin_;
  std::vector<int32_t> context_;
  std::vector<int32_t> page_begin_;
  std::vector<int32_t> pages_;
  std::vector<int32_t> parents_;
  std::vector<int32_t> logit_rows_;
  size_t requested_logits_ = 0;
};

}  // namespace outrider
