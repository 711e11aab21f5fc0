// Finds added tokens (control tokens, chat markers, runs of spaces) in a text before anything else
// does: the leftmost first, and of several there the longest.
//
// Thread: any (immutable).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/types.h"
#include "common/text/text_span.h"
#include "common/text/tokenizer_spec.h"

namespace outrider {

// A part of the text: an added token, or the text between two (id -1). Never empty.
struct TextPart {
  size_t begin;
  size_t end;
  TokenId id;
};

class AddedTokens {
 public:
  // REQUIRES: no content is empty.
  explicit AddedTokens(std::vector<AddedTokenSpec> tokens);

  // The parts cover `text` in order. Without `parse_special`, tokens with special:true are not
  // recognised, and never where one of their bytes is in `plain`. White space that lstrip or rstrip
  // takes belongs to the token's part, up to the next token: as in Hugging Face's tokenizers,
  // tokens are found in it, too, and what follows them is text again. REQUIRES: `text` is
  // well-formed UTF-8. `plain` is ascending and does not overlap.
  std::vector<TextPart> Split(std::string_view text, bool parse_special,
                              std::span<const TextSpan> plain = {}) const;

  // Whether one of them has special:true.
  bool has_special() const { return has_special_; }

 private:
  struct Node {
    int special = -1;  // index into tokens_ of the token that ends here, by kind; -1: none
    int ordinary = -1;
  };
  struct Match {
    const AddedTokenSpec* token;
    size_t end;
  };
  static uint64_t EdgeKey(size_t node, char byte);
  // `special_end`: where a special token must end at the latest.
  std::optional<Match> LongestAt(std::string_view text, size_t pos, size_t special_end) const;

  std::vector<AddedTokenSpec> tokens_;
  // A trie over bytes; node 0 is the root.
  std::vector<Node> nodes_;
  std::unordered_map<uint64_t, size_t> edges_;
  std::array<bool, 256> starts_{};  // bytes with which some token starts
  bool has_special_ = false;
};

}  // namespace outrider
