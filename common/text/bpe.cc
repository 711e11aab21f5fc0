#include "common/text/bpe.h"

#include <algorithm>
#include <functional>
#include <string>

#include "common/text/byte_alphabet.h"
#include "common/text/utf8.h"

namespace outrider {
namespace {

using Symbol = BpeScratch::Symbol;

uint64_t PairKey(TokenId left, TokenId right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

void AppendSymbol(TokenId id, std::vector<Symbol>& symbols) {
  symbols.push_back({id, static_cast<int32_t>(symbols.size()) - 1, -1, BpeScratch::kNoRank});
}

uint64_t PairAt(uint32_t rank, int32_t position) {
  return static_cast<uint64_t>(rank) << 32 | static_cast<uint32_t>(position);
}

// The best remaining pair; nullopt: none. `taken`: how many of `sorted` are done.
std::optional<uint64_t> TakeBest(BpeScratch& scratch, size_t& taken) {
  std::vector<uint64_t>& heap = scratch.heap;
  if (taken == scratch.sorted.size()) {
    if (heap.empty()) return std::nullopt;
    scratch.sorted.swap(heap);
    heap.clear();
    std::sort(scratch.sorted.begin(), scratch.sorted.end());
    taken = 0;
  }
  if (heap.empty() || scratch.sorted[taken] <= heap.front()) return scratch.sorted[taken++];
  std::pop_heap(heap.begin(), heap.end(), std::greater<>());
  const uint64_t best = heap.back();
  heap.pop_back();
  return best;
}

Result<TokenId> FindMergePart(const Vocabulary& vocabulary, size_t index, std::string_view text) {
  const std::optional<TokenId> id = vocabulary.FindInModel(text);
  if (!id.has_value()) {
    return InvalidArgument("model.merges[" + std::to_string(index) + "]: \"" +
                           std::string(text.substr(0, 64)) + "\" is not in the vocabulary");
  }
  return *id;
}

}  // namespace

// Multiplication mixes low bits upwards; the shift brings them down again, as buckets use low bits.
size_t Bpe::PairHash::operator()(uint64_t pair) const {
  const uint64_t mixed = (pair ^ pair >> 29) * 0x9E3779B97F4A7C15u;
  return mixed ^ mixed >> 32;
}

Result<Bpe> Bpe::Create(const TokenizerSpec& spec, const Vocabulary& vocabulary) {
  Bpe bpe(vocabulary);
  bpe.byte_level_ = spec.byte_level;
  bpe.ignore_merges_ = spec.ignore_merges;
  bpe.fuse_unk_ = spec.fuse_unk;
  bpe.byte_fallback_ = spec.byte_fallback;
  if (spec.unk_token.has_value()) {
    const std::optional<TokenId> unk = vocabulary.Find(*spec.unk_token);
    if (!unk.has_value()) return InvalidArgument("model.unk_token: not in the vocabulary");
    bpe.unk_ = *unk;
  }
  for (int byte = 0; byte < 256; ++byte) {
    const auto value = static_cast<uint8_t>(byte);
    const std::string name = spec.byte_level ? ByteToCharacter(value) : ByteTokenName(value);
    bpe.byte_ids_[byte] = vocabulary.FindInModel(name).value_or(-1);
  }
  bpe.merges_.reserve(spec.merges.size());
  bpe.merged_.reserve(spec.merges.size());
  bpe.rank_of_.reserve(spec.merges.size());
  for (size_t i = 0; i < spec.merges.size(); ++i) {
    const auto& [left_text, right_text] = spec.merges[i];
    OUTRIDER_ASSIGN(const TokenId left, FindMergePart(vocabulary, i, left_text));
    OUTRIDER_ASSIGN(const TokenId right, FindMergePart(vocabulary, i, right_text));
    OUTRIDER_ASSIGN(const TokenId merged, FindMergePart(vocabulary, i, left_text + right_text));
    bpe.merges_.emplace_back(left, right);
    bpe.merged_.push_back(merged);
    // For a pair listed twice the later rank counts, as in the Hugging Face library.
    bpe.rank_of_[PairKey(left, right)] = static_cast<uint32_t>(i);
  }
  return bpe;
}

Status Bpe::Encode(std::string_view piece, BpeScratch& scratch, std::vector<TokenId>& ids) const {
  if (ignore_merges_) {
    const std::optional<TokenId> whole = byte_level_
                                             ? vocabulary_->FindInModel(BytesToCharacters(piece))
                                             : vocabulary_->FindInModel(piece);
    if (whole.has_value()) {
      ids.push_back(*whole);
      return Status();
    }
  }
  scratch.symbols.clear();
  OUTRIDER_TRY(byte_level_ ? SpellBytes(piece, scratch) : SpellCharacters(piece, scratch));
  MergeSymbols(scratch);
  for (const Symbol& symbol : scratch.symbols) {
    if (symbol.id >= 0) ids.push_back(symbol.id);
  }
  return Status();
}

Status Bpe::SpellBytes(std::string_view piece, BpeScratch& scratch) const {
  for (const char c : piece) {
    const TokenId id = byte_ids_[static_cast<uint8_t>(c)];
    if (id >= 0) {
      AppendSymbol(id, scratch.symbols);
    } else if (unk_ < 0) {
      return InvalidArgument("the vocabulary has no token for the byte " +
                             ByteTokenName(static_cast<uint8_t>(c)));
    } else if (!fuse_unk_ || scratch.symbols.empty() || scratch.symbols.back().id != unk_) {
      AppendSymbol(unk_, scratch.symbols);
    }
  }
  return Status();
}

Status Bpe::SpellCharacters(std::string_view piece, BpeScratch& scratch) const {
  while (!piece.empty()) {
    const std::string_view character = piece.substr(0, FirstCharacter(piece).size);
    piece.remove_prefix(character.size());
    const std::optional<TokenId> id = vocabulary_->FindInModel(character);
    if (id.has_value()) {
      AppendSymbol(*id, scratch.symbols);
    } else if (byte_fallback_ && FallBackToBytes(character, scratch)) {
      continue;
    } else if (unk_ < 0) {
      return InvalidArgument("the vocabulary has no token for the character \"" +
                             std::string(character) + "\"");
    } else if (!fuse_unk_ || scratch.symbols.empty() || scratch.symbols.back().id != unk_) {
      AppendSymbol(unk_, scratch.symbols);
    }
  }
  return Status();
}

// All bytes of the character or none, because half a character would decode to nothing.
bool Bpe::FallBackToBytes(std::string_view character, BpeScratch& scratch) const {
  for (const char c : character) {
    if (byte_ids_[static_cast<uint8_t>(c)] < 0) return false;
  }
  for (const char c : character) AppendSymbol(byte_ids_[static_cast<uint8_t>(c)], scratch.symbols);
  return true;
}

uint32_t Bpe::RankAt(const std::vector<Symbol>& symbols, int32_t position) const {
  const Symbol& symbol = symbols[position];
  if (symbol.next < 0) return BpeScratch::kNoRank;
  const auto rank = rank_of_.find(PairKey(symbol.id, symbols[symbol.next].id));
  return rank == rank_of_.end() ? BpeScratch::kNoRank : rank->second;
}

void Bpe::FindPairs(BpeScratch& scratch) const {
  std::vector<Symbol>& symbols = scratch.symbols;
  scratch.sorted.clear();
  scratch.heap.clear();
  for (size_t i = 0; i + 1 < symbols.size(); ++i) {
    const auto position = static_cast<int32_t>(i);
    symbols[i].next = position + 1;
    symbols[i].rank = RankAt(symbols, position);
    if (symbols[i].rank != BpeScratch::kNoRank) {
      scratch.sorted.push_back(PairAt(symbols[i].rank, position));
    }
  }
  std::sort(scratch.sorted.begin(), scratch.sorted.end());
}

void Bpe::MergeSymbols(BpeScratch& scratch) const {
  std::vector<Symbol>& symbols = scratch.symbols;
  FindPairs(scratch);
  const auto push = [&](int32_t pos) {
    symbols[pos].rank = RankAt(symbols, pos);
    if (symbols[pos].rank == BpeScratch::kNoRank) return;
    scratch.heap.push_back(PairAt(symbols[pos].rank, pos));
    std::push_heap(scratch.heap.begin(), scratch.heap.end(), std::greater<>());
  };
  size_t taken = 0;
  while (const std::optional<uint64_t> best = TakeBest(scratch, taken)) {
    const auto position = static_cast<int32_t>(*best & 0xffffffffu);
    const auto rank = static_cast<uint32_t>(*best >> 32);
    Symbol& left = symbols[position];
    // A neighbouring merge may have changed either symbol since the pair was found.
    if (left.rank != rank) continue;
    Symbol& right = symbols[left.next];
    left.id = merged_[rank];
    right.id = -1;
    right.rank = BpeScratch::kNoRank;
    left.next = right.next;
    if (left.next >= 0) symbols[left.next].previous = position;
    if (left.previous >= 0) push(left.previous);
    push(position);
  }
}

}  // namespace outrider
