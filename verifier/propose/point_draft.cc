#include "verifier/propose/point_draft.h"

#include <utility>

#include "common/base/check.h"
#include "common/spec/draft_law.h"

namespace outrider {

DraftTree ToDraft(std::span<const TokenId> tokens, DraftKind kind) {
  std::vector<DraftLaw> laws;
  if (kind == DraftKind::kSampled) {
    for (const TokenId token : tokens) laws.push_back({{token}, {kDraftLawTotal}});
  }
  return DraftTree::Chain(tokens, std::move(laws));
}

DraftTree ToDraft(std::span<const std::vector<TokenId>> sequences, DraftKind kind) {
  OUTRIDER_CHECK(kind != DraftKind::kSampled);
  DraftTree tree;
  for (const std::vector<TokenId>& sequence : sequences) {
    int node = DraftTree::kRoot;
    for (const TokenId token : sequence) {
      const int child = tree.Child(node, token);
      node = child >= 0 ? child : tree.AddDraw(node, token);
    }
  }
  return tree;
}

}  // namespace outrider
