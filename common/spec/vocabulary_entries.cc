#include "common/spec/vocabulary_entries.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace outrider {
namespace {

// "<0x41>": a byte fallback's name for a byte that no other token has.
bool IsByteToken(std::string_view name, std::string_view bytes) {
  return bytes.size() == 1 && name.size() == 6 && name.starts_with("<0x") && name.ends_with(">");
}

}  // namespace

Result<VocabularyEntries> VocabularyEntries::FromTokenizer(const Tokenizer& tokenizer, int limit,
                                                           std::span<const TokenId> ends) {
  const int size = std::min(limit, tokenizer.vocab_size());
  if (size > kMaxEntries) {
    return ResourceExhausted("vocabulary: " + std::to_string(size) + " tokens, at most " +
                             std::to_string(kMaxEntries) + " can be translated");
  }
  // The first id with certain bytes is their token; byte tokens come last.
  std::unordered_map<std::string_view, TokenId> id_of_bytes;
  const auto is_byte = [&](TokenId id) {
    return IsByteToken(tokenizer.IdToToken(id), tokenizer.TokenBytes(id));
  };
  for (TokenId id = 0; id < size; ++id) {
    if (tokenizer.IsSpecial(id)) continue;
    const auto [it, is_new] = id_of_bytes.emplace(tokenizer.TokenBytes(id), id);
    if (!is_new && is_byte(it->second) && !is_byte(id)) it->second = id;
  }
  VocabularyEntries entries;
  for (TokenId id = 0; id < size; ++id) {
    const bool special = tokenizer.IsSpecial(id);
    const std::string_view bytes = special ? tokenizer.IdToToken(id) : tokenizer.TokenBytes(id);
    if (bytes.empty() || bytes.size() > kMaxTokenBytes) {
      OUTRIDER_TRY(entries.Add(TokenKind::kNone, ""));
      continue;
    }
    const bool alias = !special && id_of_bytes.at(bytes) != id;
    const Status added = entries.Add(special ? TokenKind::kSpecial
                                     : alias ? TokenKind::kAlias
                                             : TokenKind::kText,
                                     bytes);
    if (!added.ok()) return ResourceExhausted(added.message());
  }
  if (ends.size() > kMaxEndTokens) return entries;
  for (const TokenId id : ends) {
    if (id >= entries.size() || entries.kind(id) == TokenKind::kNone) continue;
    OUTRIDER_TRY(entries.AddEndToken(id));
  }
  return entries;
}

Status VocabularyEntries::Add(TokenKind kind, std::string_view bytes) {
  const std::string id = "vocabulary: id " + std::to_string(size());
  if (size() == kMaxEntries) {
    return InvalidArgument("vocabulary: more than " + std::to_string(kMaxEntries) + " entries");
  }
  if (bytes.empty() != (kind == TokenKind::kNone)) {
    return InvalidArgument(
        id + (bytes.empty() ? " is a token without bytes" : " has bytes, but no token"));
  }
  if (bytes.size() > kMaxTokenBytes) {
    return InvalidArgument(id + " is a token of " + std::to_string(bytes.size()) +
                           " bytes, at most " + std::to_string(kMaxTokenBytes) + " are taken");
  }
  if (bytes.size() > kMaxTextBytes - text_.size()) {
    return InvalidArgument("vocabulary: its tokens have more than " +
                           std::to_string(kMaxTextBytes) + " bytes");
  }
  text_ += bytes;
  kinds_.push_back(kind);
  ends_.push_back(static_cast<uint32_t>(text_.size()));
  return Status();
}

Status VocabularyEntries::AddEndToken(TokenId id) {
  const std::string name = "vocabulary: the end token " + std::to_string(id);
  if (id < 0 || id >= size() || kind(id) == TokenKind::kNone) {
    return InvalidArgument(name + " is none of its tokens");
  }
  if (std::find(end_tokens_.begin(), end_tokens_.end(), id) != end_tokens_.end()) {
    return InvalidArgument(name + " is named twice");
  }
  if (end_tokens_.size() == kMaxEndTokens) {
    return InvalidArgument("vocabulary: more than " + std::to_string(kMaxEndTokens) +
                           " end tokens");
  }
  end_tokens_.push_back(id);
  return Status();
}

Status VocabularyEntries::CheckDistinct() const {
  std::unordered_map<std::string_view, TokenId> texts, specials;
  for (TokenId id = 0; id < size(); ++id) {
    if (kind(id) != TokenKind::kText && kind(id) != TokenKind::kSpecial) continue;
    auto& known = kind(id) == TokenKind::kText ? texts : specials;
    const auto [it, is_new] = known.emplace(bytes(id), id);
    if (is_new) continue;
    return InvalidArgument("vocabulary: ids " + std::to_string(it->second) + " and " +
                           std::to_string(id) + " are the same token");
  }
  return Status();
}

int VocabularyEntries::tokens() const {
  return size() - static_cast<int>(std::count(kinds_.begin(), kinds_.end(), TokenKind::kNone));
}

}  // namespace outrider
