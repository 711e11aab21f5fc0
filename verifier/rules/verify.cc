#include "verifier/rules/verify.h"

#include <vector>

#include "common/base/check.h"
#include "common/spec/coins.h"

namespace outrider {
namespace {

class PhiloxCoins {
 public:
  PhiloxCoins(uint64_t seed, uint32_t round) : seed_(seed), round_(round) {}

  // Coins are in [0, 1), hence "<": probability 0 never passes and probability 1 always does.
  bool Accept(int row, double probability) const {
    return Coin(seed_, round_, static_cast<uint32_t>(row), Purpose::kAccept) < probability;
  }
  template <class Real, class Weight>
  TokenId Next(int row, const ResidualRow<Real, Weight>& law) const {
    return law.Draw(Coin(seed_, round_, static_cast<uint32_t>(row), Purpose::kNextToken));
  }

 private:
  uint64_t seed_;
  uint32_t round_;
};

}  // namespace

Verdict VerifyRound(Rule rule, std::span<const TokenId> tokens, std::span<const DraftLaw> laws,
                    std::span<const float> target_rows, int vocab, uint64_t seed, uint32_t round) {
  OUTRIDER_CHECK(laws.empty() || laws.size() == tokens.size());
  OUTRIDER_CHECK(target_rows.size() == (tokens.size() + 1) * static_cast<size_t>(vocab));
  constexpr uint32_t kPointWeight = kDraftLawTotal;
  std::vector<SparseRow<uint32_t>> draft_rows(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (laws.empty() || laws[i].ids.empty()) {
      draft_rows[i] = {&tokens[i], &kPointWeight, 1, 1.0 / kDraftLawTotal};
    } else {
      draft_rows[i] = {laws[i].ids.data(), laws[i].weights.data(),
                       static_cast<int>(laws[i].ids.size()), 1.0 / kDraftLawTotal};
    }
  }
  PhiloxCoins coins(seed, round);
  return Verify(rule, Round<float, uint32_t>{tokens, draft_rows, target_rows, vocab}, coins);
}

Verdict VerifyGreedy(std::span<const TokenId> tokens, std::span<const TokenId> argmax_rows) {
  OUTRIDER_CHECK(argmax_rows.size() == tokens.size() + 1);
  size_t accepted = 0;
  while (accepted < tokens.size() && tokens[accepted] == argmax_rows[accepted]) ++accepted;
  return {static_cast<int>(accepted), argmax_rows[accepted]};
}

}  // namespace outrider
