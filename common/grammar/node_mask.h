// What one node of an automaton determines about every token of a group, whatever its stack (the
// context-independent tokens of XGrammar, Dong et al. 2024, section 3.1).
//
// A token is allowed at a stack with the node on top if and only if the node's rule and those it
// calls read all of it, or they read a prefix of it, the rule ends there, and the rest is allowed
// where the rule returns. The first kind is found here once. For the second kind only the rests are
// stored: many tokens share one (`",` and `abc",` both leave `,` after a string), and few begin
// with a byte that can follow the rule at all.
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
  // Tokens that are read within the rule: as bits of a mask, or by their ids if they are few.
  std::vector<MaskWord> bits;
  std::vector<TokenId> ids;
  // The rests of other tokens after the end of the rule.
  ByteTrie rests;
  int64_t steps = 0;  // steps to make it, the same whenever it is made
  // Stepper::overflowed or the limit on steps was reached while it was made: it cannot be used.
  bool overflowed = false;

  size_t bytes() const {
    return sizeof(*this) + bits.size() * sizeof(MaskWord) + ids.size() * sizeof(TokenId) +
           rests.bytes();
  }
};

// Walks tries with an automaton: one set of items for each byte on the path from the root.
//
// Thread: one owner; working memory that is reused.
class TrieWalker {
 public:
  // The mask of the node of `item`, whose frame must be nullptr: its rule ends at the bottom. Gives
  // up soon after `max_steps` (NodeMask::overflowed).
  NodeMask MakeNodeMask(const Automaton& automaton, const TokenTable& tokens, size_t group,
                        const Item& item, int64_t max_steps, Stepper& stepper);
  // Sets the bits of the texts of `trie` that can be read after `frame`'s rule has matched. Returns
  // false if Stepper::overflowed, or if it gave up soon after `max_steps`.
  bool AllowRests(const Automaton& automaton, const ByteTrie& trie, const Frame& frame,
                  int64_t max_steps, Stepper& stepper, std::span<MaskWord> mask);

 private:
  using Rests = std::vector<std::pair<std::string_view, TokenId>>;

  // Walks the trie from `item`: fills out.ids and returns the rests.
  Rests WalkTokens(const Automaton& automaton, const TokenTable& tokens, size_t group,
                   const Item& item, int64_t max_steps, Stepper& stepper, NodeMask& out);
  // The set after the byte of `node`; its parent's set must exist.
  const Stepper::Set& StepTo(const Automaton& automaton, const ByteTrie::Node& node,
                             Stepper& stepper);

  void Reserve(size_t depth);

  std::vector<Stepper::Set> sets_;    // by depth
  std::vector<Stepper::Mark> marks_;  // before the set of a depth was made
  std::vector<size_t> exits_;         // depths on the path at which the rule has ended
  std::vector<size_t> num_exits_;     // by depth
};

inline void SetBit(std::span<MaskWord> mask, TokenId id) {
  mask[static_cast<size_t>(id) / kMaskBits] |= MaskWord{1} << (id % kMaskBits);
}

}  // namespace outrider::grammar
