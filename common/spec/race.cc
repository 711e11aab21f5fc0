#include "common/spec/race.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "common/math/philox.h"
#include "common/math/softmax.h"
#include "common/spec/coins.h"

namespace outrider {
namespace {

constexpr size_t kTile = 256;

struct Arrival {
  double time = 0;
  TokenId token = -1;
};

bool Earlier(const Arrival& a, const Arrival& b) {
  return a.time != b.time ? a.time < b.time : a.token < b.token;
}

// 1 - coin is exact: coins are multiples of 2^-53.
double Exponential(double coin) { return -std::log(1 - coin); }

// A tile's noise: the smallest of 256 Exp(1) is Exp(256), its place is uniform, and by lack of
// memory every other one is the smallest plus a fresh Exp(1). So a tile that cannot win costs one
// draw.
class TileNoise {
 public:
  TileNoise(uint64_t seed, uint32_t position, size_t tile)
      : seed_(seed),
        position_(position),
        bits_(Philox(
            {{position, static_cast<uint32_t>(tile), static_cast<uint32_t>(Purpose::kRace), 0}},
            static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32))),
        least_at_(tile * kTile + bits_.word[2] % kTile) {}

  // At most least(), without a logarithm.
  double bound() const { return UnitInterval(bits_) / kTile; }
  double least() const { return Exponential(UnitInterval(bits_)) / kTile; }
  // E of a token of the tile; something larger if it is above `limit` (which saves a logarithm: the
  // coin itself is a lower bound).
  double Of(size_t token, double least, double limit = INFINITY) const {
    if (token == least_at_) return least;
    const double coin = Coin(seed_, position_, static_cast<uint32_t>(token), Purpose::kRace, 1);
    return least + coin > limit ? INFINITY : least + Exponential(coin);
  }

 private:
  uint64_t seed_;
  uint32_t position_;
  PhiloxBlock bits_;
  size_t least_at_;
};

// The best so far, at most `count`, sorted.
class Podium {
 public:
  explicit Podium(int count) : count_(static_cast<size_t>(count)) {}
  // No later arrival can enter.
  double limit() const { return best_.size() < count_ ? INFINITY : best_.back().time; }
  // Once a token: another time changes nothing.
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

// Likely tokens that run first: they make the limit that most tiles then fail.
constexpr int kFavourites = 8;

}  // namespace

std::vector<TokenId> RaceWinners(std::span<const float> probs, int count, uint64_t seed,
                                 uint32_t position) {
  std::vector<float> largest((probs.size() + kTile - 1) / kTile);
  TileMax(probs, kTile, largest);
  Podium podium(count);
  for (const RowEntry& entry : TopEntries(largest, std::max(count, kFavourites))) {
    const auto tile = static_cast<size_t>(entry.id);
    const auto begin = probs.begin() + static_cast<std::ptrdiff_t>(tile * kTile);
    const auto x = static_cast<size_t>(std::find(begin, probs.end(), entry.value) - probs.begin());
    const TileNoise noise(seed, position, tile);
    podium.Enter(
        {noise.Of(x, noise.least()) / static_cast<double>(entry.value), static_cast<TokenId>(x)});
  }
  std::vector<RowEntry> runners;
  for (size_t tile = 0; tile < largest.size(); ++tile) {
    const auto most_likely = static_cast<double>(largest[tile]);
    if (!(most_likely > 0)) continue;
    const TileNoise noise(seed, position, tile);
    if (noise.bound() > most_likely * podium.limit()) continue;
    // E is at least `least`: only a token above least / limit can still enter. Rounded down.
    const double least = noise.least();
    const auto threshold = static_cast<float>(least / podium.limit() * (1 - 1e-6));
    runners.clear();
    AppendAbove(probs.subspan(tile * kTile, std::min(kTile, probs.size() - tile * kTile)),
                threshold, runners);
    for (const RowEntry& runner : runners) {
      const size_t x = tile * kTile + static_cast<size_t>(runner.id);
      const auto p = static_cast<double>(runner.value);
      const double e = noise.Of(x, least, p * podium.limit());
      if (e < INFINITY) podium.Enter({e / p, static_cast<TokenId>(x)});
    }
  }
  return podium.tokens();
}

TokenId RaceWinner(std::span<const float> probs, uint64_t seed, uint32_t position) {
  const std::vector<TokenId> winners = RaceWinners(probs, 1, seed, position);
  return winners.empty() ? -1 : winners[0];
}

}  // namespace outrider
