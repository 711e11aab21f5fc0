// What a model's forward pass alone, and the engine around it, make of so many sequences at a time:
// the two things that a service cannot be faster than. Decoding without speculation.
//
//   taskset -c 0 engine_bench --model models/default/target --sequences 1,4,16,64
//
// Every sequence has a prompt of --context tokens (not timed) and produces --tokens more.
//   forward  one Forward with one row a sequence after another; argmax of nothing, no tokens out
//   engine   the same by Engine::Step: scheduling, sampling, detokenizing, chunks to a sink
// Both take turns; prints one JSON object with the rows per second of every turn, by the clock and
// by the thread's CPU time (_cpu), which others on the machine disturb less.
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/command_line/command_line.h"
#include "common/service/service_options.h"
#include "common/text/tokenizer.h"
#include "verifier/engine/engine.h"

namespace outrider {
namespace {

struct Options {
  ServiceOptions service;
  std::vector<int> sequences = {1, 4, 16, 64};
  int context = 24;
  int tokens = 128;
  int repetitions = 3;
  double temperature = 1;
};

class CountingSink final : public GenerationSink {
 public:
  explicit CountingSink(int* started) : started_(started) {}
  void Send(Chunk /*chunk*/) override {
    if (first_) ++*started_;
    first_ = false;
  }
  void Finish(const Summary& /*summary*/) override {}
  void Fail(const Status& status) override {
    std::fprintf(stderr, "engine_bench: %s\n", status.ToString().c_str());
    std::exit(1);
  }

 private:
  int* started_;
  bool first_ = true;
};

void Must(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "engine_bench: %s\n", status.ToString().c_str());
  std::exit(1);
}

template <class T>
T Must(Result<T> result) {
  Must(result.status());
  return std::move(result).value();
}

std::vector<TokenId> Prompt(const Options& options, const Model& model, int sequence) {
  std::vector<TokenId> prompt;
  for (int i = 0; i < options.context; ++i) {
    prompt.push_back((sequence * 131 + i * 17) % (model.config().vocab_size - 1));
  }
  return prompt;
}

double CpuSeconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Rates {
  double by_clock = 0;
  double by_cpu = 0;
};

class Timer {
 public:
  Rates Of(int rows) const {
    return {rows / Seconds(SteadyClock().Now() - start_), rows / (CpuSeconds() - cpu_start_)};
  }

 private:
  const Time start_ = SteadyClock().Now();
  const double cpu_start_ = CpuSeconds();
};

Rates ForwardRowsPerSecond(const Options& options, Model& model, int n) {
  std::vector<SequenceId> sequences;
  ForwardOutput output;
  for (int i = 0; i < n; ++i) {
    sequences.push_back(model.NewSequence());
    const std::vector<TokenId> prompt = Prompt(options, model, i);
    Must(model.Forward(
        std::vector<ForwardSequence>{{.sequence = sequences.back(), .tokens = prompt}}, false,
        &output));
  }
  const std::vector<TokenId> token = {1};
  const std::vector<int32_t> row = {0};
  std::vector<ForwardSequence> batch;
  for (const SequenceId sequence : sequences) {
    batch.push_back({.sequence = sequence, .tokens = token, .logit_rows = row});
  }
  const Timer timer;
  for (int i = 0; i < options.tokens; ++i) Must(model.Forward(batch, false, &output));
  const Rates rates = timer.Of(n * options.tokens);
  for (const SequenceId sequence : sequences) model.Release(sequence);
  return rates;
}

Rates EngineRowsPerSecond(const Options& options, Model& model, const Tokenizer& tokenizer, int n) {
  const SteadyClock clock;
  EngineOptions engine_options{.max_sessions = n, .prefix_cache = false};
  engine_options.scheduler.token_budget = model.max_batch_tokens();
  Engine engine(engine_options, &model, &tokenizer, nullptr, nullptr, &clock);
  int started = 0;
  for (int i = 0; i < n; ++i) {
    // One more for the pass over the prompt.
    GenerationRequest request{.prompt = Prompt(options, model, i),
                              .sampling = {.temperature = static_cast<float>(options.temperature)},
                              .max_tokens = options.tokens + 1,
                              .ignore_eos = true,
                              .seed = static_cast<uint64_t>(i) + 1};
    Must(engine.Submit(static_cast<uint64_t>(i) + 1, std::move(request),
                       std::make_shared<CountingSink>(&started)));
  }
  // Those that began before the last one did are ahead of it: what they have produced by then does
  // not count.
  while (started < n) engine.Step();
  int before = 0;
  for (const SessionSnapshot& session : engine.Snapshot().sessions) {
    before += session.completion_tokens;
  }
  const Timer timer;
  while (engine.Step()) {
  }
  return timer.Of(n * (options.tokens + 1) - before);
}

int Main(int argc, char** argv) {
  Options o;
  CLI::App app("Rows a second of the forward pass alone and of the engine around it");
  AddServiceFlags(app, &o.service);
  app.add_option("--sequences", o.sequences, "Sequences at a time")->delimiter(',');
  app.add_option("--context", o.context, "Tokens of each prompt");
  app.add_option("--tokens", o.tokens, "Tokens that each sequence produces");
  app.add_option("--repetitions", o.repetitions, "Turns");
  app.add_option("--temperature", o.temperature, "Of the engine's requests");
  if (const auto code = ParseCommandLine(app, argc, argv, std::cout, std::cerr)) return *code;
  SetLogLevel(LogLevel::kWarning);
  const int largest = *std::max_element(o.sequences.begin(), o.sequences.end());
  const std::unique_ptr<Model> model =
      Must(LoadServedModel(o.service, std::max({512, o.context, largest})));
  const std::unique_ptr<Tokenizer> tokenizer = Must(Tokenizer::Load(o.service.model));
  nlohmann::ordered_json report;
  for (int turn = 0; turn < o.repetitions; ++turn) {
    for (const int n : o.sequences) {
      auto& at = report[std::to_string(n)];
      const auto add = [&at](const std::string& name, const Rates& rates) {
        at[name].push_back(rates.by_clock);
        at[name + "_cpu"].push_back(rates.by_cpu);
      };
      add("forward", ForwardRowsPerSecond(o, *model, n));
      add("engine", EngineRowsPerSecond(o, *model, *tokenizer, n));
    }
  }
  std::printf("%s\n", report.dump().c_str());
  return 0;
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) { return outrider::Main(argc, argv); }
