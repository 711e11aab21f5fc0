// One round's draft sequences as a tree that continues the committed tokens: what the drafter sends
// and the verifier scores. Sequences that share a prefix share its nodes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/spec/draft_distribution.h"

namespace outrider {

// What a drafter is asked for: at depth d (0: the first draft tokens) each prefix is continued
// draws(d) times. k i.i.d. sequences of length g are {length = g, branching = {k}};
// SpecTr's prefix tree (k_1 .. k_g) is {length = g, branching = {k_1, .., k_g}}.
struct DraftShape {
  int length = 0;              // depths; 0: draft nothing
  std::vector<int> branching;  // [<= length], each >= 1; depths past its end draw once

  int draws(int depth) const {
    return static_cast<size_t>(depth) < branching.size() ? branching[static_cast<size_t>(depth)]
                                                         : 1;
  }
  // Sequences: the product of the branching. Saturates far above any limit.
  int64_t leaves() const;
  // Draws in all: what scoring it costs at most, in rows.
  int64_t total_draws() const;
  friend bool operator==(const DraftShape&, const DraftShape&) = default;
};

// k i.i.d. sequences of `length` tokens.
DraftShape Sequences(int count, int length);

// A part of a draft as it travels: whole depths of draws, in draft order.
struct DraftChunk {
  std::vector<TokenId> tokens;
  // The node that each token continues; empty: a single sequence, where each continues the one
  // before it (the first one the tree's last node).
  std::vector<int32_t> parents;
  // One for each distinct parent in the order of first appearance, or none.
  std::vector<DraftDistribution> distributions;
  bool more = false;  // deeper draws follow
};

// Node 0 is the root: the committed tokens. Every other node is a distinct prefix that continues
// them, numbered in the order in which it was first drawn, so that a parent's number is below its
// children's. The draws of a node keep their order and their duplicates: rules that choose among
// them are lossless only over all of them in that order (SpecTr, Algorithm 3).
class DraftTree {
 public:
  static constexpr int kRoot = 0;

  DraftTree() : nodes_(1) {}
  // A single sequence; distributions as long as tokens, or empty for point masses.
  static DraftTree Chain(std::span<const TokenId> tokens,
                         std::vector<DraftDistribution> distributions);

  // Records that `token` was drawn after `parent`; the node that carries it, new or not.
  int AddDraw(int parent, TokenId token);
  // The distribution that the draws after `node` came from.
  void SetDistribution(int node, DraftDistribution distribution) {
    at(node).distribution = std::move(distribution);
  }

  // Adds a part. kInvalidArgument for parents that do not exist or have their draws already, and
  // for distributions that are not one a parent: some of it may have been added then.
  Status Append(DraftChunk chunk);

  // Without the root.
  int size() const { return static_cast<int>(nodes_.size()) - 1; }
  bool empty() const { return size() == 0; }
  TokenId token(int node) const { return at(node).token; }
  int parent(int node) const { return at(node).parent; }
  int depth(int node) const { return at(node).depth; }
  // The deepest node's.
  int max_depth() const { return max_depth_; }
  // Empty: point masses (greedy and race drafts carry no rows).
  const DraftDistribution& distribution(int node) const { return at(node).distribution; }
  // The child that each draw after `node` gave, in draft order, duplicates kept.
  std::span<const int32_t> draws(int node) const { return at(node).draws; }
  // True for a single sequence (and for none).
  bool is_chain() const { return size() == max_depth_; }
  // All draws.
  int total_draws() const { return total_draws_; }
  // The child of `node` that carries `token`, -1 if none.
  int Child(int node, TokenId token) const;
  // Tokens from the root (without it) to `node`.
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

// Checks a tree from a peer against what was asked: ids below vocab_size, at most `shape` deep, and
// at every node either no draws (it ended there, or the rest has not arrived) or exactly as many as
// `shape` says: under a rule that counts draws, one more or less would change the distribution.
// `with_distributions`: draws came from distributions, which must be there and hold every drawn
// token; without, there must be none, and the draws after a node are distinct, at most as many as
// asked.
Status Validate(const DraftTree& tree, const DraftShape& shape, bool with_distributions,
                int vocab_size);

}  // namespace outrider
