// Every verification rule compared with the softmax of the target rows that it visits: one round of
// g = 8, draft rows of 64 entries, over rows like a language model's (Zipf's law with noise; the
// draft is the target with noise on its logits).
//   softmax_us  softmax of the visited rows
//   rule_us     the rule itself on finished rows: everything except the softmax
//   times       (softmax + rule) / softmax: what verification adds to the rows' normalisation; rule
//     / softmax for gumbel, which uses logits
// Run on one core: taskset -c 0 rules_bench
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "common/math/coins.h"
#include "common/math/softmax.h"
#include "common/rules/host_rounds.h"
#include "common/spec/race.h"
#include "tests/bench/bench_support.h"
#include "tests/support/host_rules.h"

namespace outrider {
namespace {

constexpr int kLength = 8;
constexpr int kEntries = 64;
constexpr int kTurns = 200;

// Logits of a row: a shuffled Zipf distribution, so that likely tokens may be anywhere.
std::vector<float> TargetLogits(int vocab, uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::normal_distribution<float> noise(0.f, 0.5f);
  std::vector<float> row(static_cast<size_t>(vocab));
  for (size_t i = 0; i < row.size(); ++i) {
    row[i] = -1.2f * std::log(static_cast<float>(i + 1)) + noise(rng);
  }
  std::shuffle(row.begin(), row.end(), rng);
  return row;
}

std::vector<float> DraftProbs(const std::vector<float>& logits, uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::normal_distribution<float> noise(0.f, 0.7f);
  std::vector<float> row = logits;
  for (float& x : row) x += noise(rng);
  Softmax(row, 1.f);
  return row;
}

struct Rounds {
  std::vector<std::vector<float>>
      logits;  // by depth: all nodes of a depth have the same distribution
  std::vector<std::vector<float>> probs;
  std::vector<DraftTree> trees;
};

// Distinct drafts from the same rows, so that turns differ in what is accepted.
Rounds MakeRounds(Rule rule, int vocab, int k) {
  Rounds rounds;
  std::vector<DraftDistribution> distributions;
  std::vector<std::vector<float>> draft;
  for (int depth = 0; depth <= kLength; ++depth) {
    const auto seed = static_cast<uint64_t>(depth);
    rounds.logits.push_back(TargetLogits(vocab, seed));
    rounds.probs.push_back(rounds.logits.back());
    Softmax(rounds.probs.back(), 1.f);
    draft.push_back(DraftProbs(rounds.logits.back(), ~seed));
    distributions.push_back(
        MakeDraftDistribution(draft.back(), {.mass = 1.f, .max_entries = kEntries}));
  }
  for (uint32_t turn = 0; turn < kTurns; ++turn) {
    DraftTree& tree = rounds.trees.emplace_back();
    std::vector<int> ends(static_cast<size_t>(k), DraftTree::kRoot);
    for (uint32_t depth = 0; depth < kLength; ++depth) {
      std::vector<TokenId> race;
      if (rule == Rule::kGumbel) race = RaceWinners(draft[depth], depth == 0 ? k : 1, turn, depth);
      for (size_t j = 0; j < ends.size(); ++j) {
        const double coin = Coin(turn, 0, depth, Purpose::kDraftToken, static_cast<uint32_t>(j));
        const TokenId token = rule != Rule::kGumbel
                                  ? SampleDraftDistribution(distributions[depth], coin)
                                  : race[depth == 0 ? j : 0];
        if (rule != Rule::kGumbel) tree.SetDistribution(ends[j], distributions[depth]);
        ends[j] = tree.AddDraw(ends[j], token);
      }
    }
  }
  return rounds;
}

void BM_Rule(benchmark::State& state, Rule rule, int vocab, int k) {
  const Rounds rounds = MakeRounds(rule, vocab, k);
  std::vector<float> scratch(static_cast<size_t>(vocab));
  double softmax = 0, verify = 0;
  int64_t turns = 0, visited = 0;
  for (auto _ : state) {
    for (uint32_t turn = 0; turn < kTurns; ++turn) {
      const DraftTree& tree = rounds.trees[turn];
      std::vector<bool> seen(static_cast<size_t>(tree.size()) + 1, false);
      const TargetRowFn ready = [&](int node) -> std::span<const float> {
        seen[static_cast<size_t>(node)] = true;
        return rounds.probs[static_cast<size_t>(tree.depth(node))];
      };
      double begin = CpuSeconds();
      if (rule == Rule::kGumbel) {  // like the engine: logits, no softmax
        benchmark::DoNotOptimize(testing::VerifyMatch(tree, [&](int node) {
          seen[static_cast<size_t>(node)] = true;
          const auto depth = static_cast<uint32_t>(tree.depth(node));
          return RaceWinnersOfLogits(rounds.logits[depth], 1.f, 1, turn, depth)[0];
        }));
      } else {
        benchmark::DoNotOptimize(VerifyRound(rule, tree, ready, vocab, turn, 0, 0));
      }
      verify += CpuSeconds() - begin;
      for (size_t node = 0; node < seen.size(); ++node) {
        if (!seen[node]) continue;
        const auto depth = static_cast<size_t>(tree.depth(static_cast<int>(node)));
        scratch = rounds.logits[depth];
        begin = CpuSeconds();
        Softmax(scratch, 1.f);
        softmax += CpuSeconds() - begin;
        benchmark::DoNotOptimize(scratch.data());
        ++visited;
      }
      ++turns;
    }
  }
  const auto n = static_cast<double>(turns);
  state.counters["softmax_us"] = softmax / n * 1e6;
  state.counters["rule_us"] = verify / n * 1e6;
  state.counters["rows"] = static_cast<double>(visited) / n;
  // Gumbel uses logits, so there is no softmax before it.
  state.counters["times"] = (rule == Rule::kGumbel ? verify : softmax + verify) / softmax;
}

void RegisterAll() {
  for (const RuleTraits& traits : kRuleTraits) {
    const Rule rule = traits.rule;
    for (const int vocab : {32768, 131072}) {
      for (const int k : {1, 4, 8}) {
        if (k > 1 && !traits.takes_many_paths) continue;
        const std::string name = std::string(traits.name) + "/vocab:" + std::to_string(vocab) +
                                 "/k:" + std::to_string(k);
        benchmark::RegisterBenchmark(
            name.c_str(), [=](benchmark::State& state) { BM_Rule(state, rule, vocab, k); })
            ->Unit(benchmark::kMillisecond)
            ->Iterations(1);
      }
    }
  }
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) {
  outrider::RegisterAll();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
