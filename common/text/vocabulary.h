// Maps ids to token strings and back: the model's vocabulary and the added tokens.
//
// Thread: any (immutable after Create).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/text/tokenizer_spec.h"

namespace outrider {

class Vocabulary {
 public:
  // kInvalidArgument: an added token contradicts the vocabulary, with another id for the same
  // string or another string for the same id.
  static Result<Vocabulary> Create(const TokenizerSpec& spec);

  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;

  // The highest id + 1. There may be gaps below.
  int size() const { return static_cast<int>(tokens_.size()); }
  bool Has(TokenId id) const;
  // As written in the file; "" for an id without a token.
  std::string_view Text(TokenId id) const;
  // Whether it is in added_tokens.
  bool IsAdded(TokenId id) const;
  bool IsSpecial(TokenId id) const;

  std::optional<TokenId> Find(std::string_view text) const;
  // Excludes tokens that are only in added_tokens, which BPE must not produce.
  std::optional<TokenId> FindInModel(std::string_view text) const;

 private:
  struct Entry {
    std::optional<std::string> text;
    bool in_model = false;
    bool added = false;
    bool special = false;
  };
  Vocabulary() = default;
  bool InRange(TokenId id) const { return id >= 0 && id < size(); }

  std::vector<Entry> tokens_;
  // Keys point into tokens_, whose elements keep their addresses when this object is moved.
  std::unordered_map<std::string_view, TokenId> ids_;
};

}  // namespace outrider
