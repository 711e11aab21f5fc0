// Computes which tokens may follow a state of one grammar, as bits. What depends only on a node of
// the automaton is computed when the node is first reached, and cached (node_mask.h); what depends
// on the stack is checked each time.
//
// Thread: any. Two threads that reach a node at once both compute it.
// When full: evicts the nodes that were not used for longest.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/grammar/grammar_state.h"
#include "common/grammar/node_mask.h"
#include "common/grammar/stepper.h"
#include "common/grammar/token_table.h"

namespace outrider::grammar {

// Working memory of one thread, reused for any grammars.
struct MaskScratch {
  Stepper stepper;
  TrieWalker walker;
  std::vector<uint64_t> keys;  // of the nodes of a mask
};

class GrammarMasks {
 public:
  struct Limits {
    size_t cache_bytes = 8 << 20;
    // Limit on a mask's work that depends on its stack; a step takes some 5 to 20 ns.
    int64_t steps = 2'000'000;
    // Limit on making the masks of all nodes of a state, whether they are made now or were cached,
    // so that whether a text can be followed does not depend on the cache. A JSON string takes
    // 4,600,000 over 131,072 tokens.
    int64_t node_steps = 32'000'000;
    // Limit for all nodes of a round's draft together (DraftGrammar), except the last.
    int64_t round_steps = 8'000'000;
  };

  // `total_bytes`: counter that includes the bytes of the grammar and its masks during their
  // lifetime, beside others; may be nullptr.
  GrammarMasks(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenTable> tokens,
               const Limits& limits, std::shared_ptr<std::atomic<size_t>> total_bytes = nullptr);
  ~GrammarMasks();
  GrammarMasks(const GrammarMasks&) = delete;
  GrammarMasks& operator=(const GrammarMasks&) = delete;
  GrammarMasks(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenTable> tokens)
      : GrammarMasks(std::move(grammar), std::move(tokens), Limits()) {}

  // Sets the bits of the tokens after which `state` is not dead, and of the end tokens if it is
  // accepting, as far as `allowed` has them (empty: all), and clears all others. Returns how many
  // are set; a single one is forced: FirstToken.
  // kResourceExhausted: the grammar is so ambiguous here that a limit on items or steps is reached;
  // that depends on the text, the grammar and the vocabulary alone.
  // REQUIRES: a state of this grammar, `mask` of tokens().mask_words() words.
  Result<int> Fill(const GrammarState& state, MaskScratch& scratch, std::span<MaskWord> mask,
                   std::span<const MaskWord> allowed = {});

  // Computes and caches masks of nodes, in the order of the automaton, for about `steps` steps at
  // most and as far as they fit. Call it on a worker thread before a text begins, so that few masks
  // are left for threads that others wait for.
  void Prepare(int64_t steps, MaskScratch& scratch);

  const std::shared_ptr<const Grammar>& grammar() const { return grammar_; }
  const TokenTable& tokens() const { return *tokens_; }
  const Limits& limits() const { return limits_; }
  size_t cached_bytes() const;
  size_t cached_nodes() const;

 private:
  using Key = uint64_t;
  struct Entry {
    Key key;
    std::shared_ptr<const NodeMask> mask;
  };

  Key KeyOf(const Item& item, size_t group) const;
  std::shared_ptr<const NodeMask> Find(Key key);
  // `key`: of `item` and `group`.
  std::shared_ptr<const NodeMask> NodeMaskOf(Key key, const Item& item, size_t group,
                                             MaskScratch& scratch);
  void Keep(Key key, std::shared_ptr<const NodeMask> mask);
  // Adds the tokens of `group` that may follow the items of `state`. `node_steps`: accumulates the
  // steps that the masks of its nodes took to make.
  Status FillGroup(const GrammarState& state, size_t group, int64_t* node_steps, int64_t* steps,
                   MaskScratch& scratch, std::span<MaskWord> mask);

  const std::shared_ptr<const Grammar> grammar_;
  const std::shared_ptr<const TokenTable> tokens_;
  const Limits limits_;
  const std::shared_ptr<std::atomic<size_t>> total_bytes_;

  mutable Mutex mu_;
  std::list<Entry> entries_ OUTRIDER_GUARDED_BY(mu_);  // most recently used first
  std::unordered_map<Key, std::list<Entry>::iterator> by_key_ OUTRIDER_GUARDED_BY(mu_);
  size_t bytes_ OUTRIDER_GUARDED_BY(mu_) = 0;
};

int CountTokens(std::span<const MaskWord> mask);
// The lowest token of `mask`. REQUIRES: it is not empty.
TokenId FirstToken(std::span<const MaskWord> mask);

}  // namespace outrider::grammar
