#include "common/rules/verify.h"

#include <vector>

#include "common/rules/philox_coins.h"
#include "common/spec/race.h"

namespace outrider {
namespace {

constexpr double kUnit = 1.0 / kDraftLawTotal;
constexpr uint32_t kPointWeight = kDraftLawTotal;

class TreeRound {
 public:
  using Real = float;
  using Weight = uint32_t;

  TreeRound(const DraftTree& tree, const TargetRowFn& target_row, int vocab)
      : tree_(tree), target_row_(target_row), vocab_(vocab) {
    // A point mass is written as a row of one entry; its id must live somewhere.
    for (int node = 0; node <= tree.size(); ++node) {
      const std::span<const int32_t> draws = tree.draws(node);
      point_ids_.push_back(draws.empty() ? -1 : tree.token(draws[0]));
    }
  }

  int vocab() const { return vocab_; }
  std::span<const int32_t> draws(int node) const { return tree_.draws(node); }
  TokenId token(int node) const { return tree_.token(node); }
  int depth(int node) const { return tree_.depth(node); }
  SparseRow<uint32_t> draft(int node) const {
    const DraftLaw& law = tree_.law(node);
    if (law.ids.empty()) return {&point_ids_[static_cast<size_t>(node)], &kPointWeight, 1, kUnit};
    return {law.ids.data(), law.weights.data(), static_cast<int>(law.ids.size()), kUnit};
  }
  const float* target(int node) const {
    const std::span<const float> row = target_row_(node);
    OUTRIDER_CHECK(row.size() == static_cast<size_t>(vocab_));
    return row.data();
  }

 private:
  const DraftTree& tree_;
  const TargetRowFn& target_row_;
  int vocab_;
  std::vector<TokenId> point_ids_;
};

}  // namespace

Verdict VerifyRound(Rule rule, const DraftTree& tree, const TargetRowFn& target_row, int vocab,
                    uint64_t seed, uint32_t round, uint32_t position) {
  if (rule == Rule::kGumbel) {
    return VerifyMatch(tree, [&](int node) {
      return RaceWinner(target_row(node), seed, position + static_cast<uint32_t>(tree.depth(node)));
    });
  }
  TreeRound tree_round(tree, target_row, vocab);
  PhiloxCoins coins(seed, round);
  return Verify(rule, tree_round, coins);
}

FirstTokenAcceptance AcceptanceOfFirstToken(const DraftTree& tree,
                                            std::span<const float> target_row) {
  const auto k = static_cast<int>(tree.draws(DraftTree::kRoot).size());
  if (k == 0) return {};
  const TargetRowFn row = [target_row](int) { return target_row; };
  TreeRound round(tree, row, static_cast<int>(target_row.size()));
  const std::vector<RatioEntry> entries =
      RankEntries(target_row.data(), round.draft(DraftTree::kRoot));
  const auto n = static_cast<int>(entries.size());
  const KSeq kseq = SolveKSeq(entries.data(), n, k);
  return {.kseq = kseq.gain * kseq.beta, .optimum = OptimalAcceptance(entries.data(), n, k)};
}

}  // namespace outrider
