// The emulator's streams: captures, graphs and deferred work.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "tests/support/cuda_emulation/emulator.h"
#include "tests/support/cuda_emulation/emulator_test_kernels.h"

namespace outrider {
namespace {

using cuda_emulation::FailNext;
using cuda_emulation::GraphCall;

class CudaStreams : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&number_), sizeof(int)), cudaSuccess);
    *number_ = 0;
  }
  void TearDown() override {
    cuda_emulation::SetLate(false);
    EXPECT_EQ(cudaFree(number_), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
    EXPECT_EQ(cuda_emulation::LiveGraphs(), 0);
    cudaGetLastError();
  }

  void Begin() {
    ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  }
  // The graph of the work recorded since Begin.
  cudaGraphExec_t Instantiate() {
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
    cudaGraphExec_t exec = nullptr;
    EXPECT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    return exec;
  }
  cudaStreamCaptureStatus Status() const {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    EXPECT_EQ(cudaStreamIsCapturing(stream_, &status), cudaSuccess);
    return status;
  }

  cudaStream_t stream_ = nullptr;
  int* number_ = nullptr;
};

TEST_F(CudaStreams, GraphRepeatsCaptureInOrder) {
  int digit = 1;
  Begin();
  EXPECT_EQ(Status(), cudaStreamCaptureStatusActive);
  ASSERT_EQ(LaunchDigit(number_, digit, stream_), cudaSuccess);
  digit = 2;
  ASSERT_EQ(LaunchDigit(number_, digit, stream_), cudaSuccess);
  digit = 3;  // too late for the recorded launch
  EXPECT_EQ(*number_, 0);
  const cudaGraphExec_t exec = Instantiate();
  EXPECT_EQ(Status(), cudaStreamCaptureStatusNone);
  EXPECT_EQ(*number_, 0);
  ASSERT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
  EXPECT_EQ(*number_, 12);
  ASSERT_EQ(LaunchDigit(number_, 7, stream_), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
  EXPECT_EQ(*number_, 12712);
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
}

TEST_F(CudaStreams, GraphCopiesReadHostAtReplay) {
  int* pinned = nullptr;
  ASSERT_EQ(cudaMallocHost(reinterpret_cast<void**>(&pinned), 2 * sizeof(int)), cudaSuccess);
  int &host = pinned[0], &other = pinned[1];
  host = 5, other = 0;
  Begin();
  ASSERT_EQ(cudaMemcpyAsync(number_, &host, sizeof(int), cudaMemcpyHostToDevice, stream_),
            cudaSuccess);
  ASSERT_EQ(LaunchDigit(number_, 1, stream_), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(&other, number_, sizeof(int), cudaMemcpyDeviceToHost, stream_),
            cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(number_, 0, sizeof(int), stream_), cudaSuccess);
  const cudaGraphExec_t exec = Instantiate();
  EXPECT_EQ(other, 0);
  ASSERT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
  EXPECT_EQ(other, 51);
  EXPECT_EQ(*number_, 0);
  host = 6;
  ASSERT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
  EXPECT_EQ(other, 61);
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
}

TEST_F(CudaStreams, ForbiddenCallsSpoilCapture) {
  void *device = nullptr, *pinned = nullptr, *more = nullptr;
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaMalloc(&device, 8), cudaSuccess);
  ASSERT_EQ(cudaMallocHost(&pinned, 8), cudaSuccess);
  int host = 0;
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  const std::vector<std::function<cudaError_t()>> calls = {
      [&] { return cudaMalloc(&more, 8); },
      [&] { return cudaMallocHost(&more, 8); },
      [&] { return cudaFree(device); },
      [&] { return cudaFreeHost(pinned); },
      [&] { return cudaStreamSynchronize(stream_); },
      [&] { return cudaEventSynchronize(event); },
      [&] { return cudaStreamWaitEvent(stream_, event, 0); },
      [&] { return cudaMemcpyAsync(device, &host, 4, cudaMemcpyHostToDevice, stream_); },
      [&] { return cudaMemcpyAsync(&host, device, 4, cudaMemcpyDeviceToHost, stream_); },
  };
  for (size_t i = 0; i < calls.size(); ++i) {
    Begin();
    ASSERT_EQ(LaunchDigit(number_, 1, stream_), cudaSuccess);
    EXPECT_NE(calls[i](), cudaSuccess) << i;
    EXPECT_NE(cudaGetLastError(), cudaSuccess) << i;
    EXPECT_EQ(Status(), cudaStreamCaptureStatusInvalidated) << i;
    EXPECT_EQ(LaunchDigit(number_, 2, stream_), cudaErrorStreamCaptureInvalidated) << i;
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorStreamCaptureInvalidated) << i;
    EXPECT_EQ(graph, nullptr) << i;
    EXPECT_EQ(cudaGetLastError(), cudaErrorStreamCaptureInvalidated) << i;
  }
  EXPECT_EQ(*number_, 0);
  // The failure has no further effect.
  ASSERT_EQ(LaunchDigit(number_, 4, stream_), cudaSuccess);
  EXPECT_EQ(*number_, 4);
  EXPECT_EQ(cudaFree(device), cudaSuccess);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
}

TEST_F(CudaStreams, GraphCallsFailOnceOnDemand) {
  FailNext(GraphCall::kBeginCapture, cudaErrorIllegalState);
  EXPECT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
            cudaErrorIllegalState);
  EXPECT_EQ(Status(), cudaStreamCaptureStatusNone);

  Begin();
  cudaGraph_t graph = nullptr;
  FailNext(GraphCall::kEndCapture, cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(graph, nullptr);
  EXPECT_EQ(Status(), cudaStreamCaptureStatusNone);

  Begin();
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  cudaGraphExec_t exec = nullptr;
  FailNext(GraphCall::kInstantiate, cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  FailNext(GraphCall::kLaunch, cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGraphLaunch(exec, stream_), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

TEST_F(CudaStreams, LateStreamRunsAtWait) {
  cuda_emulation::SetLate(true);
  int *pinned = nullptr, pageable = 3, back = 0;
  ASSERT_EQ(cudaMallocHost(reinterpret_cast<void**>(&pinned), sizeof(int)), cudaSuccess);
  *pinned = 1;
  ASSERT_EQ(cudaMemcpyAsync(number_, pinned, sizeof(int), cudaMemcpyHostToDevice, stream_),
            cudaSuccess);
  ASSERT_EQ(LaunchDigit(number_, 9, stream_), cudaSuccess);
  EXPECT_EQ(*number_, 0);
  *pinned = 2;  // a bug in the caller: the copy may not have happened yet
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(*number_, 29);
  // Pageable memory is read when the copy is enqueued, and written immediately.
  ASSERT_EQ(cudaMemcpyAsync(number_, &pageable, sizeof(int), cudaMemcpyHostToDevice, stream_),
            cudaSuccess);
  pageable = 4;
  EXPECT_EQ(*number_, 29);
  ASSERT_EQ(cudaMemcpyAsync(&back, number_, sizeof(int), cudaMemcpyDeviceToHost, stream_),
            cudaSuccess);
  EXPECT_EQ(back, 3);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
}

TEST_F(CudaStreams, LateGraphRunsAtWait) {
  cuda_emulation::SetLate(true);
  Begin();
  ASSERT_EQ(LaunchDigit(number_, 1, stream_), cudaSuccess);
  const cudaGraphExec_t exec = Instantiate();
  ASSERT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
  EXPECT_EQ(*number_, 0);
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(*number_, 1);
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
}

TEST_F(CudaStreams, LateWorkProgressesWithQueries) {
  EXPECT_EQ(cudaStreamQuery(stream_), cudaSuccess);
  cuda_emulation::SetLate(true);
  ASSERT_EQ(LaunchDigit(number_, 1, stream_), cudaSuccess);
  ASSERT_EQ(LaunchDigit(number_, 2, stream_), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(stream_), cudaErrorNotReady);
  EXPECT_EQ(*number_, 1);
  EXPECT_EQ(cudaGetLastError(), cudaErrorNotReady) << "it must be cleared";
  EXPECT_EQ(cudaStreamQuery(stream_), cudaErrorNotReady);
  EXPECT_EQ(*number_, 12);
  EXPECT_EQ(cudaStreamQuery(stream_), cudaSuccess);
  Begin();
  EXPECT_EQ(cudaStreamQuery(stream_), cudaErrorStreamCaptureUnsupported);
  cudaGraph_t graph = nullptr;
  EXPECT_NE(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
}

#if !defined(OUTRIDER_ADDRESS_SANITIZER)
TEST_F(CudaStreams, FreedMemoryIsPoisonedAndQuarantined) {
  int *first = nullptr, *second = nullptr;
  ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&first), 4096), cudaSuccess);
  *first = 12;
  ASSERT_EQ(cudaFree(first), cudaSuccess);
  EXPECT_EQ(cudaFree(first), cudaErrorInvalidValue);
  ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&second), 4096), cudaSuccess);
  EXPECT_NE(first, second);
  EXPECT_EQ(*first, -1);  // what is read through a stale address
  EXPECT_EQ(cudaFree(second), cudaSuccess);
}
#endif

}  // namespace
}  // namespace outrider
