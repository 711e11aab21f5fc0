#include "simulate/round.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/rules/candidates.h"
#include "common/rules/enumerate.h"
#include "common/rules/multipath_block.h"
#include "simulate/race.h"

namespace outrider {
namespace {

using Tokens = std::vector<TokenId>;

// beyond this the closed form is used, in every start's round
constexpr double kMaxRunsOfOneToken = 1 << 10;

// ---- how many runs

bool WalksDown(Rule rule) {
  return rule == Rule::kToken || rule == Rule::kSpecTr || rule == Rule::kMultiRound;
}

// Upper bounds of the enumeration's runs below a node.
class RunCount {
 public:
  explicit RunCount(const Simulation& simulation)
      : rule_(simulation.rule), shape_(simulation.shape) {
    for (const std::vector<double>& row : simulation.pair.draft.rows) {
      const auto drawn = std::count_if(row.begin(), row.end(), [](double q) { return q > 0; });
      tokens_ = std::max(tokens_, static_cast<double>(drawn));
    }
  }

  // Runs below a node at `depth` with k children. j equal children become one node with j times the
  // children of the next depth.
  double After(int depth, int k) {
    if (depth >= shape_.length) return 1;
    const double draws = std::pow(tokens_, k);
    if (draws > kMaxExactCost) return draws;
    const auto [it, is_new] = known_.try_emplace({depth, k}, 0.0);
    if (!is_new) return it->second;
    // Rules that walk down may end here; others choose one of k children in up to k + 2 ways.
    double runs = WalksDown(rule_) ? draws : 0;
    const double choices = WalksDown(rule_) || k == 1 ? k : k + 2;
    // ways in which j - 1 of the others equal one of them
    double ways = std::pow(tokens_ - 1, k - 1);
    for (int j = 1; j <= k; ++j) {
      if (ways > 0) {
        runs += choices * tokens_ * ways * After(depth + 1, j * shape_.draws(depth + 1));
      }
      ways = tokens_ > 1 ? ways * (k - j) / j / (tokens_ - 1) : (j + 1 == k ? 1 : 0);
    }
    return known_[{depth, k}] = runs;
  }

  double Round() {
    const double runs = After(0, shape_.draws(0));
    // The acceptance of a block may end at any depth.
    return WalksDown(rule_) ? runs : runs * (shape_.length + 1);
  }

 private:
  Rule rule_;
  const DraftShape& shape_;
  double tokens_ = 0;  // values that a draft token can have
  std::map<std::pair<int, int>, double> known_;
};

bool HasClosedForm(const Simulation& simulation) {
  return simulation.shape.length == 1 &&
         (simulation.rule == Rule::kSpecTr || simulation.rule == Rule::kMultiRound ||
          simulation.rule == Rule::kMultiPathBlock);
}

bool UsesClosedForm(const Simulation& simulation) {
  return HasClosedForm(simulation) && RunCount(simulation).Round() > kMaxRunsOfOneToken;
}

// ---- the outcomes of a round

EnumeratedPair Enumerable(const MarkovPair& pair) {
  const auto model = [](const MarkovChain& chain) {
    return [&chain](std::span<const TokenId> context) {
      return chain.Row(context.empty() ? -1 : context.back());
    };
  };
  return {.vocab = pair.vocab, .target = model(pair.target), .draft = model(pair.draft)};
}

void EnumerateGreedyBlock(const EnumeratedPair& pair, const DraftShape& shape,
                          std::span<const TokenId> context, const GreedyCarry& before,
                          const EmitFn& emit) {
  Enumeration enumeration;
  do {
    EnumeratedRound round(pair, context, shape, &enumeration);
    EnumeratingCoins coins(&enumeration, /*branch_next=*/true);
    GreedyCarry carry = before;
    const Verdict verdict = VerifyGreedyBlock(round, carry, coins);
    Tokens tokens = round.tree().Path(verdict.node);
    tokens.push_back(verdict.next);
    emit(tokens, verdict.accepted, enumeration.probability(), carry);
  } while (enumeration.Advance());
}

// The target's own tokens are emitted, whatever was drafted; the race tells which are accepted.
void EnumerateRace(const Simulation& simulation, TokenId start, const EmitFn& emit) {
  const MarkovPair& pair = simulation.pair;
  std::map<std::pair<TokenId, int>, std::vector<double>> known;
  Tokens tokens;
  const std::function<void(TokenId, double)> extend = [&](TokenId last, double mass) {
    const auto depth = static_cast<int>(tokens.size());
    const std::vector<double>& target = pair.target.Row(last);
    const bool leaf = depth == simulation.shape.length;
    const int count = leaf ? 0 : simulation.shape.draws(depth);
    std::vector<double>& match = known[{last, count}];
    if (match.empty()) {
      match = leaf ? std::vector<double>(target.size())
                   : RaceMatchDistribution(target, pair.draft.Row(last), count);
    }
    tokens.push_back(-1);
    for (const TokenId x : pair.ids) {
      const auto index = static_cast<size_t>(x);
      tokens.back() = x;
      if (target[index] > match[index]) {
        emit(tokens, depth, mass * (target[index] - match[index]), {});
      }
      if (match[index] > 0) extend(x, mass * match[index]);
    }
    tokens.pop_back();
  };
  extend(start, 1);
}

// A round of one token: what is accepted, entry by entry, then the residual distribution.
void EmitClosedForm(const Simulation& simulation, TokenId last, const EmitFn& emit) {
  const MarkovPair& pair = simulation.pair;
  const int k = simulation.shape.draws(0);
  const std::vector<double>& target = pair.target.Row(last);
  const std::vector<RatioEntry> entries = RankEntries(target.data(), pair.DraftRow(last));
  const auto n = static_cast<int>(entries.size());
  std::vector<double> accepted(entries.size());
  OwnedRow minus = RowOver(entries);  // subtracted from the target to give the residual
  if (simulation.rule == Rule::kSpecTr) {
    const KSeq kseq = SolveKSeq(entries.data(), n, k);
    for (size_t i = 0; i < accepted.size(); ++i) {
      accepted[i] = minus.weights[i] = kseq.gain * kseq.Mass(entries[i].p, entries[i].q);
    }
  } else if (simulation.rule == Rule::kMultiRound) {
    RecursiveRest rest;
    double tried = 1;  // Pr(a trial is reached)
    for (int trial = 0; trial < k; ++trial) {
      double now = 0;
      for (size_t i = 0; i < accepted.size(); ++i) {
        const double mass = entries[i].q * rest.Trial(entries[i].p, entries[i].q);
        accepted[i] += tried * mass;
        now += mass;
      }
      tried *= std::max(1 - now, 0.0);
      rest.Reject(entries.data(), n);
    }
    for (size_t i = 0; i < accepted.size(); ++i) minus.weights[i] = rest.d * entries[i].q;
  } else {
    HostScratch memory;
    const RuleScratch scratch = memory.For(1, n);
    const PathChoice choice = ChooseMix(scratch, OneLane(), entries.data(), n, k);
    for (size_t i = 0; i < accepted.size(); ++i) minus.weights[i] = choice.Mixed(scratch, i);
    for (size_t i = 0; i < accepted.size(); ++i) {
      accepted[i] = std::min(entries[i].p, minus.weights[i]);
    }
  }

  double left = 1;
  for (size_t i = 0; i < accepted.size(); ++i) {
    left -= accepted[i];
    const std::vector<double>& next_row = pair.target.Row(entries[i].id);
    for (const TokenId x : pair.ids) {
      const double p = accepted[i] * next_row[static_cast<size_t>(x)];
      if (p > 0) emit(Tokens{entries[i].id, x}, 1, p, {});
    }
  }
  std::vector<double> distribution(target.size());
  ResidualRow<double>{1, target.data(), pair.vocab, minus.row()}.Distribution(distribution.data());
  for (const TokenId x : pair.ids) {
    const double p = std::max(left, 0.0) * distribution[static_cast<size_t>(x)];
    if (p > 0) emit(Tokens{x}, 0, p, {});
  }
}

}  // namespace

void EnumerateRound(const Simulation& simulation, const RoundStart& start, const EmitFn& emit) {
  if (simulation.rule == Rule::kGumbel) return EnumerateRace(simulation, start.last, emit);
  if (UsesClosedForm(simulation)) return EmitClosedForm(simulation, start.last, emit);
  const EnumeratedPair pair = Enumerable(simulation.pair);
  Tokens context;
  if (start.last >= 0) context.push_back(start.last);
  if (simulation.greedy_block) {
    return EnumerateGreedyBlock(pair, simulation.shape, context, start.carry, emit);
  }
  ForEachEmission(simulation.rule, pair, context, simulation.shape, nullptr,
                  [&](std::span<const TokenId> tokens, int accepted, double probability) {
                    emit(tokens, accepted, probability, {});
                  });
}

double RoundCost(const Simulation& simulation) {
  constexpr double kEmissions = 128;  // as costly as one run of a rule
  const double vocab = simulation.pair.vocab;
  if (simulation.rule == Rule::kGumbel) {
    return std::pow(vocab, simulation.shape.length + 1) / kEmissions;
  }
  if (UsesClosedForm(simulation)) return vocab * vocab / kEmissions;
  const double runs = RunCount(simulation).Round();
  return simulation.greedy_block ? runs * vocab : runs * (1 + vocab / kEmissions);
}

Status CheckRoundCost(const Simulation& simulation) {
  if (simulation.rule == Rule::kGumbel) {
    for (int depth = 0; depth < simulation.shape.length; ++depth) {
      OUTRIDER_TRY(CheckRaceCost(simulation.pair.vocab, simulation.shape.draws(depth)));
    }
  }
  if (RoundCost(simulation) <= kMaxExactCost) return Status();
  return InvalidArgument("exact: " + std::string(AlgorithmName(simulation)) + " with vocab " +
                         std::to_string(simulation.pair.vocab) + ", " +
                         std::to_string(simulation.shape.total_draws()) +
                         " draws a round has too many ways to go to enumerate; sample instead");
}

}  // namespace outrider
