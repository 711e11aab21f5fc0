#include "common/text/unigram.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "common/text/byte_alphabet.h"
#include "common/text/utf8.h"

namespace outrider {
namespace {

// Cost of an unknown character beyond the worst token (sentencepiece, unigram_model.cc).
constexpr double kUnknownPenalty = 10;

// Without special tokens, because a text must not produce one by its spelling. If it may, the added
// tokens are found before.
std::vector<std::pair<std::string_view, TokenId>> OrdinaryTokens(const TokenizerSpec& spec,
                                                                 const Vocabulary& vocabulary) {
  std::vector<std::pair<std::string_view, TokenId>> tokens;
  for (size_t i = 0; i < spec.vocabulary.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    if (spec.vocabulary[i].has_value() && !vocabulary.IsSpecial(id)) {
      tokens.emplace_back(*spec.vocabulary[i], id);
    }
  }
  return tokens;
}

}  // namespace

Unigram::Unigram(const TokenizerSpec& spec, const Vocabulary& vocabulary)
    : vocabulary_(&vocabulary), trie_(OrdinaryTokens(spec, vocabulary)), scores_(spec.scores) {}

Result<Unigram> Unigram::Create(const TokenizerSpec& spec, const Vocabulary& vocabulary) {
  Unigram unigram(spec, vocabulary);
  unigram.unk_ = spec.unk_id;
  if (unigram.unk_ < 0 || !vocabulary.Has(unigram.unk_)) {
    return InvalidArgument("model.unk_id: a Unigram model needs an unknown token");
  }
  double least = std::numeric_limits<double>::infinity();
  for (const double score : unigram.scores_) least = std::min(least, score);
  unigram.unk_score_ = least - kUnknownPenalty;
  unigram.falls_back_ = spec.byte_fallback;
  for (int byte = 0; byte < 256; ++byte) {
    const auto value = static_cast<uint8_t>(byte);
    unigram.byte_ids_[value] = vocabulary.FindInModel(ByteTokenName(value)).value_or(-1);
  }
  return unigram;
}

void Unigram::FindBest(std::string_view piece, UnigramScratch& scratch) const {
  scratch.nodes.assign(piece.size() + 1, {});
  const auto reach = [&](size_t start, size_t end, TokenId id, double score) {
    UnigramScratch::Node& node = scratch.nodes[end];
    const double sum = score + scratch.nodes[start].score;
    if (node.start < 0 || sum > node.score) node = {sum, static_cast<int32_t>(start), id};
  };
  for (size_t start = 0; start < piece.size();) {
    const std::string_view rest = piece.substr(start);
    const size_t character = FirstCharacter(rest).size;
    bool has_single = false;
    trie_.ForEachPrefix(rest, [&](size_t bytes, TokenId id) {
      reach(start, start + bytes, id, scores_[static_cast<size_t>(id)]);
      has_single = has_single || bytes == character;
    });
    if (!has_single) reach(start, start + character, unk_, unk_score_);
    start += character;
  }
}

void Unigram::AppendUnknown(std::string_view run, std::vector<TokenId>& ids) const {
  const std::optional<TokenId> id = vocabulary_->FindInModel(run);
  if (id.has_value() && !vocabulary_->IsSpecial(*id)) {
    ids.push_back(*id);
    return;
  }
  const bool has_all = falls_back_ && std::all_of(run.begin(), run.end(), [&](char c) {
                         return byte_ids_[static_cast<uint8_t>(c)] >= 0;
                       });
  if (!has_all) {
    ids.push_back(unk_);
    return;
  }
  for (auto c = run.rbegin(); c != run.rend(); ++c) {
    ids.push_back(byte_ids_[static_cast<uint8_t>(*c)]);
  }
}

void Unigram::Encode(std::string_view piece, UnigramScratch& scratch,
                     std::vector<TokenId>& ids) const {
  FindBest(piece, scratch);
  const auto first = static_cast<std::ptrdiff_t>(ids.size());
  size_t end = piece.size();
  while (end > 0) {
    const UnigramScratch::Node& node = scratch.nodes[end];
    auto start = static_cast<size_t>(node.start);
    if (node.id != unk_) {
      ids.push_back(node.id);
    } else {
      while (start > 0 && scratch.nodes[start].id == unk_) {
        start = static_cast<size_t>(scratch.nodes[start].start);
      }
      AppendUnknown(piece.substr(start, end - start), ids);
    }
    end = start;
  }
  std::reverse(ids.begin() + first, ids.end());
}

}  // namespace outrider
