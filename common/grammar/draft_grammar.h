// Where a text and each node of its draft stand in a grammar, and which tokens may follow them:
// what a verifier masks the target's rows by, and a drafter its own. Both see the same masks, so
// drafts keep to the text's grammar and lose no acceptance to it.
//
// A node that no text of the grammar leads to has probability 0 after its parent, and whatever its
// mask says is never sampled: it allows all.
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
  // At the beginning of the text. `allowed`: tokens that may be sampled at all, a mask as MaskOf
  // (sampling_params.h) has it; empty: all.
  DraftGrammar(std::shared_ptr<GrammarMasks> masks, std::vector<MaskWord> allowed);

  size_t mask_words() const { return masks_->tokens().mask_words(); }

  // The text goes on with `token`, and the draft is another one from here on. False: no text of the
  // grammar does, or it has ended; the text stays where it is.
  bool Advance(TokenId token, MaskScratch& scratch);

  // Which tokens may follow `node` of the round's draft, which only grows. How many they are.
  // kResourceExhausted: as GrammarMasks::Fill; at other nodes than the root also because the draft
  // has taken GrammarMasks::Limits::round_steps, whatever chose its tokens. REQUIRES: `mask` of
  // mask_words().
  Result<int> Fill(const DraftTree& draft, int node, MaskScratch& scratch,
                   std::span<MaskWord> mask);

  // The tokens that must come next, an end token included: as many as are the only ones, at most
  // `most`, and not more than half of the round's steps find. Sampling would give them, whatever
  // the model.
  std::vector<TokenId> Forced(int most, MaskScratch& scratch);

  // How many of `tokens`, one after another, a text of the grammar may go on with, as far as half
  // of the round's steps tell.
  size_t Reads(std::span<const TokenId> tokens, MaskScratch& scratch) const;

 private:
  // After `token`; no value: it may not come.
  std::optional<GrammarState> After(const GrammarState& state, TokenId token,
                                    MaskScratch& scratch) const;
  const std::optional<GrammarState>& StateAt(const DraftTree& draft, int node,
                                             MaskScratch& scratch);
  Result<int> FillAt(const GrammarState& state, MaskScratch& scratch, std::span<MaskWord> mask);
  Result<int> FillText(MaskScratch& scratch, std::span<MaskWord> mask);

  std::shared_ptr<GrammarMasks> masks_;
  std::vector<MaskWord> allowed_;
  std::optional<GrammarState> text_;  // no value: the text has ended
  // What may follow the text, once asked for; empty: not yet.
  std::vector<MaskWord> text_mask_;
  int text_count_ = 0;  // of them
  // By node of the draft, the root's first, as far as they were asked for; nodes that no text leads
  // to have none.
  std::vector<std::optional<GrammarState>> nodes_;
  int64_t draft_steps_ = 0;  // that masks of the draft's nodes have taken, the root's apart
};

}  // namespace outrider::grammar
