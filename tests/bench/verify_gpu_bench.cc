// How long a device takes to verify a step's drafts, by rule: rows of 131,072 random logits, 32
// sessions of 4 sequences of 8 tokens with draft distributions of 64 entries.
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
#include <utility>
#include <vector>

#include "common/backend/cuda/device_rounds.h"

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

struct Measured {
  double milliseconds = 0;
  double accepted = 0;  // tokens per round
};

Measured Measure(const RoundSpec& spec, const RowSampling& sampling) {
  std::vector<float> host;
  const RoundBatch batch = RandomBatch(spec, sampling, host);
  const size_t bytes = host.size() * sizeof(float);
  const auto logits = Must(CudaBuffer::Allocate(MemoryKind::kDeviceOutsideGraphs, bytes, nullptr));
  const auto rows = Must(CudaBuffer::Allocate(MemoryKind::kDeviceOutsideGraphs, bytes, nullptr));
  const Stream stream;
  MustSucceed(cudaMemcpy(logits->data(), host.data(), bytes, cudaMemcpyHostToDevice), "copying");
  // The copy of pageable memory may still be in progress, and the stream does not wait for it.
  MustSucceed(cudaDeviceSynchronize(), "copying");
  DeviceRounds rounds(&stream);
  cudaEvent_t begin = nullptr, end = nullptr;
  MustSucceed(cudaEventCreate(&begin), "creating an event");
  MustSucceed(cudaEventCreate(&end), "creating an event");
  std::vector<double> times;
  Measured result;
  for (int i = 0; i < 23; ++i) {
    MustSucceed(cudaMemcpyAsync(rows->data(), logits->data(), bytes, cudaMemcpyDeviceToDevice,
                                stream.get()),
                "copying");
    MustSucceed(cudaEventRecord(begin, stream.get()), "recording");
    rounds.Decide(batch, {static_cast<float*>(rows->data()), kVocab, kVocab});
    MustSucceed(cudaEventRecord(end, stream.get()), "recording");
    result.accepted = 0;
    for (const DecidedRound& r : rounds.Decided().rounds) result.accepted += r.verdict.accepted;
    MustSucceed(cudaEventSynchronize(end), "waiting");
    float milliseconds = 0;
    MustSucceed(cudaEventElapsedTime(&milliseconds, begin, end), "asking for the time");
    if (i >= 3) times.push_back(static_cast<double>(milliseconds));
  }
  std::nth_element(times.begin(), times.begin() + 10, times.end());
  result.milliseconds = times[10];
  result.accepted /= kSessions;
  MustSucceed(cudaEventDestroy(begin), "destroying an event");
  MustSucceed(cudaEventDestroy(end), "destroying an event");
  return result;
}

int Run(const char* json_file) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::printf("skipped: no CUDA device\n");
    return 0;
  }
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
    const Measured measured = Measure({.rule = rule}, sampling);
    std::printf("%-28s %8.3f ms, %.2f tokens accepted; one pass over the logits in it: %.0f GB/s\n",
                name, measured.milliseconds, measured.accepted,
                gigabytes / measured.milliseconds * 1e3);
    report[name] = {{"milliseconds", measured.milliseconds}, {"accepted", measured.accepted}};
  }
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
