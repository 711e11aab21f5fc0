#include "common/trace/file_exporter.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/trace/otlp_json.h"

namespace outrider {
namespace {

// Readers limit the length of lines: the Collector's to 1 MiB, with spans of about 1 KiB.
constexpr size_t kSpansOfLine = 64;

}  // namespace

Result<std::unique_ptr<SpanExporter>> FileExporter::Open(Options options) {
  OUTRIDER_ASSIGN(std::unique_ptr<TraceFile> file,
                  TraceFile::Open(options.path, options.max_bytes));
  return std::unique_ptr<SpanExporter>(new FileExporter(std::move(options), std::move(file)));
}

FileExporter::FileExporter(Options options, std::unique_ptr<TraceFile> file)
    : options_(std::move(options)),
      file_(std::move(file)),
      inbox_(options_.max_waiting),
      thread_([this] { Run(); }) {}

FileExporter::~FileExporter() { Close(); }

void FileExporter::BeginClose() { inbox_.Close(); }

void FileExporter::Close() {
  inbox_.Close();
  if (thread_.joinable()) thread_.join();
}

void FileExporter::Record(SpanBatch spans) {
  const size_t count = spans->size();
  if (!inbox_.TryPush(std::move(spans))) options_.counts.AddDropped(count);
}

void FileExporter::Run() {
  // An empty result without a timeout means that the inbox is closed.
  for (std::vector<SpanBatch> taken; !(taken = inbox_.Drain(std::nullopt)).empty();) {
    for (const SpanBatch& spans : taken) Write(*spans);
  }
}

void FileExporter::Write(const std::vector<Span>& spans) {
  for (size_t begin = 0; begin < spans.size(); begin += kSpansOfLine) {
    const size_t count = std::min(kSpansOfLine, spans.size() - begin);
    const Status status =
        file_->Append(ToOtlpJson(options_.resource, std::span(spans).subspan(begin, count)));
    if (!status.ok() && !failing_) {
      Log(LogLevel::kError, "traces cannot be written; spans are lost until they can",
          {{"reason", status.ToString()}});
    }
    failing_ = !status.ok();
    if (status.ok()) {
      options_.counts.AddExported(count);
    } else {
      options_.counts.AddDropped(count);
    }
  }
}

}  // namespace outrider
