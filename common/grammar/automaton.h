// The compiled form of a grammar: a pushdown automaton over bytes. Every rule has its own nodes. An
// edge either reads a byte of a range, or calls a rule and continues at a node when that rule has
// matched.
//
// A call always matches at least one byte: if a rule may match nothing, its callers have a path
// around the call. Every node can reach the end of its rule, so what has not failed can be
// completed. No rule calls itself before it has read a byte.
//
// Thread: any (immutable once built).
#pragma once

#include <bitset>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace outrider::grammar {

using ByteSet = std::bitset<256>;

struct ByteEdge {
  uint8_t low;
  uint8_t high;  // inclusive
  uint32_t target;
};

struct CallEdge {
  uint32_t rule;
  uint32_t target;  // next node
};

class Automaton {
 public:
  struct Node {
    // Where its edges begin; they end where the next node's begin.
    uint32_t byte_edges = 0;
    uint32_t call_edges = 0;
    uint32_t tail_calls = 0;
    uint32_t rule = 0;
    bool accepts = false;  // its rule may end here
    // Whether it has only byte edges, so that entering it needs no work.
    bool is_plain = false;
  };
  struct RuleInfo {
    uint32_t start = 0;
    // A counted rule starts again at the end of its body until it has matched often enough.
    int min_count = 0;
    int max_count = 0;  // 0: not counted; kUnbounded
    ByteSet first;      // bytes with which it can start
    ByteSet follow;     // bytes that can follow it, in any caller
    std::string name;
  };

  const std::vector<RuleInfo>& rules() const { return rules_; }
  const std::vector<Node>& nodes() const { return nodes_; }  // the last one only marks the end
  const Node& node(uint32_t id) const { return nodes_[id]; }
  uint32_t num_nodes() const { return static_cast<uint32_t>(nodes_.size() - 1); }

  // Ascending by `low`; they may overlap.
  std::span<const ByteEdge> byte_edges(uint32_t id) const {
    return {byte_edges_.data() + nodes_[id].byte_edges,
            byte_edges_.data() + nodes_[id + 1].byte_edges};
  }
  std::span<const CallEdge> call_edges(uint32_t id) const {
    return {call_edges_.data() + nodes_[id].call_edges,
            call_edges_.data() + nodes_[id + 1].call_edges};
  }
  // Rules with which this node's rule may end; their returns are this one's.
  std::span<const uint32_t> tail_calls(uint32_t id) const {
    return {tail_calls_.data() + nodes_[id].tail_calls,
            tail_calls_.data() + nodes_[id + 1].tail_calls};
  }
  // The rule of a whole text.
  uint32_t root() const { return 0; }
  size_t bytes() const {
    return nodes_.size() * sizeof(Node) + rules_.size() * sizeof(RuleInfo) +
           byte_edges_.size() * sizeof(ByteEdge) + call_edges_.size() * sizeof(CallEdge) +
           tail_calls_.size() * sizeof(uint32_t);
  }

 private:
  friend class AutomatonAssembler;

  std::vector<RuleInfo> rules_;
  std::vector<Node> nodes_;
  std::vector<ByteEdge> byte_edges_;
  std::vector<CallEdge> call_edges_;
  std::vector<uint32_t> tail_calls_;
};

}  // namespace outrider::grammar
