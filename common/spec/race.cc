#include "common/spec/race.h"

#include <algorithm>
#include <cmath>

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

double Exponential(double coin) { return -std::log1p(-coin); }

// A tile's noise: the smallest of 256 Exp(1) is Exp(256), its place is uniform, and by lack of
// memory every other one is the smallest plus a fresh Exp(1). So a tile that cannot win costs one
// draw.
struct TileNoise {
  TileNoise(uint64_t seed, uint32_t position, size_t tile) {
    const PhiloxBlock bits =
        Philox({{position, static_cast<uint32_t>(tile), static_cast<uint32_t>(Purpose::kRace), 0}},
               static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
    least = Exponential(UnitInterval(bits)) / static_cast<double>(kTile);
    least_at = tile * kTile + bits.word[2] % kTile;
  }
  double least;
  size_t least_at;
};

// The best so far, at most `count`, sorted.
class Podium {
 public:
  explicit Podium(int count) : count_(static_cast<size_t>(count)) {}
  // No later arrival can enter.
  double limit() const { return best_.size() < count_ ? INFINITY : best_.back().time; }
  void Enter(const Arrival& arrival) {
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

}  // namespace

std::vector<TokenId> RaceWinners(std::span<const float> probs, int count, uint64_t seed,
                                 uint32_t position) {
  std::vector<float> largest((probs.size() + kTile - 1) / kTile);
  TileMax(probs, kTile, largest);
  std::vector<TileNoise> noise;
  noise.reserve(largest.size());
  std::vector<Arrival> tiles;  // a lower bound of each tile's arrivals; .token is the tile
  for (size_t tile = 0; tile < largest.size(); ++tile) {
    noise.emplace_back(seed, position, tile);
    if (!(largest[tile] > 0.f)) continue;
    tiles.push_back(
        {noise[tile].least / static_cast<double>(largest[tile]), static_cast<TokenId>(tile)});
  }
  std::sort(tiles.begin(), tiles.end(), Earlier);

  Podium podium(count);
  for (const Arrival& bound : tiles) {
    if (bound.time > podium.limit()) break;
    const auto tile = static_cast<size_t>(bound.token);
    const size_t end = std::min(probs.size(), (tile + 1) * kTile);
    for (size_t x = tile * kTile; x < end; ++x) {
      const auto p = static_cast<double>(probs[x]);
      if (!(p > 0) || noise[tile].least / p > podium.limit()) continue;
      double e = noise[tile].least;
      if (x != noise[tile].least_at) {
        e += Exponential(Coin(seed, position, static_cast<uint32_t>(x), Purpose::kRace, 1));
      }
      podium.Enter({e / p, static_cast<TokenId>(x)});
    }
  }
  return podium.tokens();
}

TokenId RaceWinner(std::span<const float> probs, uint64_t seed, uint32_t position) {
  const std::vector<TokenId> winners = RaceWinners(probs, 1, seed, position);
  return winners.empty() ? -1 : winners[0];
}

}  // namespace outrider
