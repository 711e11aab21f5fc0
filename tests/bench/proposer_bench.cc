// The proposers without a model at 100,000 tokens of text:
//   append_ns   observing a token, averaged over the whole text
//   bytes       memory used then, per token
//   observe_ns  observing a round's four tokens (median over the following rounds)
//   draft_ns    a draft of up to 8 tokens (likewise), including the clock's 30 ns
//   drafted     tokens per draft
// zipf: Zipf's law over 32,000 ids, half of it copies of 8 to 64 earlier tokens. same: one token.
// uniform: 32,000 ids in random order. store: zipf, in 200 texts of earlier requests.
// Run on one core: taskset -c 0 proposer_bench
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "tests/bench/bench_support.h"
#include "verifier/propose/local_proposer.h"

namespace outrider {
namespace {

constexpr int kTokens = 100000;
constexpr int kRounds = 2000;
constexpr int kRoundTokens = 4;
constexpr int kDraft = 8;
constexpr int kVocab = 32000;

// For long spans, since other processes run on the core, too.
double CpuNanoseconds() { return 1e9 * CpuSeconds(); }

// For short spans, since reading the CPU clock takes a system call.
double Nanoseconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::nano>(now).count();
}

std::vector<TokenId> TextOf(const std::string& kind, size_t size) {
  if (kind == "same") return std::vector<TokenId>(size, 1);
  std::mt19937_64 rng(1);
  std::uniform_real_distribution<double> uniform(0, 1);
  std::vector<TokenId> text;
  while (text.size() < size) {
    if (kind == "uniform") {
      text.push_back(static_cast<TokenId>(rng() % kVocab));
    } else if (text.size() > 64 && rng() % 36 == 0) {
      size_t from = rng() % (text.size() - 64);
      for (size_t n = 8 + rng() % 57; n > 0; --n) text.push_back(text[from++]);
    } else {
      // The inverse of Zipf's law: ranks are uniform on a logarithmic scale.
      text.push_back(static_cast<TokenId>(std::pow(kVocab, uniform(rng))) - 1);
    }
  }
  text.resize(size);
  return text;
}

LocalProposerOptions OptionsFor(LocalSource source) {
  LocalProposerOptions options;
  options.lookup.max_tokens = source == LocalSource::kLookup ? 1 << 20 : 0;
  options.suffix_max_tokens = source == LocalSource::kSuffix ? 1 << 20 : 0;
  return options;
}

// A session whose text continues with `text`, and which drafts after every kRoundTokens tokens.
void TimeRounds(benchmark::State& state, LocalProposer* proposer, LocalSource source,
                std::span<const TokenId> text) {
  std::vector<double> observe, draft;
  size_t drafted = 0;
  for (size_t i = 0; i < text.size(); i += kRoundTokens) {
    const double begin = Nanoseconds();
    proposer->Observe(text.subspan(i, kRoundTokens));
    const double observed = Nanoseconds();
    drafted += proposer->Propose(source, kDraft).tokens.size();
    draft.push_back(Nanoseconds() - observed);
    observe.push_back(observed - begin);
  }
  state.counters["observe_ns"] = Median(observe);
  state.counters["draft_ns"] = Median(draft);
  state.counters["drafted"] = static_cast<double>(drafted) / kRounds;
}

void BM_Session(benchmark::State& state, LocalSource source, const std::string& kind) {
  const std::vector<TokenId> text = TextOf(kind, kTokens + kRounds * kRoundTokens);
  const std::span<const TokenId> all(text);
  const LocalProposerOptions options = OptionsFor(source);
  for (auto _ : state) {
    LocalProposer proposer(options, nullptr, "");
    const double begin = CpuNanoseconds();
    proposer.Observe(all.first(kTokens));
    state.counters["append_ns"] = (CpuNanoseconds() - begin) / kTokens;
    state.counters["bytes"] = static_cast<double>(proposer.bytes()) / kTokens;
    TimeRounds(state, &proposer, source, all.subspan(kTokens));
  }
}

// A session with little text of its own and a full store.
void BM_Store(benchmark::State& state) {
  const std::vector<TokenId> text = TextOf("zipf", kTokens + kRounds * kRoundTokens);
  const std::span<const TokenId> all(text);
  const LocalProposerOptions options = OptionsFor(LocalSource::kSuffix);
  for (auto _ : state) {
    SuffixStore store({.max_tokens = kTokens + kTokens / 8});
    const double begin = CpuNanoseconds();
    for (size_t i = 0; i < kTokens; i += 500) store.Add("client", all.subspan(i, 500));
    state.counters["append_ns"] = (CpuNanoseconds() - begin) / kTokens;
    state.counters["bytes"] = static_cast<double>(store.bytes()) / kTokens;
    LocalProposer proposer(options, &store, "client");
    TimeRounds(state, &proposer, LocalSource::kSuffix, all.subspan(kTokens));
  }
}

void RegisterAll() {
  for (const LocalSource source : {LocalSource::kLookup, LocalSource::kSuffix}) {
    for (const std::string kind : {"zipf", "same", "uniform"}) {
      const std::string name = (source == LocalSource::kLookup ? "lookup/" : "suffix/") + kind;
      benchmark::RegisterBenchmark(
          name.c_str(), [=](benchmark::State& state) { BM_Session(state, source, kind); })
          ->Unit(benchmark::kMillisecond)
          ->Iterations(3);
    }
  }
  benchmark::RegisterBenchmark("store/zipf", BM_Store)
      ->Unit(benchmark::kMillisecond)
      ->Iterations(3);
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) {
  outrider::RegisterAll();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
