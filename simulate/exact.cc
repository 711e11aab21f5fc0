#include "simulate/exact.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "simulate/round.h"

namespace outrider {
namespace {

constexpr double kMaxCells = 1 << 24;  // of doubles: 128 MiB

// Sequences of n tokens are cells of an array of V^n, numbered in base V with the first token as
// the highest digit.
using Cells = std::vector<double>;

size_t Power(size_t base, size_t exponent) {
  size_t power = 1;
  for (; exponent > 0; --exponent) power *= base;
  return power;
}

// What is kept of the round from one start.
struct RoundDistribution {
  std::vector<double> accepted;  // [g + 1]
  std::map<int, double> next;    // distribution of the start of the next round
  // Distributions of the first tokens, up to the length that a sequence after this start can reach.
  std::vector<Cells> whole;  // [n][cell] Pr(it emits exactly these n tokens)
  // [n][cell] Pr(it emits these n tokens), by the start of the next round
  std::vector<std::vector<int>> after;
  Cells cut;  // Pr(it emits more tokens than that, beginning with these)
};

// The rounds of a generation, each enumerated once, when needed.
class Rounds {
 public:
  explicit Rounds(const Simulation& simulation)
      : simulation_(simulation),
        vocab_(static_cast<size_t>(simulation.pair.vocab)),
        length_(static_cast<size_t>(simulation.shape.length)) {
    for (TokenId last = -1; last < simulation.pair.vocab; ++last) starts_.push_back({last, {}});
  }

  // False if greedy-block had too many runs (each emits once, and costs two of other rules); the
  // figures are then invalid.
  bool complete() const { return !simulation_.greedy_block || 2 * emissions_ <= kMaxExactCost; }

  // The round with this start number; 0: the generation's first.
  const RoundDistribution& Of(int start) {
    const auto index = static_cast<size_t>(start);
    if (distributions_.size() <= index) distributions_.resize(index + 1);
    if (distributions_[index].accepted.empty()) distributions_[index] = Enumerate(start);
    return distributions_[index];
  }

  // The distribution of the next n tokens after a start; n <= g + 1 at the generation's start, else
  // n <= g.
  const Cells& Sequence(int start, size_t n) {
    const auto key = std::pair(start, n);
    if (const auto known = sequences_.find(key); known != sequences_.end()) return known->second;
    Cells out(Power(vocab_, n));
    const auto add_prefixes = [&](const Cells& cells) {
      const size_t surplus = cells.size() / out.size();
      for (size_t cell = 0; cell < cells.size(); ++cell) out[cell / surplus] += cells[cell];
    };
    const RoundDistribution& round = Of(start);
    for (size_t i = 1; i < round.whole.size(); ++i) {
      if (i >= n) {
        add_prefixes(round.whole[i]);
        continue;
      }
      for (size_t cell = 0; cell < round.whole[i].size(); ++cell) {
        const double p = round.whole[i][cell];
        if (p == 0) continue;
        const Cells& rest = Sequence(round.after[i][cell], n - i);
        double* cells = &out[cell * rest.size()];
        for (size_t r = 0; r < rest.size(); ++r) cells[r] += p * rest[r];
      }
    }
    add_prefixes(round.cut);
    return sequences_[key] = std::move(out);
  }

 private:
  // The number of a start; assigns a new one if it has none.
  int Known(const RoundStart& start) {
    if (start.carry.levels.empty()) return start.last + 1;
    std::vector<std::pair<double, int>> levels;
    for (const GreedyCarry::Level& level : start.carry.levels) {
      levels.emplace_back(level.ratio, level.left);
    }
    const auto [it, is_new] =
        numbers_.try_emplace({start.last, std::move(levels)}, static_cast<int>(starts_.size()));
    if (is_new) starts_.push_back(start);
    return it->second;
  }

  RoundDistribution Enumerate(int start) {
    const size_t reach = start == 0 ? length_ + 1 : std::max<size_t>(length_, 1);
    RoundDistribution distribution{.accepted = std::vector<double>(length_ + 1),
                                   .next = {},
                                   .whole = std::vector<Cells>(reach + 1),
                                   .after = std::vector<std::vector<int>>(reach + 1),
                                   .cut = Cells(Power(vocab_, reach))};
    for (size_t n = 1; n <= reach; ++n) {
      distribution.whole[n].resize(Power(vocab_, n));
      distribution.after[n].resize(Power(vocab_, n));
    }
    if (!complete()) return distribution;
    const RoundStart from = starts_[static_cast<size_t>(start)];
    EnumerateRound(simulation_, from,
                   [&](std::span<const TokenId> tokens, int accepted, double probability,
                       const GreedyCarry& carry) {
                     ++emissions_;
                     const int next = Known({.last = tokens.back(), .carry = carry});
                     distribution.accepted[static_cast<size_t>(accepted)] += probability;
                     distribution.next[next] += probability;
                     size_t cell = 0;
                     for (size_t i = 0; i < std::min(tokens.size(), reach); ++i) {
                       cell = cell * vocab_ + static_cast<size_t>(tokens[i]);
                     }
                     if (tokens.size() > reach) {
                       distribution.cut[cell] += probability;
                       return;
                     }
                     distribution.whole[tokens.size()][cell] += probability;
                     distribution.after[tokens.size()][cell] = next;
                   });
    return distribution;
  }

  const Simulation& simulation_;
  const size_t vocab_, length_;
  double emissions_ = 0;
  std::vector<RoundStart> starts_;  // without a carry: by last + 1
  std::map<std::pair<TokenId, std::vector<std::pair<double, int>>>, int> numbers_;
  std::deque<RoundDistribution> distributions_;  // addresses are stable
  std::map<std::pair<int, size_t>, Cells> sequences_;
};

double Mean(const std::vector<double>& distribution) {
  double mean = 0;
  for (size_t i = 0; i < distribution.size(); ++i) mean += static_cast<double>(i) * distribution[i];
  return mean;
}

// [chain] expected tokens emitted by the first 1, 2, .. rounds.
std::vector<double> MeanTokens(Rounds& rounds, int chain) {
  std::vector<double> means;
  std::map<int, double> starts = {{0, 1.0}};
  double mean = 0;
  for (int i = 0; i < chain && rounds.complete(); ++i) {
    std::map<int, double> next;
    for (const auto& [start, p] : starts) {
      const RoundDistribution& round = rounds.Of(start);
      mean += p * (Mean(round.accepted) + 1);
      for (const auto& [after, q] : round.next) next[after] += p * q;
    }
    means.push_back(mean);
    starts = std::move(next);
  }
  return means;
}

Status TooMuch(const Simulation& simulation, const std::string& what) {
  return InvalidArgument("exact: vocab " + std::to_string(simulation.pair.vocab) +
                         " and draft_length " + std::to_string(simulation.shape.length) +
                         " are too many " + what + " to enumerate; sample instead");
}

}  // namespace

Result<SimulationFigures> ExactFigures(const Simulation& simulation) {
  const auto vocab = static_cast<size_t>(simulation.pair.vocab);
  const auto length = static_cast<size_t>(simulation.shape.length);
  const auto starts = static_cast<double>(vocab + 1);
  const double tokens = static_cast<double>(vocab);
  if (starts * std::pow(tokens, std::max<size_t>(length, 1)) + std::pow(tokens, length + 1) >
      kMaxCells) {
    return TooMuch(simulation, "sequences");
  }
  OUTRIDER_TRY(CheckRoundCost(simulation));
  if (!simulation.greedy_block && starts * RoundCost(simulation) > kMaxExactCost) {
    return TooMuch(simulation, "rounds");
  }

  Rounds rounds(simulation);
  SimulationFigures figures;
  figures.accepted_distribution = rounds.Of(0).accepted;
  figures.mean_accepted = Mean(figures.accepted_distribution);
  figures.mean_tokens = MeanTokens(rounds, simulation.chain);
  figures.mean_tokens_error.resize(figures.mean_tokens.size());
  figures.first_token_distribution.resize(vocab);
  const Cells& sequences = rounds.Sequence(0, length + 1);
  if (!rounds.complete()) return TooMuch(simulation, "rounds of greedy-block");
  for (size_t cell = 0; cell < sequences.size(); ++cell) {
    if (sequences[cell] == 0) continue;
    std::vector<TokenId> sequence(length + 1);
    size_t rest = cell;
    for (size_t i = length + 1; i > 0; --i, rest /= vocab) {
      sequence[i - 1] = static_cast<TokenId>(rest % vocab);
    }
    figures.first_token_distribution[static_cast<size_t>(sequence[0])] += sequences[cell];
    figures.sequence_distribution[std::move(sequence)] = sequences[cell];
  }
  return figures;
}

}  // namespace outrider
