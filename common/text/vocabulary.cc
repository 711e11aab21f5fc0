#include "common/text/vocabulary.h"

#include <algorithm>

namespace outrider {

Result<Vocabulary> Vocabulary::Create(const TokenizerSpec& spec) {
  Vocabulary vocabulary;
  std::vector<Entry>& tokens = vocabulary.tokens_;
  size_t size = spec.vocabulary.size();
  for (const AddedTokenSpec& added : spec.added_tokens) {
    size = std::max(size, static_cast<size_t>(added.id) + 1);
  }
  tokens.resize(size);
  vocabulary.ids_.reserve(size);
  for (size_t id = 0; id < spec.vocabulary.size(); ++id) {
    if (!spec.vocabulary[id].has_value()) continue;
    tokens[id] = {.text = spec.vocabulary[id], .in_model = true};
    vocabulary.ids_.emplace(*tokens[id].text, static_cast<TokenId>(id));
  }
  for (size_t i = 0; i < spec.added_tokens.size(); ++i) {
    const AddedTokenSpec& added = spec.added_tokens[i];
    const std::string field = "added_tokens[" + std::to_string(i) + "]";
    const std::optional<TokenId> known = vocabulary.Find(added.content);
    if (known.has_value() && *known != added.id) {
      return InvalidArgument(field + ": its id is " + std::to_string(added.id) +
                             ", but the same content has id " + std::to_string(*known));
    }
    Entry& entry = tokens[added.id];
    if (!known.has_value()) {
      if (entry.text.has_value()) {
        return InvalidArgument(field + ": its id " + std::to_string(added.id) +
                               " belongs to another token");
      }
      entry.text = added.content;
      vocabulary.ids_.emplace(*entry.text, added.id);
    }
    entry.added = true;
    entry.special |= added.special;
  }
  return vocabulary;
}

bool Vocabulary::Has(TokenId id) const { return InRange(id) && tokens_[id].text.has_value(); }

std::string_view Vocabulary::Text(TokenId id) const {
  return Has(id) ? std::string_view(*tokens_[id].text) : std::string_view();
}

bool Vocabulary::IsAdded(TokenId id) const { return InRange(id) && tokens_[id].added; }

bool Vocabulary::IsSpecial(TokenId id) const { return InRange(id) && tokens_[id].special; }

std::optional<TokenId> Vocabulary::Find(std::string_view text) const {
  const auto found = ids_.find(text);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

std::optional<TokenId> Vocabulary::FindInModel(std::string_view text) const {
  const std::optional<TokenId> id = Find(text);
  if (!id.has_value() || !tokens_[*id].in_model) return std::nullopt;
  return id;
}

}  // namespace outrider
