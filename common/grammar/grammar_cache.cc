#include "common/grammar/grammar_cache.h"

#include <iterator>
#include <string>
#include <utility>

#include "common/base/fnv_hash.h"

namespace outrider::grammar {

Result<std::unique_ptr<GrammarCache>> GrammarCache::Create(const Tokenizer& tokenizer,
                                                           std::span<const TokenId> end_tokens,
                                                           int vocab) {
  OUTRIDER_ASSIGN(auto tokens, TokenTable::Create(tokenizer, end_tokens, vocab));
  return std::make_unique<GrammarCache>(std::move(tokens), Limits());
}

uint64_t GrammarCache::HashOf(const GrammarSource& source) {
  FnvHash hash;
  hash.Add(static_cast<uint64_t>(source.kind));
  hash.Add(source.text);
  for (const std::string& choice : source.choices) hash.Add(choice);
  for (const SchemaRule& rule : source.schemas) {
    hash.Add(rule.name);
    hash.Add(rule.schema);
    for (const std::string& member : rule.path) hash.Add(member);
  }
  return hash.value();
}

std::shared_ptr<GrammarMasks> GrammarCache::Find(uint64_t hash, const GrammarSource& source) {
  const MutexLock lock(mu_);
  const auto found = by_hash_.find(hash);
  // The hash can be forged, so sources are compared.
  if (found == by_hash_.end() || found->second->source != source) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  std::shared_ptr<GrammarMasks> masks = found->second->masks;
  Trim();  // masks may have grown
  return masks;
}

void GrammarCache::Erase(Entries::iterator entry) {
  source_bytes_ -= entry->source.bytes();
  by_hash_.erase(HashOf(entry->source));
  entries_.erase(entry);
}

void GrammarCache::Trim() {
  for (auto it = entries_.end();
       it != entries_.begin() && *total_bytes_ + source_bytes_ > limits_.bytes;) {
    const auto entry = std::prev(it);
    // Only Find makes new holders, and the lock excludes it.
    if (entry->masks.use_count() == 1) {
      Erase(entry);
    } else {
      it = entry;
    }
  }
}

void GrammarCache::Keep(uint64_t hash, Entry entry) {
  const MutexLock lock(mu_);
  if (const auto found = by_hash_.find(hash); found != by_hash_.end()) Erase(found->second);
  source_bytes_ += entry.source.bytes();
  entries_.push_front(std::move(entry));
  by_hash_.emplace(hash, entries_.begin());
  Trim();
}

std::shared_ptr<GrammarMasks> GrammarCache::Find(const GrammarSource& source) {
  return Find(HashOf(source), source);
}

Result<std::shared_ptr<GrammarMasks>> GrammarCache::Get(const GrammarSource& source) {
  const uint64_t hash = HashOf(source);
  if (auto masks = Find(hash, source)) return masks;
  OUTRIDER_ASSIGN(auto grammar, Grammar::Compile(source, limits_.grammar));
  auto masks =
      std::make_shared<GrammarMasks>(std::move(grammar), tokens_, limits_.masks, total_bytes_);
  MaskScratch scratch;
  masks->Prepare(limits_.prepare_steps, scratch);
  Keep(hash, {source, masks});
  if (const size_t used = bytes(); used > limits_.most_bytes) {
    return ResourceExhausted("the grammars of all requests take " + std::to_string(used) +
                             " bytes, at most " + std::to_string(limits_.most_bytes) +
                             " are held at once; try again later");
  }
  return masks;
}

size_t GrammarCache::size() const {
  const MutexLock lock(mu_);
  return entries_.size();
}

size_t GrammarCache::bytes() const {
  const MutexLock lock(mu_);
  return *total_bytes_ + source_bytes_;
}

}  // namespace outrider::grammar
