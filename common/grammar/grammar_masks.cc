#include "common/grammar/grammar_masks.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/grammar/rule_set.h"

namespace outrider::grammar {
namespace {

// Size of an entry without its mask.
constexpr size_t kEntryBytes = 128;

Status TooManySteps() {
  return ResourceExhausted("the grammar is too ambiguous: a mask takes too many steps or items");
}

}  // namespace

GrammarMasks::GrammarMasks(std::shared_ptr<const Grammar> grammar,
                           std::shared_ptr<const TokenTable> tokens, const Limits& limits,
                           std::shared_ptr<std::atomic<size_t>> total_bytes)
    : grammar_(std::move(grammar)),
      tokens_(std::move(tokens)),
      limits_(limits),
      total_bytes_(total_bytes != nullptr ? std::move(total_bytes)
                                          : std::make_shared<std::atomic<size_t>>(0)) {
  *total_bytes_ += grammar_->bytes();
}

GrammarMasks::~GrammarMasks() { *total_bytes_ -= grammar_->bytes() + cached_bytes(); }

// Counts whose distance to the bounds exceeds the group's longest token are equivalent for it.
GrammarMasks::Key GrammarMasks::KeyOf(const Item& item, size_t group) const {
  const Automaton& automaton = grammar_->automaton();
  const Automaton::RuleInfo& rule = automaton.rules()[automaton.node(item.node).rule];
  const Key key = (Key{item.node} * TokenTable::kGroups + group) << 32;
  if (rule.max_count == 0) return key;
  const auto most = static_cast<int64_t>(tokens_->groups()[group].longest) + 1;
  const auto count = static_cast<int64_t>(item.count);
  const int64_t needed = std::clamp<int64_t>(rule.min_count - count, 0, most);
  const int64_t possible =
      rule.max_count == kUnbounded ? most : std::clamp<int64_t>(rule.max_count - count, 0, most);
  return key | static_cast<Key>(needed) << 16 | static_cast<Key>(possible);
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
    const size_t freed = entries_.back().mask->bytes() + kEntryBytes;
    bytes_ -= freed;
    *total_bytes_ -= freed;
    by_key_.erase(entries_.back().key);
    entries_.pop_back();
  }
  bytes_ += bytes;
  *total_bytes_ += bytes;
  entries_.push_front({key, std::move(mask)});
  by_key_.emplace(key, entries_.begin());
}

std::shared_ptr<const NodeMask> GrammarMasks::NodeMaskOf(Key key, const Item& item, size_t group,
                                                         MaskScratch& scratch) {
  std::shared_ptr<const NodeMask> mask = Find(key);
  if (mask == nullptr) {
    mask = std::make_shared<const NodeMask>(scratch.walker.MakeNodeMask(
        grammar_->automaton(), *tokens_, group, {item.node, item.count, nullptr},
        limits_.node_steps, scratch.stepper));
    Keep(key, mask);
  }
  return mask;
}

void GrammarMasks::Prepare(int64_t steps, MaskScratch& scratch) {
  const int64_t begin = scratch.stepper.steps();
  const uint32_t nodes = grammar_->automaton().num_nodes();
  for (uint32_t node = 0; node < nodes; ++node) {
    for (size_t group = 0; group < TokenTable::kGroups; ++group) {
      if (scratch.stepper.steps() - begin >= steps) return;
      if (cached_bytes() > limits_.cache_bytes / 2) return;
      const Item item{.node = node, .count = 0, .frame = nullptr};
      NodeMaskOf(KeyOf(item, group), item, group, scratch);
    }
  }
}

Status GrammarMasks::FillGroup(const GrammarState& state, size_t group, int64_t* node_steps,
                               int64_t* steps, MaskScratch& scratch, std::span<MaskWord> mask) {
  scratch.keys.clear();
  for (const Item& item : state.items()) {
    const Key key = KeyOf(item, group);
    const std::shared_ptr<const NodeMask> node = NodeMaskOf(key, item, group, scratch);
    if (std::find(scratch.keys.begin(), scratch.keys.end(), key) == scratch.keys.end()) {
      scratch.keys.push_back(key);
      *node_steps += node->steps;
      for (size_t i = 0; i < node->bits.size(); ++i) mask[i] |= node->bits[i];
      for (const TokenId id : node->ids) SetBit(mask, id);
    }
    if (node->overflowed || *node_steps > limits_.node_steps) return TooManySteps();
    if (item.frame == nullptr || node->rests.empty()) continue;
    const int64_t begin = scratch.stepper.steps();
    const bool is_read = scratch.walker.AllowRests(grammar_->automaton(), node->rests, *item.frame,
                                                   limits_.steps - *steps, scratch.stepper, mask);
    *steps += scratch.stepper.steps() - begin;
    if (!is_read) return TooManySteps();
  }
  return Status();
}

Result<int> GrammarMasks::Fill(const GrammarState& state, MaskScratch& scratch,
                               std::span<MaskWord> mask, std::span<const MaskWord> allowed) {
  OUTRIDER_CHECK(mask.size() == tokens_->mask_words() && &state.grammar() == grammar_.get());
  if (state.is_overflowed()) {
    return ResourceExhausted("the grammar is too ambiguous: a text can be read in more than " +
                             std::to_string(kMaxItems) + " ways");
  }
  std::fill(mask.begin(), mask.end(), MaskWord{0});
  int64_t node_steps = 0, steps = 0;
  for (size_t group = 0; group < TokenTable::kGroups; ++group) {
    OUTRIDER_TRY(FillGroup(state, group, &node_steps, &steps, scratch, mask));
  }
  if (state.is_accepting()) {
    for (const TokenId id : tokens_->end_tokens()) SetBit(mask, id);
  }
  for (size_t i = 0; i < allowed.size(); ++i) mask[i] &= allowed[i];
  return CountTokens(mask);
}

size_t GrammarMasks::cached_bytes() const {
  const MutexLock lock(mu_);
  return bytes_;
}

size_t GrammarMasks::cached_nodes() const {
  const MutexLock lock(mu_);
  return entries_.size();
}

int CountTokens(std::span<const MaskWord> mask) {
  int count = 0;
  for (const MaskWord word : mask) count += std::popcount(word);
  return count;
}

TokenId FirstToken(std::span<const MaskWord> mask) {
  size_t word = 0;
  while (word < mask.size() && mask[word] == 0) ++word;
  OUTRIDER_CHECK(word < mask.size());
  return static_cast<TokenId>(word * kMaskBits) + std::countr_zero(mask[word]);
}

}  // namespace outrider::grammar
