// Builds the draft tree of one plan, a whole depth at a time, from what is picked of the logits
// after its nodes. Which draft tokens exist depends only on the shape, on the stop rule's result
// for the path before each and on which prefixes are equal: a sampled token is never dropped.
// Without a stop rule a draft is as long as planned, whatever its tokens are: it goes on after an
// end of sequence, and where nothing can be drawn it repeats the token before. So when its parts
// are sent tells nothing of its tokens.
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
  StopRule stop = {};  // kHead: with the threshold in force
  uint64_t seed = 0;
  uint32_t round = 0;
  int position = 0;  // of the first draft token: the session's tokens, including the prompt
  DraftDistributionLimits distribution_limits;
  // Maps between the verifier's ids and ours; nullptr: they are the same. Must outlive the builder.
  const VocabularyMap* vocabulary = nullptr;
};

// Entries of a row that race if the verifier has another vocabulary. The winner is among them
// unless the row's tail wins, which then costs a draft token.
inline constexpr int kRaceEntries = 256;

// The ids of a row's entries.
std::vector<TokenId> TokensOf(const PickedRow& row);

class DraftTreeBuilder {
 public:
  // Nothing to draft.
  DraftTreeBuilder() = default;
  explicit DraftTreeBuilder(DraftTask task);

  const DraftTree& tree() const { return tree_; }
  // Depths drafted.
  int depths() const { return depths_; }
  // The nodes after which the next depth is drafted, in order: first the root, later those of the
  // last depth at which no path ended. Empty: the draft is complete.
  std::span<const int32_t> frontier() const {
    if (depths_ == task_.shape.length) return {};
    return frontier_;
  }
  // For each node with draft tokens, the most likely token that is not among them: the likely ends
  // of the round before a leaf. In ascending order of nodes.
  std::span<const RoundEnd> likely_stops() const { return likely_stops_; }

  // Rows of this draft with NaN or infinity, after which no token can be sampled.
  int broken_rows() const { return broken_rows_; }

  // The acceptance probability that the head predicted for a node; negative: none.
  float predicted(int node) const {
    return static_cast<size_t>(node) < predicted_.size() ? predicted_[static_cast<size_t>(node)]
                                                         : -1.f;
  }

  // What to pick from the rows after the frontier nodes; ids from `allowed` on are never drafted.
  // REQUIRES: frontier() is not empty.
  PickSpec RowSpec(const RowSampling& sampling, int allowed) const;

  // Whether the rest of the draft is one sequence that only its length ends, from distributions
  // that a device can sample: then it may sample several depths in one go.
  bool draws_chain() const;
  // How a device samples the next `depths` of them. REQUIRES: draws_chain().
  ChainSampling ChainSpec(int depths) const;

  // Samples one depth. `rows` [frontier]: picked by RowSpec from the row after each frontier node.
  // `accepted` [frontier]: the head's acceptance probability of each frontier node given its
  // parent, for kHead (the root's is not read); empty for other rules. REQUIRES: frontier() is not
  // empty.
  void DrawDepth(std::span<const PickedRow> rows, std::span<const float> accepted);

  // Changes the plan's shape; both must be equal as far as they go. Deeper draft tokens are removed
  // as if never sampled, and the next calls add missing depths. A draft's depth does not affect its
  // tokens. REQUIRES: no chunk was taken.
  void SetShape(const DraftShape& shape);

  // Returns what was added since the last call of TakeChunk, in whole depths.
  DraftChunk TakeChunk();
  // A copy of that, which can still be taken.
  DraftChunk PeekChunk() const { return AsSent(untaken_); }

 private:
  // A draft token that the next depth follows. `index`: among all of its depth, counted as if no
  // sequence had ended, so that no sequence's random numbers depend on whether others ended.
  // `slot`: of its node in frontier_.
  struct Draw {
    uint32_t index;
    size_t slot;
  };
  // What the draft tokens after one node are sampled from.
  struct Source {
    DraftDistribution distribution = {};  // kSampled
    // For other kinds: the draft tokens themselves, distinct, and the most likely other token.
    std::vector<TokenId> tokens = {};
    bool last = false;    // ends their paths
    bool broken = false;  // the row is not finite
    bool has_draws() const { return !distribution.ids.empty() || !tokens.empty(); }
  };

  Source SourceOf(const PickedRow& row) const;
  // Whether draft tokens win a race of the verifier's ids, which no device knows.
  bool races_translated() const {
    return task_.kind == DraftKind::kRace && task_.vocabulary != nullptr;
  }
  // The source of such a race.
  Source RaceSourceOf(const PickedRow& row) const;
  // Sources of the frontier nodes. Records the head's predictions for them.
  std::vector<Source> SourcesOf(std::span<const PickedRow> rows, std::span<const float> accepted);
  // -1: none.
  TokenId LikelyStop(const Source& source, int node) const;
  DraftChunk AsSent(DraftChunk chunk) const;
  // Draws `token` with certainty.
  Source Certain(TokenId token) const;

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
