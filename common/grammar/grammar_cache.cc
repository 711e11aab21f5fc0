#include "common/grammar/grammar_cache.h"

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
  return found->second->masks;
}

void GrammarCache::Forget(Entries::iterator entry) {
  bytes_ -= entry->bytes;
  by_hash_.erase(HashOf(entry->source));
  entries_.erase(entry);
}

void GrammarCache::Keep(uint64_t hash, Entry entry) {
  const MutexLock lock(mu_);
  if (entry.bytes > limits_.bytes) return;
  if (const auto found = by_hash_.find(hash); found != by_hash_.end()) Forget(found->second);
  while (bytes_ + entry.bytes > limits_.bytes) Forget(std::prev(entries_.end()));
  bytes_ += entry.bytes;
  entries_.push_front(std::move(entry));
  by_hash_.emplace(hash, entries_.begin());
}

std::shared_ptr<GrammarMasks> GrammarCache::Find(const GrammarSource& source) {
  return Find(HashOf(source), source);
}

Result<std::shared_ptr<GrammarMasks>> GrammarCache::Get(const GrammarSource& source) {
  const uint64_t hash = HashOf(source);
  if (auto masks = Find(hash, source)) return masks;
  OUTRIDER_ASSIGN(auto grammar, Grammar::Compile(source, limits_.grammar));
  const size_t bytes = source.bytes() + grammar->bytes() + limits_.masks.cache_bytes;
  auto masks = std::make_shared<GrammarMasks>(std::move(grammar), tokens_, limits_.masks);
  MaskScratch scratch;
  masks->Prepare(limits_.prepare_steps, scratch);
  Keep(hash, {source, masks, bytes});
  return masks;
}

size_t GrammarCache::size() const {
  const MutexLock lock(mu_);
  return entries_.size();
}

size_t GrammarCache::bytes() const {
  const MutexLock lock(mu_);
  return bytes_;
}

}  // namespace outrider::grammar
