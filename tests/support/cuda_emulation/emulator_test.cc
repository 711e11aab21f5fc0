#include "tests/support/cuda_emulation/emulator.h"

#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "tests/support/cuda_emulation/emulator_test_kernels.h"

namespace outrider {
namespace {

using cuda_emulation::LastFailure;
using ::testing::HasSubstr;

class ReverseOrder {
 public:
  ReverseOrder() { cuda_emulation::SetReverseOrder(true); }
  ~ReverseOrder() { cuda_emulation::SetReverseOrder(false); }
};

TEST(CudaEmulator, SumsOverBlockInEitherOrder) {
  std::vector<float> x(1000);
  std::iota(x.begin(), x.end(), 1.f);
  float sum = 0.f;
  ASSERT_EQ(LaunchBlockSum(x.data(), 1000, &sum), cudaSuccess);
  EXPECT_EQ(sum, 500500.f);
  const ReverseOrder reverse;
  sum = 0.f;
  ASSERT_EQ(LaunchBlockSum(x.data(), 1000, &sum), cudaSuccess);
  EXPECT_EQ(sum, 500500.f);
}

TEST(CudaEmulator, ShufflesAndVotesLikeWarps) {
  int up[32], down[32], broadcast[32];
  unsigned ballot[32];
  ASSERT_EQ(LaunchWarpIds(up, down, broadcast, ballot), cudaSuccess);
  unsigned thirds = 0;
  for (unsigned lane = 0; lane < 32; lane += 3) thirds |= 1u << lane;
  for (int lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(up[lane], lane < 3 ? lane : lane - 3);
    EXPECT_EQ(down[lane], lane + 5 < 32 ? lane + 5 : lane);
    EXPECT_EQ(broadcast[lane], 7);
    EXPECT_EQ(ballot[lane], thirds);
  }
}

TEST(CudaEmulator, RunsEveryThreadOnce) {
  int count = 0;
  ASSERT_EQ(LaunchCount(5, 37, &count), cudaSuccess);
  EXPECT_EQ(count, 5 * 2 * 3 * 37);
}

TEST(CudaEmulator, UnreachedBarrierFailsLaunch) {
  EXPECT_EQ(LaunchDivergentBarrier(), cudaErrorLaunchFailure);
  EXPECT_THAT(LastFailure(), HasSubstr("of 64 threads 32 wait at __syncthreads"));
  EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure);
  // The next launch is not affected.
  int count = 0;
  EXPECT_EQ(LaunchCount(1, 64, &count), cudaSuccess);
  EXPECT_EQ(count, 6 * 64);
}

TEST(CudaEmulator, DivergentLanesFailLaunch) {
  EXPECT_EQ(LaunchDivergentWarp(), cudaErrorLaunchFailure);
  EXPECT_THAT(LastFailure(), HasSubstr("is at __shfl_sync while thread 0"));
}

TEST(CudaEmulator, OverlappingKernelsWaitForEarlierOnes) {
  EXPECT_EQ(LaunchAwaiting(64, true), cudaSuccess);
  EXPECT_EQ(LaunchAwaiting(64, false), cudaErrorLaunchFailure);
  EXPECT_THAT(LastFailure(), HasSubstr("thread 63 ends without AwaitEarlierKernels"));
}

TEST(CudaEmulator, RefusesWhatADeviceRefuses) {
  EXPECT_EQ(LaunchSharedWrite((48 << 10) + 1, 0), cudaErrorInvalidConfiguration);
  EXPECT_THAT(LastFailure(), HasSubstr("shared memory"));
  int count = 0;
  EXPECT_EQ(LaunchCount(1, 1025, &count), cudaErrorInvalidConfiguration);
  EXPECT_EQ(LaunchCount(0, 1, &count), cudaErrorInvalidConfiguration);
}

TEST(CudaEmulator, SharedVariablesBeginAsNan) {
  float out[2] = {};
  ASSERT_EQ(LaunchVariables(2, /*write=*/true, 0, out), cudaSuccess);
  EXPECT_EQ(out[0], 7.f);
  EXPECT_TRUE(std::isnan(out[1])) << "what the block before has written";
  ASSERT_EQ(LaunchVariables(1, /*write=*/false, 0, out), cudaSuccess);
  EXPECT_TRUE(std::isnan(out[0])) << "what the launch before has written";
}

TEST(CudaEmulator, VariablesCountAsSharedMemory) {
  char out = 0;
  EXPECT_EQ(LaunchLargeVariable(48, 0, /*allow=*/false, &out), cudaSuccess);
  EXPECT_EQ(out, 7);
  EXPECT_EQ(LaunchLargeVariable(48, 1, /*allow=*/false, &out), cudaErrorLaunchFailure);
  EXPECT_THAT(LastFailure(), HasSubstr("50176 bytes of shared memory"));
  EXPECT_EQ(LaunchLargeVariable(48, 51, /*allow=*/true, &out), cudaSuccess);
  EXPECT_EQ(LaunchLargeVariable(48, 52, /*allow=*/true, &out), cudaErrorLaunchFailure);
  EXPECT_EQ(LaunchLargeVariable(49, 0, /*allow=*/true, &out), cudaErrorLaunchFailure);
}

// Under the thread sanitizer this kernel has a data race, which the test below checks.
#if !defined(OUTRIDER_THREAD_SANITIZER)
TEST(CudaEmulator, MissingBarrierShowsInSomeOrder) {
  int out[64], reversed[64];
  ASSERT_EQ(LaunchMissingBarrier(out, 64), cudaSuccess);
  const ReverseOrder reverse;
  ASSERT_EQ(LaunchMissingBarrier(reversed, 64), cudaSuccess);
  EXPECT_FALSE(std::equal(out, out + 64, reversed));
}
#else
TEST(CudaEmulatorDeathTest, MissingBarrierIsRace) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  int out[64];
  EXPECT_DEATH(
      {
        (void)LaunchMissingBarrier(out, 64);
        std::exit(0);  // the sanitizer's exit code replaces it
      },
      "data race");
}
#endif

#if defined(OUTRIDER_ADDRESS_SANITIZER)
TEST(CudaEmulatorDeathTest, SharedMemoryEndsWhereItEnds) {
  EXPECT_EQ(LaunchSharedWrite(20, 20), cudaSuccess);
  EXPECT_DEATH((void)LaunchSharedWrite(20, 21), "heap-buffer-overflow");
  float out = 0;
  EXPECT_DEATH((void)LaunchVariables(1, false, /*more=*/1, &out), "use-after-poison");
}
#endif

}  // namespace
}  // namespace outrider
