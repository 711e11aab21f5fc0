#include "common/text/token_model.h"

#include <bit>
#include <utility>

namespace outrider {

Result<TokenModel> TokenModel::Create(const TokenizerSpec& spec, const Vocabulary& vocabulary) {
  switch (spec.model) {
    case TokenModelKind::kUnigram: {
      OUTRIDER_ASSIGN(Unigram unigram, Unigram::Create(spec, vocabulary));
      return TokenModel(std::move(unigram));
    }
    case TokenModelKind::kWordPiece: {
      OUTRIDER_ASSIGN(WordPiece word_piece, WordPiece::Create(spec, vocabulary));
      return TokenModel(std::move(word_piece));
    }
    case TokenModelKind::kBpe: break;
  }
  OUTRIDER_ASSIGN(Bpe bpe, Bpe::Create(spec, vocabulary));
  return TokenModel(std::move(bpe));
}

Status TokenModel::Encode(std::string_view piece, TokenScratch& scratch,
                          std::vector<TokenId>& ids) const {
  if (const auto* bpe = std::get_if<Bpe>(&kind_)) return bpe->Encode(piece, scratch.bpe, ids);
  if (const auto* unigram = std::get_if<Unigram>(&kind_)) {
    unigram->Encode(piece, scratch.unigram, ids);
  } else {
    std::get<WordPiece>(kind_).Encode(piece, ids);
  }
  return Status();
}

void TokenModel::AddTo(FnvHash* hash) const {
  if (const auto* bpe = std::get_if<Bpe>(&kind_)) {
    for (const auto& [left, right] : bpe->merges()) {
      hash->Add(static_cast<uint64_t>(left));
      hash->Add(static_cast<uint64_t>(right));
    }
  } else if (const auto* unigram = std::get_if<Unigram>(&kind_)) {
    for (const double score : unigram->scores()) hash->Add(std::bit_cast<uint64_t>(score));
  }
}

}  // namespace outrider
