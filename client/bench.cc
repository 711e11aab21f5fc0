#include "client/bench.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "client/bench_report.h"
#include "client/bench_stats.h"
#include "client/prompt_file.h"
#include "client/verifier_client.h"
#include "client/verifiers.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/signals.h"

namespace outrider {
namespace {

constexpr auto kProgressInterval = std::chrono::milliseconds(200);

// The workers' progress, for the line on the terminal.
class Progress {
 public:
  void AddTokens(int tokens) { tokens_.fetch_add(tokens, std::memory_order_relaxed); }

  void RequestDone(bool ok) {
    MutexLock lock(mu_);
    ++done_;
    if (!ok) ++failed_;
    changed_.notify_all();
  }

  // A worker has ended and starts no more requests.
  void WorkerDone() {
    MutexLock lock(mu_);
    ++workers_done_;
    changed_.notify_all();
  }

  // Blocks until `workers` have ended, and draws the line meanwhile if `console` has a terminal.
  void Wait(int workers, int requests, const Console& console) {
    const Time started = SteadyClock().Now();
    MutexLock lock(mu_);
    while (workers_done_ < workers) {
      lock.WaitUntil(changed_, SteadyClock().Now() + kProgressInterval);
      if (console.err_is_terminal) Draw(requests, started, console);
    }
    if (!console.err_is_terminal) return;
    Draw(requests, started, console);  // they may have ended before the first wait
    console.err << std::endl;
  }

 private:
  void Draw(int requests, Time started, const Console& console) OUTRIDER_REQUIRES(mu_) {
    char line[128];
    std::snprintf(line, sizeof line, "\r%d of %d requests, %d failed, %.1f tokens/s   ", done_,
                  requests, failed_,
                  static_cast<double>(tokens_.load(std::memory_order_relaxed)) /
                      Seconds(SteadyClock().Now() - started));
    console.err << line << std::flush;
  }

  std::atomic<int64_t> tokens_ = 0;
  Mutex mu_;
  std::condition_variable changed_;
  int done_ OUTRIDER_GUARDED_BY(mu_) = 0;
  int failed_ OUTRIDER_GUARDED_BY(mu_) = 0;
  int workers_done_ OUTRIDER_GUARDED_BY(mu_) = 0;
};

BenchRequest RunOne(Verifiers& verifiers, const BenchOptions& options, const BenchPrompt& prompt,
                    int index, const std::stop_token& stop, Progress* progress) {
  RequestOptions request_options = options.request;
  if (prompt.max_tokens.has_value()) request_options.max_tokens = prompt.max_tokens;
  if (request_options.seed.has_value()) *request_options.seed += static_cast<uint64_t>(index);
  v1::GenerateRequest request = MakeRequest(request_options);
  request.set_text(prompt.prompt);

  const Time started = SteadyClock().Now();
  TokenTimes times(started);
  BenchRequest record;
  const auto on_chunk = [&](const v1::TokenChunk& chunk) {
    times.OnChunk(SteadyClock().Now(), chunk.token_ids_size());
    progress->AddTokens(chunk.token_ids_size());
    ++record.rounds;
    record.completion_tokens += static_cast<uint64_t>(chunk.token_ids_size());
    record.drafted_rounds += chunk.drafted() > 0 ? 1 : 0;
    record.drafted_tokens += chunk.drafted();
    record.accepted_tokens += chunk.accepted();
  };
  const auto finished =
      verifiers.Generate(request, request_options.timeout_seconds, on_chunk, stop);
  record.seconds = Seconds(SteadyClock().Now() - started);
  record.status = finished.status();
  record.domain = prompt.domain;
  record.ttft_ms = times.ttft_ms();
  record.itl_ms = times.itl_ms();
  record.interrupted = !finished.ok() && stop.stop_requested();
  if (finished.ok()) {
    const v1::SpeculationStats& speculation = finished->speculation();
    record.prompt_tokens = finished->prompt_tokens();
    record.cached_tokens = finished->cached_tokens();
    record.completion_tokens = finished->completion_tokens();
    record.rounds = speculation.rounds();
    record.drafted_rounds = speculation.drafted_rounds();
    record.drafted_tokens = speculation.drafted_tokens();
    record.accepted_tokens = speculation.accepted_tokens();
    for (const v1::ArmRounds& arm : speculation.arms()) {
      // "draft-1x4" begins with the proposer.
      record.rounds_by_proposer[arm.arm().substr(0, arm.arm().find('-'))] += arm.rounds();
    }
  }
  return record;
}

Status FirstFailure(const std::vector<BenchRequest>& records, const BenchReport& report,
                    bool allow_refused) {
  const int failed = report.requests_failed - (allow_refused ? report.requests_refused : 0);
  for (const BenchRequest& record : records) {
    if (!record.interrupted && !record.status.ok() && !(allow_refused && record.refused())) {
      return record.status.Annotate(std::to_string(failed) + " of " +
                                    std::to_string(records.size()) +
                                    " requests failed, the first with");
    }
  }
  return Status();
}

}  // namespace

Result<int> RunBench(const BenchOptions& options, const Console& console) {
  OUTRIDER_ASSIGN(const std::vector<BenchPrompt> prompts, ReadPrompts(options.prompts_path));
  const int requests = options.requests.value_or(static_cast<int>(prompts.size()));
  const StopOnSignal signals;
  const std::stop_token stop = signals.token();
  OUTRIDER_ASSIGN(const std::unique_ptr<Verifiers> verifiers, Verifiers::Create(options));

  std::vector<std::optional<BenchRequest>> made(static_cast<size_t>(requests));
  std::atomic<int> next = 0;
  std::vector<double> starts(made.size());  // seconds after the first one
  Progress progress;
  const Time started = SteadyClock().Now();
  const auto work = [&] {
    for (int i = next.fetch_add(1); i < requests; i = next.fetch_add(1)) {
      if (options.rate > 0) {
        SleepUntil(started + FromSeconds(i / options.rate), stop);
      }
      if (stop.stop_requested()) break;
      const auto index = static_cast<size_t>(i);
      starts[index] = Seconds(SteadyClock().Now() - started);
      made[index] =
          RunOne(*verifiers, options, prompts[index % prompts.size()], i, stop, &progress);
      if (options.rate > 0) {
        made[index]->start_delay_ms = std::max(starts[index] - i / options.rate, 0.0) * 1e3;
      }
      progress.RequestDone(made[index]->status.ok());
    }
    progress.WorkerDone();
  };
  {
    std::vector<std::jthread> workers;
    const int count = std::min(options.concurrency, requests);
    workers.reserve(static_cast<size_t>(count));
    for (int w = 0; w < count; ++w) workers.emplace_back(work);
    progress.Wait(count, requests, console);
  }
  std::vector<BenchRequest> records;
  for (std::optional<BenchRequest>& record : made) {
    if (record.has_value()) records.push_back(std::move(*record));
  }
  std::optional<double> starting;
  if (options.rate > 0 && !starts.empty()) {
    starting = *std::max_element(starts.begin(), starts.end());
  }
  BenchReport report = Summarise(records, Seconds(SteadyClock().Now() - started), starting);
  report.interrupted = report.requests_interrupted > 0 || records.size() < made.size();
  verifiers->Describe(&report);
  if (options.json) {
    console.out << BenchJson(report) << std::endl;
  } else {
    console.out << BenchTable(report) << std::flush;
  }
  if (report.interrupted) return 128 + signals.signal();
  OUTRIDER_TRY(FirstFailure(records, report, options.allow_refused));
  return 0;
}

}  // namespace outrider
