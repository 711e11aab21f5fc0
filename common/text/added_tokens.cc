#include "common/text/added_tokens.h"

#include <algorithm>
#include <utility>

#include "common/text/unicode.h"
#include "common/text/utf8.h"

namespace outrider {
namespace {

size_t WhiteSpaceAtEnd(std::string_view text) {
  size_t size = 0;
  while (size < text.size()) {
    const Utf8Character last = LastCharacter(text.substr(0, text.size() - size));
    if (!IsWhiteSpace(last.code)) break;
    size += last.size;
  }
  return size;
}

size_t WhiteSpaceAtStart(std::string_view text) {
  size_t size = 0;
  while (size < text.size()) {
    const Utf8Character first = FirstCharacter(text.substr(size));
    if (!IsWhiteSpace(first.code)) break;
    size += first.size;
  }
  return size;
}

bool IsSingleWord(std::string_view before, std::string_view after) {
  return (before.empty() || !IsWordCharacter(LastCharacter(before).code)) &&
         (after.empty() || !IsWordCharacter(FirstCharacter(after).code));
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedTokenSpec> tokens)
    : tokens_(std::move(tokens)), nodes_(1) {
  for (size_t i = 0; i < tokens_.size(); ++i) {
    size_t node = 0;
    for (const char byte : tokens_[i].content) {
      const auto [edge, is_new] = edges_.emplace(EdgeKey(node, byte), nodes_.size());
      if (is_new) nodes_.emplace_back();
      node = edge->second;
    }
    (tokens_[i].special ? nodes_[node].special : nodes_[node].ordinary) = static_cast<int>(i);
    starts_[static_cast<uint8_t>(tokens_[i].content[0])] = true;
    has_special_ |= tokens_[i].special;
  }
}

uint64_t AddedTokens::EdgeKey(size_t node, char byte) {
  return static_cast<uint64_t>(node) << 8 | static_cast<uint8_t>(byte);
}

std::optional<AddedTokens::Match> AddedTokens::LongestAt(std::string_view text, size_t pos,
                                                         size_t special_end) const {
  std::optional<Match> longest;
  size_t node = 0;
  for (size_t i = pos; i < text.size(); ++i) {
    const auto edge = edges_.find(EdgeKey(node, text[i]));
    if (edge == edges_.end()) break;
    node = edge->second;
    int token = nodes_[node].ordinary;
    if (token < 0 && i < special_end) token = nodes_[node].special;
    if (token >= 0) longest = Match{&tokens_[token], i + 1};
  }
  return longest;
}

std::vector<TextPart> AddedTokens::Split(std::string_view text, bool parse_special,
                                         std::span<const TextSpan> plain) const {
  std::vector<TextPart> parts;
  size_t done = 0;
  size_t pos = 0;
  size_t white_end = 0;  // of the white space that was taken last
  while (pos < text.size()) {
    while (!plain.empty() && plain.front().end <= pos) plain = plain.subspan(1);
    size_t special_end = parse_special ? text.size() : 0;
    if (!plain.empty()) special_end = std::min(special_end, plain.front().begin);
    std::optional<Match> match;
    if (starts_[static_cast<uint8_t>(text[pos])]) match = LongestAt(text, pos, special_end);
    if (!match.has_value()) {
      ++pos;
      continue;
    }
    const AddedTokenSpec& token = *match->token;
    TextPart part{pos, match->end, token.id};
    pos = match->end;
    if (token.single_word && !IsSingleWord(text.substr(0, part.begin), text.substr(part.end))) {
      continue;
    }
    if (token.lstrip && part.begin > done) {
      // Excludes what an earlier token has taken.
      part.begin -= WhiteSpaceAtEnd(text.substr(done, part.begin - done));
    }
    if (token.rstrip) {
      if (part.end >= white_end) white_end = part.end + WhiteSpaceAtStart(text.substr(part.end));
      part.end = white_end;
    }
    if (part.begin > done) parts.push_back({done, part.begin, -1});
    // This one is within the white space that the token before it takes.
    if (part.begin < done) parts.back().end = part.begin;
    parts.push_back(part);
    done = part.end;
  }
  if (done < text.size()) parts.push_back({done, text.size(), -1});
  return parts;
}

}  // namespace outrider
