#include "common/grammar/draft_grammar.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/check.h"

namespace outrider::grammar {

DraftGrammar::DraftGrammar(std::shared_ptr<GrammarMasks> masks, std::vector<MaskWord> allowed)
    : masks_(std::move(masks)), allowed_(std::move(allowed)), text_(masks_->grammar()) {
  OUTRIDER_CHECK(allowed_.empty() || allowed_.size() == mask_words());
}

std::optional<GrammarState> DraftGrammar::After(const GrammarState& state, TokenId token,
                                                MaskScratch& scratch) const {
  const std::string_view bytes = masks_->tokens().Bytes(token);
  if (bytes.empty()) return std::nullopt;  // an end token, or one that is never allowed
  GrammarState next = state;
  if (!next.Advance(bytes, scratch.stepper) && !next.is_overflowed()) return std::nullopt;
  return next;
}

bool DraftGrammar::Advance(TokenId token, MaskScratch& scratch) {
  if (!text_.has_value()) return false;
  const std::span<const TokenId> ends = masks_->tokens().end_tokens();
  const bool is_end = std::find(ends.begin(), ends.end(), token) != ends.end();
  std::optional<GrammarState> next;
  if (is_end ? !text_->is_accepting() : !(next = After(*text_, token, scratch)).has_value()) {
    return false;
  }
  text_ = std::move(next);
  text_mask_.clear();
  nodes_.clear();
  draft_steps_ = 0;
  return true;
}

const std::optional<GrammarState>& DraftGrammar::StateAt(const DraftTree& draft, int node,
                                                         MaskScratch& scratch) {
  if (nodes_.empty()) nodes_.push_back(text_);
  while (nodes_.size() <= static_cast<size_t>(node)) {  // parents come first
    const int next = static_cast<int>(nodes_.size());
    const std::optional<GrammarState>& parent = nodes_[static_cast<size_t>(draft.parent(next))];
    nodes_.push_back(parent.has_value() ? After(*parent, draft.token(next), scratch)
                                        : std::nullopt);
  }
  return nodes_[static_cast<size_t>(node)];
}

int DraftGrammar::FillAllowed(std::span<MaskWord> mask) const {
  if (allowed_.empty()) {
    std::fill(mask.begin(), mask.end(), ~MaskWord{0});
    return masks_->tokens().vocab();
  }
  std::copy(allowed_.begin(), allowed_.end(), mask.begin());
  return CountTokens(allowed_);
}

Result<int> DraftGrammar::FillText(MaskScratch& scratch, std::span<MaskWord> mask) {
  if (!text_.has_value()) return FillAllowed(mask);
  if (text_mask_.empty()) {
    OUTRIDER_ASSIGN(text_count_, masks_->Fill(*text_, scratch, mask, allowed_));
    text_mask_.assign(mask.begin(), mask.end());
  }
  std::copy(text_mask_.begin(), text_mask_.end(), mask.begin());
  return text_count_;
}

Result<int> DraftGrammar::Fill(const DraftTree& draft, int node, MaskScratch& scratch,
                               std::span<MaskWord> mask) {
  if (node == DraftTree::kRoot) return FillText(scratch, mask);
  if (draft_steps_ >= masks_->limits().round_steps) {
    return ResourceExhausted("masks of the draft's nodes have taken " +
                             std::to_string(draft_steps_) + " steps, at most " +
                             std::to_string(masks_->limits().round_steps) +
                             " are spent on a round");
  }
  const int64_t begin = scratch.stepper.steps();
  const std::optional<GrammarState>& state = StateAt(draft, node, scratch);
  Result<int> count = state.has_value() ? masks_->Fill(*state, scratch, mask, allowed_)
                                        : Result<int>(FillAllowed(mask));
  draft_steps_ += scratch.stepper.steps() - begin;
  return count;
}

std::vector<TokenId> DraftGrammar::Forced(int most, MaskScratch& scratch) {
  std::vector<TokenId> forced;
  std::vector<MaskWord> mask(mask_words());
  std::optional<GrammarState> state = text_;
  // after the first token, whose mask the round needs in any case
  int64_t steps_before = 0;
  while (state.has_value() && std::cmp_less(forced.size(), most)) {
    Result<int> count =
        forced.empty() ? FillText(scratch, mask) : masks_->Fill(*state, scratch, mask, allowed_);
    if (!count.ok() || *count != 1) break;
    if (forced.empty()) steps_before = scratch.stepper.steps();
    if (scratch.stepper.steps() - steps_before > masks_->limits().round_steps / 2) break;
    forced.push_back(FirstToken(mask));
    state = After(*state, forced.back(), scratch);
  }
  return forced;
}

size_t DraftGrammar::Reads(std::span<const TokenId> tokens, MaskScratch& scratch) const {
  std::optional<GrammarState> state = text_;
  size_t read = 0;
  const int64_t most = scratch.stepper.steps() + masks_->limits().round_steps / 2;
  while (read < tokens.size() && state.has_value() && scratch.stepper.steps() <= most) {
    state = After(*state, tokens[read], scratch);
    read += state.has_value() ? 1 : 0;
  }
  return read;
}

}  // namespace outrider::grammar
