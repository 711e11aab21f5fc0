#include "common/text/length_bound.h"

#include <algorithm>
#include <limits>
#include <string>
#include <unordered_set>
#include <variant>

#include "common/text/byte_alphabet.h"

namespace outrider {
namespace {

constexpr size_t kMaxCharacterBytes = 4;

// Whether some text has a part that only the unknown token can represent.
bool ReachesUnknown(const TokenizerSpec& spec) {
  if (spec.model == TokenModelKind::kWordPiece) return true;
  if (!spec.unk_token.has_value()) return false;
  if (!spec.byte_level && !spec.byte_fallback) return true;
  std::unordered_set<std::string> known;
  for (const auto& token : spec.vocabulary) {
    if (token.has_value()) known.insert(*token);
  }
  for (int byte = 0; byte < 256; ++byte) {
    const auto value = static_cast<uint8_t>(byte);
    if (!known.contains(spec.byte_level ? ByteToCharacter(value) : ByteTokenName(value))) {
      return true;
    }
  }
  return false;
}

// The most bytes of the merged text that a token represents.
std::optional<size_t> LongestToken(const TokenizerSpec& spec,
                                   const std::vector<AddedTokenSpec>& normalized_tokens) {
  size_t longest = 1;
  if (ReachesUnknown(spec)) {
    // WordPiece makes a whole word one unknown token.
    if (spec.fuse_unk || spec.model == TokenModelKind::kWordPiece) return std::nullopt;
    longest = kMaxCharacterBytes;
  }
  for (const auto& token : spec.vocabulary) {
    if (!token.has_value()) continue;
    const size_t bytes =
        spec.byte_level ? CharactersToBytes(*token).value_or(*token).size() : token->size();
    longest = std::max(longest, bytes);
  }
  for (const AddedTokenSpec& token : spec.added_tokens) {
    if (token.lstrip || token.rstrip) return std::nullopt;
    longest = std::max(longest, token.content.size());
  }
  for (const AddedTokenSpec& token : normalized_tokens) {
    longest = std::max(longest, token.content.size());
  }
  return longest;
}

// The factor by which a step may shorten a text.
std::optional<size_t> ShrinkOf(const NormalizerStep& step) {
  if (const auto* form = std::get_if<UnicodeFormStep>(&step)) {
    const bool canonical = form->form == UnicodeForm::kNfc || form->form == UnicodeForm::kNfd;
    return canonical ? std::optional(kNfcShrinks) : std::nullopt;
  }
  if (std::holds_alternative<LowercaseStep>(step)) return kMaxCharacterBytes;
  if (std::holds_alternative<PrependStep>(step)) return 1;
  const auto* replace = std::get_if<ReplaceStep>(&step);
  if (replace == nullptr) return std::nullopt;  // the others may drop any part of a text
  if (replace->pattern.regex || replace->content.empty()) return std::nullopt;
  const size_t before = replace->pattern.text.size(), after = replace->content.size();
  return std::max<size_t>(1, (before + after - 1) / after);
}

bool DropsText(const PreTokenizerStep& step) {
  if (const auto* split = std::get_if<SplitStep>(&step)) {
    return split->behavior == SplitBehavior::kRemoved;
  }
  if (std::holds_alternative<ScriptsStep>(step)) return true;
  const auto* metaspace = std::get_if<MetaspaceStep>(&step);
  return metaspace != nullptr && metaspace->replacement.empty();
}

}  // namespace

std::optional<size_t> MostBytesPerToken(const TokenizerSpec& spec,
                                        const std::vector<AddedTokenSpec>& normalized_tokens) {
  if (std::any_of(spec.pre_tokenizer.begin(), spec.pre_tokenizer.end(), DropsText)) {
    return std::nullopt;
  }
  std::optional<size_t> bytes = LongestToken(spec, normalized_tokens);
  for (const NormalizerStep& step : spec.normalizer) {
    const std::optional<size_t> shrink = ShrinkOf(step);
    if (!bytes.has_value() || !shrink.has_value()) return std::nullopt;
    if (*bytes > std::numeric_limits<size_t>::max() / *shrink) return std::nullopt;
    bytes = *bytes * *shrink;
  }
  return bytes;
}

}  // namespace outrider
