// Finds the tokens with which a text begins.
//
// Thread: any (immutable).
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/types.h"

namespace outrider {

class TokenTrie {
 public:
  // If two tokens have the same text, the later one is found. The texts may be destroyed
  // afterwards.
  explicit TokenTrie(const std::vector<std::pair<std::string_view, TokenId>>& tokens);

  // Calls visit(bytes, id) for every token with which `text` begins, the shortest first.
  template <class Visit>
  void ForEachPrefix(std::string_view text, const Visit& visit) const {
    const Node* node = nodes_.data();
    for (size_t pos = 0; pos < text.size(); ++pos) {
      node = Child(*node, static_cast<uint8_t>(text[pos]));
      if (node == nullptr) return;
      if (node->id >= 0) visit(pos + 1, node->id);
    }
  }

 private:
  struct Node {
    uint32_t first_child = 0;
    uint16_t children = 0;
    uint8_t byte = 0;  // of the edge to this node; children are sorted by it
    TokenId id = -1;   // of the token that ends here; -1: none
  };
  const Node* Child(const Node& node, uint8_t byte) const {
    const Node* const begin = nodes_.data() + node.first_child;
    const Node* const end = begin + node.children;
    const Node* const found = std::lower_bound(
        begin, end, byte, [](const Node& child, uint8_t wanted) { return child.byte < wanted; });
    return found != end && found->byte == byte ? found : nullptr;
  }

  std::vector<Node> nodes_;  // nodes_[0] is the root; children of one node are neighbours
};

}  // namespace outrider
