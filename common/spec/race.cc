#include "common/spec/race.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "common/math/race_noise.h"
#include "common/math/softmax.h"

namespace outrider {
namespace {

constexpr size_t kTile = TileNoise::kTile;

struct Arrival {
  double time = 0;
  TokenId token = -1;
};

bool Earlier(const Arrival& a, const Arrival& b) {
  return a.time != b.time ? a.time < b.time : a.token < b.token;
}

// The first arrivals so far, at most `count`, sorted.
class Podium {
 public:
  explicit Podium(int count) : count_(static_cast<size_t>(count)) {}
  // Later arrivals cannot enter.
  double limit() const { return best_.size() < count_ ? INFINITY : best_.back().time; }
  // Entering a token again changes nothing.
  void Enter(const Arrival& arrival) {
    for (const Arrival& a : best_) {
      if (a.token == arrival.token) return;
    }
    best_.insert(std::upper_bound(best_.begin(), best_.end(), arrival, Earlier), arrival);
    if (best_.size() > count_) best_.pop_back();
  }
  std::vector<TokenId> tokens() const {
    std::vector<TokenId> out;
    for (const Arrival& a : best_) out.push_back(a.token);
    return out;
  }

 private:
  size_t count_;
  std::vector<Arrival> best_;
};

// Likely tokens that run first: most tiles then exceed the limit that they set.
constexpr int kFavourites = 8;

// The entries of a row: either weights or logits.
struct Weights {
  double Weight(float entry) const { return static_cast<double>(entry); }
  // Entries of at least this weight are above it.
  float Below(double weight) const { return static_cast<float>(weight * (1 - 1e-6)); }
};
class Logits {
 public:
  Logits(float max, float temperature)
      : max_(static_cast<double>(max)), inverse_(1 / static_cast<double>(temperature)) {}
  double Weight(float entry) const {
    return std::exp((static_cast<double>(entry) - max_) * inverse_);
  }
  float Below(double weight) const {
    const double entry = max_ + std::log(weight) / inverse_;
    return static_cast<float>(entry - 1e-6 * (1 + std::fabs(entry)));
  }

 private:
  double max_, inverse_;
};

// `largest`: of each tile of `row`.
template <class Scale>
std::vector<TokenId> Race(std::span<const float> row, std::vector<float> largest,
                          const Scale& scale, int count, uint64_t seed, uint32_t position) {
  std::vector<float> most_likely(largest.size());
  for (size_t tile = 0; tile < largest.size(); ++tile) {
    most_likely[tile] = static_cast<float>(scale.Weight(largest[tile]));
  }
  Podium podium(count);
  for (const RowEntry& entry : TopEntries(most_likely, std::max(count, kFavourites))) {
    const auto tile = static_cast<size_t>(entry.id);
    const auto begin = row.begin() + static_cast<std::ptrdiff_t>(tile * kTile);
    const auto x = static_cast<size_t>(std::find(begin, row.end(), largest[tile]) - row.begin());
    const TileNoise noise(seed, position, static_cast<uint32_t>(tile));
    podium.Enter({noise.Of(static_cast<uint32_t>(x), noise.least()) / scale.Weight(largest[tile]),
                  static_cast<TokenId>(x)});
  }
  std::vector<RowEntry> runners;
  for (size_t tile = 0; tile < largest.size(); ++tile) {
    const auto best = static_cast<double>(most_likely[tile]);
    if (!(best > 0)) continue;
    const TileNoise noise(seed, position, static_cast<uint32_t>(tile));
    if (noise.bound() > best * (1 + 1e-6) * podium.limit()) continue;
    // E is at least `least`, so only a token above least / limit can still enter.
    const double least = noise.least();
    runners.clear();
    AppendAbove(row.subspan(tile * kTile, std::min(kTile, row.size() - tile * kTile)),
                scale.Below(least / podium.limit()), runners);
    for (const RowEntry& runner : runners) {
      const size_t x = tile * kTile + static_cast<size_t>(runner.id);
      const double p = scale.Weight(runner.value);
      const double e = noise.Of(static_cast<uint32_t>(x), least, p * podium.limit());
      if (e < INFINITY && p > 0) podium.Enter({e / p, static_cast<TokenId>(x)});
    }
  }
  return podium.tokens();
}

std::vector<float> LargestOfTiles(std::span<const float> row) {
  std::vector<float> largest((row.size() + kTile - 1) / kTile);
  TileMax(row, kTile, largest);
  return largest;
}

}  // namespace

std::vector<TokenId> RaceWinners(std::span<const float> probs, int count, uint64_t seed,
                                 uint32_t position) {
  return Race(probs, LargestOfTiles(probs), Weights(), count, seed, position);
}

TokenId RaceWinner(std::span<const float> probs, uint64_t seed, uint32_t position) {
  const std::vector<TokenId> winners = RaceWinners(probs, 1, seed, position);
  return winners.empty() ? -1 : winners[0];
}

double ArrivalTime(TokenId token, double p, uint64_t seed, uint32_t position) {
  const auto x = static_cast<uint32_t>(token);
  const TileNoise noise(seed, position, x / TileNoise::kTile);
  return noise.Of(x, noise.least()) / p;
}

std::vector<TokenId> RaceWinnersOfLogits(std::span<const float> logits, float temperature,
                                         int count, uint64_t seed, uint32_t position) {
  std::vector<float> largest = LargestOfTiles(logits);
  const float max = RowMax(largest);
  if (!std::isfinite(max)) return {};
  return Race(logits, std::move(largest), Logits(max, temperature), count, seed, position);
}

}  // namespace outrider
