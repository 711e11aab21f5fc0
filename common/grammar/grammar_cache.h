// Caches compiled grammars by their source, because the requests of an application mostly use the
// same few.
//
// Thread: any; no thread waits for another's compilation, so two that request a new source at once
// both compile it.
// When full: evicts the least recently used of the grammars that no request holds. If those held by
// requests are too many, Get refuses new ones.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <span>
#include <unordered_map>

#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/grammar/grammar_masks.h"

namespace outrider::grammar {

class GrammarCache {
 public:
  struct Limits {
    size_t bytes = 256 << 20;     // of sources, grammars and masks; those in use may exceed it
    size_t most_bytes = 1 << 30;  // the same limit for those in use
    GrammarLimits grammar;
    GrammarMasks::Limits masks;
    int64_t prepare_steps = 32'000'000;  // for a new grammar's masks (GrammarMasks::Prepare)
  };

  // For a model with this tokenizer and `vocab` logits per row. Errors: TokenTable::Create.
  static Result<std::unique_ptr<GrammarCache>> Create(const Tokenizer& tokenizer,
                                                      std::span<const TokenId> end_tokens,
                                                      int vocab);

  GrammarCache(std::shared_ptr<const TokenTable> tokens, const Limits& limits)
      : tokens_(std::move(tokens)), limits_(limits) {}

  // The masks of the grammar of `source`; nullptr if it is not cached.
  std::shared_ptr<GrammarMasks> Find(const GrammarSource& source);
  // The same, compiling it if necessary. Errors are those of Grammar::Compile and are not cached.
  // kResourceExhausted: the grammars in use would exceed Limits::most_bytes.
  Result<std::shared_ptr<GrammarMasks>> Get(const GrammarSource& source);

  const TokenTable& tokens() const { return *tokens_; }
  size_t size() const;
  size_t bytes() const;  // including those in use that were evicted

 private:
  struct Entry {
    GrammarSource source;
    std::shared_ptr<GrammarMasks> masks;
  };
  using Entries = std::list<Entry>;

  static uint64_t HashOf(const GrammarSource& source);
  std::shared_ptr<GrammarMasks> Find(uint64_t hash, const GrammarSource& source);
  void Keep(uint64_t hash, Entry entry);
  // Evicts grammars that no request holds, until the rest is within the limit.
  void Trim() OUTRIDER_REQUIRES(mu_);
  void Erase(Entries::iterator entry) OUTRIDER_REQUIRES(mu_);

  const std::shared_ptr<const TokenTable> tokens_;
  const Limits limits_;

  mutable Mutex mu_;
  Entries entries_ OUTRIDER_GUARDED_BY(mu_);  // most recently used first
  std::unordered_map<uint64_t, Entries::iterator> by_hash_ OUTRIDER_GUARDED_BY(mu_);
  size_t source_bytes_ OUTRIDER_GUARDED_BY(mu_) = 0;
  // Bytes of all existing grammars and masks, including those held only by requests.
  const std::shared_ptr<std::atomic<size_t>> total_bytes_ =
      std::make_shared<std::atomic<size_t>>(0);
};

}  // namespace outrider::grammar
