// Tokens per round of every rule on a real pair, and the size of a draft on the wire: engine and
// drafter in one process (tests/support/local_pair.h), the same prompts and seeds for every
// setting. Texts end where the target ends them, or at --max-tokens. It only counts, and its clock
// does not advance, so that no draft is ever late: it may run on a busy machine.
//
//   efficiency_bench --rules                tokens per round by rule, sequences and length
//   efficiency_bench --wire                 by entries of a draft row: tokens per round, bytes
//   efficiency_bench --stop-rules           by stop rule and threshold: tokens per round, tokens
//                                           discarded and verifications per token (SpecDec++, 2.1)
//
// Prints Markdown. Standard errors are over requests, each of which is a mean of its rounds.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "common/backend/cpu/cpu_backend.h"
#include "common/base/log.h"
#include "common/model/acceptance_head.h"
#include "common/model/transformer.h"
#include "tests/support/fake_clock.h"
#include "tests/support/local_pair.h"
#include "tests/support/text_probabilities.h"

namespace outrider {
namespace {

constexpr int kKvPages = 16384;
constexpr int kBatchTokens = 1024;
constexpr int kConcurrency = 8;  // requests

struct Options {
  std::string target = OUTRIDER_SOURCE_DIR "/models/default/target";
  std::string drafter = OUTRIDER_SOURCE_DIR "/models/default/drafter";
  std::string prompts = OUTRIDER_SOURCE_DIR "/models/default/prompts.jsonl";
  int repetitions = 1;
  int max_tokens = 240;
  float temperature = 1;
  bool rules = false;
  bool wire = false;
  bool stop_rules = false;
};

struct Setting {
  Rule rule = Rule::kBlock;
  int paths = 1;
  int length = 4;
  DraftDistributionLimits distribution_limits;
  StopRule stop = {};
};

class CollectingSink final : public GenerationSink {
 public:
  void Send(Chunk chunk) override {
    tokens.insert(tokens.end(), chunk.tokens.begin(), chunk.tokens.end());
    if (chunk.drafted > 0) of_drafted_rounds += static_cast<double>(chunk.tokens.size());
  }
  void Finish(const Summary& s) override { summary = s; }
  void Fail(const Status& status) override {
    std::fprintf(stderr, "efficiency_bench: %s\n", status.ToString().c_str());
    std::exit(1);
  }
  Summary summary;
  std::vector<TokenId> tokens;
  double of_drafted_rounds = 0;  // tokens
};

struct Outcome {
  double per_round = 0;  // tokens of rounds with a draft, divided by these rounds
  double length = 0;     // draft tokens of these rounds
  double accepted = 0;   // of them
  double standard_error = 0;
  std::vector<double> influence;  // of each request on per_round; their squares sum to the variance
  double bytes_per_accepted = 0;
  std::vector<std::vector<TokenId>> texts;  // by prompt, repetition after repetition
};

struct Bench {
  Options options;
  std::unique_ptr<Model> target, drafter;
  std::unique_ptr<Tokenizer> tokenizer;
  std::optional<AcceptanceHead> head;
  std::vector<std::vector<TokenId>> prompts;

  Outcome Run(const Setting& setting) const {
    const testing::FakeClock clock;
    testing::LocalPairOptions pair_options{.distribution_limits = setting.distribution_limits};
    pair_options.engine.admission.max_waiting = 1 << 20;
    pair_options.engine.admission.max_waiting_per_client = 1 << 20;
    pair_options.engine.admission.max_running = kConcurrency;
    pair_options.engine.scheduler.token_budget = kBatchTokens;
    pair_options.drafter.max_step_tokens = kBatchTokens;
    pair_options.drafter.chunk_depths = 16;  // one message per draft
    pair_options.drafter.head = head.has_value() ? &*head : nullptr;
    testing::LocalPair pair(pair_options, target.get(), drafter.get(), tokenizer.get(), &clock);
    std::vector<std::shared_ptr<CollectingSink>> sinks;
    uint64_t id = 0;
    for (int repetition = 0; repetition < options.repetitions; ++repetition) {
      for (const std::vector<TokenId>& prompt : prompts) {
        ++id;
        GenerationRequest request{.prompt = prompt,
                                  .sampling = {.temperature = options.temperature},
                                  .max_tokens = options.max_tokens,
                                  .seed = id,
                                  .speculation = {.rule = setting.rule,
                                                  .draft_length = setting.length,
                                                  .paths = setting.paths,
                                                  .stop = setting.stop}};
        sinks.push_back(std::make_shared<CollectingSink>());
        const Status status = pair.engine().Submit(id, std::move(request), sinks.back());
        if (!status.ok()) sinks.back()->Fail(status);
      }
    }
    while (!pair.engine().idle()) pair.Run();

    // A ratio of sums; its standard error by linearisation over requests.
    double tokens = 0, rounds = 0, accepted = 0, drafted = 0;
    for (const auto& sink : sinks) {
      rounds += sink->summary.drafted_rounds;
      tokens += sink->of_drafted_rounds;
      accepted += sink->summary.accepted_tokens;
      drafted += sink->summary.drafted_tokens;
    }
    Outcome outcome{
        .per_round = tokens / rounds, .length = drafted / rounds, .accepted = accepted / rounds};
    double squares = 0;
    for (const auto& sink : sinks) {
      const double mine =
          sink->of_drafted_rounds - outcome.per_round * sink->summary.drafted_rounds;
      outcome.influence.push_back(mine / rounds);
      squares += mine * mine;
    }
    outcome.standard_error = std::sqrt(squares) / rounds;
    outcome.bytes_per_accepted = static_cast<double>(pair.draft_bytes()) / accepted;
    for (const auto& sink : sinks) outcome.texts.push_back(std::move(sink->tokens));
    return outcome;
  }
};

void Progress(const std::string& what) { std::fprintf(stderr, "%s\n", what.c_str()); }

// b over a on the same requests, in standard errors of their difference: prompts differ much more
// than rules do, and cancel out.
std::string Gain(const Outcome& a, const Outcome& b) {
  double squares = 0;
  for (size_t i = 0; i < a.influence.size(); ++i) {
    const double d = b.influence[i] - a.influence[i];
    squares += d * d;
  }
  char text[64];
  std::snprintf(text, sizeof text, "%+.1f %% (%+.1f)", 100 * (b.per_round / a.per_round - 1),
                (b.per_round - a.per_round) / std::sqrt(squares));
  return text;
}

void PrintRules(const Bench& bench) {
  constexpr Rule kRules[] = {Rule::kToken,  Rule::kBlock,          Rule::kMultiRound,
                             Rule::kSpecTr, Rule::kMultiPathBlock, Rule::kGumbel};
  constexpr int kPaths[] = {1, 2, 4, 8};
  constexpr int kLengths[] = {4, 8};
  std::map<std::tuple<Rule, int, int>, Outcome> outcomes;
  std::printf("| rule | k | g = 4 | g = 8 |\n|---|---|---|---|\n");
  for (const Rule rule : kRules) {
    for (const int k : kPaths) {
      if (k > 1 && !TakesManyPaths(rule)) continue;
      const std::string name(RuleName(rule));
      std::printf("| %s | %d |", name.c_str(), k);
      for (const int g : kLengths) {
        Progress(name + " k=" + std::to_string(k) + " g=" + std::to_string(g));
        Outcome& o = outcomes[{rule, k, g}];
        o = bench.Run({.rule = rule, .paths = k, .length = g, .distribution_limits = {}});
        std::printf(" %.3f ± %.3f |", o.per_round, o.standard_error);
        std::fflush(stdout);
      }
      std::printf("\n");
    }
  }
  std::printf("\n| | k | g = 4 | g = 8 |\n|---|---|---|---|\n");
  const auto compare = [&](const char* what, Rule a, int ka, Rule b, int kb) {
    std::printf("| %s | %d |", what, kb);
    for (const int g : kLengths) {
      std::printf(" %s |", Gain(outcomes[{a, ka, g}], outcomes[{b, kb, g}]).c_str());
    }
    std::printf("\n");
  };
  compare("block over token", Rule::kToken, 1, Rule::kBlock, 1);
  for (const int k : {2, 4, 8}) {
    compare("multi-path block over SpecTr", Rule::kSpecTr, k, Rule::kMultiPathBlock, k);
    compare("multi-path block over block", Rule::kBlock, 1, Rule::kMultiPathBlock, k);
    compare("SpecTr over block", Rule::kBlock, 1, Rule::kSpecTr, k);
    compare("SpecTr over multi-round", Rule::kMultiRound, k, Rule::kSpecTr, k);
    compare("SpecTr over its own k = 1", Rule::kSpecTr, 1, Rule::kSpecTr, k);
  }
}

// The probability that a token drawn from `sent` is accepted under rule token: the sum of min(p,
// q).
double AcceptanceOf(std::span<const float> p, const DraftDistribution& sent) {
  double sum = 0;
  for (size_t entry = 0; entry < sent.ids.size(); ++entry) {
    sum += std::min<double>(p[static_cast<size_t>(sent.ids[entry])],
                            sent.weights[entry] / double{kDraftWeightTotal});
  }
  return sum;
}

// Tokens of a round of four draft tokens by limits of their distributions, under rule token from
// each position of given texts. It has no luck of the draw, so a loss of a thousandth shows.
// REQUIRES: temperature > 0.
std::vector<double> EstimatePerRound(const Bench& bench,
                                     const std::vector<std::vector<TokenId>>& texts,
                                     std::span<const DraftDistributionLimits> limits) {
  std::vector<double> tokens(limits.size());
  double rounds = 0;
  for (size_t text = 0; text < texts.size(); ++text) {
    std::vector<TokenId> all = bench.prompts[text % bench.prompts.size()];
    const size_t prompt = all.size();
    all.insert(all.end(), texts[text].begin(), texts[text].end());
    const auto p = testing::TextProbabilities(*bench.target, all, bench.options.temperature);
    const auto q = testing::TextProbabilities(*bench.drafter, all, bench.options.temperature);
    rounds += static_cast<double>(texts[text].size());
    for (size_t l = 0; l < limits.size(); ++l) {
      std::array<double, 4> kept{};  // accepted tokens of a draft of 1 to 4 from here
      for (size_t i = all.size() - 1; i-- + 1 > prompt;) {
        // Nothing follows the last token.
        const double accepted =
            i + 2 == all.size() ? 0 : AcceptanceOf(p[i], MakeDraftDistribution(q[i], limits[l]));
        for (size_t g = 3; g > 0; --g) kept[g] = accepted * (1 + kept[g - 1]);
        kept[0] = accepted;
        tokens[l] += 1 + kept[3];
      }
    }
  }
  for (double& t : tokens) t /= rounds;
  return tokens;
}

void PrintWire(const Bench& bench) {
  const int vocab = bench.target->config().vocab_size;
  constexpr int kEntries[] = {8, 16, 32, 64, 256};
  std::vector<DraftDistributionLimits> limits;
  for (const int entries : kEntries) limits.push_back({.max_entries = entries});
  limits.push_back({.mass = 1, .max_entries = vocab});
  std::vector<double> estimates;
  std::printf("| entries | tokens per round | by estimate | bytes per accepted token |\n");
  std::printf("|---|---|---|---|\n");
  for (size_t l = 0; l < limits.size(); ++l) {
    const int entries = limits[l].max_entries;
    Progress("entries " + std::to_string(entries));
    const Outcome o = bench.Run({.length = 4, .distribution_limits = limits[l]});
    std::printf("| %s | %.3f ± %.3f |", entries == vocab ? "all" : std::to_string(entries).c_str(),
                o.per_round, o.standard_error);
    if (bench.options.temperature > 0) {
      if (l == 0) estimates = EstimatePerRound(bench, o.texts, limits);
      std::printf(" %.3f |", estimates[l]);
    } else {
      std::printf(" - |");
    }
    std::printf(" %.0f |\n", o.bytes_per_accepted);
    std::fflush(stdout);
  }
}

// D is the number of draft tokens discarded, V the number of target passes, both per emitted token.
// Neither depends on the duration of a pass; with t, the time of a draft pass over that of a target
// pass, and L draft tokens a round a token costs (t L + 1) V target passes.
void PrintStopRules(const Bench& bench) {
  constexpr int kMax = 16;  // for rules that stop by themselves
  constexpr double kRatios[] = {0.05, 0.1, 0.2};
  std::printf("| stop rule | draft tokens per round | tokens per round | D | V |");
  for (const double t : kRatios) std::printf(" t = %.2f |", t);
  std::printf("\n|---|---|---|---|---|---|---|---|\n");
  const auto print = [&](const std::string& name, const Setting& setting) {
    Progress(name);
    const Outcome o = bench.Run(setting);
    const double v = 1 / o.per_round, d = (o.length - o.accepted) * v;
    std::printf("| %s | %.2f | %.3f ± %.3f | %.3f | %.3f |", name.c_str(), o.length, o.per_round,
                o.standard_error, d, v);
    for (const double t : kRatios) std::printf(" %.3f |", (t * o.length + 1) * v);
    std::printf("\n");
    std::fflush(stdout);
  };
  for (const int g : {2, 3, 4, 6, 8, 12}) {
    print("length " + std::to_string(g), {.length = g, .distribution_limits = {}});
  }
  const auto sweep = [&](StopRule::Kind kind, std::initializer_list<float> thresholds) {
    for (const float threshold : thresholds) {
      char name[64];
      std::snprintf(name, sizeof name, "%s %.2f", std::string(StopRuleName(kind)).c_str(),
                    static_cast<double>(threshold));
      print(name, {.length = kMax,
                   .distribution_limits = {},
                   .stop = {.kind = kind, .threshold = threshold}});
    }
  };
  sweep(StopRule::Kind::kConfidence, {0.2f, 0.3f, 0.4f, 0.5f, 0.6f, 0.8f});
  sweep(StopRule::Kind::kEntropy, {0.5f, 1.f, 1.5f, 2.f, 2.5f});
  if (bench.head.has_value()) {
    sweep(StopRule::Kind::kHead, {0.2f, 0.3f, 0.4f, 0.5f, 0.6f, 0.7f, 0.8f});
  }
}

template <class T>
T Must(Result<T> result) {
  if (result.ok()) return std::move(result).value();
  std::fprintf(stderr, "efficiency_bench: %s\n", result.status().ToString().c_str());
  std::exit(1);
}

std::unique_ptr<Model> LoadModelAt(const std::string& directory) {
  return Must(LoadModel(directory, Must(CreateCpuBackend({.threads = 1})),
                        {.kv_pages = kKvPages, .max_batch_tokens = kBatchTokens}));
}

int Main(int argc, char** argv) {
  Bench bench;
  Options& o = bench.options;
  CLI::App app("Tokens per round of every rule, and bytes per accepted token");
  app.add_flag("--rules", o.rules, "The table of rules");
  app.add_flag("--wire", o.wire, "The table of draft row sizes");
  app.add_flag("--stop-rules", o.stop_rules, "The table of stop rules");
  app.add_option("--target", o.target, "Directory of the target");
  app.add_option("--drafter", o.drafter, "Directory of the drafter");
  app.add_option("--prompts", o.prompts, "Lines of {\"prompt\": ...}");
  app.add_option("--repetitions", o.repetitions, "Seeds per prompt");
  app.add_option("--max-tokens", o.max_tokens, "Tokens per request");
  app.add_option("--temperature", o.temperature, "Of every request");
  CLI11_PARSE(app, argc, argv);
  SetLogLevel(LogLevel::kWarning);
  bench.target = LoadModelAt(o.target);
  bench.drafter = LoadModelAt(o.drafter);
  const std::filesystem::path head = std::filesystem::path(o.drafter) / kAcceptanceHeadFile;
  if (std::filesystem::exists(head)) {
    bench.head = Must(AcceptanceHead::Load(head, bench.drafter->config().hidden_size));
  }
  bench.tokenizer = Must(Tokenizer::Load(o.target));
  std::ifstream file(o.prompts);
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line);
    std::vector<TokenId> prompt = bench.tokenizer->prompt_prefix();
    const std::vector<TokenId> ids =
        Must(bench.tokenizer->Encode(json.at("prompt").get<std::string>(), false));
    prompt.insert(prompt.end(), ids.begin(), ids.end());
    bench.prompts.push_back(std::move(prompt));
  }
  if (o.rules) PrintRules(bench);
  if (o.wire) PrintWire(bench);
  if (o.stop_rules) PrintStopRules(bench);
  return 0;
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) { return outrider::Main(argc, argv); }
