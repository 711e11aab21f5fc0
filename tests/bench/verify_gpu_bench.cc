// How long a device takes for rows of 131,072 random logits: to verify a step's drafts, by rule, of
// 32 sessions of 4 sequences of 8 tokens with draft distributions of 64 entries, and to pick what a
// drafter reads.
//   verify_gpu_bench [--json FILE]
// Without a device it prints "skipped" and exits with code 0.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/backend/cuda/device_picks.h"
#include "common/backend/cuda/device_rounds.h"
#include "common/backend/cuda/kernels/rows.h"
#include "common/backend/cuda/launch.h"

namespace outrider {
namespace {

constexpr int kVocab = 131072, kSessions = 32, kSequences = 4, kLength = 8, kEntries = 64;
constexpr int kRowsPerSession = 1 + kSequences * kLength;

std::unique_ptr<CudaBuffer> Must(Result<std::unique_ptr<CudaBuffer>> buffer) {
  if (buffer.ok()) return std::move(buffer).value();
  std::fprintf(stderr, "verify_gpu_bench: %s\n", buffer.status().message().c_str());
  std::exit(1);
}

// Sequences that diverge at the root. The target's logits follow the draft distributions, so that
// drafts are accepted.
RoundBatch RandomBatch(const RoundSpec& spec, const RowSampling& sampling,
                       std::vector<float>& logits) {
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal(0.f, 2.f);
  logits.resize(size_t{kSessions} * kRowsPerSession * kVocab);
  std::vector<float> noise(1 << 20);
  for (float& x : noise) x = normal(random);
  RoundBatch batch;
  float* row = logits.data();
  for (int s = 0; s < kSessions; ++s) {
    RoundSpec round = spec;
    round.seed = random();
    DraftTree draft;
    for (int node = 0; node < kRowsPerSession; ++node, row += kVocab) {
      const size_t from = random() % (noise.size() - kVocab);
      std::copy_n(noise.begin() + static_cast<std::ptrdiff_t>(from), kVocab, row);
      // Node 1 + j is the first of sequence j; at depth d its node is 1 + j + d * kSequences.
      if (node > kSequences * (kLength - 1)) continue;  // a leaf
      DraftDistribution even;
      for (int i = 0; i < kEntries; ++i) {
        // A child's token is its sequence's number, which is one of the likely tokens.
        even.ids.push_back(i);
        even.weights.push_back(65536 / kEntries);
        row[i] = 12.f + 0.5f * row[i];
      }
      draft.SetDistribution(node, even);
      const int first = node == 0 ? 0 : (node - 1) % kSequences;
      for (int j = first; j <= (node == 0 ? kSequences - 1 : first); ++j) draft.AddDraw(node, j);
    }
    batch.Add(round, draft, {.sampling = sampling});
  }
  return batch;
}

// The median time of run(rows), which overwrites its copy of the logits; wait() follows each.
template <class Run, class Wait>
double Milliseconds(const Stream& stream, const std::vector<float>& host, const Run& run,
                    const Wait& wait) {
  const size_t bytes = host.size() * sizeof(float);
  const auto logits = Must(CudaBuffer::Allocate(MemoryKind::kDeviceOutsideGraphs, bytes, nullptr));
  const auto rows = Must(CudaBuffer::Allocate(MemoryKind::kDeviceOutsideGraphs, bytes, nullptr));
  MustSucceed(cudaMemcpy(logits->data(), host.data(), bytes, cudaMemcpyHostToDevice), "copying");
  // The copy of pageable memory may still be in progress, and the stream does not wait for it.
  MustSucceed(cudaDeviceSynchronize(), "copying");
  cudaEvent_t begin = nullptr, end = nullptr;
  MustSucceed(cudaEventCreate(&begin), "creating an event");
  MustSucceed(cudaEventCreate(&end), "creating an event");
  std::vector<double> times;
  for (int i = 0; i < 23; ++i) {
    MustSucceed(cudaMemcpyAsync(rows->data(), logits->data(), bytes, cudaMemcpyDeviceToDevice,
                                stream.get()),
                "copying");
    MustSucceed(cudaEventRecord(begin, stream.get()), "recording");
    run(static_cast<float*>(rows->data()));
    MustSucceed(cudaEventRecord(end, stream.get()), "recording");
    wait();
    MustSucceed(cudaEventSynchronize(end), "waiting");
    float milliseconds = 0;
    MustSucceed(cudaEventElapsedTime(&milliseconds, begin, end), "asking for the time");
    if (i >= 3) times.push_back(static_cast<double>(milliseconds));
  }
  std::nth_element(times.begin(), times.begin() + 10, times.end());
  MustSucceed(cudaEventDestroy(begin), "destroying an event");
  MustSucceed(cudaEventDestroy(end), "destroying an event");
  return times[10];
}

nlohmann::json MeasureRules() {
  const double gigabytes = double{kSessions} * kRowsPerSession * kVocab * sizeof(float) / 1e9;
  std::printf("%d sessions of %d rows of %d: %.2f GB of logits\n", kSessions, kRowsPerSession,
              kVocab, gigabytes);
  const struct {
    const char* name;
    Rule rule;
    RowSampling sampling = {};
  } cases[] = {{"token", Rule::kToken},
               {"block", Rule::kBlock},
               {"block, top-k 50, top-p 0.95", Rule::kBlock, {.top_k = 50, .top_p = 0.95f}},
               {"spectr", Rule::kSpecTr},
               {"multiround", Rule::kMultiRound},
               {"multipath-block", Rule::kMultiPathBlock},
               {"argmax", Rule::kToken, {.temperature = 0.f}},
               {"gumbel", Rule::kGumbel}};
  nlohmann::json report;
  for (const auto& [name, rule, sampling] : cases) {
    std::vector<float> host;
    const RoundBatch batch = RandomBatch({.rule = rule}, sampling, host);
    const Stream stream;
    DeviceRounds rounds(&stream);
    double accepted = 0;  // tokens per round
    const double milliseconds = Milliseconds(
        stream, host,
        [&](float* rows) {
          rounds.Decide(batch, {rows, kVocab, kVocab});
        },
        [&] {
          accepted = 0;
          for (const DecidedRound& r : rounds.Decided().rounds) {
            accepted += static_cast<double>(r.verdict.accepted) / kSessions;
          }
        });
    std::printf("%-28s %8.3f ms, %.2f tokens accepted; one pass over the logits in it: %.0f GB/s\n",
                name, milliseconds, accepted, gigabytes / milliseconds * 1e3);
    report[name] = {{"milliseconds", milliseconds}, {"accepted", accepted}};
  }
  return report;
}

// The time of a kDepths-th of a graph that picks and draws as many times from the same rows.
double MicrosecondsOfPick(const PickSpec& spec, int sessions) {
  constexpr int kDepths = 64;
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal(0.f, 3.f);
  std::vector<float> host(static_cast<size_t>(sessions) * kVocab);
  for (float& x : host) x = normal(random);
  PickBatch batch;
  for (int i = 0; i < sessions; ++i) {
    batch.BeginSequence({});
    batch.AddChain(spec, {}, {.depths = kDepths});
  }
  const Stream stream;
  DevicePicks picks(&stream);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t run = nullptr;
  const double milliseconds = Milliseconds(
      stream, host,
      [&](float* rows) {
        if (run == nullptr) {
          picks.BeginChains(batch, rows, kVocab);
          MustSucceed(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeRelaxed),
                      "capturing");
          for (int depth = 0; depth < kDepths; ++depth) picks.SampleDepth(depth);
          MustSucceed(cudaStreamEndCapture(stream.get(), &graph), "capturing");
          MustSucceed(cudaGraphInstantiate(&run, graph, 0), "instantiating a graph");
        }
        MustSucceed(cudaGraphLaunch(run, stream.get()), "launching a graph");
      },
      [&] { stream.Wait(); });
  MustSucceed(cudaGraphExecDestroy(run), "destroying a graph");
  MustSucceed(cudaGraphDestroy(graph), "destroying a graph");
  return milliseconds * 1e3 / kDepths;
}

nlohmann::json MeasurePicks() {
  MustSucceed(ReadWhetherKernelsAwait(&kernels_overlap), "asking for a kernel's attributes");
  struct {
    const char* name;
    PickSpec spec;
  } cases[] = {
      {"greedy", {.pick = RowPick::kTop, .count = 2, .sampling = {.temperature = 0.f}}},
      {"greedy, measured", {.pick = RowPick::kTop, .count = 2, .measure = RowMeasure::kLargest}},
      {"sampled", {.count = kEntries}},
      {"sampled, top-k 50, top-p 0.95",
       {.count = kEntries, .sampling = {.top_k = 50, .top_p = 0.95f}}},
      {"sampled, whole rows", {.count = kEntries, .sampling = {.top_k = kPartCandidates}}},
      {"race", {.pick = RowPick::kRace, .count = 2, .seed = 5}}};
  nlohmann::json report;
  for (auto& [name, spec] : cases) {
    spec.allowed = kVocab;
    for (const int sessions : {1, 32}) {
      const double microseconds = MicrosecondsOfPick(spec, sessions);
      std::printf("picking %-30s %2d rows %8.1f us\n", name, sessions, microseconds);
      report[std::string(name) + ", " + std::to_string(sessions) + " rows"] = microseconds;
    }
  }
  kernels_overlap = false;
  return report;
}

int Run(const char* json_file) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::printf("skipped: no CUDA device\n");
    return 0;
  }
  nlohmann::json report;
  report["rules"] = MeasureRules();
  report["pick_microseconds"] = MeasurePicks();
  if (json_file != nullptr) std::ofstream(json_file) << report.dump(2) << "\n";
  return 0;
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) {
  const bool json = argc == 3 && std::strcmp(argv[1], "--json") == 0;
  if (argc != 1 && !json) {
    std::fprintf(stderr, "usage: verify_gpu_bench [--json FILE]\n");
    return 2;
  }
  return outrider::Run(json ? argv[2] : nullptr);
}
