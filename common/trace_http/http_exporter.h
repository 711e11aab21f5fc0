// Sends spans to a collector: OTLP over HTTP, in its JSON encoding
// (https://opentelemetry.io/docs/specs/otlp/#otlphttp).
//
// An answer that allows it (no answer at all, 429, 502, 503, 504) is followed by further attempts,
// at growing intervals or when the answer's Retry-After says; meanwhile spans wait in the queue,
// and those that do not fit are dropped. Spans that the collector rejects (partialSuccess) count as
// dropped.
//
// Close waits up to Options::grace for what is left.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "common/base/inbox.h"
#include "common/base/mutex.h"
#include "common/trace/span_exporter.h"
#include "common/trace_http/http_post.h"

namespace outrider {

class HttpExporter final : public SpanExporter {
 public:
  static constexpr size_t kSpansOfRequest = 512;
  static constexpr int kAttempts = 6;
  static constexpr Duration kFirstPause = std::chrono::milliseconds(500);  // then twice as long
  static constexpr Duration kLongestPause = std::chrono::seconds(30);

  struct Options {
    std::string endpoint;
    size_t max_waiting = 256;  // batches, each with a request's spans
    Duration grace = std::chrono::seconds(1);
    Attributes resource = {};  // of the process
    ExportCounts counts = {};
  };

  // kInvalidArgument: see HttpPost::Open. Nothing is sent yet.
  static Result<std::unique_ptr<SpanExporter>> Open(Options options);
  ~HttpExporter() override;

  void Record(SpanBatch spans) override;
  void BeginClose() override OUTRIDER_EXCLUDES(mu_);
  void Close() override;

 private:
  HttpExporter(Options options, std::unique_ptr<HttpPost> post);
  void Run();
  void Send(std::span<const Span> spans);
  // One attempt. nullopt: it is over, well or not. Otherwise when the next one may follow.
  std::optional<Duration> Attempt(const std::string& request, size_t spans, int attempt);
  void CountAccepted(const std::string& answer, size_t spans);
  void TellFailure(const std::string& reason);
  // Waits, unless the exporter is closed first.
  void Pause(Duration time) OUTRIDER_EXCLUDES(mu_);
  bool IsClosing() OUTRIDER_EXCLUDES(mu_);
  bool IsGraceOver() OUTRIDER_EXCLUDES(mu_);

  const Options options_;
  const std::unique_ptr<HttpPost> post_;  // used by the thread
  bool failing_ = false;                  // used by the thread: the failure has been logged
  Inbox<SpanBatch> inbox_;
  Mutex mu_;
  std::condition_variable closing_;
  std::optional<Time> give_up_ OUTRIDER_GUARDED_BY(mu_);  // set once it is closed
  std::thread thread_;
};

}  // namespace outrider
