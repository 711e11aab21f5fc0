// Records what is enqueued on a stream as a graph, instead of running it.
#pragma once

#include <cuda_runtime.h>

#include <string>

namespace outrider {

// Thread: one capture at a time on each.
class StreamCapture {
 public:
  // Begins. What other threads do with their streams and memory does not matter.
  explicit StreamCapture(cudaStream_t stream);
  ~StreamCapture();
  StreamCapture(const StreamCapture&) = delete;
  StreamCapture& operator=(const StreamCapture&) = delete;

  // Whether anything would be recorded.
  bool begun() const { return begun_; }
  // The caller's graph; null if anything went wrong, and why() says what. The stream is then as
  // before the capture, and nothing of it has run.
  cudaGraph_t End();
  const std::string& why() const { return why_; }

  // Whether this thread captures.
  static bool UnderWay();
  // True while this thread captures: the capture is then of no use, for the reason `why`. For what
  // must not end the process there, because it can be done over without a capture.
  static bool Spoil(const std::string& why);

 private:
  const cudaStream_t stream_;
  bool begun_ = false;
  bool spoiled_ = false;
  std::string why_;  // the first reason
};

}  // namespace outrider
