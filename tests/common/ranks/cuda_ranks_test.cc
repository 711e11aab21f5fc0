// Ranks with devices: the CUDA backend's sources on the host, each rank on a thread with an
// emulated device of its own, over the fake of NCCL. It refuses operations that only some ranks
// capture.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "common/backend/cuda/cuda_backend.h"
#include "common/backend/cuda/cuda_device.h"
#include "common/model/warm_up.h"
#include "tests/common/model/model_testing.h"
#include "tests/common/ranks/local_ranks.h"
#include "tests/common/ranks/rank_story.h"
#include "tests/support/cuda_emulation/emulator.h"
#include "tests/support/cuda_emulation/fake_nccl.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

// The backend of a rank of `ranks`, for the thread that calls it.
RankBackend EmulatedRanks(int ranks, bool graphs) {
  return [=](int rank) -> Result<std::unique_ptr<Backend>> {
    cuda_emulation::SetDevices(ranks);
    OUTRIDER_TRY(UseCudaDevice(rank));
    return CreateCudaBackend(rank, nullptr, {.graphs = graphs, .nccl = FakeNcclFile()});
  };
}

class CudaRanks : public ::testing::TestWithParam<Family> {
 protected:
  ~CudaRanks() override { cuda_emulation::SetDevices(1); }
};

TEST_P(CudaRanks, LogitsAreThoseOfOne) {
  const CheckpointOptions checkpoint = {.family = GetParam(), .vocab_size = 63};
  const TempDirectory directory;
  ASSERT_TRUE(MakeCheckpoint(directory.path(), checkpoint).ok());
  ModelOptions options = kExactOptions;
  options.max_batch_tokens = 64;
  const Rows expected = Story(*LoadTestModel(directory.path(), options));
  for (const int ranks : {2, 4}) {
    for (const bool graphs : {false, true}) {
      SCOPED_TRACE(std::to_string(ranks) + (graphs ? " ranks with graphs" : " ranks"));
      const auto model =
          LoadOnRanks(directory.path(), ranks, options, EmulatedRanks(ranks, graphs));
      ASSERT_TRUE(model.ok()) << model.status().ToString();
      ASSERT_TRUE(WarmUp(model->get(), 8).ok());
      EXPECT_EQ((*model)->device()->graph_counts().captures > 0, graphs);
      ExpectClose(Story(**model), expected, 1e-4);
      EXPECT_EQ((*model)->device()->graph_counts().launches > 0, graphs);
    }
  }
}

// What a rank stages for a pass is free again after it.
TEST(CudaRankMemory, PassesAllocateNothing) {
  const CheckpointOptions checkpoint = {.vocab_size = 63, .hidden_size = 32, .num_layers = 1};
  const TempDirectory directory;
  ASSERT_TRUE(MakeCheckpoint(directory.path(), checkpoint).ok());
  const auto model =
      LoadOnRanks(directory.path(), 2, kExactOptions, EmulatedRanks(2, /*graphs=*/true));
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  const SequenceId sequence = (*model)->NewSequence();
  const auto decode = [&](int passes) {
    for (int i = 0; i < passes; ++i) {
      Extend(**model, sequence, {{TokenId{1}}});
      (*model)->Truncate(sequence, 1);
    }
    return cuda_emulation::Allocations();
  };
  const int64_t allocations = decode(20);
  EXPECT_EQ(decode(400), allocations);  // more than a block of staging memory holds
  cuda_emulation::SetDevices(1);
}

// Their attention would be planned for other numbers of blocks, and be captured at other times.
TEST(CudaRankDevices, KindsMustBeTheSame) {
  const TempDirectory directory;
  ASSERT_TRUE(MakeCheckpoint(directory.path(), {}).ok());
  for (const cuda_emulation::EmulatedDevice& other :
       {cuda_emulation::EmulatedDevice{.multiprocessors = 8},
        cuda_emulation::EmulatedDevice{.name = "another chip"}}) {
    const auto make = [&other](int rank) -> Result<std::unique_ptr<Backend>> {
      cuda_emulation::SetDevices({{}, other});
      OUTRIDER_TRY(UseCudaDevice(rank));
      return CreateCudaBackend(rank, nullptr, {.nccl = FakeNcclFile()});
    };
    const Status status = LoadOnRanks(directory.path(), 2, kExactOptions, make).status();
    EXPECT_EQ(status.code(), Code::kFailedPrecondition);
    EXPECT_THAT(status.message(), HasSubstr("rank 1: the leading rank has"));
    EXPECT_THAT(status.message(), HasSubstr("emulated on the host with 4 multiprocessors"));
    EXPECT_THAT(status.message(),
                HasSubstr(other.name + " with " + std::to_string(other.multiprocessors) +
                          " multiprocessors"));
  }
  cuda_emulation::SetDevices(1);
}

// The leading rank must not wait for one that cannot join.
TEST(CudaRankDevices, FollowerThatCannotJoinIsTold) {
  const TempDirectory directory;
  ASSERT_TRUE(MakeCheckpoint(directory.path(), {}).ok());
  const auto make = [](int rank) -> Result<std::unique_ptr<Backend>> {
    cuda_emulation::SetDevices(2);
    OUTRIDER_TRY(UseCudaDevice(rank));
    return CreateCudaBackend(rank, nullptr,
                             {.nccl = rank == 0 ? FakeNcclFile() : "libnccl_of_no_machine.so.2"});
  };
  const Status status = LoadOnRanks(directory.path(), 2, kExactOptions, make).status();
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("rank 1: a model on several CUDA devices needs"));
  cuda_emulation::SetDevices(1);
}

INSTANTIATE_TEST_SUITE_P(Families, CudaRanks,
                         ::testing::Values(Family::kLlama, Family::kQwen3, Family::kGptOss));

}  // namespace
}  // namespace outrider
