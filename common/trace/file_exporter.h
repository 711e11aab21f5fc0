// Appends spans to a file, one ExportTraceServiceRequest a line.
//
// Close waits for the disk.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "common/base/inbox.h"
#include "common/trace/span_exporter.h"
#include "common/trace/trace_file.h"

namespace outrider {

class FileExporter final : public SpanExporter {
 public:
  struct Options {
    std::string path;
    uint64_t max_bytes = 0;    // of the file and the previous one
    size_t max_waiting = 256;  // batches, each with a request's spans
    Attributes resource = {};  // of the process
    ExportCounts counts = {};
  };

  // kUnavailable, kInvalidArgument: no file can be written there.
  static Result<std::unique_ptr<SpanExporter>> Open(Options options);
  ~FileExporter() override;

  void Record(SpanBatch spans) override;
  void BeginClose() override;
  void Close() override;

 private:
  FileExporter(Options options, std::unique_ptr<TraceFile> file);
  void Run();
  void Write(const std::vector<Span>& spans);

  const Options options_;
  const std::unique_ptr<TraceFile> file_;  // used by the thread
  bool failing_ = false;                   // used by the thread: the failure has been logged
  Inbox<SpanBatch> inbox_;
  std::thread thread_;
};

}  // namespace outrider
