#include "client/simulate.h"

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>
#include <vector>

#include "client/simulate_pair.h"
#include "common/math/philox.h"
#include "common/spec/coins.h"
#include "common/spec/draft_law.h"
#include "verifier/rules/enumerate.h"
#include "verifier/rules/verify.h"

namespace outrider {
namespace {

using Tokens = std::vector<TokenId>;

constexpr int kMaxDraftLength = 16;
constexpr double kMaxExactCells = 1 << 24;  // 128 MiB of doubles, a few seconds

struct Report {
  int64_t rounds = 0;
  double mean_accepted = 0;
  double standard_error = 0;
  std::vector<double> first_token_law;
  std::map<Tokens, double> sequence_law;
};

// ---- sampled

uint64_t GenerationSeed(uint64_t seed, uint64_t generation) {
  const PhiloxBlock block =
      Philox({{static_cast<uint32_t>(generation), static_cast<uint32_t>(generation >> 32), 0, 1}},
             static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
  return (static_cast<uint64_t>(block.word[0]) << 32) | block.word[1];
}

// Rows as production holds them, by the token before (index last + 1).
struct WirePair {
  std::vector<std::vector<float>> target;
  std::vector<DraftLaw> draft;
};

WirePair ToWire(const MarkovPair& pair) {
  WirePair wire;
  for (const auto& row : pair.target.rows) wire.target.emplace_back(row.begin(), row.end());
  for (const auto& row : pair.draft.rows) {
    wire.draft.push_back(MakeDraftLaw(std::vector<float>(row.begin(), row.end()),
                                      {.mass = 1.f, .max_entries = pair.vocab}));
  }
  return wire;
}

// One round behind the last of `tokens`: appends what it emits, returns how many drafts stand.
int SampleRound(Rule rule, const WirePair& wire, int draft_length, uint64_t seed, uint32_t round,
                Tokens& tokens) {
  TokenId last = tokens.empty() ? -1 : tokens.back();
  Tokens draft;
  std::vector<DraftLaw> laws;
  std::vector<float> rows;
  const auto add_target_row = [&] {
    const std::vector<float>& row = wire.target[static_cast<size_t>(last + 1)];
    rows.insert(rows.end(), row.begin(), row.end());
  };
  for (int i = 0; i < draft_length; ++i) {
    add_target_row();
    laws.push_back(wire.draft[static_cast<size_t>(last + 1)]);
    last = SampleDraftLaw(laws.back(),
                          Coin(seed, round, static_cast<uint32_t>(i), Purpose::kDraftToken));
    draft.push_back(last);
  }
  add_target_row();
  const int vocab = static_cast<int>(wire.target[0].size());
  const Verdict verdict = VerifyRound(rule, draft, laws, rows, vocab, seed, round);
  tokens.insert(tokens.end(), draft.begin(), draft.begin() + verdict.accepted);
  tokens.push_back(verdict.next);
  return verdict.accepted;
}

Report Sample(const MarkovPair& pair, Rule rule, const SimulateOptions& options) {
  const WirePair wire = ToWire(pair);
  const auto total = static_cast<size_t>(options.draft_length) + 1;
  const auto count = static_cast<double>(options.rounds);
  double sum = 0, squares = 0;
  std::map<Tokens, int64_t> sequences;
  for (int64_t n = 0; n < options.rounds; ++n) {
    const uint64_t seed = GenerationSeed(options.seed, static_cast<uint64_t>(n));
    Tokens tokens;
    for (uint32_t round = 0; tokens.size() < total; ++round) {
      const double accepted = SampleRound(rule, wire, options.draft_length, seed, round, tokens);
      if (round > 0) continue;
      sum += accepted;
      squares += accepted * accepted;
    }
    tokens.resize(total);
    ++sequences[tokens];
  }

  Report report;
  report.rounds = options.rounds;
  report.mean_accepted = sum / count;
  if (options.rounds > 1) {
    const double variance = (squares - sum * report.mean_accepted) / (count - 1);
    report.standard_error = std::sqrt(std::max(variance, 0.0) / count);
  }
  report.first_token_law.resize(static_cast<size_t>(pair.vocab));
  for (const auto& [tokens, times] : sequences) {
    const double frequency = static_cast<double>(times) / count;
    report.sequence_law[tokens] = frequency;
    report.first_token_law[static_cast<size_t>(tokens[0])] += frequency;
  }
  return report;
}

// ---- exact

// Sequences of n tokens are cells of an array of V^n: base V, first token in front.
using Cells = std::vector<double>;

size_t Power(size_t base, size_t exponent) {
  size_t power = 1;
  for (; exponent > 0; --exponent) power *= base;
  return power;
}

// What one round emits: [accepted] is the law of X_1..X_accepted, Y in cells.
using RoundLaw = std::vector<Cells>;

// The draft with number `cell` behind `last`: its rows, and its probability.
struct ExactDraft {
  ExactDraft(const MarkovPair& pair, const Tokens& ids, size_t length, TokenId last, size_t cell) {
    const auto vocab = static_cast<size_t>(pair.vocab);
    tokens.resize(length);
    for (size_t i = length; i > 0; --i, cell /= vocab) {
      tokens[i - 1] = static_cast<TokenId>(cell % vocab);
    }
    for (size_t i = 0; i <= length; ++i) {
      const std::vector<double>& target = pair.target.Row(last);
      target_rows.insert(target_rows.end(), target.begin(), target.end());
      if (i == length) break;
      const std::vector<double>& draft = pair.draft.Row(last);
      draft_rows.push_back({ids.data(), draft.data(), pair.vocab, 1});
      last = tokens[i];
      probability *= draft[static_cast<size_t>(last)];
    }
  }

  Tokens tokens;
  std::vector<SparseRow<double>> draft_rows;
  std::vector<double> target_rows;
  double probability = 1;
};

RoundLaw ExactRound(const MarkovPair& pair, Rule rule, size_t length, TokenId last) {
  const auto vocab = static_cast<size_t>(pair.vocab);
  Tokens ids(vocab);
  for (size_t i = 0; i < vocab; ++i) ids[i] = static_cast<TokenId>(i);
  RoundLaw emitted(length + 1);
  for (size_t i = 0; i <= length; ++i) emitted[i].resize(Power(vocab, i + 1));

  const size_t drafts = Power(vocab, length);
  for (size_t cell = 0; cell < drafts; ++cell) {
    const ExactDraft draft(pair, ids, length, last, cell);
    if (draft.probability == 0) continue;
    const std::vector<double> law = VerdictLaw(
        rule, Round<double, double>{draft.tokens, draft.draft_rows, draft.target_rows, pair.vocab});
    size_t prefix = drafts;  // cell / prefix: the draft's first i tokens
    for (size_t i = 0; i <= length; ++i, prefix /= vocab) {
      double* cells = &emitted[i][cell / prefix * vocab];
      for (size_t x = 0; x < vocab; ++x) cells[x] += draft.probability * law[i * vocab + x];
    }
  }
  return emitted;
}

// The law of the next n tokens where `round` comes first and shorter[m][last + 1] is the law of m
// tokens behind `last`.
Cells ExactSequence(const RoundLaw& round, size_t n, size_t vocab,
                    const std::vector<std::vector<Cells>>& shorter) {
  Cells out(Power(vocab, n));
  for (size_t i = 0; i < round.size(); ++i) {
    const Cells& emitted = round[i];
    if (i + 1 >= n) {
      const size_t surplus = Power(vocab, i + 1 - n);
      for (size_t cell = 0; cell < emitted.size(); ++cell) out[cell / surplus] += emitted[cell];
      continue;
    }
    for (size_t cell = 0; cell < emitted.size(); ++cell) {
      const Cells& rest = shorter[n - i - 1][cell % vocab + 1];
      double* cells = &out[cell * rest.size()];
      for (size_t r = 0; r < rest.size(); ++r) cells[r] += emitted[cell] * rest[r];
    }
  }
  return out;
}

Report Enumerate(const MarkovPair& pair, Rule rule, const SimulateOptions& options) {
  const auto vocab = static_cast<size_t>(pair.vocab);
  const auto length = static_cast<size_t>(options.draft_length);
  std::vector<RoundLaw> rounds;  // by last + 1
  for (TokenId last = -1; last < pair.vocab; ++last) {
    rounds.push_back(ExactRound(pair, rule, length, last));
  }
  std::vector<std::vector<Cells>> shorter(1);
  for (size_t n = 1; n <= length; ++n) {
    std::vector<Cells> laws;
    for (const RoundLaw& round : rounds) laws.push_back(ExactSequence(round, n, vocab, shorter));
    shorter.push_back(std::move(laws));
  }
  const Cells sequences = ExactSequence(rounds[0], length + 1, vocab, shorter);

  Report report;
  for (size_t i = 0; i <= length; ++i) {
    for (const double p : rounds[0][i]) report.mean_accepted += static_cast<double>(i) * p;
  }
  report.first_token_law.resize(vocab);
  for (size_t cell = 0; cell < sequences.size(); ++cell) {
    if (sequences[cell] == 0) continue;
    Tokens tokens(length + 1);
    size_t rest = cell;
    for (size_t i = length + 1; i > 0; --i, rest /= vocab) {
      tokens[i - 1] = static_cast<TokenId>(rest % vocab);
    }
    report.first_token_law[static_cast<size_t>(tokens[0])] += sequences[cell];
    report.sequence_law[std::move(tokens)] = sequences[cell];
  }
  return report;
}

// ---- both

Result<Rule> ParseAlgorithm(const SimulateOptions& options) {
  const Result<Rule> rule = ParseRule(options.algorithm);
  if (!rule.ok()) {
    return InvalidArgument("algorithm \"" + options.algorithm + "\" is none of token, block");
  }
  if (options.drafts != 1) {
    return InvalidArgument("drafts is " + std::to_string(options.drafts) + ", algorithm " +
                           options.algorithm + " verifies 1");
  }
  if (options.draft_length < 0 || options.draft_length > kMaxDraftLength) {
    return InvalidArgument("draft_length is " + std::to_string(options.draft_length) +
                           ", must be from 0 to " + std::to_string(kMaxDraftLength));
  }
  if (!options.exact && options.rounds < 1) {
    return InvalidArgument("rounds is " + std::to_string(options.rounds) + ", must be at least 1");
  }
  return rule;
}

std::string ToJson(const Report& report, const SimulateOptions& options) {
  nlohmann::json sequences = nlohmann::json::object();
  for (const auto& [tokens, probability] : report.sequence_law) {
    std::string name;
    for (const TokenId t : tokens) name += (name.empty() ? "" : ",") + std::to_string(t);
    sequences[name] = probability;
  }
  const nlohmann::json out = {{"algorithm", options.algorithm},
                              {"draft_length", options.draft_length},
                              {"drafts", options.drafts},
                              {"exact", options.exact},
                              {"rounds", report.rounds},
                              {"mean_accepted", report.mean_accepted},
                              {"standard_error", report.standard_error},
                              {"first_token_law", report.first_token_law},
                              {"sequence_law", std::move(sequences)}};
  return out.dump(2);
}

}  // namespace

Result<std::string> Simulate(std::string_view pair_json, const SimulateOptions& options) {
  OUTRIDER_ASSIGN(const Rule rule, ParseAlgorithm(options));
  OUTRIDER_ASSIGN(const MarkovPair pair, ParsePair(pair_json));
  if (!options.exact) return ToJson(Sample(pair, rule, options), options);
  const double cells = (pair.vocab + 1) * std::pow(pair.vocab, options.draft_length + 1);
  if (cells > kMaxExactCells) {
    return InvalidArgument("exact: vocab " + std::to_string(pair.vocab) + " and draft_length " +
                           std::to_string(options.draft_length) +
                           " are too many sequences to enumerate; sample instead");
  }
  return ToJson(Enumerate(pair, rule, options), options);
}

Result<std::string> RunSimulate(const SimulateOptions& options) {
  std::ifstream file(options.pair_path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) {
    return NotFound("cannot read the pair \"" + options.pair_path + "\"");
  }
  const std::string json = text.str();
  Result<std::string> report = Simulate(json, options);
  return report.ok() ? report : report.status().Annotate(options.pair_path);
}

}  // namespace outrider
