#include "client/bench.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "client/bench_report.h"
#include "client/bench_stats.h"
#include "client/prompt_file.h"
#include "client/verifier_client.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace outrider {
namespace {

constexpr auto kProgressInterval = std::chrono::milliseconds(200);

// What the workers have done so far, for the line on the terminal.
class Progress {
 public:
  void AddTokens(int tokens) { tokens_.fetch_add(tokens, std::memory_order_relaxed); }

  void RequestDone(bool ok) {
    MutexLock lock(mu_);
    ++done_;
    if (!ok) ++failed_;
    changed_.notify_all();
  }

  // Blocks until `requests` are done; draws the line meanwhile if `console` has a terminal.
  void Wait(int requests, const Console& console) {
    const Time started = SteadyClock().Now();
    MutexLock lock(mu_);
    while (done_ < requests) {
      lock.WaitUntil(changed_, SteadyClock().Now() + kProgressInterval);
      if (!console.err_is_terminal) continue;
      char line[128];
      std::snprintf(line, sizeof line, "\r%d of %d requests, %d failed, %.1f tokens/s   ", done_,
                    requests, failed_,
                    static_cast<double>(tokens_.load(std::memory_order_relaxed)) /
                        Seconds(SteadyClock().Now() - started));
      console.err << line << std::flush;
    }
    if (console.err_is_terminal) console.err << std::endl;
  }

 private:
  std::atomic<int64_t> tokens_ = 0;
  Mutex mu_;
  std::condition_variable changed_;
  int done_ OUTRIDER_GUARDED_BY(mu_) = 0;
  int failed_ OUTRIDER_GUARDED_BY(mu_) = 0;
};

RequestRecord RunOne(const VerifierClient& client, const BenchOptions& options,
                     const BenchPrompt& prompt, int index, Progress* progress) {
  RequestOptions request_options = options.request;
  if (prompt.max_tokens.has_value()) request_options.max_tokens = prompt.max_tokens;
  if (request_options.seed.has_value()) *request_options.seed += static_cast<uint64_t>(index);
  v1::GenerateRequest request = MakeRequest(request_options);
  request.set_text(prompt.prompt);

  const Time started = SteadyClock().Now();
  TokenTimes times(started);
  const auto finished =
      client.Generate(request, request_options.timeout_seconds, [&](const v1::TokenChunk& chunk) {
        times.OnChunk(SteadyClock().Now(), chunk.token_ids_size());
        progress->AddTokens(chunk.token_ids_size());
      });
  RequestRecord record;
  record.seconds = Seconds(SteadyClock().Now() - started);
  record.status = finished.status();
  record.domain = prompt.domain;
  record.ttft_ms = times.ttft_ms();
  record.itl_ms = times.itl_ms();
  if (finished.ok()) {
    const v1::SpeculationStats& speculation = finished->speculation();
    record.completion_tokens = finished->completion_tokens();
    record.rounds = speculation.rounds();
    record.drafted_rounds = speculation.drafted_rounds();
    record.drafted_tokens = speculation.drafted_tokens();
    record.accepted_tokens = speculation.accepted_tokens();
  }
  return record;
}

}  // namespace

Status RunBench(const BenchOptions& options, const Console& console) {
  OUTRIDER_ASSIGN(const std::vector<BenchPrompt> prompts, ReadPrompts(options.prompts_path));
  const int requests = options.requests.value_or(static_cast<int>(prompts.size()));
  OUTRIDER_ASSIGN(const VerifierClient client, VerifierClient::Create(options.connection));

  std::vector<RequestRecord> records(static_cast<size_t>(requests));
  std::atomic<int> next = 0;
  std::atomic<double> last_start = 0;  // seconds behind the first one
  Progress progress;
  const Time started = SteadyClock().Now();
  {
    std::vector<std::jthread> workers;
    for (int w = 0; w < std::min(options.concurrency, requests); ++w) {
      workers.emplace_back([&] {
        for (int i = next.fetch_add(1); i < requests; i = next.fetch_add(1)) {
          if (options.rate > 0) {
            std::this_thread::sleep_until(started +
                                          std::chrono::duration_cast<Duration>(
                                              std::chrono::duration<double>(i / options.rate)));
          }
          if (i == requests - 1) last_start = Seconds(SteadyClock().Now() - started);
          const auto at = static_cast<size_t>(i);
          records[at] = RunOne(client, options, prompts[at % prompts.size()], i, &progress);
          progress.RequestDone(records[at].status.ok());
        }
      });
    }
    progress.Wait(requests, console);
  }
  const BenchReport report = Summarise(records, Seconds(SteadyClock().Now() - started), last_start);
  if (options.json) {
    console.out << BenchJson(report) << std::endl;
  } else {
    console.out << BenchTable(report) << std::flush;
  }
  const int failed = report.requests_failed - (options.allow_refused ? report.requests_refused : 0);
  for (const RequestRecord& record : records) {
    if (!record.status.ok() && !(options.allow_refused && record.refused())) {
      return record.status.Annotate(std::to_string(failed) + " of " + std::to_string(requests) +
                                    " requests failed, the first with");
    }
  }
  return Status();
}

}  // namespace outrider
