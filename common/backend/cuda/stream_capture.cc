#include "common/backend/cuda/stream_capture.h"

namespace outrider {
namespace {

thread_local StreamCapture* under_way = nullptr;

}  // namespace

StreamCapture::StreamCapture(cudaStream_t stream) : stream_(stream) {
  const cudaError_t error = cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal);
  if (error != cudaSuccess) {
    why_ = std::string("beginning a capture: ") + cudaGetErrorString(error);
    cudaGetLastError();  // clears the error, which the next launch would report
    return;
  }
  begun_ = true;
  under_way = this;
}

StreamCapture::~StreamCapture() {
  if (const cudaGraph_t graph = End(); graph != nullptr) cudaGraphDestroy(graph);
}

cudaGraph_t StreamCapture::End() {
  if (!begun_) return nullptr;
  begun_ = false;
  under_way = nullptr;
  cudaGraph_t graph = nullptr;
  const cudaError_t error = cudaStreamEndCapture(stream_, &graph);
  if (error != cudaSuccess && !invalidated_) {
    why_ = std::string("ending a capture: ") + cudaGetErrorString(error);
  }
  if (error == cudaSuccess && !invalidated_) return graph;
  if (graph != nullptr) cudaGraphDestroy(graph);
  cudaGetLastError();
  return nullptr;
}

bool StreamCapture::UnderWay() { return under_way != nullptr; }

bool StreamCapture::Invalidate(const std::string& why) {
  if (under_way == nullptr) return false;
  if (!under_way->invalidated_) under_way->why_ = why;
  under_way->invalidated_ = true;
  return true;
}

}  // namespace outrider
