// The bytes of every token of a vocabulary, for the masks of grammars: made once per model, used by
// all grammars.
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

// A word of a mask: bit t % 32 of word t / 32 is token t's.
using MaskWord = uint32_t;
inline constexpr int kMaskBits = 32;

// Tokens of similar lengths. If a count is farther from its bounds than the longest token of a
// group, it does not affect the group's masks. Without separate groups for the few long tokens of a
// vocabulary (mostly runs of spaces), every count up to their length would need a mask of all
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
  // Longer tokens are never allowed, because the cost of a mask grows with the longest.
  static constexpr size_t kMaxTokenBytes = 512;

  // `bytes`: by token id, "" for those that are never allowed (special tokens, ids without a
  // token). `end_tokens`: those that end a text, allowed exactly where the grammar lets it end.
  // `vocab`: logits of a row; ids from the size of `bytes` on are never allowed.
  // kInvalidArgument: `bytes` is larger than `vocab`, which is more than kMaxVocabulary, or an end
  // token is out of range.
  static Result<std::shared_ptr<const TokenTable>> Create(std::span<const std::string_view> bytes,
                                                          std::span<const TokenId> end_tokens,
                                                          int vocab);
  // With the bytes of Tokenizer::TokenBytes, except for special tokens. Leaves out tokens without
  // logits, which no text can contain: some checkpoints add tokens to the tokenizer alone.
  static Result<std::shared_ptr<const TokenTable>> Create(const Tokenizer& tokenizer,
                                                          std::span<const TokenId> end_tokens,
                                                          int vocab);

  int vocab() const { return vocab_; }
  size_t mask_words() const { return (static_cast<size_t>(vocab_) + kMaskBits - 1) / kMaskBits; }
  // "" for tokens that are never allowed.
  std::string_view Bytes(TokenId id) const;
  std::span<const TokenId> end_tokens() const { return end_tokens_; }
  const std::array<TokenGroup, kGroups>& groups() const { return groups_; }

 private:
  TokenTable() = default;

  int vocab_ = 0;
  std::vector<TokenId> end_tokens_;
  std::string text_;            // of all tokens, concatenated
  std::vector<size_t> begins_;  // by id, and one more
  std::array<TokenGroup, kGroups> groups_;
};

}  // namespace outrider::grammar
