// Builds the draft tree of one plan, a whole depth at a time, from what is picked of the logits
// after its nodes. Which draft tokens exist depends on the shape, on what the stop rule says of the
// path before each, on end-of-sequence tokens and on which prefixes are equal, and on nothing else:
// a token that was looked at is never dropped.
//
// Thread: the drafting loop.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/backend/pick_batch.h"
#include "common/base/types.h"
#include "common/spec/draft.h"
#include "common/spec/draft_distribution.h"
#include "common/spec/draft_tree.h"
#include "common/spec/drafting.h"
#include "common/spec/stop_rule.h"
#include "drafter/propose/vocabulary_map.h"

namespace outrider {

// What to draft, and the key of its uniform random numbers.
struct DraftTask {
  DraftKind kind = DraftKind::kSampled;
  DraftShape shape;
  StopRule stop = {};  // kHead: with the threshold to be used
  uint64_t seed = 0;
  uint32_t round = 0;
  int position = 0;  // of the first draft token: the session's tokens, prompt included
  DraftDistributionLimits distribution_limits;
  std::span<const TokenId> eos_token_ids;  // must outlive the builder
  // Between the verifier's ids and ours; nullptr: they are the same. Must outlive the builder.
  const VocabularyMap* vocabulary = nullptr;
};

// Entries of a row that race for a verifier of another vocabulary: a winner is among them but where
// the row's tail wins, which then costs a draft token.
inline constexpr int kRaceEntries = 256;

// The ids of a row's entries.
std::vector<TokenId> TokensOf(const PickedRow& row);

class DraftTreeBuilder {
 public:
  // Nothing to draft.
  DraftTreeBuilder() = default;
  explicit DraftTreeBuilder(DraftTask task);

  const DraftTree& tree() const { return tree_; }
  // Depths drawn.
  int depths() const { return depths_; }
  // The nodes that draw next, in order: the root at first, later those of the last depth where no
  // path ended. Empty: the draft is complete.
  std::span<const int32_t> frontier() const {
    if (depths_ == task_.shape.length) return {};
    return frontier_;
  }
  // For each node with draft tokens, the most likely token that is not among them: the likely ends
  // of the round short of a leaf. In ascending order of nodes.
  std::span<const RoundEnd> likely_stops() const { return likely_stops_; }

  // Rows of this draft that were NaN or infinite somewhere: the paths to them ended there, as no
  // token can be drawn from such a row.
  int broken_rows() const { return broken_rows_; }

  // The acceptance probability that the head predicted for a node; negative: none.
  float predicted(int node) const {
    return static_cast<size_t>(node) < predicted_.size() ? predicted_[static_cast<size_t>(node)]
                                                         : -1.f;
  }

  // What is to be picked from the rows after the frontier nodes, to draw from; ids from `allowed`
  // on are never drafted. REQUIRES: frontier() is not empty.
  PickSpec RowSpec(const RowSampling& sampling, int allowed) const;

  // Whether what is left to draw is one sequence that ends by its length or an end-of-sequence
  // token only, from distributions that a device can draw from: it may then draw several depths in
  // one go.
  bool draws_chain() const;
  // How a device draws the next `depths` of them. REQUIRES: draws_chain().
  ChainDraw ChainSpec(int depths) const;

  // Draws one depth. `rows` [frontier]: picked by RowSpec from the row after each frontier node.
  // `accepted` [frontier]: the probability that the head gives each frontier node after its parent,
  // for kHead (the root's is not read); empty for other rules. REQUIRES: frontier() is not empty.
  void DrawDepth(std::span<const PickedRow> rows, std::span<const float> accepted);

  // Plans another shape, equal as far as both have drawn: deeper draws are taken back as if never
  // made, missing depths are drawn by the next calls. How deep a draft goes changes no draw.
  // REQUIRES: no chunk was taken.
  void SetShape(const DraftShape& shape);

  // What was drawn since the last call of TakeChunk: whole depths.
  DraftChunk TakeChunk();
  // A copy of that, which stays to be taken.
  DraftChunk PeekChunk() const { return AsSent(untaken_); }

 private:
  // A draft token that is drafted after: `index` among all of its depth, counted as if no sequence
  // had ended, so that no sequence's random numbers depend on whether others ended; `slot` of its
  // node in frontier_.
  struct Draw {
    uint32_t index;
    size_t slot;
  };
  // What the draft tokens after one node are drawn from.
  struct Source {
    DraftDistribution distribution = {};  // kSampled
    // Else: the draft tokens themselves, distinct, and the most likely one that was not drawn.
    std::vector<TokenId> tokens = {};
    bool last = false;    // of their paths
    bool broken = false;  // the row is not finite
    bool barred = false;  // masks leave no token that both vocabularies hold
    bool has_draws() const { return !broken && !barred; }
  };

  Source SourceOf(const PickedRow& row) const;
  // Whether draft tokens win a race of the verifier's ids, which no device knows.
  bool races_translated() const {
    return task_.kind == DraftKind::kRace && task_.vocabulary != nullptr;
  }
  // Of such a race.
  Source RaceSourceOf(const PickedRow& row) const;
  // Of each frontier node. Records what the head predicts for them.
  std::vector<Source> SourcesOf(std::span<const PickedRow> rows, std::span<const float> accepted);
  // -1: none.
  TokenId LikelyStop(const Source& source, int node) const;
  DraftChunk AsSent(DraftChunk chunk) const;
  bool IsEndOfSequence(TokenId token) const;

  DraftTask task_;
  DraftTree tree_;
  int depths_ = 0;
  std::vector<Draw> live_;  // of the last depth, in draft order
  std::vector<int32_t> frontier_;
  std::vector<double> log_accepted_ = {0.};  // [frontier]: of each node's path, under kHead
  std::vector<float> predicted_;             // [<= nodes]
  std::vector<RoundEnd> likely_stops_;
  int broken_rows_ = 0;
  DraftChunk untaken_;
  bool untaken_is_chain_ = true;
};

}  // namespace outrider
