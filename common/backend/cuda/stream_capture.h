// Captures the work enqueued on a stream as a graph, instead of running it.
#pragma once

#include <cuda_runtime.h>

#include <string>

namespace outrider {

// Thread: at most one capture per thread at a time.
class StreamCapture {
 public:
  // Begins the capture. Streams and memory of other threads are not affected.
  explicit StreamCapture(cudaStream_t stream);
  ~StreamCapture();
  StreamCapture(const StreamCapture&) = delete;
  StreamCapture& operator=(const StreamCapture&) = delete;

  // Whether the capture began.
  bool begun() const { return begun_; }
  // Returns the graph, which the caller owns; null if anything failed, and why() says what. The
  // stream is then as before the capture, and none of the work has run.
  cudaGraph_t End();
  const std::string& why() const { return why_; }

  // Whether this thread is capturing.
  static bool UnderWay();
  // If this thread is capturing, invalidates the capture for the reason `why` and returns true. For
  // failures that must not end the process then, because the work can be repeated without a
  // capture.
  static bool Invalidate(const std::string& why);

 private:
  const cudaStream_t stream_;
  bool begun_ = false;
  bool invalidated_ = false;
  std::string why_;  // the first reason
};

}  // namespace outrider
