// The bytes of every token of a vocabulary, as the masks of grammars need them: made once for a
// model, used by all grammars.
//
// Thread: any (immutable).
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/grammar/byte_trie.h"
#include "common/text/tokenizer.h"

namespace outrider::grammar {

// Words of a mask: bit t % 32 of word t / 32 is token t's.
using MaskWord = uint32_t;
inline constexpr int kMaskBits = 32;

// Tokens of similar lengths. Where a count is farther from its bounds than the longest token of a
// group, it makes no difference to the group's masks: were the few long tokens of a vocabulary
// (runs of spaces, mostly) not apart, every count up to their length would have a mask of all
// tokens.
struct TokenGroup {
  ByteTrie trie;
  size_t longest = 0;  // bytes
};

class TokenTable {
 public:
  static constexpr size_t kGroups = 2;
  // The longest token of the first group.
  static constexpr size_t kShortBytes = 16;
  // Longer tokens are never allowed: what a mask costs grows with the longest.
  static constexpr size_t kMaxTokenBytes = 512;

  // `bytes`: by token id, "" for those that are never allowed (special tokens, ids without token).
  // `end_tokens`: those that end a text, allowed exactly where the grammar lets it end.
  // `vocab`: logits of a row; ids of `bytes` and up are never allowed.
  // kInvalidArgument: more bytes than `vocab`, which is more than kMaxVocabulary, or an end token
  // out of range.
  static Result<std::shared_ptr<const TokenTable>> Create(std::span<const std::string_view> bytes,
                                                          std::span<const TokenId> end_tokens,
                                                          int vocab);
  // With what Tokenizer::TokenBytes says, but for special tokens.
  static Result<std::shared_ptr<const TokenTable>> Create(const Tokenizer& tokenizer,
                                                          std::span<const TokenId> end_tokens,
                                                          int vocab);

  int vocab() const { return vocab_; }
  size_t mask_words() const { return (static_cast<size_t>(vocab_) + kMaskBits - 1) / kMaskBits; }
  // "" for what is never allowed.
  std::string_view Bytes(TokenId id) const;
  std::span<const TokenId> end_tokens() const { return end_tokens_; }
  const std::array<TokenGroup, kGroups>& groups() const { return groups_; }

 private:
  TokenTable() = default;

  int vocab_ = 0;
  std::vector<TokenId> end_tokens_;
  std::string text_;            // of all tokens
  std::vector<size_t> begins_;  // by id, and one more
  std::array<TokenGroup, kGroups> groups_;
};

}  // namespace outrider::grammar
