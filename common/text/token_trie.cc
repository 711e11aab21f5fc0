#include "common/text/token_trie.h"

#include <cstddef>

namespace outrider {

TokenTrie::TokenTrie(const std::vector<std::pair<std::string_view, TokenId>>& tokens) : nodes_(1) {
  std::vector<std::pair<std::string_view, TokenId>> sorted = tokens;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  // The tokens below a node, which share its first `depth` bytes.
  struct Range {
    size_t begin, end, depth;
  };
  std::vector<Range> ranges = {{0, sorted.size(), 0}};  // by node
  for (size_t node = 0; node < nodes_.size(); ++node) {
    Range range = ranges[node];
    for (; range.begin < range.end && sorted[range.begin].first.size() == range.depth;
         ++range.begin) {
      nodes_[node].id = sorted[range.begin].second;
    }
    nodes_[node].first_child = static_cast<uint32_t>(nodes_.size());
    while (range.begin < range.end) {
      const char byte = sorted[range.begin].first[range.depth];
      size_t end = range.begin;
      while (end < range.end && sorted[end].first[range.depth] == byte) ++end;
      nodes_.push_back({.byte = static_cast<uint8_t>(byte)});
      ++nodes_[node].children;
      ranges.push_back({range.begin, end, range.depth + 1});
      range.begin = end;
    }
  }
}

}  // namespace outrider
