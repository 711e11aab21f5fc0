// How fast a CUDA device runs a model with the shape of Llama 3.1 8B, compared with the limits of
// its memory and its matrix units. Weights are random, which does not affect the speed.
//   gpu_bench [--device cuda:0] [--json FILE] [--context TOKENS] [--graphs both|on|off]
//             [--weights bf16|int8|int4]
// Passes run as CUDA graphs, and the smaller ones also without (both), only as graphs (on) or only
// without (off). Lines and FILE are written as results arrive, so that a later failure loses
// nothing. Without a device it prints "skipped" and exits with code 0.
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/backend/create_backend.h"
#include "common/model/transformer.h"
#include "common/model/weights.h"
#include "tests/bench/random_model.h"

namespace outrider {
namespace {

using nlohmann::json;

template <class T>
T Must(Result<T> result) {
  if (result.ok()) return std::move(result).value();
  std::fprintf(stderr, "gpu_bench: %s\n", result.status().message().c_str());
  std::exit(1);
}
void Must(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "gpu_bench: %s\n", status.message().c_str());
  std::exit(1);
}
void Must(cudaError_t error) {
  Must(error == cudaSuccess ? Status() : Internal(cudaGetErrorString(error)));
}

// The median duration of `repeat` runs, after three warm-up runs.
double Median(int repeat, const std::function<void()>& run) {
  std::vector<double> seconds;
  for (int i = 0; i < repeat + 3; ++i) {
    const auto start = std::chrono::steady_clock::now();
    run();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (i >= 3) seconds.push_back(took.count());
  }
  std::nth_element(seconds.begin(), seconds.begin() + repeat / 2, seconds.end());
  return seconds[static_cast<size_t>(repeat / 2)];
}

// Bytes per second, read plus written, of a copy within the device.
double CopyRate() {
  const size_t bytes = size_t{2} << 30;  // much larger than any cache
  char *from = nullptr, *to = nullptr;
  Must(cudaMalloc(&from, bytes));
  Must(cudaMalloc(&to, bytes));
  Must(cudaMemset(from, 0x5a, bytes));
  const double seconds = Median(10, [&] {
    Must(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice));
    Must(cudaDeviceSynchronize());
  });
  Must(cudaFree(from));
  Must(cudaFree(to));
  return 2. * static_cast<double>(bytes) / seconds;
}

// Operations per second of a square bf16 product.
double ProductRate(Backend& backend, const RandomWeights& random) {
  const int n = 8192;
  const auto w = Must(random.Matrix(backend, n, n));
  const auto bytes = static_cast<size_t>(n) * n * sizeof(float);
  const auto x = Must(backend.Allocate(bytes)), y = Must(backend.Allocate(bytes));
  std::vector<float> values(static_cast<size_t>(n) * n);
  std::mt19937 generator(2);
  for (float& v : values) v = static_cast<float>(generator() % 2048) / 1024.f - 1.f;
  backend.CopyIn(x->data(), values.data(), bytes);
  constexpr int kProducts = 10;  // the first rounds x to bf16, the others reuse that
  const double seconds = Median(5, [&] {
    for (int i = 0; i < kProducts; ++i) {
      backend.MatMul(*w, x->floats(), n, nullptr, false, y->floats());
    }
    backend.Wait();
  });
  return 2. * n * n * n * kProducts / seconds;
}

struct Step {
  const char* what;
  int sessions;
  int rows;         // per session
  int context = 0;  // 0: --context
};
constexpr Step kSteps[] = {
    {"decode", 1, 1},       {"decode", 8, 1},        {"decode", 32, 1},      {"decode", 128, 1},
    {"verify", 1, 8},       {"verify", 1, 16},       {"verify", 1, 32},      {"verify", 8, 8},
    {"verify", 8, 16},      {"verify", 8, 32},       {"verify", 32, 8},      {"verify", 32, 33},
    {"decode", 8, 1, 4096}, {"verify", 1, 32, 4096}, {"verify", 8, 32, 4096}};
constexpr int kPromptTokens = 2048, kMaxBatchTokens = 1088;

struct Ceilings {
  double bytes_per_second, operations_per_second;
};

struct Work {
  double bytes, operations;
  double Seconds(const Ceilings& ceilings) const {
    return std::max(bytes / ceilings.bytes_per_second, operations / ceilings.operations_per_second);
  }
};

// For one session's attention, in which each row has `context` tokens and the previous rows before
// it.
double AttentionOperations(const ModelConfig& c, double rows, double context) {
  return 4. * c.num_layers() * c.num_heads * c.head_dim * rows * (context + (rows + 1) / 2);
}

double LayerWeights(const ModelConfig& c) {
  const double layer = double(c.hidden_size) * (c.num_heads + 2 * c.num_kv_heads) * c.head_dim +
                       double(c.num_heads) * c.head_dim * c.hidden_size +
                       3. * c.hidden_size * c.intermediate_size;
  return layer * c.num_layers();
}

Result<WeightType> WeightsNamed(const std::string& name) {
  if (name == "bf16") return WeightType::kBf16;
  if (name == "int8") return WeightType::kW8A16;
  if (name == "int4") return WeightType::kW4A16;
  return InvalidArgument("--weights " + name + ": bf16, int8 or int4");
}

// Bytes of a weight: 4 bits have a scale in f32 for 128.
double WeightBytes(WeightType type) {
  return type == WeightType::kW4A16 ? 17. / 32 : type == WeightType::kW8A16 ? 1. : 2.;
}

// Reading the weights once and each session's keys and values once, writing the logits; and the
// products.
Work WorkOf(const ModelConfig& c, const Step& step, WeightType type) {
  const double weights = LayerWeights(c) + double(c.vocab_size) * c.hidden_size;
  const double kv =
      2. * c.num_layers() * c.num_kv_heads * c.head_dim * step.context * step.sessions;
  const double rows = double(step.sessions) * step.rows;
  return {WeightBytes(type) * weights + 2. * kv + 4. * rows * c.vocab_size,
          2. * weights * rows + step.sessions * AttentionOperations(c, step.rows, step.context)};
}

// A prompt, in passes of `batch` tokens, without logits.
Work WorkOfPrompt(const ModelConfig& c, int tokens, int batch, WeightType type) {
  const int passes = (tokens + batch - 1) / batch;
  return {WeightBytes(type) * LayerWeights(c) * passes,
          2. * LayerWeights(c) * tokens + AttentionOperations(c, tokens, 0)};
}

class Bench {
 public:
  Bench(Model* model, WeightType weights) : model_(*model), weights_(weights) {}

  WeightType weights() const { return weights_; }

  bool Fits(const Step& step) const {
    const int tokens = step.context + step.rows + model_.page_tokens();
    return int64_t{step.sessions} * (tokens / model_.page_tokens() + 1) <= model_.total_pages() &&
           step.sessions * step.rows <= model_.max_batch_tokens();
  }

  struct Measured {
    double seconds = 0;
    int64_t bytes_to_host = 0;  // per step
  };
  // Like the verifier's engine: the logits are verified where they are, at temperature 0.
  Measured Run(const Step& step) {
    std::vector<SequenceId> sequences;
    sequences.reserve(static_cast<size_t>(step.sessions));
    for (int s = 0; s < step.sessions; ++s) sequences.push_back(Prefilled(step.context));
    const std::vector<TokenId> tokens(static_cast<size_t>(step.rows), 17);
    std::vector<int32_t> all(static_cast<size_t>(step.rows));
    std::iota(all.begin(), all.end(), 0);
    std::vector<ForwardSequence> batch;
    const std::vector<TokenId> draft(static_cast<size_t>(step.rows - 1), 17);
    RoundBatch rounds;
    for (const SequenceId s : sequences) {
      batch.push_back({s, tokens, {}, all, /*logits_to_host=*/false});
      rounds.Add({}, DraftTree::Chain(draft, {}), {.sampling = {.temperature = 0}});
    }
    ForwardOutput output;
    Measured measured;
    measured.seconds = Median(20, [&] {
      const int64_t before = model_.device()->bytes_to_host();
      Must(model_.Forward(batch, /*want_hidden=*/false, &output));
      model_.Decide(rounds, model_.config().vocab_size);
      measured.bytes_to_host = model_.device()->bytes_to_host() - before;
      for (const SequenceId s : sequences) model_.Truncate(s, step.context);
    });
    for (const SequenceId s : sequences) model_.Release(s);
    return measured;
  }

  // The duration of a prompt in seconds.
  double Prefill(int tokens) {
    return Median(3, [&] { model_.Release(Prefilled(tokens)); });
  }

 private:
  SequenceId Prefilled(int context) {
    const SequenceId sequence = model_.NewSequence();
    ForwardOutput output;
    for (int held = 0; held < context;) {
      const int count = std::min(model_.max_batch_tokens(), context - held);
      std::vector<TokenId> tokens;
      tokens.reserve(static_cast<size_t>(count));
      for (int i = 0; i < count; ++i) tokens.push_back((held + i) * 37 % 100000);
      const ForwardSequence share = {sequence, tokens, {}, {}};
      Must(model_.Forward({&share, 1}, false, &output));
      held += count;
    }
    return sequence;
  }

  Model& model_;
  const WeightType weights_;
};

void PrintHead(const char* title) {
  std::printf("%s\n%-8s %8s %6s %8s %9s %9s %7s %10s %9s\n", title, "step", "sessions", "rows",
              "context", "ms", "floor", "times", "rows/s", "to host");
}

void PrintRow(const char* what, int sessions, int rows, int context, double seconds, double floor,
              int64_t bytes_to_host) {
  std::printf("%-8s %8d %6d %8d %9.3f %9.3f %7.2f %10.0f %7lld B\n", what, sessions, rows, context,
              seconds * 1e3, floor * 1e3, seconds / floor, sessions * rows / seconds,
              static_cast<long long>(bytes_to_host));
  std::fflush(stdout);
}

std::unique_ptr<Model> Build(const ModelConfig& config, std::unique_ptr<Backend> backend,
                             const RandomWeights& random, WeightType type) {
  Weights weights = Must(random.Make(config, *backend, type));
  return Must(BuildModel(config, std::move(weights), std::move(backend),
                         {.weights = type,
                          .kv = KvType::kBf16,
                          .memory_fraction = 0.9,
                          .max_batch_tokens = kMaxBatchTokens}));
}

// The steps, with missing values filled in.
std::vector<Step> Steps(int context) {
  std::vector<Step> steps(std::begin(kSteps), std::end(kSteps));
  for (Step& step : steps) {
    if (step.context == 0) step.context = context;
  }
  return steps;
}

// The results, in a file that always contains everything measured so far.
class Report {
 public:
  explicit Report(std::string file) : file_(std::move(file)) {}
  json& values() { return values_; }
  void Save() const {
    if (!file_.empty()) std::ofstream(file_) << values_.dump(2) << "\n";
  }

 private:
  const std::string file_;
  json values_;
};

// Runs the steps that fit and have at most `most_rows` rows. `name` is the report's key for their
// seconds; the report's "steps" correspond to the list.
void RunSteps(Bench& bench, const ModelConfig& config, const Ceilings& ceilings,
              std::span<const Step> steps, int most_rows, const char* name, Report* report) {
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    if (step.sessions * step.rows > most_rows) continue;
    if (!bench.Fits(step)) {
      std::printf("%-8s %8d %6d %8d does not fit\n", step.what, step.sessions, step.rows,
                  step.context);
      continue;
    }
    const Bench::Measured measured = bench.Run(step);
    const double floor = WorkOf(config, step, bench.weights()).Seconds(ceilings);
    PrintRow(step.what, step.sessions, step.rows, step.context, measured.seconds, floor,
             measured.bytes_to_host);
    json& figures = report->values()["steps"][i];
    figures[name] = measured.seconds;
    figures["floor_seconds"] = floor;
    figures["bytes_to_host"] = measured.bytes_to_host;
    report->Save();
  }
}

int Main(int argc, char** argv) {
  std::string device = "cuda:0", json_file, graphs = "both";
  WeightType weights = WeightType::kBf16;
  int context = 1024;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--device") == 0) device = argv[i + 1];
    if (std::strcmp(argv[i], "--json") == 0) json_file = argv[i + 1];
    if (std::strcmp(argv[i], "--context") == 0) context = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--graphs") == 0) graphs = argv[i + 1];
    if (std::strcmp(argv[i], "--weights") == 0) weights = Must(WeightsNamed(argv[i + 1]));
  }
  Result<std::unique_ptr<Backend>> made = CreateBackend(device, {}, {.graphs = graphs != "off"});
  if (!made.ok()) {
    std::printf("gpu_bench: skipped: %s\n", made.status().message().c_str());
    return 0;
  }
  std::unique_ptr<Backend> backend = std::move(made).value();
  const std::string name = backend->Describe();
  const ModelConfig config = Llama8B();
  const RandomWeights random(config);
  const Ceilings ceilings = {CopyRate(), ProductRate(*backend, random)};
  std::printf("%s: copy %.2f TB/s, bf16 product %.0f TFLOP/s\n", name.c_str(),
              ceilings.bytes_per_second / 1e12, ceilings.operations_per_second / 1e12);
  std::fflush(stdout);

  auto model = Build(config, std::move(backend), random, weights);
  Bench bench(model.get(), weights);
  Report report(json_file);
  json& out = report.values();
  out = {{"device", name},
         {"copy_bytes_per_second", ceilings.bytes_per_second},
         {"product_operations_per_second", ceilings.operations_per_second},
         {"context", context},
         {"weights", WeightTypeName(weights)},
         {"kv_tokens", int64_t{model->total_pages()} * model->page_tokens()}};
  const std::vector<Step> steps = Steps(context);
  for (const Step& step : steps) {
    out["steps"].push_back({{"what", step.what},
                            {"sessions", step.sessions},
                            {"rows", step.rows},
                            {"context", step.context}});
  }
  PrintHead("Llama 3.1 8B shapes");
  for (const int tokens : {context, kPromptTokens}) {
    const double seconds = bench.Prefill(tokens);
    const double floor =
        WorkOfPrompt(config, tokens, model->max_batch_tokens(), weights).Seconds(ceilings);
    PrintRow("prefill", 1, tokens, 0, seconds, floor, 0);
    out["prefill"].push_back({{"tokens", tokens}, {"seconds", seconds}, {"floor_seconds", floor}});
    report.Save();
  }
  RunSteps(bench, config, ceilings, steps, model->max_batch_tokens(), "seconds", &report);
  const GraphCounts counts = model->device()->graph_counts();
  std::printf("CUDA graphs: %lld made, %lld passes run as one\n",
              static_cast<long long>(counts.captures), static_cast<long long>(counts.launches));
  out["graph_captures"] = counts.captures;
  out["graph_launches"] = counts.launches;
  report.Save();

  if (graphs == "both") {
    constexpr int kMostRows = 64;  // larger launches are hidden by the work
    model.reset();                 // both would not fit
    model = Build(config, Must(CreateBackend(device, {}, {.graphs = false})), random, weights);
    Bench bench_without(model.get(), weights);
    PrintHead("The same without graphs");
    RunSteps(bench_without, config, ceilings, steps, kMostRows, "seconds_without_graphs", &report);
  }
  return 0;
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) { return outrider::Main(argc, argv); }
