#include "simulate/simulate.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/base/input_file.h"
#include "common/math/kseq.h"
#include "common/rules/candidates.h"
#include "simulate/exact.h"
#include "simulate/figures.h"
#include "simulate/pair.h"
#include "simulate/sample.h"

namespace outrider {
namespace {

constexpr int kDefaultDraftLength = 4;
constexpr int kMaxDraftLength = 16;
constexpr int kMaxDrafts = 16;
constexpr int64_t kMaxDraws = 4096;  // of a tree
constexpr int kMaxChain = 64;

Status CheckRange(const std::string& name, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return Status();
  return InvalidArgument(name + " is " + std::to_string(value) + ", must be from " +
                         std::to_string(least) + " to " + std::to_string(most));
}

Result<DraftShape> ParseShape(const SimulateOptions& options) {
  const auto depth = static_cast<int>(options.tree.size());
  const int length =
      options.draft_length.value_or(options.tree.empty() ? kDefaultDraftLength : depth);
  OUTRIDER_TRY(CheckRange("draft_length", length, 0, kMaxDraftLength));
  OUTRIDER_TRY(CheckRange("paths", options.drafts, 1, kMaxDrafts));
  if (options.tree.empty()) return Sequences(options.drafts, length);
  if (options.drafts != 1) return InvalidArgument("tree and paths exclude each other");
  if (depth != length) {
    return InvalidArgument("tree has " + std::to_string(depth) + " depths, draft_length is " +
                           std::to_string(length));
  }
  for (size_t i = 0; i < options.tree.size(); ++i) {
    OUTRIDER_TRY(CheckRange("tree[" + std::to_string(i) + "]", options.tree[i], 1, kMaxDrafts));
  }
  const DraftShape shape{.length = length, .branching = options.tree};
  if (shape.total_draws() > kMaxDraws) {
    return InvalidArgument("tree has more than " + std::to_string(kMaxDraws) + " draws");
  }
  return shape;
}

Result<Simulation> ParseSimulation(std::string_view pair_json, const SimulateOptions& options) {
  Simulation simulation;
  simulation.greedy_block = options.algorithm == kGreedyBlockName;
  if (!simulation.greedy_block) {
    OUTRIDER_ASSIGN(simulation.rule, ParseRule(options.algorithm));
  }
  OUTRIDER_ASSIGN(simulation.shape, ParseShape(options));
  if (simulation.shape.leaves() > 1 && !TakesManyPaths(simulation.rule)) {
    return InvalidArgument("rule " + options.algorithm + " verifies one path, not " +
                           std::to_string(simulation.shape.leaves()));
  }
  OUTRIDER_TRY(CheckRange("chain", options.chain, 1, kMaxChain));
  simulation.chain = options.chain;
  if (!options.exact && options.rounds < 1) {
    return InvalidArgument("rounds is " + std::to_string(options.rounds) + ", must be at least 1");
  }
  if (options.integer_distributions && simulation.rule == Rule::kGumbel) {
    return InvalidArgument(
        "--integer-law: gumbel's drafts have no distributions, because the race picks them");
  }
  OUTRIDER_ASSIGN(simulation.pair, ParsePair(pair_json));
  if (options.integer_distributions) RoundToIntegers(&simulation.pair.draft);
  return simulation;
}

std::vector<RatioEntry> EntriesOfFirstToken(const MarkovPair& pair) {
  return RankEntries(pair.target.Row(-1).data(), pair.DraftRow(-1));
}

double AlphaOfFirstToken(const Simulation& simulation) {
  if (simulation.shape.length == 0) return 0;
  const std::vector<RatioEntry> entries = EntriesOfFirstToken(simulation.pair);
  return OptimalAcceptance(entries.data(), static_cast<int>(entries.size()),
                           simulation.shape.draws(0));
}

nlohmann::json KSeqOfFirstToken(const Simulation& simulation) {
  const MarkovPair& pair = simulation.pair;
  const std::vector<RatioEntry> entries = EntriesOfFirstToken(pair);
  const KSeq kseq =
      SolveKSeq(entries.data(), static_cast<int>(entries.size()), simulation.shape.draws(0));
  OwnedRow accepted = RowOver(entries);
  for (size_t i = 0; i < entries.size(); ++i) {
    accepted.weights[i] = kseq.gain * kseq.Mass(entries[i].p, entries[i].q);
  }
  std::vector<double> residual(pair.ids.size());
  ResidualRow<double>{1, pair.target.Row(-1).data(), pair.vocab, accepted.row()}.Distribution(
      residual.data());
  return {{"rho", kseq.rho}, {"beta", kseq.beta}, {"residual", residual}};
}

std::string ToJson(const Simulation& simulation, const SimulationFigures& figures,
                   const SimulateOptions& options) {
  nlohmann::json sequences = nlohmann::json::object();
  for (const auto& [tokens, probability] : figures.sequence_distribution) {
    std::string name;
    for (const TokenId t : tokens) name += (name.empty() ? "" : ",") + std::to_string(t);
    sequences[name] = probability;
  }
  double acceptance = 0;
  for (size_t i = 1; i < figures.accepted_distribution.size(); ++i) {
    acceptance += figures.accepted_distribution[i];
  }
  nlohmann::json out = {{"algorithm", options.algorithm},
                        {"draft_length", simulation.shape.length},
                        {"drafts", simulation.shape.leaves()},
                        {"exact", options.exact},
                        {"rounds", figures.rounds},
                        {"mean_accepted", figures.mean_accepted},
                        {"standard_error", figures.standard_error},
                        {"accepted_law", figures.accepted_distribution},
                        {"acceptance_first_token", acceptance},
                        {"alpha_first_token", AlphaOfFirstToken(simulation)},
                        {"mean_tokens", figures.mean_tokens},
                        {"mean_tokens_error", figures.mean_tokens_error},
                        {"first_token_law", figures.first_token_distribution},
                        {"sequence_law", std::move(sequences)}};
  if (!options.tree.empty()) out["tree"] = options.tree;
  if (simulation.rule == Rule::kSpecTr && simulation.shape.length > 0) {
    out["kseq"] = KSeqOfFirstToken(simulation);
  }
  return out.dump(2);
}

}  // namespace

std::vector<std::string> AlgorithmNames() {
  std::vector<std::string> names;
  for (const RuleTraits& rule : kRuleTraits) names.emplace_back(rule.name);
  names.emplace_back(kGreedyBlockName);
  return names;
}

Result<std::string> Simulate(std::string_view pair_json, const SimulateOptions& options) {
  OUTRIDER_ASSIGN(const Simulation simulation, ParseSimulation(pair_json, options));
  if (options.exact) {
    OUTRIDER_ASSIGN(const SimulationFigures figures, ExactFigures(simulation));
    return ToJson(simulation, figures, options);
  }
  return ToJson(
      simulation,
      SampleFigures(simulation, options.rounds, options.seed, options.integer_distributions),
      options);
}

Result<std::string> RunSimulate(const SimulateOptions& options) {
  OUTRIDER_ASSIGN(const std::string text, ReadFile(options.pair_path, kMaxPromptFileBytes));
  Result<std::string> report = Simulate(text, options);
  return report.ok() ? report : report.status().Annotate(options.pair_path);
}

}  // namespace outrider
