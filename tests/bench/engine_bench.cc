// The speed of a model's forward pass alone, and of the engine around it, for a given number of
// sequences: the two upper bounds on a service's speed. Decoding without speculation.
//
//   taskset -c 0 engine_bench --model models/default/target --sequences 1,4,16,64
//
// Every sequence has a prompt of --context tokens (not timed) and generates --tokens more.
//   forward  one Forward per step with one row per sequence; no argmax and no output
//   engine   the same by Engine::Step: scheduling, sampling, detokenizing, chunks to a sink
//   host_us  microseconds between two forward passes (outrider_engine_host_seconds) of an engine
//            over a fake device, whose sinks cost what streams to gRPC clients do
// They alternate; prints one JSON object with the rows per second of every turn, by the clock and
// by the thread's CPU time (_cpu), which other processes on the machine disturb less.
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
#include "common/rules/host_rounds.h"
#include "common/service/served_model.h"
#include "common/text/tokenizer.h"
#include "tests/bench/bench_support.h"
#include "tests/support/fake_model.h"
#include "verifier/engine/engine.h"
#include "verifier/rpc/generation_wire.h"
#include "verifier/rpc/write_thread.h"

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

// Costs the engine thread what a gRPC client's stream does.
class PostingSink final : public GenerationSink {
 public:
  PostingSink(WriteThread* writes, int* started) : writes_(writes), counting_(started) {}
  void Send(Chunk chunk) override {
    counting_.Send({});
    writes_->Post([chunk = std::move(chunk)] { (void)ToWire(chunk).SerializeAsString(); });
  }
  void Finish(const Summary& summary) override {
    writes_->Post([summary] { (void)ToWire(summary).SerializeAsString(); });
  }
  void Fail(const Status& status) override { counting_.Fail(status); }

 private:
  WriteThread* const writes_;
  CountingSink counting_;
};

class ThreadCpuClock final : public Clock {
 public:
  Time Now() const override { return Time(FromSeconds(CpuSeconds())); }
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

// `id`: of the request, from 1 on.
void SubmitTo(Engine& engine, const Options& options, const Model& model, int id,
              std::shared_ptr<GenerationSink> sink) {
  // One token more for the pass over the prompt.
  GenerationRequest request{.prompt = Prompt(options, model, id - 1),
                            .sampling = {.temperature = static_cast<float>(options.temperature)},
                            .max_tokens = options.tokens + 1,
                            .ignore_eos = true,
                            .seed = static_cast<uint64_t>(id)};
  Must(engine.Submit(static_cast<uint64_t>(id), std::move(request), std::move(sink)));
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
  EngineOptions engine_options{.admission = {.max_running = n, .prefix_cache = false}};
  engine_options.scheduler.token_budget = model.max_batch_tokens();
  Engine engine(engine_options, &model, &tokenizer, nullptr, nullptr, &clock);
  int started = 0;
  for (int id = 1; id <= n; ++id) {
    SubmitTo(engine, options, model, id, std::make_shared<CountingSink>(&started));
  }
  // Sequences that began before the last one are ahead of it: what they have generated by then does
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

double HostMicroseconds(const Options& options, const Tokenizer& tokenizer, int n,
                        const Clock& clock) {
  const int context = options.context + options.tokens + 1;
  FakeModel model({.vocab_size = 512,
                   .order = 1,
                   .page_tokens = 16,
                   .total_pages = n * (context / 16 + 2),
                   .max_batch_tokens = n * options.context,
                   .max_position_embeddings = context});
  HostRounds rounds;
  model.set_decide([&rounds](const RoundBatch& batch, const LogitRows& rows) {
    return rounds.Decide(batch, rows);
  });
  MetricsRegistry registry;
  VerifierMetrics metrics(registry);
  WriteThread writes;
  EngineOptions engine_options{.admission = {.max_running = n, .prefix_cache = false}};
  // All sequences start in one step.
  engine_options.scheduler = {.token_budget = model.max_batch_tokens(),
                              .prefill_chunk = model.max_batch_tokens()};
  Engine engine(engine_options, &model, &tokenizer, nullptr, &metrics, &clock);
  int started = 0;
  for (int id = 1; id <= n; ++id) {
    SubmitTo(engine, options, model, id, std::make_shared<PostingSink>(&writes, &started));
  }
  while (started < n) engine.Step();
  const Histogram& host = metrics.engine_host_seconds;
  const double sum = host.sum();
  const uint64_t count = host.count();
  // Until the first sequences end.
  while (engine.running() == n) engine.Step();
  return 1e6 * (host.sum() - sum) / static_cast<double>(host.count() - count);
}

int Main(int argc, char** argv) {
  Options o;
  CLI::App app("Speed of the forward pass alone and of the engine around it");
  AddServiceFlags(app, &o.service);
  app.add_option("--sequences", o.sequences, "Sequences at a time")->delimiter(',');
  app.add_option("--context", o.context, "Tokens of each prompt");
  app.add_option("--tokens", o.tokens, "Tokens that each sequence produces")
      ->check(CLI::PositiveNumber);
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
      auto& entry = report[std::to_string(n)];
      const auto add = [&entry](const std::string& name, const Rates& rates) {
        entry[name].push_back(rates.by_clock);
        entry[name + "_cpu"].push_back(rates.by_cpu);
      };
      add("forward", ForwardRowsPerSecond(o, *model, n));
      add("engine", EngineRowsPerSecond(o, *model, *tokenizer, n));
      entry["host_us"].push_back(HostMicroseconds(o, *tokenizer, n, SteadyClock()));
      entry["host_us_cpu"].push_back(HostMicroseconds(o, *tokenizer, n, ThreadCpuClock()));
    }
  }
  std::printf("%s\n", report.dump().c_str());
  return 0;
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) { return outrider::Main(argc, argv); }
