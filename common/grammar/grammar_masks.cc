#include "common/grammar/grammar_masks.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/grammar/rule_set.h"

namespace outrider::grammar {
namespace {

// Of an entry beside its mask.
constexpr size_t kEntryBytes = 128;

}  // namespace

GrammarMasks::GrammarMasks(std::shared_ptr<const Grammar> grammar,
                           std::shared_ptr<const TokenTable> tokens, const Limits& limits)
    : grammar_(std::move(grammar)), tokens_(std::move(tokens)), limits_(limits) {}

// Counts that differ by more than any token can read are the same to every token.
GrammarMasks::Key GrammarMasks::KeyOf(const Item& item) const {
  const Automaton& automaton = grammar_->automaton();
  const Automaton::RuleInfo& rule = automaton.rules()[automaton.node(item.node).rule];
  Key key = item.node;
  if (rule.max_count == 0) return key << 32;
  const auto most = static_cast<int64_t>(tokens_->longest_token()) + 1;
  const auto count = static_cast<int64_t>(item.count);
  const int64_t needed = std::clamp<int64_t>(rule.min_count - count, 0, most);
  const int64_t possible =
      rule.max_count == kUnbounded ? most : std::clamp<int64_t>(rule.max_count - count, 0, most);
  return key << 32 | static_cast<Key>(needed) << 16 | static_cast<Key>(possible);
}

std::shared_ptr<const NodeMask> GrammarMasks::Find(Key key) {
  const MutexLock lock(mu_);
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->mask;
}

void GrammarMasks::Keep(Key key, std::shared_ptr<const NodeMask> mask) {
  const size_t bytes = mask->bytes() + kEntryBytes;
  const MutexLock lock(mu_);
  if (bytes > limits_.cache_bytes || by_key_.count(key) != 0) return;
  while (bytes_ + bytes > limits_.cache_bytes) {
    bytes_ -= entries_.back().mask->bytes() + kEntryBytes;
    by_key_.erase(entries_.back().key);
    entries_.pop_back();
  }
  bytes_ += bytes;
  entries_.push_front({key, std::move(mask)});
  by_key_.emplace(key, entries_.begin());
}

Status GrammarMasks::CheckSteps(int64_t steps) const {
  if (steps <= limits_.steps) return Status();
  return ResourceExhausted("the grammar is too ambiguous: a mask takes more than " +
                           std::to_string(limits_.steps) + " steps");
}

std::shared_ptr<const NodeMask> GrammarMasks::NodeMaskOf(const Item& item, MaskScratch& scratch) {
  const Key key = KeyOf(item);
  std::shared_ptr<const NodeMask> mask = Find(key);
  if (mask == nullptr) {
    mask = std::make_shared<const NodeMask>(scratch.walker.MakeNodeMask(
        grammar_->automaton(), *tokens_, {item.node, item.count, nullptr}, scratch.stepper));
    Keep(key, mask);
  }
  return mask;
}

void GrammarMasks::Prepare(int64_t steps, MaskScratch& scratch) {
  const int64_t begin = scratch.stepper.steps();
  const uint32_t nodes = grammar_->automaton().num_nodes();
  for (uint32_t node = 0; node < nodes && scratch.stepper.steps() - begin < steps; ++node) {
    if (cached_bytes() > limits_.cache_bytes / 2) return;
    scratch.stepper.ClearOverflow();
    NodeMaskOf({.node = node, .count = 0, .frame = nullptr}, scratch);
  }
}

Result<int> GrammarMasks::Fill(const GrammarState& state, MaskScratch& scratch,
                               std::span<MaskWord> mask) {
  OUTRIDER_CHECK(mask.size() == tokens_->mask_words() && &state.grammar() == grammar_.get());
  const Automaton& automaton = grammar_->automaton();
  const int64_t begin = scratch.stepper.steps();
  const auto too_ambiguous = [] {
    return ResourceExhausted("the grammar is too ambiguous: a text can be read in more than " +
                             std::to_string(kMaxItems) + " ways");
  };
  if (state.is_overflowed()) return too_ambiguous();
  std::fill(mask.begin(), mask.end(), MaskWord{0});
  scratch.stepper.ClearOverflow();
  for (const Item& item : state.items()) {
    const std::shared_ptr<const NodeMask> node = NodeMaskOf(item, scratch);
    if (node->overflowed) return too_ambiguous();
    for (size_t i = 0; i < node->bits.size(); ++i) mask[i] |= node->bits[i];
    for (const TokenId id : node->ids) SetBit(mask, id);
    if (item.frame != nullptr && !node->rests.empty()) {
      scratch.walker.AllowRests(automaton, node->rests, *item.frame, scratch.stepper, mask);
    }
    OUTRIDER_TRY(CheckSteps(scratch.stepper.steps() - begin));
  }
  if (scratch.stepper.overflowed()) return too_ambiguous();
  if (state.is_accepting()) {
    for (const TokenId id : tokens_->end_tokens()) SetBit(mask, id);
  }
  int count = 0;
  for (const MaskWord word : mask) count += std::popcount(word);
  return count;
}

size_t GrammarMasks::cached_bytes() const {
  const MutexLock lock(mu_);
  return bytes_;
}

size_t GrammarMasks::cached_nodes() const {
  const MutexLock lock(mu_);
  return entries_.size();
}

TokenId FirstToken(std::span<const MaskWord> mask) {
  size_t word = 0;
  while (word < mask.size() && mask[word] == 0) ++word;
  OUTRIDER_CHECK(word < mask.size());
  return static_cast<TokenId>(word * kMaskBits) + std::countr_zero(mask[word]);
}

}  // namespace outrider::grammar
