#include "common/math/residual_draw.h"

#include <algorithm>
#include <vector>

#include "common/math/softmax.h"

namespace outrider {
namespace {

// The token of the tile at which the cumulative weights exceed `goal`; the last one with a positive
// weight if they add up to slightly less than the tile's sum in float; -1 if there is none.
TokenId DrawInTile(const ResidualRow<float>& distribution, int begin, double goal) {
  constexpr int kTile = ResidualRow<float>::kTile;
  double weights[kTile];
  const int n = std::min(kTile, distribution.vocab - begin);
  distribution.Tile(begin, n, weights);
  TokenId drawn = -1;
  for (int i = 0; i < n && goal >= 0; ++i) {
    if (weights[i] > 0) drawn = begin + i;
    goal -= weights[i];
  }
  return drawn;
}

}  // namespace

TokenId DrawResidual(const ResidualRow<float>& distribution, double coin) {
  constexpr size_t kTile = ResidualRow<float>::kTile;
  const auto vocab = static_cast<size_t>(distribution.vocab);
  std::vector<float> sums((vocab + kTile - 1) / kTile);
  TileSums({distribution.target, vocab}, kTile, sums);

  // A tile's weight: its share of scale * P minus what the draft's entries remove. An error of 1e-7
  // of a tile must not create a residual.
  std::vector<double> weights(sums.size());
  double rounding = 0;
  for (size_t t = 0; t < sums.size(); ++t) {
    weights[t] = distribution.scale * static_cast<double>(sums[t]);
    rounding += weights[t];
  }
  rounding *= 1e-6;
  for (int i = 0; i < distribution.draft.size; ++i) {
    const TokenId id = distribution.draft.ids[i];
    weights[static_cast<size_t>(id) / kTile] -=
        std::min(distribution.scale * static_cast<double>(distribution.target[id]),
                 distribution.draft.Probability(i));
  }
  double total = 0;
  for (double& w : weights) total += w = std::max(w, 0.0);
  if (!(total > rounding)) return distribution.Draw(coin);  // nearly empty: computed exactly

  const double goal = coin * total;
  double before = 0;
  for (size_t t = 0; t < weights.size(); before += weights[t++]) {
    if (!(before + weights[t] > goal)) continue;
    const TokenId drawn = DrawInTile(distribution, static_cast<int>(t * kTile), goal - before);
    if (drawn >= 0) return drawn;
  }
  return distribution.Draw(coin);
}

}  // namespace outrider
