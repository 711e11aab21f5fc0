#include "common/model/ragged_batch.h"

#include <algorithm>
#include <string>

#include "common/base/check.h"

namespace outrider {
namespace {

Status Bad(const ForwardSequence& share, const std::string& what) {
  return InvalidArgument("sequence " + std::to_string(share.sequence) + ": " + what);
}

// The highest position of a share, or some position from `limit` on if there is one.
int32_t DeepestPosition(const ForwardSequence& share, int length, int limit) {
  const auto count = static_cast<int32_t>(share.tokens.size());
  // No node is deeper than the share is long, so only the last few tokens need the loop below.
  if (share.parents.empty() || length + count <= limit) return length + count - 1;
  int32_t deepest = 0;
  for (int32_t i = 0; i < count; ++i) {
    int32_t position = length;
    for (int32_t node = i; share.parents[static_cast<size_t>(node)] >= 0; ++position) {
      node = share.parents[static_cast<size_t>(node)];
    }
    deepest = std::max(deepest, position);
  }
  return deepest;
}

}  // namespace

bool IsChain(std::span<const int32_t> parents) {
  for (size_t i = 0; i < parents.size(); ++i) {
    if (parents[i] != static_cast<int32_t>(i) - 1) return false;
  }
  return true;
}

Status CheckShare(const ForwardSequence& share, int length, const BatchLimits& limits) {
  const size_t count = share.tokens.size();
  if (count == 0) return Bad(share, "no tokens");
  for (const TokenId token : share.tokens) {
    if (token < 0 || token >= limits.vocab_size) {
      return Bad(share, "token " + std::to_string(token) + " is outside of the vocabulary of " +
                            std::to_string(limits.vocab_size));
    }
  }
  if (!share.parents.empty() && share.parents.size() != count) {
    return Bad(share, std::to_string(share.parents.size()) + " parents of " +
                          std::to_string(count) + " tokens");
  }
  for (size_t i = 0; i < share.parents.size(); ++i) {
    const int32_t parent = share.parents[i];
    if (parent < -1 || parent >= static_cast<int32_t>(i)) {
      return Bad(share, "parent " + std::to_string(parent) + " of node " + std::to_string(i) +
                            " does not stand before it");
    }
  }
  const int32_t deepest = DeepestPosition(share, length, limits.max_positions);
  if (deepest >= limits.max_positions) {
    return Bad(share, "position " + std::to_string(deepest) + " exceeds the " +
                          std::to_string(limits.max_positions) + " of the model");
  }
  int32_t previous = -1;
  for (const int32_t row : share.logit_rows) {
    if (row <= previous || static_cast<size_t>(row) >= count) {
      return Bad(share, "logit row " + std::to_string(row) + " is out of range or order");
    }
    previous = row;
  }
  return Status();
}

void RaggedBatch::Begin(bool has_tree) {
  has_tree_ = has_tree;
  for (auto* array :
       {&tokens_, &positions_, &slots_, &context_, &pages_, &parents_, &logit_rows_}) {
    array->clear();
  }
  requested_logits_ = 0;
  row_begin_.assign(1, 0);
  page_begin_.assign(1, 0);
}

void RaggedBatch::Add(const ForwardSequence& share, const PageTable& table) {
  const auto count = static_cast<int32_t>(share.tokens.size());
  const int32_t first_row = rows();
  const int32_t length = table.length();
  const bool chain = share.parents.empty();
  OUTRIDER_CHECK(has_tree_ || IsChain(share.parents));

  tokens_.insert(tokens_.end(), share.tokens.begin(), share.tokens.end());
  for (int32_t i = 0; i < count; ++i) {
    const int32_t parent = chain ? i - 1 : share.parents[static_cast<size_t>(i)];
    const int32_t position =
        parent < 0 ? length : positions_[static_cast<size_t>(first_row + parent)] + 1;
    positions_.push_back(position);
    slots_.push_back(table.Slot(length + i));
    if (has_tree_) parents_.push_back(parent);
  }
  for (const int32_t row : share.logit_rows) logit_rows_.push_back(first_row + row);
  requested_logits_ = logit_rows_.size();
  context_.push_back(length);
  row_begin_.push_back(first_row + count);
  // Pages reserved for later tokens are left out.
  const auto used = static_cast<int32_t>(PagesFor(length + count, table.page_tokens()));
  pages_.insert(pages_.end(), table.pages().begin(), table.pages().begin() + used);
  page_begin_.push_back(static_cast<int32_t>(pages_.size()));
}

void RaggedBatch::Pad(int rows, int32_t page, int page_tokens) {
  const bool has_logits = this->rows() == 0 || !logit_rows_.empty();
  for (int32_t row = this->rows(); row < rows; ++row) {
    tokens_.push_back(0);
    positions_.push_back(0);
    slots_.push_back(page * page_tokens);
    if (has_tree_) parents_.push_back(-1);
    context_.push_back(0);
    row_begin_.push_back(row + 1);
    pages_.push_back(page);
    page_begin_.push_back(static_cast<int32_t>(pages_.size()));
  }
  if (has_logits) logit_rows_.resize(static_cast<size_t>(rows), rows - 1);
}

BatchLayout RaggedBatch::layout() const {
  return {.rows = rows(),
          .sequences = static_cast<int>(context_.size()),
          .tokens = tokens_.data(),
          .positions = positions_.data(),
          .slots = slots_.data(),
          .row_begin = row_begin_.data(),
          .context = context_.data(),
          .page_begin = page_begin_.data(),
          .pages = pages_.data(),
          .parents = has_tree_ ? parents_.data() : nullptr,
          .logit_rows = logit_rows_.data(),
          .logit_row_count = static_cast<int>(logit_rows_.size())};
}

}  // namespace outrider
