// What one node of an automaton says about every token of a group of tokens, whatever the stack
// below it is (the context-independent tokens of XGrammar, Dong et al. 2024, section 3.1).
//
// A token is allowed at a stack whose top is the node, if and only if either the node's rule and
// those that it calls read all of it, or they read a beginning of it, the rule ends there, and the
// rest is allowed where the rule returns to. The first kind is found here once and for all. Of the
// second, the rests are: many tokens share one (`",` and `abc",` both leave `,` after a string),
// and few of them begin with a byte that can follow the rule at all.
//
// Thread: any (immutable).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "common/grammar/byte_trie.h"
#include "common/grammar/stepper.h"
#include "common/grammar/token_table.h"

namespace outrider::grammar {

struct NodeMask {
  // Tokens that are read within the rule: as bits of a mask, or, where they are few, by their ids.
  std::vector<MaskWord> bits;
  std::vector<TokenId> ids;
  // What other tokens leave when the rule has ended.
  ByteTrie rests;
  int64_t steps = 0;  // that making it took: the same whenever it is made
  // Making it met Stepper::overflowed or the limit on steps: what is here cannot be used.
  bool overflowed = false;

  size_t bytes() const {
    return sizeof(*this) + bits.size() * sizeof(MaskWord) + ids.size() * sizeof(TokenId) +
           rests.bytes();
  }
};

// Walks tries with an automaton: one set of items for each byte of the way from the root.
//
// Thread: one owner; working memory, used again and again.
class TrieWalker {
 public:
  // The mask of the node of `item`, whose frame must be nullptr: the bottom is where its rule ends.
  // Gives up soon after `max_steps` (NodeMask::overflowed).
  NodeMask MakeNodeMask(const Automaton& automaton, const TokenTable& tokens, size_t group,
                        const Item& item, int64_t max_steps, Stepper& stepper);
  // Sets the bits of the texts of `trie` that can be read after `frame`'s rule has matched. False:
  // it met Stepper::overflowed, or gave up soon after `max_steps`.
  bool AllowRests(const Automaton& automaton, const ByteTrie& trie, const Frame& frame,
                  int64_t max_steps, Stepper& stepper, std::span<MaskWord> mask);

 private:
  using Rests = std::vector<std::pair<std::string_view, TokenId>>;

  // Walks the trie from `item` on: fills out.ids and returns the rests.
  Rests WalkTokens(const Automaton& automaton, const TokenTable& tokens, size_t group,
                   const Item& item, int64_t max_steps, Stepper& stepper, NodeMask& out);
  // The set after the byte of `node`, whose prefix of a byte less has its set.
  const Stepper::Set& StepTo(const Automaton& automaton, const ByteTrie::Node& node,
                             Stepper& stepper);

  void Reserve(size_t depth);

  std::vector<Stepper::Set> sets_;    // by depth
  std::vector<Stepper::Mark> marks_;  // before the set of a depth was made
  std::vector<size_t> exits_;         // depths at which the rule has ended, on the way
  std::vector<size_t> num_exits_;     // by depth
};

inline void SetBit(std::span<MaskWord> mask, TokenId id) {
  mask[static_cast<size_t>(id) / kMaskBits] |= MaskWord{1} << (id % kMaskBits);
}

}  // namespace outrider::grammar
