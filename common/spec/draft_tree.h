// One round's draft sequences as a tree that continues the committed tokens: the drafter sends it
// and the verifier scores it. Sequences with a common prefix share its nodes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/spec/draft_distribution.h"

namespace outrider {

// The requested shape of a draft: at depth d (0: the first draft tokens) each prefix is continued
// draws(d) times. k i.i.d. sequences of length g are {length = g, branching = {k}}; SpecTr's prefix
// tree (k_1 .. k_g) is {length = g, branching = {k_1, .., k_g}}.
struct DraftShape {
  int length = 0;              // depths; 0: draft nothing
  std::vector<int> branching;  // [<= length], each >= 1; 1 for depths beyond its end

  int draws(int depth) const {
    return static_cast<size_t>(depth) < branching.size() ? branching[static_cast<size_t>(depth)]
                                                         : 1;
  }
  // Number of sequences: the product of the branching. Saturates far above any limit.
  int64_t leaves() const;
  // Number of draft tokens: an upper bound of the rows to score.
  int64_t total_draws() const;
  friend bool operator==(const DraftShape&, const DraftShape&) = default;
};

// k i.i.d. sequences of `length` tokens.
DraftShape Sequences(int count, int length);

// A part of a draft as it is sent: whole depths, in draft order.
struct DraftChunk {
  std::vector<TokenId> tokens;
  // The node that each token continues; empty: a single sequence, in which each token continues the
  // one before it (the first one the tree's last node).
  std::vector<int32_t> parents;
  // One for each distinct parent in the order of first appearance, or none.
  std::vector<DraftDistribution> distributions;
  bool more = false;  // deeper tokens follow
};

// Node 0 is the root: the committed tokens. Every other node is a distinct prefix that continues
// them. Nodes are numbered in the order in which they were first sampled, so a parent's number is
// below its children's. The draft tokens of a node keep their order and their duplicates: rules
// that choose among them are lossless only over all of them in that order (SpecTr, Algorithm 3).
class DraftTree {
 public:
  static constexpr int kRoot = 0;

  DraftTree() : nodes_(1) {}
  // A single sequence; distributions as long as tokens, or empty for point masses.
  static DraftTree Chain(std::span<const TokenId> tokens,
                         std::vector<DraftDistribution> distributions);

  // Records that `token` was sampled after `parent`. Returns its node, new or not.
  int AddDraw(int parent, TokenId token);
  // The distribution from which the tokens after `node` were sampled.
  void SetDistribution(int node, DraftDistribution distribution) {
    at(node).distribution = std::move(distribution);
  }

  // Adds a part. kInvalidArgument: a parent does not exist or already has its tokens, or the number
  // of distributions is not that of parents. Some of the part may have been added then.
  Status Append(DraftChunk chunk);

  // Without the root.
  int size() const { return static_cast<int>(nodes_.size()) - 1; }
  bool empty() const { return size() == 0; }
  TokenId token(int node) const { return at(node).token; }
  int parent(int node) const { return at(node).parent; }
  int depth(int node) const { return at(node).depth; }
  // Depth of the deepest node.
  int max_depth() const { return max_depth_; }
  // Empty: point masses (greedy and race drafts have no distributions).
  const DraftDistribution& distribution(int node) const { return at(node).distribution; }
  // The child of each token after `node`, in draft order, with duplicates.
  std::span<const int32_t> draws(int node) const { return at(node).draws; }
  // Whether it is a single sequence (or none).
  bool is_chain() const { return size() == max_depth_; }
  // Number of draft tokens, duplicates included.
  int total_draws() const { return total_draws_; }
  // The child of `node` that carries `token`, -1 if none.
  int Child(int node, TokenId token) const;
  // Tokens from the root to `node`, without the root.
  std::vector<TokenId> Path(int node) const;

 private:
  struct Node {
    TokenId token = -1;
    int32_t parent = -1;
    int32_t depth = 0;
    DraftDistribution distribution;
    std::vector<int32_t> draws;
  };
  const Node& at(int node) const { return nodes_[static_cast<size_t>(node)]; }
  Node& at(int node) { return nodes_[static_cast<size_t>(node)]; }

  std::vector<Node> nodes_;
  int total_draws_ = 0;
  int max_depth_ = 0;
};

// Checks a peer's tree against the request: ids below vocab_size, at most `shape` deep, and at
// every node either no tokens (it ended there, or the rest has not arrived) or exactly as many as
// `shape` says, because under a rule that counts them one more or less would change the
// distribution. `with_distributions`: distributions must be present and contain every token;
// otherwise there must be none, and the tokens after a node are distinct and at most as many as
// requested.
Status Validate(const DraftTree& tree, const DraftShape& shape, bool with_distributions,
                int vocab_size);

}  // namespace outrider
