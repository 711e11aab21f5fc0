#include "verifier/propose/point_draft.h"

#include <utility>
#include <vector>

#include "common/spec/draft_distribution.h"

namespace outrider {

DraftTree ToDraft(std::span<const TokenId> tokens, DraftKind kind) {
  std::vector<DraftDistribution> distributions;
  if (kind == DraftKind::kSampled) {
    for (const TokenId token : tokens) distributions.push_back({{token}, {kDraftWeightTotal}});
  }
  return DraftTree::Chain(tokens, std::move(distributions));
}

}  // namespace outrider
