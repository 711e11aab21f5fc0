// Translates between the token ids of a verifier and those of this drafter, where the two
// vocabularies differ: token-level intersection (Timor et al. 2025, "Accelerating LLM Inference
// with Lossless Speculative Decoding Algorithms for Heterogeneous Vocabularies"). Only tokens that
// both vocabularies hold are drafted, from the drafter's distribution restricted to them, which any
// rule verifies losslessly: it is the distribution that the tokens were drawn from.
//
// Shared tokens have the same bytes, or are special tokens of the same name. One pair of tokens
// that end a text may have different names: if exactly one of the verifier's ends and exactly one
// of the drafter's are special tokens that the other side lacks, each stands for the other, so that
// the end of a text can be drafted.
//
// Nothing else translates: messages and drafts hold the verifier's ids, the draft model and all
// that is drawn from its rows the drafter's.
//
// Thread: any (immutable).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/math/softmax.h"
#include "common/model/config.h"
#include "common/spec/drafter_hello.h"
#include "common/spec/drafting.h"
#include "common/spec/vocabulary_entries.h"

namespace outrider {

// A drafter's own vocabulary.
struct DrafterVocabulary {
  VocabularyEntries entries;
  std::vector<TokenId> prompt_prefix;  // what its model wants before any text (a BOS token)
};

// The vocabulary of a model with this tokenizer. Returns nullptr and logs it if there are more
// tokens than can be compared.
std::shared_ptr<const DrafterVocabulary> VocabularyOf(const Tokenizer& tokenizer,
                                                      const ModelConfig& config);

class VocabularyMap {
 public:
  // kInvalidArgument: `verifier`, a peer's, has two ids for one token.
  static Result<VocabularyMap> Create(const VocabularyEntries& verifier,
                                      const DrafterVocabulary& own);

  // What the verifier is told.
  VocabularyMatch match() const { return match_; }
  // The verifier's ids are below.
  int verifier_size() const { return static_cast<int>(first_.size()) - 1; }

  // The verifier's id of one of our tokens; -1: it has none.
  TokenId ToVerifier(TokenId own) const {
    return own >= 0 && static_cast<size_t>(own) < to_verifier_.size()
               ? to_verifier_[static_cast<size_t>(own)]
               : -1;
  }
  // What stands for one of the verifier's tokens in the draft model's context: our token of the
  // same bytes; else those that spell its bytes, the longest first; for a special token that we
  // lack, and for bytes that no token of ours begins with, nothing.
  std::span<const TokenId> ToOwn(TokenId verifiers) const;
  // How many tokens of the drafter's vocabulary spell these: up to kMaxTokenBytes for each.
  size_t OwnSize(std::span<const TokenId> verifiers) const;
  // Appends those tokens.
  void AppendOwn(std::span<const TokenId> verifiers, std::vector<TokenId>* out) const;
  // Our tokens that may be drafted, as MaskHolds reads them, for rows of `vocab_size` logits.
  std::vector<uint32_t> SharedMask(int vocab_size) const;

  // A session in our ids. The prompt begins with our own prefix. What the sampling parameters say
  // of tokens that are not shared is left out: they are never drafted. kFailedPrecondition: nothing
  // of the text can be said in our tokens, or none of the allowed tokens is shared.
  Result<SessionOpening> ToOwn(const SessionOpening& open) const;
  // Which of the row's entries (our ids, all shared) win the verifier's race (common/spec/race.h),
  // in the order of their arrival, at most `count`. The noise is by the verifier's ids.
  std::vector<TokenId> RaceWinners(std::span<const RowEntry> entries, int count, uint64_t seed,
                                   uint32_t position) const;
  // A part of a draft in the verifier's ids. REQUIRES: all of its tokens are shared.
  void ToVerifier(DraftChunk* chunk) const;

 private:
  VocabularyMap() = default;
  // Pairs the ends, as above. `same`: our token of each of the verifier's, -1 where we lack it.
  void PairEnds(const VocabularyEntries& verifier, const VocabularyEntries& own,
                std::vector<TokenId>* same);

  VocabularyMatch match_;
  std::vector<TokenId> prompt_prefix_;
  std::vector<TokenId> to_verifier_;  // [own ids]
  std::vector<uint32_t> first_;       // [verifier_size + 1]: where each id's begin in own_
  std::vector<TokenId> own_;
};

}  // namespace outrider
