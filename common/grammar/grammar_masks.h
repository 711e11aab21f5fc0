// Which tokens may come at a state of one grammar, as bits. What a node of the automaton says about
// the vocabulary is worked out when the node is first met, and kept (node_mask.h); what depends on
// the stack is checked each time.
//
// Thread: any. Two threads that meet a node at once both work it out.
// When full: nodes that were not used for longest are forgotten.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <unordered_map>

#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/grammar/grammar_state.h"
#include "common/grammar/node_mask.h"
#include "common/grammar/stepper.h"
#include "common/grammar/token_table.h"

namespace outrider::grammar {

// Working memory of one thread, used again and again for any grammars.
struct MaskScratch {
  Stepper stepper;
  TrieWalker walker;
};

class GrammarMasks {
 public:
  struct Limits {
    size_t cache_bytes = 8 << 20;
    int64_t steps = 2'000'000;  // of one mask; a step takes some 5 to 20 ns
  };

  GrammarMasks(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenTable> tokens,
               const Limits& limits);
  GrammarMasks(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenTable> tokens)
      : GrammarMasks(std::move(grammar), std::move(tokens), Limits()) {}

  // Sets the bits of the tokens after which `state` is not dead, and of the end tokens if it is
  // accepting, and clears all others. Returns how many are set; if one, it is forced: FirstToken.
  // kResourceExhausted: the grammar is so ambiguous here that a limit on items or steps is reached.
  // REQUIRES: a state of this grammar, `mask` of tokens().mask_words() words.
  Result<int> Fill(const GrammarState& state, MaskScratch& scratch, std::span<MaskWord> mask);

  // Works out and keeps masks of nodes, in the order of the automaton, for at most some `steps` and
  // as far as they fit: on a worker thread, before a text begins, so that few are left for threads
  // that others wait for.
  void Prepare(int64_t steps, MaskScratch& scratch);

  const std::shared_ptr<const Grammar>& grammar() const { return grammar_; }
  const TokenTable& tokens() const { return *tokens_; }
  size_t cached_bytes() const;
  size_t cached_nodes() const;

 private:
  using Key = uint64_t;
  struct Entry {
    Key key;
    std::shared_ptr<const NodeMask> mask;
  };

  Key KeyOf(const Item& item) const;
  std::shared_ptr<const NodeMask> Find(Key key);
  std::shared_ptr<const NodeMask> NodeMaskOf(const Item& item, MaskScratch& scratch);
  void Keep(Key key, std::shared_ptr<const NodeMask> mask);
  Status CheckSteps(int64_t steps) const;

  const std::shared_ptr<const Grammar> grammar_;
  const std::shared_ptr<const TokenTable> tokens_;
  const Limits limits_;

  mutable Mutex mu_;
  std::list<Entry> entries_ OUTRIDER_GUARDED_BY(mu_);  // last used first
  std::unordered_map<Key, std::list<Entry>::iterator> by_key_ OUTRIDER_GUARDED_BY(mu_);
  size_t bytes_ OUTRIDER_GUARDED_BY(mu_) = 0;
};

// The lowest token of `mask`. REQUIRES: there is one.
TokenId FirstToken(std::span<const MaskWord> mask);

}  // namespace outrider::grammar
