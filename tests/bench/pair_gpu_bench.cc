// Tokens per second of a pair in one process: plain greedy decoding by the target against
// speculation with a drafter on the same device (pair_run.h), alternating in the same run. The
// models have the shapes of Llama 3.1 8B and 3.2 1B and random weights, so acceptance of draft
// tokens is decided by random numbers; all the work is done.
//   pair_gpu_bench [--device cuda:0] [--shape llama|tiny] [--dtype bf16|f32] [--threads 1]
//                  [--prompt 512] [--tokens 128] [--draft 4] [--acceptance 0.6,0.8]
//                  [--sessions 1,8] [--repetitions 3] [--seed 1] [--json FILE] [--turns yes]
//                  [--target FOLDER --drafter FOLDER]
// --target and --drafter are Hugging Face folders that replace a shape; --acceptance own accepts
// what the two models agree on. --threads is for the CPU. With --turns yes nothing runs by itself:
// a line "SESSIONS DRAFT ACCEPTANCE" on standard input requests one text (draft 0: plain), and a
// line of JSON answers it. Without a device it prints "skipped" and exits with code 0.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "common/backend/create_backend.h"
#include "common/model/transformer.h"
#include "tests/bench/pair_run.h"
#include "tests/bench/random_model.h"

namespace outrider {
namespace {

using nlohmann::json;

using Flags = std::map<std::string, std::string>;

const Flags kDefaults = {{"device", "cuda:0"}, {"shape", "llama"},  {"dtype", "bf16"},
                         {"threads", "1"},     {"prompt", "512"},   {"tokens", "128"},
                         {"draft", "4"},       {"sessions", "1,8"}, {"acceptance", "0.6,0.8"},
                         {"repetitions", "3"}, {"seed", "1"},       {"json", ""},
                         {"turns", "no"},      {"target", ""},      {"drafter", ""}};

Result<Flags> Parse(int argc, char** argv) {
  Flags flags = kDefaults;
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    const auto found = name.starts_with("--") ? flags.find(name.substr(2)) : flags.end();
    if (found == flags.end() || i + 1 == argc) {
      return InvalidArgument("no option, or one without a value: " + name);
    }
    found->second = argv[i + 1];
  }
  const bool named = flags["shape"] == "llama" || flags["shape"] == "tiny";
  if (!named || (flags["dtype"] != "bf16" && flags["dtype"] != "f32") ||
      flags["target"].empty() != flags["drafter"].empty()) {
    return InvalidArgument(
        "--shape is llama or tiny, --dtype bf16 or f32, and --target goes "
        "with --drafter");
  }
  return flags;
}

Result<double> ParseNumber(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0') return InvalidArgument("not a number: " + text);
  return value;
}

Result<int> ParseCount(const std::string& text) {
  OUTRIDER_ASSIGN(const double value, ParseNumber(text));
  const auto count = static_cast<int>(std::clamp(value, -1., 1e6));
  if (static_cast<double>(count) != value || count < 0)
    return InvalidArgument("not a count: " + text);
  return count;
}

Result<PairCase> ParseCase(const std::string& sessions, const std::string& draft,
                           const std::string& acceptance) {
  PairCase c;
  OUTRIDER_ASSIGN(c.sessions, ParseCount(sessions));
  OUTRIDER_ASSIGN(c.draft, ParseCount(draft));
  if (acceptance != "own") {
    OUTRIDER_ASSIGN(c.acceptance, ParseNumber(acceptance));
  }
  return c;
}

std::vector<std::string> Parts(const std::string& list) {
  std::vector<std::string> parts;
  std::istringstream text(list);
  for (std::string part; std::getline(text, part, ',');) parts.push_back(part);
  return parts;
}

// For each number of sessions: plain decoding, then the rest.
Result<std::vector<PairCase>> CasesOf(const Flags& flags) {
  std::vector<PairCase> cases;
  for (const std::string& sessions : Parts(flags.at("sessions"))) {
    OUTRIDER_ASSIGN(const PairCase plain, ParseCase(sessions, "0", "own"));
    cases.push_back(plain);
    for (const std::string& draft : Parts(flags.at("draft"))) {
      for (const std::string& acceptance : Parts(flags.at("acceptance"))) {
        OUTRIDER_ASSIGN(const PairCase c, ParseCase(sessions, draft, acceptance));
        cases.push_back(c);
      }
    }
  }
  return cases;
}

struct Pair {
  std::string device;
  std::unique_ptr<Model> target, drafter;
};

Result<Pair> BuildPair(const Flags& flags, std::unique_ptr<Backend> for_target,
                       const PairLoad& load, const std::vector<PairCase>& cases) {
  const bool f32 = flags.at("dtype") == "f32";
  ModelOptions options = {.weights = f32 ? WeightType::kF32 : WeightType::kBf16,
                          .kv = f32 ? KvType::kF32 : KvType::kBf16,
                          .kv_pages = 1};
  for (const PairCase& c : cases) {
    const int pages = c.sessions * (PairKvTokens(load, c) / options.page_tokens + 1);
    options.kv_pages = std::max(options.kv_pages, pages);
    options.max_batch_tokens = std::max(options.max_batch_tokens, PairBatchTokens(c));
  }
  OUTRIDER_ASSIGN(const int threads, ParseCount(flags.at("threads")));
  OUTRIDER_ASSIGN(auto for_drafter, CreateBackend(flags.at("device"), {.threads = threads}));
  Pair pair{.device = for_target->Describe()};
  if (!flags.at("target").empty()) {
    OUTRIDER_ASSIGN(pair.target, LoadModel(flags.at("target"), std::move(for_target), options));
    OUTRIDER_ASSIGN(pair.drafter, LoadModel(flags.at("drafter"), std::move(for_drafter), options));
    return pair;
  }
  const bool tiny = flags.at("shape") == "tiny";
  const ModelConfig target = tiny ? TinyTarget() : Llama8B();
  const ModelConfig drafter = tiny ? TinyDrafter() : Llama1B();
  const RandomWeights random(target);  // for the larger one
  OUTRIDER_ASSIGN(Weights weights, random.Make(target, *for_target, options.weights));
  OUTRIDER_ASSIGN(pair.target,
                  BuildModel(target, std::move(weights), std::move(for_target), options));
  OUTRIDER_ASSIGN(weights, random.Make(drafter, *for_drafter, options.weights));
  OUTRIDER_ASSIGN(pair.drafter,
                  BuildModel(drafter, std::move(weights), std::move(for_drafter), options));
  return pair;
}

Result<PairFigures> Run(const Pair& pair, const PairLoad& load, const PairCase& c) {
  return RunPair(pair.target.get(), c.draft > 0 ? pair.drafter.get() : nullptr, load, c);
}

double Rate(const PairFigures& f) {
  return f.seconds > 0 ? static_cast<double>(f.tokens) / f.seconds : 0.;
}

json Report(const PairFigures& f) {
  return {{"first_seconds", f.first_seconds},
          {"seconds", f.seconds},
          {"tokens", f.tokens},
          {"tokens_per_second", Rate(f)},
          {"rounds", f.rounds},
          {"drafted", f.drafted},
          {"accepted", f.accepted},
          {"bytes_to_host", f.bytes_to_host},
          {"text", f.texts[0]}};
}

json Describe(const PairCase& c) {
  json described = {{"sessions", c.sessions}, {"draft", c.draft}};
  if (c.draft > 0) {
    described["acceptance"] = c.acceptance.has_value() ? json(*c.acceptance) : json("own");
  }
  return described;
}

Status TakeTurns(const Pair& pair, const PairLoad& load) {
  std::printf("%s\n", json({{"ready", true}, {"device", pair.device}}).dump().c_str());
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string sessions, draft, acceptance;
    words >> sessions >> draft >> acceptance;
    OUTRIDER_ASSIGN(const PairCase c, ParseCase(sessions, draft, acceptance));
    OUTRIDER_ASSIGN(const PairFigures figures, Run(pair, load, c));
    std::printf("%s\n", Report(figures).dump().c_str());
    std::fflush(stdout);
  }
  return Status();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// The runs of one case over the repetitions.
struct Runs {
  std::vector<double> rates, ratios;  // ratios are to the plain run of the same repetition
  PairFigures last;
};

json Print(const PairCase& c, const Runs& runs) {
  const double rate = Median(runs.rates), ratio = Median(runs.ratios);
  const PairFigures& f = runs.last;
  json row = Describe(c);
  row["tokens_per_second"] = rate;
  row["over_plain"] = ratio;
  row["all_tokens_per_second"] = runs.rates;
  row["rounds"] = f.rounds;
  row["drafted"] = f.drafted;
  row["accepted"] = f.accepted;
  row["bytes_to_host"] = f.bytes_to_host;
  row["first_seconds"] = f.first_seconds;
  char chance[16] = "-", accepted[16] = "-";
  if (c.draft > 0) {
    if (c.acceptance.has_value()) {
      std::snprintf(chance, sizeof(chance), "%.2f", *c.acceptance);
    } else {
      std::snprintf(chance, sizeof(chance), "own");
    }
    std::snprintf(accepted, sizeof(accepted), "%.2f",
                  static_cast<double>(f.accepted) / static_cast<double>(f.rounds));
  }
  std::printf("%8d %6d %10s %10s %12.1f %10.2f\n", c.sessions, c.draft, chance, accepted, rate,
              ratio);
  return row;
}

// Cases alternate within a repetition, after one warm-up repetition.
Status RunAll(const Pair& pair, const PairLoad& load, const std::vector<PairCase>& cases,
              int repetitions, json* report) {
  std::vector<Runs> all(cases.size());
  for (int repetition = -1; repetition < repetitions; ++repetition) {
    double plain = 0;
    for (size_t i = 0; i < cases.size(); ++i) {
      OUTRIDER_ASSIGN(PairFigures figures, Run(pair, load, cases[i]));
      const double rate = Rate(figures);
      if (cases[i].draft == 0) plain = rate;
      if (repetition >= 0) {
        all[i].rates.push_back(rate);
        all[i].ratios.push_back(rate / plain);
      }
      all[i].last = std::move(figures);
    }
  }
  std::printf("%8s %6s %10s %10s %12s %10s\n", "sessions", "draft", "acceptance", "accepted",
              "tokens/s", "of plain");
  for (size_t i = 0; i < cases.size(); ++i) {
    (*report)["cases"].push_back(Print(cases[i], all[i]));
  }
  return Status();
}

Status Bench(const Flags& flags) {
  PairLoad load;
  OUTRIDER_ASSIGN(load.prompt_tokens, ParseCount(flags.at("prompt")));
  OUTRIDER_ASSIGN(load.tokens, ParseCount(flags.at("tokens")));
  OUTRIDER_ASSIGN(const int seed, ParseCount(flags.at("seed")));
  load.seed = static_cast<uint64_t>(seed);
  OUTRIDER_ASSIGN(const int repetitions, ParseCount(flags.at("repetitions")));
  if (repetitions < 1) return InvalidArgument("--repetitions is 0");
  OUTRIDER_ASSIGN(const std::vector<PairCase> cases, CasesOf(flags));
  OUTRIDER_ASSIGN(const int threads, ParseCount(flags.at("threads")));
  OUTRIDER_TRY(CheckDeviceName(flags.at("device")));
  const bool turns = flags.at("turns") == "yes";

  Result<std::unique_ptr<Backend>> backend =
      CreateBackend(flags.at("device"), {.threads = threads});
  if (!backend.ok() && flags.at("device") != "cpu") {
    const std::string& why = backend.status().message();
    std::printf("%s\n", turns ? json({{"skipped", why}}).dump().c_str()
                              : ("pair_gpu_bench: skipped: " + why).c_str());
    return Status();
  }
  OUTRIDER_TRY(backend.status());
  OUTRIDER_ASSIGN(const Pair pair, BuildPair(flags, std::move(backend).value(), load, cases));
  if (turns) return TakeTurns(pair, load);

  const std::string models = flags.at("target").empty() ? flags.at("shape") : flags.at("target");
  std::printf("%s: %s, %s, prompts of %d tokens, texts of %d\n", pair.device.c_str(),
              models.c_str(), flags.at("dtype").c_str(), load.prompt_tokens, load.tokens);
  json report = {{"device", pair.device},      {"models", models},
                 {"dtype", flags.at("dtype")}, {"prompt", load.prompt_tokens},
                 {"tokens", load.tokens},      {"seed", load.seed},
                 {"repetitions", repetitions}};
  OUTRIDER_TRY(RunAll(pair, load, cases, repetitions, &report));
  if (!flags.at("json").empty()) std::ofstream(flags.at("json")) << report.dump(2) << "\n";
  return Status();
}

int Main(int argc, char** argv) {
  const Result<Flags> flags = Parse(argc, argv);
  const Status status = flags.ok() ? Bench(*flags) : flags.status();
  if (status.ok()) return 0;
  std::fprintf(stderr, "pair_gpu_bench: %s\n", status.message().c_str());
  return 1;
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) { return outrider::Main(argc, argv); }
