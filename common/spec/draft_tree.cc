#include "common/spec/draft_tree.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace outrider {
namespace {

// Its product with any int does not overflow.
constexpr int64_t kMany = int64_t{1} << 31;

Status Reject(int node, const std::string& what) {
  return InvalidArgument("draft node " + std::to_string(node) + ": " + what);
}

// `times`: how often the node itself was sampled.
Status ValidateDraws(const DraftTree& tree, int node, int64_t times, const DraftShape& shape,
                     bool with_distributions, int vocab_size) {
  const std::span<const int32_t> draws = tree.draws(node);
  const DraftDistribution& q = tree.distribution(node);
  if (draws.empty()) {
    return q.ids.empty() && q.weights.empty() ? Status() : Reject(node, "a row without draws");
  }
  if (tree.depth(node) >= shape.length) {
    return Reject(node, "draws at depth " + std::to_string(tree.depth(node)) +
                            ", asked for length " + std::to_string(shape.length));
  }
  const int64_t wanted = times * shape.draws(tree.depth(node));
  const auto count = static_cast<int64_t>(draws.size());
  if (with_distributions ? count != wanted : count > wanted) {
    return Reject(node, std::to_string(count) + " draws, asked for " + std::to_string(wanted));
  }
  if (with_distributions && q.ids.empty()) return Reject(node, "no row for a sampled request");
  if (!with_distributions && !q.ids.empty())
    return Reject(node, "a row for a request without rows");
  std::vector<TokenId> tokens;
  for (const int32_t child : draws) {
    const TokenId token = tokens.emplace_back(tree.token(child));
    if (token < 0 || token >= vocab_size) {
      return Reject(node, "token id " + std::to_string(token) + " is not in the vocabulary");
    }
    if (!with_distributions && std::count(draws.begin(), draws.end(), child) > 1) {
      return Reject(node, "token " + std::to_string(token) + " proposed twice");
    }
  }
  return with_distributions ? Validate(q, tokens, vocab_size) : Status();
}

}  // namespace

int64_t DraftShape::leaves() const {
  int64_t product = 1;
  for (int depth = 0; depth < length && product < kMany; ++depth) product *= draws(depth);
  return product;
}

int64_t DraftShape::total_draws() const {
  int64_t product = 1, sum = 0;
  for (int depth = 0; depth < length && sum < kMany; ++depth) {
    product *= draws(depth);
    sum += product;
  }
  return sum;
}

DraftShape Sequences(int count, int length) {
  return {.length = length, .branching = count == 1 ? std::vector<int>() : std::vector<int>{count}};
}

DraftTree DraftTree::Chain(std::span<const TokenId> tokens,
                           std::vector<DraftDistribution> distributions) {
  OUTRIDER_CHECK(distributions.empty() || distributions.size() == tokens.size());
  DraftTree tree;
  int node = kRoot;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (!distributions.empty()) tree.SetDistribution(node, std::move(distributions[i]));
    node = tree.AddDraw(node, tokens[i]);
  }
  return tree;
}

int DraftTree::AddDraw(int parent, TokenId token) {
  OUTRIDER_CHECK(parent >= 0 && parent <= size());
  int child = Child(parent, token);
  if (child < 0) {
    child = static_cast<int>(nodes_.size());
    const int32_t depth = at(parent).depth + 1;
    nodes_.push_back({.token = token, .parent = parent, .depth = depth});
    max_depth_ = std::max(max_depth_, static_cast<int>(depth));
  }
  at(parent).draws.push_back(child);
  ++total_draws_;
  return child;
}

Status DraftTree::Append(DraftChunk chunk) {
  if (!chunk.parents.empty() && chunk.parents.size() != chunk.tokens.size()) {
    return InvalidArgument(std::to_string(chunk.parents.size()) + " parents for " +
                           std::to_string(chunk.tokens.size()) + " draft tokens");
  }
  std::vector<bool> opened(nodes_.size(), false);  // by this part
  size_t used = 0;
  for (size_t i = 0; i < chunk.tokens.size(); ++i) {
    const int parent = chunk.parents.empty() ? size() : chunk.parents[i];
    if (parent < 0 || parent > size()) {
      return InvalidArgument("draft token " + std::to_string(i) + " after node " +
                             std::to_string(parent) + " of " + std::to_string(size()));
    }
    opened.resize(nodes_.size(), false);
    if (!opened[static_cast<size_t>(parent)]) {
      if (!draws(parent).empty()) {
        return Reject(parent, "draws in two parts");
      }
      opened[static_cast<size_t>(parent)] = true;
      if (!chunk.distributions.empty()) {
        if (used == chunk.distributions.size()) return Reject(parent, "no row");
        SetDistribution(parent, std::move(chunk.distributions[used++]));
      }
    }
    AddDraw(parent, chunk.tokens[i]);
  }
  if (used != chunk.distributions.size()) {
    return InvalidArgument(std::to_string(chunk.distributions.size()) + " draft rows for " +
                           std::to_string(used) + " prefixes");
  }
  return Status();
}

int DraftTree::Child(int node, TokenId token) const {
  for (const int32_t child : draws(node)) {
    if (this->token(child) == token) return child;
  }
  return -1;
}

std::vector<TokenId> DraftTree::Path(int node) const {
  std::vector<TokenId> path(static_cast<size_t>(depth(node)));
  for (size_t i = path.size(); i > 0; --i, node = parent(node)) path[i - 1] = token(node);
  return path;
}

Status Validate(const DraftTree& tree, const DraftShape& shape, bool with_distributions,
                int vocab_size) {
  // Sampled trees have at most a few hundred nodes, so one count per node, parents first, is cheap.
  std::vector<int64_t> times(static_cast<size_t>(tree.size()) + 1, 0);
  times[DraftTree::kRoot] = 1;
  for (int node = 0; node <= tree.size(); ++node) {
    OUTRIDER_TRY(ValidateDraws(tree, node, times[static_cast<size_t>(node)], shape,
                               with_distributions, vocab_size));
    for (const int32_t child : tree.draws(node)) ++times[static_cast<size_t>(child)];
  }
  return Status();
}

}  // namespace outrider
