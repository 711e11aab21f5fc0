// Texts with ids, in byte order, so that a walk over all of them reads common prefixes once.
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
  // A prefix of some text. Nodes are in the order of their texts, a prefix before its extensions;
  // node 0 is the empty one.
  struct Node {
    uint32_t end;       // the first later node of which it is not a prefix
    uint32_t first_id;  // in ids(): first id of the texts of this node and later ones
    uint16_t depth;     // bytes
    uint8_t byte;       // the last one
  };

  ByteTrie() : ByteTrie(std::vector<std::pair<std::string_view, TokenId>>()) {}
  // REQUIRES: no text is empty or longer than 65,535 bytes.
  explicit ByteTrie(std::vector<std::pair<std::string_view, TokenId>> texts);

  uint32_t num_nodes() const { return static_cast<uint32_t>(nodes_.size() - 1); }
  const Node& node(uint32_t index) const { return nodes_[index]; }
  // Ids of the texts that end at this node.
  std::span<const TokenId> ids(uint32_t index) const {
    return {ids_.data() + nodes_[index].first_id, ids_.data() + nodes_[index + 1].first_id};
  }
  bool empty() const { return ids_.empty(); }
  size_t bytes() const { return nodes_.size() * sizeof(Node) + ids_.size() * sizeof(TokenId); }

 private:
  std::vector<Node> nodes_;  // with one more, which ends the ids of the last
  std::vector<TokenId> ids_;
};

}  // namespace outrider::grammar
