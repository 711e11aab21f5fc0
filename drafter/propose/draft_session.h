// The drafter's copy of one session of a verifier: its tokens, how many of them the KV holds, and
// the draft in progress. Messages have the verifier's ids, everything else the draft model's; with
// another vocabulary (VocabularyMap) the session may have more or fewer tokens here than there. It
// knows tokens and distributions but no model: the loop feeds the tokens of Missing(), later the
// nodes of frontier(), and passes what AddRows() picks from the logits after them to DrawDepth().
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
#include "drafter/propose/grammar_share.h"
#include "drafter/propose/head_state.h"
#include "drafter/propose/verifier_link.h"

namespace outrider {

// Bounds of the drafts of a connection's sessions.
struct DraftBounds {
  int vocab_size = 0;  // length of a logits row; bounds a session's tokens
  int allowed = 0;     // bounds drafted ids
  int max_context = 0;
  int max_draft_length = 0;  // depths; longer plans are cut
  int max_draft_tokens = 0;  // draft tokens per plan; larger ones are refused
  int max_sequences = 0;     // leaves per plan; larger ones are refused
  std::vector<TokenId> eos_token_ids;
  DraftDistributionLimits distribution_limits;
  // Maps between the verifier's ids and ours; nullptr: they are the same.
  std::shared_ptr<const VocabularyMap> vocabulary = nullptr;
  std::vector<uint32_t> shared_tokens = {};  // SharedMask of the vocabulary
  const HeadState* head = nullptr;           // nullptr: kHead drafts to the full length
  // For sessions that follow a grammar.
  std::shared_ptr<GrammarShare> grammar_share = nullptr;
};

class DraftSession {
 public:
  // kInvalidArgument: no tokens, more than the context, ids outside the vocabulary, sampling
  // parameters out of range, or a plan beyond the bounds. `bounds` must outlive the session.
  // `masks`: of the grammar that the text and its drafts follow; nullptr: none.
  static Result<DraftSession> Create(const SessionOpening& open, const DraftBounds* bounds,
                                     std::shared_ptr<grammar::GrammarMasks> masks = nullptr);

  // The errors of Create about the opening's tokens.
  static Status CheckTokens(const SessionOpening& open, const DraftBounds& bounds);

  uint32_t round() const { return round_; }
  // The shape that is drafted: the plan, cut to the longest draft and to the context.
  const DraftShape& shape() const { return shape_; }
  // Committed tokens.
  int length() const { return static_cast<int>(tokens_.size()); }
  std::span<const TokenId> tokens() const { return tokens_; }
  // True until the plan is answered.
  bool drafting() const { return !builder_.frontier().empty(); }
  // Whether its drafts follow a grammar.
  bool has_grammar() const { return grammar_.has_value(); }
  const DraftTree& draft() const { return builder_.tree(); }
  int depths_drawn() const { return builder_.depths(); }
  // Whether DrawDepth needs the head's acceptance probabilities.
  bool by_head() const { return stop_ == StopRule::Kind::kHead; }
  // Whether the draft is as long as planned, whatever its tokens are.
  bool has_fixed_length() const { return stop_ == StopRule::Kind::kLength; }
  // Whether the verifier takes a draft for a plan that repeats this one early: its plan has no stop
  // rule, not even one that is not in force here.
  bool may_be_early() const { return planned_stop_.kind == StopRule::Kind::kLength; }
  // Whether verdicts will have acceptance probabilities for draft tokens that no stop rule has
  // selected: under the head's rule, with a threshold that is never reached.
  bool for_training() const {
    return planned_stop_.kind == StopRule::Kind::kHead && planned_stop_.threshold >= 1.f &&
           kind_ == DraftKind::kSampled;
  }
  float predicted(int node) const { return builder_.predicted(node); }

  // The committed tokens without KV. The first depth is sampled from the logits after the last one;
  // then it is empty.
  std::span<const TokenId> Missing() const;
  // The first `count` of Missing() now have KV.
  void MarkFed(int count);
  // Committed tokens in the KV.
  int kv_length() const { return kv_length_; }

  // The nodes after which the next depth is drafted. From the second depth on, their tokens have to
  // be fed first.
  std::span<const int32_t> frontier() const { return builder_.frontier(); }
  // Samples the next depth from `rows`, picked after each frontier node; `accepted` is as in
  // DraftTreeBuilder. REQUIRES: drafting() and Missing() is empty.
  void DrawDepth(std::span<const PickedRow> rows, std::span<const float> accepted);
  // Adds what has to be picked from those rows to a step's batch.
  void AddRows(PickBatch* batch) const;
  // Whether a device can sample several depths in one go. AddChain adds the next `depths` of them
  // to a step's batch.
  bool draws_chain() const { return drafting() && !has_grammar() && builder_.draws_chain(); }
  void AddChain(int depths, PickBatch* batch) const;
  // Whether TakeChunk has something to return. False if the row before the draft was broken.
  bool has_chunk() const { return draft().size() > sent_nodes_; }
  // See DraftTreeBuilder.
  int broken_rows() const { return builder_.broken_rows(); }
  // Returns what was added since the last call, to be sent now: from now on a verdict may name its
  // nodes.
  DraftChunk TakeChunk();
  // A copy of the whole draft. REQUIRES: no chunk was taken.
  DraftChunk PeekChunk() const;

  // Lookahead drafting. The end of the round is guessed from the draft model's probabilities and
  // from the draft, both of which are independent of later rounds' random numbers.
  //
  // The nodes at which a path ended other than by an end-of-sequence token: the round ends at one
  // of them if everything is accepted. REQUIRES: !drafting().
  std::vector<int32_t> Leaves() const;
  // Likely ends of the round before a leaf.
  std::span<const RoundEnd> LikelyStops() const { return builder_.likely_stops(); }
  // Adds to a step's batch what has to be picked from the row after the session's tokens: the
  // `count` most likely next ones (fewer if the rest is excluded), most likely first.
  void AddLikelyNext(int count, PickBatch* batch) const;
  // Those tokens, from that row.
  std::vector<TokenId> LikelyNext(int count, const PickedRow& row) const;
  bool IsEndOfSequence(TokenId token) const;
  // The verifier's id of one of our tokens that may be drafted.
  TokenId ToVerifier(TokenId own) const;
  // This session after a verdict that accepts `node`, adds `next` and plans another round like this
  // one; `fed` is the result of Apply.
  Result<DraftSession> Assume(int node, std::span<const TokenId> next, int* fed) const;
  // The verdict was as assumed, with the plan `plan`. The draft is the same that would be sampled
  // now, because its random numbers follow from seed, round and position. Returns false if it was
  // made for another round, branching or stop rule; the session must then be dropped. REQUIRES: no
  // chunk was taken.
  bool Adopt(const DraftPlan& plan);
  // Whether `plan` repeats this round's plan for the next round.
  bool IsRepeatedBy(const DraftPlan& plan) const {
    return RepeatsPlan(plan, {.round = round_, .shape = planned_, .stop = planned_stop_});
  }

  // Moves to the next round and abandons what was not drafted yet. Returns the deepest node on the
  // accepted path whose token was fed (the root if none): the KV continues after it, with
  // kv_length() tokens. kInvalidArgument or kFailedPrecondition for a verdict that does not fit
  // this session: nothing changes, and the session has to be opened again.
  Result<int> Apply(const SessionVerdict& verdict);

 private:
  DraftSession(const SessionOpening& open, const DraftShape& shape, const DraftBounds* bounds,
               std::optional<grammar::DraftGrammar> grammar, int position);

  void Begin(const DraftPlan& plan, const DraftShape& shape);
  // The row's mask if there is a grammar that can be followed, else empty.
  std::span<const uint32_t> MaskOfRow(int node) const;

  const DraftBounds* bounds_;
  uint64_t seed_;
  DraftKind kind_;
  SequenceSampling sampling_;
  // Caches positions of nodes, hence mutable.
  mutable std::optional<grammar::DraftGrammar> grammar_;
  mutable std::vector<uint32_t> row_mask_;
  std::vector<TokenId> tokens_;
  int position_ = 0;  // committed tokens as the verifier counts them
  int kv_length_ = 0;
  uint32_t round_ = 0;
  DraftShape planned_;
  StopRule planned_stop_;
  StopRule::Kind stop_ = StopRule::Kind::kLength;  // in force
  DraftShape shape_;
  DraftTreeBuilder builder_;
  int sent_nodes_ = 0;
};

}  // namespace outrider
