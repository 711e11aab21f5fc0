// Takes spans of a process and writes them to a file on a thread of its own: a slow or full disk
// loses spans and counts them, it holds up no request.
//
// Owner: main; outlives whoever records. Where traces are off there is none (nullptr).
// Thread: any; nothing but Close and the destructor waits.
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
  uint64_t max_bytes = 0;    // of the file and the one before it
  double sample_ratio = 1;   // of requests that bring no trace of their own
  std::string service;       // service.name
  std::string instance;      // service.instance.id
  size_t max_waiting = 256;  // calls of Record; each brings a request's spans
  // Told of what became of spans, from any thread.
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
  // Spans that have ended. Full: they are dropped.
  void Record(std::vector<Span> spans);
  // Writes what was recorded; what comes later is dropped. Waits for the disk.
  void Close();

 private:
  Tracer(TracerOptions options, std::unique_ptr<TraceFile> file);
  void Run();
  void Write(const std::vector<Span>& spans);

  const TracerOptions options_;
  const Attributes resource_;
  const std::unique_ptr<TraceFile> file_;  // the thread's
  bool failing_ = false;                   // the thread's: said so in the log
  Inbox<std::vector<Span>> inbox_;
  std::thread thread_;
};

}  // namespace outrider
