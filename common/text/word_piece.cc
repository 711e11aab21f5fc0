#include "common/text/word_piece.h"

#include <optional>
#include <utility>

#include "common/base/utf8_bytes.h"

namespace outrider {
namespace {

// The tokens that begin with `prefix`, without it, and without special tokens, because a text must
// not produce one by its spelling.
std::vector<std::pair<std::string_view, TokenId>> TokensAfter(const TokenizerSpec& spec,
                                                              const Vocabulary& vocabulary,
                                                              std::string_view prefix) {
  std::vector<std::pair<std::string_view, TokenId>> tokens;
  for (size_t id = 0; id < spec.vocabulary.size(); ++id) {
    const std::optional<std::string>& text = spec.vocabulary[id];
    if (!text.has_value() || !text->starts_with(prefix) || text->size() == prefix.size()) continue;
    if (vocabulary.IsSpecial(static_cast<TokenId>(id))) continue;
    tokens.emplace_back(std::string_view(*text).substr(prefix.size()), static_cast<TokenId>(id));
  }
  return tokens;
}

}  // namespace

WordPiece::WordPiece(const TokenizerSpec& spec, const Vocabulary& vocabulary)
    : words_(TokensAfter(spec, vocabulary, "")),
      continuations_(TokensAfter(spec, vocabulary, spec.continuing_prefix)),
      most_characters_(spec.most_word_characters) {}

Result<WordPiece> WordPiece::Create(const TokenizerSpec& spec, const Vocabulary& vocabulary) {
  WordPiece word_piece(spec, vocabulary);
  const std::optional<TokenId> unk =
      spec.unk_token.has_value() ? vocabulary.Find(*spec.unk_token) : std::nullopt;
  if (!unk.has_value()) return InvalidArgument("model.unk_token: not in the vocabulary");
  word_piece.unk_ = *unk;
  return word_piece;
}

void WordPiece::Encode(std::string_view word, std::vector<TokenId>& ids) const {
  const size_t first = ids.size();
  if (CountCharacters(word) > most_characters_) {
    ids.push_back(unk_);
    return;
  }
  std::string_view rest = word;
  while (!rest.empty()) {
    size_t longest = 0;
    TokenId found = -1;
    const TokenTrie& tokens = rest.size() == word.size() ? words_ : continuations_;
    tokens.ForEachPrefix(rest, [&](size_t bytes, TokenId id) {
      longest = bytes;
      found = id;
    });
    if (found < 0) {
      ids.resize(first);
      ids.push_back(unk_);
      return;
    }
    ids.push_back(found);
    rest.remove_prefix(longest);
  }
}

}  // namespace outrider
