// The drafter's copy of one session of a verifier: its tokens, how many of them the KV holds, and
// the draft in progress. What comes from the verifier and what goes there holds the verifier's ids,
// all else the draft model's; with another vocabulary (VocabularyMap) the session may have more or
// fewer tokens here than there. It knows tokens and distributions but no model: the loop feeds the
// tokens of Missing(), later the nodes of frontier(), and hands what AddRows() asks to be picked
// from the logits after them to DrawDepth().
//
// Thread: the drafting loop.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/grammar/draft_grammar.h"
#include "common/spec/draft.h"
#include "common/spec/sequence_sampling.h"
#include "drafter/propose/draft_tree_builder.h"
#include "drafter/propose/head_state.h"
#include "drafter/propose/verifier_link.h"

namespace outrider {

// What bounds the drafts of all sessions of a connection.
struct DraftBounds {
  int vocab_size = 0;  // entries of a row of logits; tokens of a session are below
  int allowed = 0;     // drafted ids are below
  int max_context = 0;
  int max_draft_length = 0;  // depths; longer plans are cut
  int max_draft_tokens = 0;  // draft tokens of one plan; larger ones are refused
  int max_sequences = 0;     // leaves of one plan; larger ones are refused
  std::vector<TokenId> eos_token_ids;
  DraftDistributionLimits distribution_limits;
  // Between the verifier's ids and ours; nullptr: they are the same.
  std::shared_ptr<const VocabularyMap> vocabulary = nullptr;
  std::vector<uint32_t> shared_tokens = {};      // its SharedMask
  const HeadState* head = nullptr;               // without: kHead drafts to the full length
  grammar::MaskScratch* mask_scratch = nullptr;  // the loop's
};

class DraftSession {
 public:
  // kInvalidArgument when there are no tokens, more than the context, ids outside of the
  // vocabulary, sampling parameters out of range, or a plan beyond the bounds. `bounds` must
  // outlive the session. `masks`: what the text follows; nullptr: anything. Drafts keep to it.
  static Result<DraftSession> Create(const SessionOpening& open, const DraftBounds* bounds,
                                     std::shared_ptr<grammar::GrammarMasks> masks = nullptr);

  uint32_t round() const { return round_; }
  // What is really drafted: the plan, cut to the longest draft and to the context.
  const DraftShape& shape() const { return shape_; }
  // Committed tokens.
  int length() const { return static_cast<int>(tokens_.size()); }
  std::span<const TokenId> tokens() const { return tokens_; }
  // True until the plan is answered.
  bool drafting() const { return !builder_.frontier().empty(); }
  const DraftTree& draft() const { return builder_.tree(); }
  int depths_drawn() const { return builder_.depths(); }
  // Whether DrawDepth needs the head's acceptance probabilities.
  bool by_head() const { return by_head_; }
  // Whether verdicts will tell how likely the draft tokens were and no stop rule has chosen them:
  // under the head's rule, with a threshold that nothing reaches.
  bool for_training() const {
    return planned_stop_.kind == StopRule::Kind::kHead && planned_stop_.threshold >= 1.f &&
           kind_ == DraftKind::kSampled;
  }
  float predicted(int node) const { return builder_.predicted(node); }

  // The committed tokens that the KV does not hold yet; the first depth is drawn from the logits
  // after the last one. Empty after that.
  std::span<const TokenId> Missing() const;
  // The first `count` of Missing() are in the KV now.
  void MarkFed(int count);
  // Committed tokens in the KV.
  int kv_length() const { return kv_length_; }

  // The nodes to be drafted after next. From the second depth on their tokens have to be fed first.
  std::span<const int32_t> frontier() const { return builder_.frontier(); }
  // Draws the next depth from `rows`, picked after each frontier node, and `accepted`, as for
  // DraftTreeBuilder. REQUIRES: drafting() and Missing() is empty.
  void DrawDepth(std::span<const PickedRow> rows, std::span<const float> accepted);
  // Adds what is to be picked from those rows to a step's batch.
  void AddRows(PickBatch* batch) const;
  // Whether a device can draw several depths in one go. AddChain adds the next `depths` of them to
  // a step's batch.
  bool draws_chain() const { return drafting() && !grammar_.has_value() && builder_.draws_chain(); }
  void AddChain(int depths, PickBatch* batch) const;
  // Whether something was drawn that TakeChunk has not returned yet. False at the end of a draft
  // whose next rows were all broken.
  bool has_chunk() const { return draft().size() > sent_nodes_; }
  // As DraftTreeBuilder has it.
  int broken_rows() const { return builder_.broken_rows(); }
  // What was drawn since the last call, to be sent now: from here on a verdict may name its nodes.
  DraftChunk TakeChunk();
  // The whole draft, which stays to be taken. REQUIRES: no chunk was taken.
  DraftChunk PeekChunk() const;

  // Lookahead drafting. How the round may end is guessed from the draft model's probabilities and
  // from what was drawn, of which the next rounds' random numbers are independent.
  //
  // The nodes at which a path ended other than by an end-of-sequence token: where the round ends if
  // everything is accepted. REQUIRES: !drafting().
  std::vector<int32_t> Leaves() const;
  // Likely ends before them.
  std::span<const RoundEnd> LikelyStops() const { return builder_.likely_stops(); }
  // Adds to a step's batch what is to be picked from the row after the session's tokens: the
  // `count` most likely next ones (fewer if the rest is ruled out), most likely first.
  void AddLikelyNext(int count, PickBatch* batch) const;
  // Those tokens, of that row.
  std::vector<TokenId> LikelyNext(int count, const PickedRow& row) const;
  bool IsEndOfSequence(TokenId token) const;
  // The verifier's id of a token of ours that may be drafted.
  TokenId ToVerifier(TokenId own) const;
  // This session as a verdict would leave it that accepts `node`, adds `next` and plans one round
  // more like this one; `fed`: as Apply's result.
  Result<DraftSession> Assume(int node, std::span<const TokenId> next, int* fed) const;
  // The verdict was as assumed, and its plan is `plan`. What was drawn is what would be drawn now,
  // as random numbers follow from seed, round and position. False if it was drawn for another
  // round, branching or stop rule; the session is of no use then. REQUIRES: no chunk was taken.
  bool Adopt(const DraftPlan& plan);
  // Whether `plan` repeats this round's, for the next round.
  bool IsRepeatedBy(const DraftPlan& plan) const {
    return RepeatsPlan(plan, {.round = round_, .shape = planned_, .stop = planned_stop_});
  }

  // Moves to the next round; what was not drafted yet is abandoned. Returns the deepest node on the
  // accepted path whose token was fed (the root if none): the KV continues after it, with
  // kv_length() tokens. kInvalidArgument or kFailedPrecondition for a verdict that does not fit
  // what this session holds: nothing changes then, and the session has to be opened again.
  Result<int> Apply(const SessionVerdict& verdict);

 private:
  DraftSession(const SessionOpening& open, const DraftShape& shape, const DraftBounds* bounds,
               std::optional<grammar::DraftGrammar> grammar, int position);

  void Begin(const DraftPlan& plan, const DraftShape& shape);
  // The row's mask where there is a grammar that can be followed; else empty.
  std::span<const uint32_t> MaskOfRow(int node) const;

  const DraftBounds* bounds_;
  uint64_t seed_;
  DraftKind kind_;
  SequenceSampling sampling_;
  // Remembers where nodes stand in it, which changes nothing.
  mutable std::optional<grammar::DraftGrammar> grammar_;
  mutable std::vector<uint32_t> row_mask_;
  std::vector<TokenId> tokens_;
  int position_ = 0;  // committed tokens by the verifier's count
  int kv_length_ = 0;
  uint32_t round_ = 0;
  DraftShape planned_;
  StopRule planned_stop_;
  bool by_head_ = false;
  DraftShape shape_;
  DraftTreeBuilder builder_;
  int sent_nodes_ = 0;
};

}  // namespace outrider
