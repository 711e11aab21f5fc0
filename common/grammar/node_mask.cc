#include "common/grammar/node_mask.h"

#include <algorithm>
#include <utility>

namespace outrider::grammar {

void TrieWalker::Reserve(size_t depth) {
  if (sets_.size() > depth) return;
  sets_.resize(depth + 1);
  marks_.resize(depth + 1);
  num_exits_.resize(depth + 1);
}

const Stepper::Set& TrieWalker::StepTo(const Automaton& automaton, const ByteTrie::Node& node,
                                       Stepper& stepper) {
  const size_t depth = node.depth;
  Reserve(depth + 1);
  stepper.GiveBack(marks_[depth]);
  stepper.Step(automaton, sets_[depth - 1].items, node.byte, sets_[depth]);
  marks_[depth + 1] = stepper.mark();
  return sets_[depth];
}

TrieWalker::Rests TrieWalker::WalkTokens(const Automaton& automaton, const TokenTable& tokens,
                                         size_t group, const Item& item, int64_t max_steps,
                                         Stepper& stepper, NodeMask& out) {
  constexpr int64_t kStepsOfRest = 16;  // to sort it and add it to a trie; plus one per byte
  const ByteSet& follow = automaton.rules()[automaton.node(item.node).rule].follow;
  const ByteTrie& trie = tokens.groups()[group].trie;
  const int64_t begin = stepper.steps();
  Reserve(1);
  sets_[0].Clear();
  sets_[0].items.push_back(item);
  marks_[1] = stepper.mark();
  num_exits_[0] = 0;
  exits_.clear();
  Rests rests;
  for (uint32_t index = 1; index < trie.num_nodes();) {
    const ByteTrie::Node& node = trie.node(index);
    const size_t depth = node.depth;
    exits_.resize(num_exits_[depth - 1]);
    if (sets_[depth - 1].ended && follow.test(node.byte)) exits_.push_back(depth - 1);
    const Stepper::Set& set = StepTo(automaton, node, stepper);
    stepper.Charge(1);
    out.overflowed = stepper.overflowed() || stepper.steps() - begin > max_steps;
    if (out.overflowed) return rests;
    num_exits_[depth] = exits_.size();
    if (set.empty() && exits_.empty()) {
      index = node.end;
      continue;
    }
    for (const TokenId id : trie.ids(index)) {
      if (!set.empty()) {
        out.ids.push_back(id);
        continue;
      }
      for (const size_t exit : exits_) {
        rests.emplace_back(tokens.Bytes(id).substr(exit), id);
        stepper.Charge(kStepsOfRest + static_cast<int64_t>(depth - exit));
      }
    }
    ++index;
  }
  return rests;
}

NodeMask TrieWalker::MakeNodeMask(const Automaton& automaton, const TokenTable& tokens,
                                  size_t group, const Item& item, int64_t max_steps,
                                  Stepper& stepper) {
  const Stepper::Mark mark = stepper.mark();
  const int64_t begin = stepper.steps();
  stepper.ClearOverflow();
  NodeMask out;
  Rests rests = WalkTokens(automaton, tokens, group, item, max_steps, stepper, out);
  stepper.ClearOverflow();
  stepper.GiveBack(mark);
  out.steps = stepper.steps() - begin;
  if (out.overflowed) {
    out.ids = {};
    return out;
  }
  out.rests = ByteTrie(std::move(rests));
  if (out.ids.size() > tokens.mask_words() / 2) {
    out.bits.assign(tokens.mask_words(), 0);
    for (const TokenId id : out.ids) SetBit(out.bits, id);
    out.ids = {};
  }
  out.ids.shrink_to_fit();
  return out;
}

bool TrieWalker::AllowRests(const Automaton& automaton, const ByteTrie& trie, const Frame& frame,
                            int64_t max_steps, Stepper& stepper, std::span<MaskWord> mask) {
  const Stepper::Mark mark = stepper.mark();
  const int64_t begin = stepper.steps();
  stepper.ClearOverflow();
  Reserve(1);
  stepper.Resume(automaton, frame, sets_[0]);
  marks_[1] = stepper.mark();
  bool is_over = stepper.overflowed();
  for (uint32_t index = 1; index < trie.num_nodes() && !is_over;) {
    const bool is_dead = StepTo(automaton, trie.node(index), stepper).empty();
    stepper.Charge(1);
    is_over = stepper.overflowed() || stepper.steps() - begin > max_steps;
    if (is_dead) {
      index = trie.node(index).end;
      continue;
    }
    for (const TokenId id : trie.ids(index)) SetBit(mask, id);
    ++index;
  }
  stepper.ClearOverflow();
  stepper.GiveBack(mark);
  return !is_over;
}

}  // namespace outrider::grammar
