#include "common/trace/tracer.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <random>
#include <span>
#include <utility>

#include "common/base/log.h"
#include "common/base/version.h"
#include "common/trace/otlp_json.h"

namespace outrider {
namespace {

// Readers limit the length of lines: the Collector's to 1 MiB, with spans of about 1 KiB.
constexpr size_t kSpansOfLine = 64;

Attributes ResourceOf(const TracerOptions& options) {
  return {{"service.name", options.service},
          {"service.version", std::string(kVersion)},
          {"service.instance.id", options.instance},
          {"process.pid", static_cast<int64_t>(getpid())}};
}

}  // namespace

Result<std::unique_ptr<Tracer>> Tracer::Open(TracerOptions options) {
  OUTRIDER_ASSIGN(std::unique_ptr<TraceFile> file,
                  TraceFile::Open(options.path, options.max_bytes));
  return std::unique_ptr<Tracer>(new Tracer(std::move(options), std::move(file)));
}

Tracer::Tracer(TracerOptions options, std::unique_ptr<TraceFile> file)
    : options_(std::move(options)),
      resource_(ResourceOf(options_)),
      file_(std::move(file)),
      inbox_(options_.max_waiting),
      thread_([this] { Run(); }) {}

Tracer::~Tracer() { Close(); }

void Tracer::Close() {
  inbox_.Close();
  if (thread_.joinable()) thread_.join();
}

bool Tracer::Sample() const {
  if (options_.sample_ratio >= 1) return true;
  if (options_.sample_ratio <= 0) return false;
  std::random_device random;
  return std::generate_canonical<double, 32>(random) < options_.sample_ratio;
}

void Tracer::Record(std::vector<Span> spans) {
  const size_t count = spans.size();
  if (inbox_.TryPush(std::move(spans)) || options_.on_dropped == nullptr) return;
  options_.on_dropped(count);
}

void Tracer::Run() {
  // An empty result without a timeout means that the inbox is closed.
  for (std::vector<std::vector<Span>> taken; !(taken = inbox_.Drain(std::nullopt)).empty();) {
    for (const std::vector<Span>& spans : taken) Write(spans);
  }
}

void Tracer::Write(const std::vector<Span>& spans) {
  for (size_t begin = 0; begin < spans.size(); begin += kSpansOfLine) {
    const size_t count = std::min(kSpansOfLine, spans.size() - begin);
    const Status status =
        file_->Append(ToOtlpJson(resource_, std::span(spans).subspan(begin, count)));
    if (!status.ok() && !failing_) {
      Log(LogLevel::kError, "traces cannot be written; spans are lost until they can",
          {{"reason", status.ToString()}});
    }
    failing_ = !status.ok();
    const auto& told = status.ok() ? options_.on_written : options_.on_dropped;
    if (told != nullptr) told(count);
  }
}

}  // namespace outrider
