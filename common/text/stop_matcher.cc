#include "common/text/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace outrider {

StopMatcher::StopMatcher(const std::vector<std::string>& stops) : nodes_(1) {
  for (const std::string& stop : stops) AddStop(stop);
  LinkFallbacks();
}

void StopMatcher::AddStop(std::string_view stop) {
  if (stop.empty()) return;
  int node = 0;
  for (const char c : stop) {
    const auto byte = static_cast<uint8_t>(c);
    const auto next = nodes_[node].next.find(byte);
    if (next != nodes_[node].next.end()) {
      node = next->second;
      continue;
    }
    const int added = static_cast<int>(nodes_.size());
    nodes_[node].next.emplace(byte, added);
    nodes_.push_back({.next = {}, .depth = nodes_[node].depth + 1});
    node = added;
  }
  nodes_[node].stop_size = stop.size();
}

// Breadth first: the fallback of a node is shallower, so it is linked before.
void StopMatcher::LinkFallbacks() {
  std::vector<int> queue = {0};
  for (size_t i = 0; i < queue.size(); ++i) {
    const int parent = queue[i];
    for (const auto& [byte, child] : nodes_[parent].next) {
      Node& node = nodes_[child];
      if (parent != 0) node.fallback = Advance(nodes_[parent].fallback, byte);
      node.stop_size = std::max(node.stop_size, nodes_[node.fallback].stop_size);
      queue.push_back(child);
    }
  }
}

int StopMatcher::Advance(int node, uint8_t byte) const {
  while (true) {
    const auto next = nodes_[node].next.find(byte);
    if (next != nodes_[node].next.end()) return next->second;
    if (node == 0) return 0;
    node = nodes_[node].fallback;
  }
}

StopMatcher::Step StopMatcher::Push(std::string_view text, bool may_stop) {
  if (stopped_) return {"", true};
  for (const char c : text) {
    held_ += c;
    node_ = Advance(node_, static_cast<uint8_t>(c));
    if (const size_t stop_size = nodes_[node_].stop_size; may_stop && stop_size > 0) {
      stopped_ = true;
      std::string stop = held_.substr(held_.size() - stop_size);
      held_.resize(held_.size() - stop_size);
      return {std::exchange(held_, {}), true, std::move(stop)};
    }
  }
  const size_t safe = held_.size() - nodes_[node_].depth;
  Step step{held_.substr(0, safe), false};
  held_.erase(0, safe);
  return step;
}

std::string StopMatcher::Finish() { return std::exchange(held_, {}); }

}  // namespace outrider
