// Streams that run work immediately or late, events, captures and graphs.
#include "tests/support/cuda_emulation/streams.h"

#include <cuda_runtime.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "tests/support/cuda_emulation/emulator.h"

using namespace outrider::cuda_emulation;

struct CudaStream {
  std::deque<Work> late;
  bool capturing = false;
  bool invalidated = false;
  std::vector<Work> recorded;
};
struct CudaEvent {
  // When it was recorded; shared with the recording, which the event need not outlive.
  std::shared_ptr<double> milliseconds = std::make_shared<double>(0);
};
struct CudaGraph {
  std::vector<Work> nodes;
};
struct CudaGraphExec {
  std::vector<Work> nodes;
};

namespace {

thread_local cudaError_t last_error = cudaSuccess;
thread_local bool is_late = false;
thread_local double clock_milliseconds = 0;  // of this thread's device
thread_local std::map<GraphCall, cudaError_t> to_fail;
// Streams of this thread with deferred work, and the one that captures.
thread_local std::set<CudaStream*> late_streams;
thread_local CudaStream* capturing = nullptr;
std::atomic<int> live_graphs = 0;

cudaError_t Drain(CudaStream* stream) {
  cudaError_t first = cudaSuccess;
  while (!stream->late.empty()) {
    const Work work = std::move(stream->late.front());
    stream->late.pop_front();
    if (const cudaError_t error = work(); first == cudaSuccess) first = error;
  }
  late_streams.erase(stream);
  return first;
}

bool TakeFailure(GraphCall call, cudaError_t* error) {
  const auto it = to_fail.find(call);
  if (it == to_fail.end()) return false;
  *error = it->second;
  to_fail.erase(it);
  return true;
}

}  // namespace

namespace outrider::cuda_emulation {

cudaError_t Failed(cudaError_t error) {
  last_error = error;
  return error;
}

cudaError_t Enqueue(cudaStream_t stream, Work work) {
  if (stream == nullptr) return work();
  if (stream->capturing) {
    if (stream->invalidated) return Failed(cudaErrorStreamCaptureInvalidated);
    stream->recorded.push_back(std::move(work));
    return cudaSuccess;
  }
  if (!is_late && stream->late.empty()) return work();
  stream->late.push_back(std::move(work));
  late_streams.insert(stream);
  return cudaSuccess;
}

bool Capturing() { return capturing != nullptr; }

cudaError_t RefuseInCapture(cudaError_t error) {
  if (capturing != nullptr) capturing->invalidated = true;
  return Failed(error);
}

cudaError_t DrainAll() {
  cudaError_t first = cudaSuccess;
  while (!late_streams.empty()) {
    if (const cudaError_t error = Drain(*late_streams.begin()); first == cudaSuccess) first = error;
  }
  return first;
}

void SpendMilliseconds(float milliseconds) {
  clock_milliseconds += static_cast<double>(milliseconds);
}

void SetLate(bool late) { is_late = late; }

void FailNext(GraphCall call, cudaError_t error) { to_fail[call] = error; }

std::string GraphCallName(GraphCall call) {
  switch (call) {
    case GraphCall::kBeginCapture: return "BeginCapture";
    case GraphCall::kEndCapture: return "EndCapture";
    case GraphCall::kInstantiate: return "Instantiate";
    case GraphCall::kLaunch: return "Launch";
  }
  return "";
}

int LiveGraphs() { return live_graphs; }

}  // namespace outrider::cuda_emulation

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return cudaMemcpy2DAsync(to, bytes, from, bytes, bytes, 1, kind, stream);
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  const auto copy = [=](const void* source) {
    for (size_t row = 0; width > 0 && row < height; ++row) {  // null pointers of nothing are fine
      std::memcpy(static_cast<char*>(to) + row * to_pitch,
                  static_cast<const char*>(source) + row * from_pitch, width);
    }
    return cudaSuccess;
  };
  if (stream != nullptr && stream->capturing) {
    // Copies of pageable memory go through a staging buffer of the driver, which a graph does not
    // have.
    const bool pageable = (kind == cudaMemcpyHostToDevice && !IsTaken(from)) ||
                          (kind == cudaMemcpyDeviceToHost && !IsTaken(to));
    if (pageable) return RefuseInCapture();
  }
  if (stream != nullptr && !stream->capturing && is_late && width * height > 0) {
    if (kind == cudaMemcpyHostToDevice && !IsTaken(from)) {
      const char* first = static_cast<const char*>(from);
      return Enqueue(
          stream, [=, now = std::vector<char>(first, first + (height - 1) * from_pitch + width)] {
            return copy(now.data());
          });
    }
    if (kind == cudaMemcpyDeviceToHost && !IsTaken(to)) {
      if (const cudaError_t error = Drain(stream); error != cudaSuccess) return error;
      return copy(from);
    }
  }
  return Enqueue(stream, [=] { return copy(from); });
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  return Enqueue(stream, [=] {
    std::memset(to, value, bytes);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new CudaStream;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const cudaError_t error = Drain(stream);
  if (capturing == stream) capturing = nullptr;
  delete stream;
  return error;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (stream->capturing) return RefuseInCapture();
  return Drain(stream);
}
// Time passes from one query to the next: each runs one piece of deferred work.
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (stream->capturing) return RefuseInCapture();
  if (stream->late.empty()) return cudaSuccess;
  const Work work = std::move(stream->late.front());
  stream->late.pop_front();
  if (stream->late.empty()) late_streams.erase(stream);
  const cudaError_t error = work();
  return Failed(error == cudaSuccess ? cudaErrorNotReady : error);
}
// Events belong to one stream, or to streams that run work immediately: waiting for one is waiting
// for all.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t, unsigned) {
  if (stream->capturing) return RefuseInCapture(cudaErrorStreamCaptureIsolation);
  return DrainAll();
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CudaEvent;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return Enqueue(stream, [at = event->milliseconds] {
    *at = clock_milliseconds;
    return cudaSuccess;
  });
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  *milliseconds = static_cast<float>(*end->milliseconds - *begin->milliseconds);
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t) {
  if (Capturing()) return RefuseInCapture();
  return DrainAll();
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  cudaError_t error = cudaSuccess;
  if (TakeFailure(GraphCall::kBeginCapture, &error)) return Failed(error);
  if (capturing != nullptr) return Failed(cudaErrorIllegalState);
  capturing = stream;
  stream->capturing = true;
  stream->invalidated = false;
  stream->recorded.clear();
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  if (capturing != stream) return Failed(cudaErrorIllegalState);
  capturing = nullptr;
  stream->capturing = false;
  cudaError_t error = cudaSuccess;
  if (TakeFailure(GraphCall::kEndCapture, &error)) return Failed(error);
  if (stream->invalidated) return Failed(cudaErrorStreamCaptureInvalidated);
  *graph = new CudaGraph{std::move(stream->recorded)};
  ++live_graphs;
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status = !stream->capturing    ? cudaStreamCaptureStatusNone
            : stream->invalidated ? cudaStreamCaptureStatusInvalidated
                                  : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  cudaError_t error = cudaSuccess;
  if (TakeFailure(GraphCall::kInstantiate, &error)) return Failed(error);
  *exec = new CudaGraphExec{graph->nodes};
  ++live_graphs;
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  cudaError_t error = cudaSuccess;
  if (TakeFailure(GraphCall::kLaunch, &error)) return Failed(error);
  if (stream->capturing) return RefuseInCapture();
  // Refers to the graph itself, not a copy, so that destroying it too early is detected.
  return Enqueue(stream, [exec] {
    for (const Work& node : exec->nodes) {
      if (const cudaError_t failed = node(); failed != cudaSuccess) return failed;
    }
    return cudaSuccess;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  --live_graphs;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  --live_graphs;
  return cudaSuccess;
}
