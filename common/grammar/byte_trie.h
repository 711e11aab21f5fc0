// Texts with ids, in the order of their bytes, so that a walk over all of them reads what they have
// in common once.
//
// Thread: any (immutable).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/types.h"

namespace outrider::grammar {

class ByteTrie {
 public:
  // A prefix of some text. Nodes come in the order of their texts, a prefix before what it begins;
  // node 0 is the empty one.
  struct Node {
    uint32_t end;       // the first node after it that it is no prefix of
    uint32_t first_id;  // into ids(): of the texts that begin here and later
    uint16_t depth;     // bytes
    uint8_t byte;       // the last one
  };

  ByteTrie() : ByteTrie(std::vector<std::pair<std::string_view, TokenId>>()) {}
  // REQUIRES: no text is empty or longer than 65,535 bytes.
  explicit ByteTrie(std::vector<std::pair<std::string_view, TokenId>> texts);

  uint32_t num_nodes() const { return static_cast<uint32_t>(nodes_.size() - 1); }
  const Node& node(uint32_t index) const { return nodes_[index]; }
  // Of the texts that are this node's.
  std::span<const TokenId> ids(uint32_t index) const {
    return {ids_.data() + nodes_[index].first_id, ids_.data() + nodes_[index + 1].first_id};
  }
  bool empty() const { return ids_.empty(); }
  size_t bytes() const { return nodes_.size() * sizeof(Node) + ids_.size() * sizeof(TokenId); }

 private:
  std::vector<Node> nodes_;  // and one more, which ends the ids of the last
  std::vector<TokenId> ids_;
};

}  // namespace outrider::grammar
