#include "common/trace_http/http_exporter.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "common/base/log.h"
#include "common/json/json.h"
#include "common/trace/otlp_json.h"

namespace outrider {
namespace {

bool MayBeRetried(int code) { return code == 429 || code == 502 || code == 503 || code == 504; }

// partialSuccess of an ExportTraceServiceResponse.
struct Rejected {
  size_t spans = 0;
  std::string why;
};

// An answer that is not such a message rejects nothing: the code says that the request was taken.
Rejected RejectedBy(const std::string& answer) {
  const Result<JsonValue> json = ParseJsonObject(answer, "the answer", {});
  if (!json.ok()) return {};
  const JsonValue partial = (*json)["partialSuccess"];
  Rejected rejected;
  // 64-bit integers are strings in JSON of protobuf, and numbers are read too.
  const JsonValue count = partial["rejectedSpans"];
  constexpr int64_t kMax = int64_t{1} << 32;
  const Result<int64_t> number =
      count.is_string() ? Result<int64_t>(std::strtoll(count.text().c_str(), nullptr, 10))
                        : count.Int64(0, kMax);
  if (number.ok() && *number > 0) rejected.spans = static_cast<size_t>(*number);
  rejected.why = partial["errorMessage"].text();
  return rejected;
}

}  // namespace

Result<std::unique_ptr<SpanExporter>> HttpExporter::Open(Options options) {
  OUTRIDER_ASSIGN(std::unique_ptr<HttpPost> post,
                  HttpPost::Open(options.endpoint, "application/json"));
  return std::unique_ptr<SpanExporter>(new HttpExporter(std::move(options), std::move(post)));
}

HttpExporter::HttpExporter(Options options, std::unique_ptr<HttpPost> post)
    : options_(std::move(options)),
      post_(std::move(post)),
      inbox_(options_.max_waiting),
      thread_([this] { Run(); }) {}

HttpExporter::~HttpExporter() { Close(); }

void HttpExporter::Record(SpanBatch spans) {
  const size_t count = spans->size();
  if (!inbox_.TryPush(std::move(spans))) options_.counts.AddDropped(count);
}

void HttpExporter::BeginClose() {
  inbox_.Close();
  MutexLock lock(mu_);
  if (!give_up_.has_value()) give_up_ = std::chrono::steady_clock::now() + options_.grace;
  closing_.notify_all();
  post_->Wake();
}

void HttpExporter::Close() {
  BeginClose();
  if (thread_.joinable()) thread_.join();
}

bool HttpExporter::IsClosing() {
  MutexLock lock(mu_);
  return give_up_.has_value();
}

bool HttpExporter::IsGraceOver() {
  MutexLock lock(mu_);
  return give_up_.has_value() && std::chrono::steady_clock::now() >= *give_up_;
}

void HttpExporter::Pause(Duration time) {
  const Time until = std::chrono::steady_clock::now() + time;
  MutexLock lock(mu_);
  while (!give_up_.has_value() && lock.WaitUntil(closing_, until) != std::cv_status::timeout) {
  }
}

void HttpExporter::Run() {
  // An empty result without a timeout means that the inbox is closed.
  for (std::vector<SpanBatch> taken; !(taken = inbox_.Drain(std::nullopt)).empty();) {
    std::vector<Span> spans;
    for (const SpanBatch& batch : taken) spans.insert(spans.end(), batch->begin(), batch->end());
    for (size_t begin = 0; begin < spans.size(); begin += kSpansOfRequest) {
      Send(std::span(spans).subspan(begin, std::min(kSpansOfRequest, spans.size() - begin)));
    }
  }
}

void HttpExporter::Send(std::span<const Span> spans) {
  const std::string request = ToOtlpJson(options_.resource, spans);
  for (int attempt = 1;; ++attempt) {
    if (IsGraceOver()) return options_.counts.AddDropped(spans.size());
    const bool is_last = IsClosing();
    const std::optional<Duration> pause =
        Attempt(request, spans.size(), is_last ? kAttempts : attempt);
    if (!pause.has_value()) return;
    Pause(*pause);
  }
}

std::optional<Duration> HttpExporter::Attempt(const std::string& request, size_t spans,
                                              int attempt) {
  const Result<HttpPost::Answer> answer = post_->Send(request, [this] { return IsGraceOver(); });
  if (answer.ok() && answer->code >= 200 && answer->code < 300) {
    failing_ = false;
    CountAccepted(answer->body, spans);
    return std::nullopt;
  }
  TellFailure(answer.ok() ? "the collector answered " + std::to_string(answer->code)
                          : answer.status().message());
  const bool again = (!answer.ok() || MayBeRetried(answer->code)) && attempt < kAttempts;
  if (!again) {
    options_.counts.AddDropped(spans);
    return std::nullopt;
  }
  const Duration asked = answer.ok() ? answer->retry_after : Duration{};
  return std::clamp(asked, kFirstPause * (1 << (attempt - 1)), kLongestPause);
}

void HttpExporter::CountAccepted(const std::string& answer, size_t spans) {
  const Rejected rejected = RejectedBy(answer);
  const size_t lost = std::min(rejected.spans, spans);
  options_.counts.AddExported(spans - lost);
  options_.counts.AddDropped(lost);
  if (lost == 0) return;
  Log(LogLevel::kWarning, "the trace collector rejected spans",
      {{"spans", lost}, {"reason", rejected.why}});
}

void HttpExporter::TellFailure(const std::string& reason) {
  if (std::exchange(failing_, true)) return;
  Log(LogLevel::kError, "traces cannot be sent; spans are lost if that lasts",
      // a query may hold a key
      {{"endpoint", options_.endpoint.substr(0, options_.endpoint.find('?'))}, {"reason", reason}});
}

}  // namespace outrider
