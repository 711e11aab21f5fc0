// The tokens of a vocabulary, which a verifier sends to a drafter with another vocabulary.
//
// Thread: any (a value).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/text/tokenizer.h"

namespace outrider {

// The values are the wire's (proto/outrider/v1/drafting.proto).
enum class TokenKind : uint8_t {
  kNone = 0,     // no token has this id
  kText = 1,     // the token of its bytes
  kAlias = 2,    // has the same bytes as another id, as byte fallbacks often have
  kSpecial = 3,  // a special token, identified by its name
};

class VocabularyEntries {
 public:
  static constexpr int kMaxEntries = 1 << 19;
  static constexpr size_t kMaxTextBytes = 4 << 20;  // over all tokens
  static constexpr size_t kMaxTokenBytes = 1024;
  static constexpr int kMaxEndTokens = 64;

  VocabularyEntries() = default;
  // The tokens with ids below `limit`; of `ends`, distinct ids that end a text, those that are
  // tokens (none if there are more than kMaxEndTokens). A token that is longer than kMaxTokenBytes
  // counts as none.
  // kResourceExhausted: the tokens have more than kMaxTextBytes, or there are more than kMaxEntries
  // of them.
  static Result<VocabularyEntries> FromTokenizer(const Tokenizer& tokenizer, int limit,
                                                 std::span<const TokenId> ends);

  // Adds the token of the next id. kInvalidArgument: the token's length does not fit its kind, or a
  // limit is exceeded.
  Status Add(TokenKind kind, std::string_view bytes);
  // Says that a token ends texts. kInvalidArgument: `id` is not a token here, or is said twice, or
  // there are kMaxEndTokens already.
  Status AddEndToken(TokenId id);
  // kInvalidArgument, for a vocabulary from a peer: two ids are the same text or the same special
  // token.
  Status CheckDistinct() const;

  // Number of ids.
  int size() const { return static_cast<int>(kinds_.size()); }
  // Number of ids with a token.
  int tokens() const;
  TokenKind kind(TokenId id) const { return kinds_[static_cast<size_t>(id)]; }
  std::string_view bytes(TokenId id) const {
    const size_t begin = id == 0 ? 0 : ends_[static_cast<size_t>(id) - 1];
    return std::string_view(text_).substr(begin, ends_[static_cast<size_t>(id)] - begin);
  }
  // The tokens that end a text.
  std::span<const TokenId> end_tokens() const { return end_tokens_; }
  // The bytes of all tokens, one after another.
  const std::string& text() const { return text_; }
  friend bool operator==(const VocabularyEntries&, const VocabularyEntries&) = default;

 private:
  std::vector<TokenKind> kinds_;
  std::vector<uint32_t> ends_;  // offsets in text_
  std::string text_;
  std::vector<TokenId> end_tokens_;
};

}  // namespace outrider
