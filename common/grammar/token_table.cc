#include "common/grammar/token_table.h"

#include <algorithm>
#include <utility>

namespace outrider::grammar {

Result<std::shared_ptr<const TokenTable>> TokenTable::Create(
    std::span<const std::string_view> bytes, std::span<const TokenId> end_tokens, int vocab) {
  if (vocab < 0 || vocab > kMaxVocabulary || bytes.size() > static_cast<size_t>(vocab)) {
    return InvalidArgument(std::to_string(bytes.size()) + " tokens for " + std::to_string(vocab) +
                           " logits, at most " + std::to_string(kMaxVocabulary));
  }
  std::shared_ptr<TokenTable> table(new TokenTable);
  table->vocab_ = vocab;
  std::vector<bool> ends(static_cast<size_t>(vocab), false);
  for (const TokenId id : end_tokens) {
    if (id < 0 || id >= vocab) {
      return InvalidArgument("the end token " + std::to_string(id) + " is not below " +
                             std::to_string(vocab));
    }
    ends[static_cast<size_t>(id)] = true;
  }
  table->end_tokens_.assign(end_tokens.begin(), end_tokens.end());
  table->begins_ = {0};
  for (size_t id = 0; id < bytes.size(); ++id) {
    if (!ends[id] && bytes[id].size() <= kMaxTokenBytes) table->text_ += bytes[id];
    table->begins_.push_back(table->text_.size());
  }
  std::array<std::vector<std::pair<std::string_view, TokenId>>, kGroups> texts;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const std::string_view text = table->Bytes(id);
    if (text.empty()) continue;
    const size_t group = text.size() <= kShortBytes ? 0 : 1;
    texts[group].emplace_back(text, id);
    table->groups_[group].longest = std::max(table->groups_[group].longest, text.size());
  }
  for (size_t group = 0; group < kGroups; ++group) {
    table->groups_[group].trie = ByteTrie(std::move(texts[group]));
  }
  return std::shared_ptr<const TokenTable>(std::move(table));
}

Result<std::shared_ptr<const TokenTable>> TokenTable::Create(const Tokenizer& tokenizer,
                                                             std::span<const TokenId> end_tokens,
                                                             int vocab) {
  std::vector<std::string_view> bytes;
  for (TokenId id = 0; id < std::min(tokenizer.vocab_size(), vocab); ++id) {
    bytes.push_back(tokenizer.IsSpecial(id) ? std::string_view() : tokenizer.TokenBytes(id));
  }
  std::vector<TokenId> ends(end_tokens.begin(), end_tokens.end());
  std::erase_if(ends, [vocab](TokenId id) { return id >= vocab; });
  return Create(bytes, ends, vocab);
}

std::string_view TokenTable::Bytes(TokenId id) const {
  const auto index = static_cast<size_t>(id);
  if (id < 0 || index + 1 >= begins_.size()) return "";
  return std::string_view(text_).substr(begins_[index], begins_[index + 1] - begins_[index]);
}

}  // namespace outrider::grammar
