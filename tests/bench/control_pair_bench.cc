// What the controller makes of the default pair, by domain: production code decodes recorded texts
// (tests/support/recorded_texts.h) on simulated clocks, so that times are exact and a busy machine
// changes nothing. Every fixed plan and the controller decode the same texts.
//
//   control_pair_bench                 speeds over plain decoding and tokens a round, by plan;
//                                      the controller's over the best fixed plan's, and its arms
//   control_pair_bench --record FILE   records the texts with the models (a minute)
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/backend/cpu/cpu_backend.h"
#include "common/base/log.h"
#include "common/model/transformer.h"
#include "tests/support/recorded_texts.h"
#include "tests/support/text_probabilities.h"

namespace outrider {
namespace {

using testing::DecodingSums;
using testing::PairCosts;
using testing::RecordedRun;
using testing::RecordedText;
using testing::TimedPair;
using testing::WaySums;

constexpr char kPair[] = OUTRIDER_SOURCE_DIR "/models/default";
constexpr char kTexts[] = OUTRIDER_SOURCE_DIR "/tests/control/recorded_texts.jsonl";
constexpr double kTemperatures[] = {0, 0.8};

template <class T>
T Must(Result<T> result) {
  if (result.ok()) return std::move(result).value();
  std::fprintf(stderr, "control_pair_bench: %s\n", result.status().ToString().c_str());
  std::exit(1);
}

struct Pair {
  std::unique_ptr<Tokenizer> tokenizer = Must(Tokenizer::Load(std::string(kPair) + "/target"));
  std::unique_ptr<Model> target = Load("/target");
  std::unique_ptr<Model> drafter = Load("/drafter");

  static std::unique_ptr<Model> Load(const std::string& folder) {
    return Must(LoadModel(kPair + folder, Must(CreateCpuBackend({.threads = 1})),
                          {.kv_pages = 4096, .max_batch_tokens = 512}));
  }
};

// Adds what the drafter proposes along the text.
void RecordDrafter(Pair& pair, RecordedText* text) {
  std::vector<TokenId> tokens = text->prompt;
  tokens.insert(tokens.end(), text->text.begin(), text->text.end() - 1);
  const auto p = testing::TextProbabilities(*pair.target, tokens, text->temperature);
  const auto q = testing::TextProbabilities(*pair.drafter, tokens, text->temperature);
  for (size_t i = 0; i < text->text.size(); ++i) {
    const size_t index = text->prompt.size() - 1 + i;
    const auto likely = std::max_element(q[index].begin(), q[index].end());
    double accepted = likely - q[index].begin() == text->text[i] ? 1 : 0;
    if (text->temperature > 0) accepted = testing::AcceptanceOf(p[index], q[index]);
    text->accepted.push_back(static_cast<int>(std::lround(100 * accepted)));
    text->confidence.push_back(static_cast<int>(std::lround(100 * *likely)));
  }
}

void Record(const std::string& path) {
  Pair pair;
  std::vector<RecordedText> texts;
  for (const double temperature : kTemperatures) {
    testing::TimedPairOptions options = testing::PairOf("plain", PairCosts(), /*seed=*/1);
    TimedPair timed(options, pair.target.get(), pair.drafter.get(), pair.tokenizer.get());
    std::ifstream file(std::string(kPair) + "/prompts.jsonl");
    for (std::string line; std::getline(file, line);) {
      const auto json = nlohmann::json::parse(line);
      RecordedText text{.domain = json.at("domain"), .temperature = temperature};
      text.prompt = pair.tokenizer->prompt_prefix();
      const auto ids = Must(pair.tokenizer->Encode(json.at("prompt").get<std::string>(), false));
      text.prompt.insert(text.prompt.end(), ids.begin(), ids.end());
      GenerationRequest request{.prompt = text.prompt, .max_tokens = json.at("max_tokens")};
      request.sampling.temperature = static_cast<float>(temperature);
      request.speculation.enabled = false;
      const auto answers = timed.Run({request}, 1);
      text.text = answers[0].tokens;
      if (answers[0].summary.reason == FinishReason::kStop &&
          (text.text.empty() || text.text.back() != pair.target->config().eos_token_ids[0])) {
        text.text.push_back(pair.target->config().eos_token_ids[0]);
      }
      RecordDrafter(pair, &text);
      texts.push_back(std::move(text));
    }
  }
  testing::WriteRecordedTexts(texts, path);
}

struct Table {
  std::vector<std::string> ways;
  double plain = 0;  // tokens a second

  void Print(const std::string& domain, std::map<std::string, WaySums>& sums) const {
    WaySums best;  // of the fixed plan that is fastest over all requests
    std::printf("%-10s", domain.c_str());
    for (const std::string& way : ways) {
      const DecodingSums& all = sums[way].all;
      std::printf(" %4.2f/%-5.2f", all.speed() / plain, all.tokens / all.rounds);
      if (!IsChosen(way) && !(all.speed() <= best.all.speed())) best = sums[way];
    }
    std::printf("\n");
    for (const std::string& way : ways) {
      if (!IsChosen(way)) continue;
      const WaySums& of = sums[way];
      std::printf("  %-8s over best fixed %.3f, first request %.3f, after ten %.3f;", way.c_str(),
                  of.all.speed() / best.all.speed(), of.first.speed() / best.first.speed(),
                  of.later.speed() / best.later.speed());
      for (const auto& [arm, rounds] : of.all.arms) {
        const double share = 100.0 * rounds / of.all.rounds;
        if (share >= 0.5) std::printf(" %s %.0f", arm.c_str(), share);
      }
      std::printf("\n");
    }
  }
  static bool IsChosen(const std::string& way) { return way == "alone" || way == "adaptive"; }
};

int Main(int argc, char** argv) {
  std::vector<std::string> ways = {"1", "2",      "3",      "4",     "5",       "6",
                                   "8", "lookup", "suffix", "alone", "adaptive"};
  RecordedRun run;
  std::string record;
  bool mix = false;
  double scale = 1;
  CLI::App app("The controller's speed on recorded texts of the default pair");
  app.add_option("--record", record, "Record the texts into this file");
  app.add_option("--ways", ways, "Draft lengths, lookup, suffix, alone, adaptive, fixed:ARM,..");
  app.add_option("--starts", run.starts, "Fresh verifiers");
  app.add_option("--rounds", run.rounds, "Times that each of them decodes the texts");
  app.add_option("--requests", run.requests, "The most requests to each of them; 0: all");
  app.add_option("--concurrency", run.concurrency, "Requests at once");
  app.add_option("--drafter-times", scale, "Multiplies the drafter's and the network's times");
  app.add_flag("--mix", mix, "All domains at one verifier, else one each");
  CLI11_PARSE(app, argc, argv);
  SetLogLevel(LogLevel::kWarning);
  if (!record.empty()) return Record(record), 0;
  run.costs.drafter.first_row *= scale;
  run.costs.drafter.further_row *= scale;
  run.costs.one_way *= scale;
  const auto tokenizer = Must(Tokenizer::Load(std::string(kPair) + "/target"));
  const std::vector<TokenId> eos = {4095};
  const Table table{.ways = ways, .plain = 1 / run.costs.target.first_row};
  const std::vector<RecordedText> texts = testing::ReadRecordedTexts(kTexts);
  for (const double temperature : kTemperatures) {
    std::map<std::string, std::vector<RecordedText>> groups;
    for (const RecordedText& text : texts) {
      if (text.temperature == temperature) groups[mix ? "" : text.domain].push_back(text);
    }
    std::map<std::string, std::map<std::string, WaySums>> sums;  // by domain and way
    for (const auto& [name, group] : groups) {
      for (const std::string& way : ways) {
        for (auto& [domain, of] : testing::DecodeRecorded(group, way, run, *tokenizer, eos)) {
          sums[domain][way] = std::move(of);
        }
      }
    }
    std::printf("temperature %.1f\n%-10s", temperature, "");
    for (const std::string& way : ways) std::printf(" %-10s", way.c_str());
    std::printf("\n");
    for (auto& [domain, of] : sums) table.Print(domain, of);
  }
  return 0;
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) { return outrider::Main(argc, argv); }
