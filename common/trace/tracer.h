// Takes spans of a process and writes them to a file on a separate thread: with a slow or full
// disk, spans are lost and counted, but no request waits.
//
// Owner: main; outlives the code that records. nullptr if tracing is off.
// Thread: any; only Close and the destructor block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/inbox.h"
#include "common/trace/span.h"
#include "common/trace/trace_file.h"

namespace outrider {

struct TracerOptions {
  std::string path;
  uint64_t max_bytes = 0;    // of the file and the previous one
  double sample_ratio = 1;   // of requests without a trace of their own
  std::string service;       // service.name
  std::string instance;      // service.instance.id
  size_t max_waiting = 256;  // calls of Record, each with a request's spans
  // Called from any thread with the outcome of spans.
  std::function<void(size_t spans)> on_written = nullptr;
  std::function<void(size_t spans)> on_dropped = nullptr;
};

class Tracer {
 public:
  // kUnavailable, kInvalidArgument: no file can be written there.
  static Result<std::unique_ptr<Tracer>> Open(TracerOptions options);
  ~Tracer();

  // Whether a new trace is recorded.
  bool Sample() const;
  // Records spans that have ended. When full, they are dropped.
  void Record(std::vector<Span> spans);
  // Writes what was recorded; later spans are dropped. Waits for the disk.
  void Close();

 private:
  Tracer(TracerOptions options, std::unique_ptr<TraceFile> file);
  void Run();
  void Write(const std::vector<Span>& spans);

  const TracerOptions options_;
  const Attributes resource_;
  const std::unique_ptr<TraceFile> file_;  // used by the thread
  bool failing_ = false;                   // used by the thread: the failure has been logged
  Inbox<std::vector<Span>> inbox_;
  std::thread thread_;
};

}  // namespace outrider
