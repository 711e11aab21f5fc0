// Byte-pair encoding of one piece: starting from its bytes or characters, merges the neighbouring
// pair with the best rank, the leftmost first, until no pair has a rank.
// Source: Sennrich et al. 2016, section 3.2, with the merge order of the Hugging Face library.
//
// Processes candidate pairs by rank and position over a linked list of symbols: O(n log n) for a
// piece of n bytes. Most pairs come from a sorted run, so that memory is read mostly in order: a
// heap alone takes 2 us a byte for a piece of 4 MiB, most of it waiting for memory.
//
// Thread: any (immutable); the scratch belongs to the caller.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/text/tokenizer_spec.h"
#include "common/text/vocabulary.h"

namespace outrider {

// Memory that calls reuse.
struct BpeScratch {
  static constexpr uint32_t kNoRank = 0xffffffffu;
  struct Symbol {
    TokenId id;  // -1: merged into an earlier symbol
    int32_t previous;
    int32_t next;   // -1: none
    uint32_t rank;  // of the pair with `next`; kNoRank: no merge
  };
  std::vector<Symbol> symbols;
  // Pairs by rank, then by the index of the left symbol, as one number. Outdated pairs remain, and
  // are recognised by their symbol's rank.
  std::vector<uint64_t> sorted;  // the pairs found first, then those from the heap
  std::vector<uint64_t> heap;    // pairs found later: a min-heap
};

class Bpe {
 public:
  // `vocabulary` must outlive this. kInvalidArgument: a merge or unk_token names an unknown token.
  static Result<Bpe> Create(const TokenizerSpec& spec, const Vocabulary& vocabulary);

  // Appends the ids of `piece`. kInvalidArgument: a byte or character has no token, and the model
  // has neither byte fallback nor an unknown token.
  Status Encode(std::string_view piece, BpeScratch& scratch, std::vector<TokenId>& ids) const;

  // Pairs of ids, best first, for the fingerprint.
  const std::vector<std::pair<TokenId, TokenId>>& merges() const { return merges_; }

 private:
  struct PairHash {
    size_t operator()(uint64_t pair) const;
  };

  explicit Bpe(const Vocabulary& vocabulary) : vocabulary_(&vocabulary) {}

  Status SpellBytes(std::string_view piece, BpeScratch& scratch) const;
  Status SpellCharacters(std::string_view piece, BpeScratch& scratch) const;
  bool FallBackToBytes(std::string_view character, BpeScratch& scratch) const;
  // Links the symbols and fills `sorted`.
  void FindPairs(BpeScratch& scratch) const;
  void MergeSymbols(BpeScratch& scratch) const;
  // The rank of merging the symbol with the next one.
  uint32_t RankAt(const std::vector<BpeScratch::Symbol>& symbols, int32_t position) const;

  const Vocabulary* vocabulary_;
  bool byte_level_ = false;
  bool ignore_merges_ = false;
  bool fuse_unk_ = false;
  bool byte_fallback_ = false;
  TokenId unk_ = -1;                     // -1: none
  std::array<TokenId, 256> byte_ids_{};  // byte level or byte fallback; -1: none
  std::vector<std::pair<TokenId, TokenId>> merges_;
  std::vector<TokenId> merged_;  // by rank
  std::unordered_map<uint64_t, uint32_t, PairHash> rank_of_;
};

}  // namespace outrider
