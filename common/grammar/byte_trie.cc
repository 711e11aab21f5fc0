#include "common/grammar/byte_trie.h"

#include <algorithm>

namespace outrider::grammar {

ByteTrie::ByteTrie(std::vector<std::pair<std::string_view, TokenId>> texts) {
  std::sort(texts.begin(), texts.end());
  std::vector<uint32_t> path = {0};  // nodes of the last text's prefixes
  nodes_.push_back({0, 0, 0, 0});
  ids_.reserve(texts.size());
  std::string_view last;
  const auto leave = [&](size_t depth) {  // keeps the prefixes up to `depth` bytes
    while (path.size() > depth + 1) {
      nodes_[path.back()].end = static_cast<uint32_t>(nodes_.size());
      path.pop_back();
    }
  };
  for (const auto& [text, id] : texts) {
    const size_t shared = static_cast<size_t>(
        std::mismatch(text.begin(), text.end(), last.begin(), last.end()).first - text.begin());
    leave(shared);
    for (size_t pos = shared; pos < text.size(); ++pos) {
      path.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back({0, static_cast<uint32_t>(ids_.size()), static_cast<uint16_t>(pos + 1),
                        static_cast<uint8_t>(text[pos])});
    }
    ids_.push_back(id);
    last = text;
  }
  leave(0);
  nodes_[0].end = static_cast<uint32_t>(nodes_.size());
  nodes_.push_back({0, static_cast<uint32_t>(ids_.size()), 0, 0});
}

}  // namespace outrider::grammar
