// Tracks the position of a text and of each node of its draft in a grammar, and which tokens may
// follow. The verifier masks the target's logits with it, and the drafter its own. Both use the
// same masks, so drafts follow the text's grammar and lose no acceptance to it.
//
// A node that no text of the grammar reaches has probability 0 after its parent, so what follows it
// is never sampled; its mask allows everything.
//
// Thread: the owner of the sequence.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/grammar/grammar_masks.h"
#include "common/grammar/grammar_state.h"
#include "common/spec/draft_tree.h"

namespace outrider::grammar {

class DraftGrammar {
 public:
  // Starts at the beginning of the text. `allowed`: tokens that may be sampled at all, a mask like
  // that of MaskOf (sampling_params.h); empty: all.
  DraftGrammar(std::shared_ptr<GrammarMasks> masks, std::vector<MaskWord> allowed);

  size_t mask_words() const { return masks_->tokens().mask_words(); }

  // Appends `token` to the text and begins a new draft. Returns false if no text of the grammar
  // continues like this, or the text has ended; then nothing changes.
  bool Advance(TokenId token, MaskScratch& scratch);

  // Fills in which tokens may follow `node` of the round's draft, which may only grow, and returns
  // their number. kResourceExhausted: see GrammarMasks::Fill; at other nodes than the root also if
  // the draft has used up GrammarMasks::Limits::round_steps, whatever chose its tokens. REQUIRES:
  // `mask` has mask_words() words.
  Result<int> Fill(const DraftTree& draft, int node, MaskScratch& scratch,
                   std::span<MaskWord> mask);

  // The tokens that must come next, including an end token: as long as there is only one choice, at
  // most `most`, and within half of the round's steps. Sampling would give the same tokens with any
  // model.
  std::vector<TokenId> Forced(int most, MaskScratch& scratch);

  // How many of `tokens`, one after another, a text of the grammar may continue with, as far as
  // half of the round's steps can tell.
  size_t Reads(std::span<const TokenId> tokens, MaskScratch& scratch) const;

 private:
  // The state after `token`; nullopt: it may not come.
  std::optional<GrammarState> After(const GrammarState& state, TokenId token,
                                    MaskScratch& scratch) const;
  const std::optional<GrammarState>& StateAt(const DraftTree& draft, int node,
                                             MaskScratch& scratch);
  // What may follow where the grammar says nothing: all allowed tokens.
  int FillAllowed(std::span<MaskWord> mask) const;
  Result<int> FillText(MaskScratch& scratch, std::span<MaskWord> mask);

  std::shared_ptr<GrammarMasks> masks_;
  std::vector<MaskWord> allowed_;
  std::optional<GrammarState> text_;  // nullopt: the text has ended
  // The mask after the text, once it was needed; empty before.
  std::vector<MaskWord> text_mask_;
  int text_count_ = 0;  // number of tokens in it
  // By node of the draft, the root's first, as far as needed; nullopt for nodes that no text
  // reaches.
  std::vector<std::optional<GrammarState>> nodes_;
  int64_t draft_steps_ = 0;  // used by masks of the draft's nodes, without the root's
};

}  // namespace outrider::grammar
