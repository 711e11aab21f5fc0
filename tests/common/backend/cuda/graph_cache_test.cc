#include "common/backend/cuda/graph_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "common/backend/cuda/stream_capture.h"
#include "tests/support/cuda_emulation/emulator.h"
#include "tests/support/cuda_emulation/emulator_test_kernels.h"

namespace outrider {
namespace {

using cuda_emulation::FailNext;
using cuda_emulation::GraphCall;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class GraphCacheTest : public ::testing::Test {
 protected:
  GraphCacheTest() { *number_ = 0; }
  ~GraphCacheTest() override {
    cache_.reset();
    EXPECT_EQ(cuda_emulation::LiveGraphs(), 0);
  }

  void Make(GraphCacheOptions options = {}) {
    options.warn = [this](const std::string& warning) { warnings_.push_back(warning); };
    cache_ = std::make_unique<GraphCache>(&stream_, std::move(options));
  }
  // One use of `key`: a kernel appends the key's last digit to the number 7.
  void RunKey(int key) {
    *number_ = 7;
    cache_->Run({key}, [&] {
      ++calls_;
      MustSucceed(LaunchDigit(number_, key % 10, stream_.get()), "launching");
    });
    EXPECT_EQ(*number_, 70 + key % 10);
  }
  int captures() const { return static_cast<int>(cache_->counts().captures); }
  int launches() const { return static_cast<int>(cache_->counts().launches); }

  Stream stream_;
  const std::unique_ptr<CudaBuffer> buffer_ =
      CudaBuffer::Allocate(MemoryKind::kDevice, sizeof(int), &stream_).value();
  int* const number_ = static_cast<int*>(buffer_->data());
  std::vector<std::string> warnings_;
  std::unique_ptr<GraphCache> cache_;
  int calls_ = 0;
};

TEST_F(GraphCacheTest, CapturesThirdUseThenReplays) {
  Make();
  for (int use = 1; use <= 2; ++use) {
    RunKey(1);
    EXPECT_EQ(calls_, use);
    EXPECT_EQ(cache_->size(), 0);
  }
  RunKey(1);
  EXPECT_EQ(calls_, 3);  // captured, not run
  EXPECT_EQ(cache_->size(), 1);
  for (int i = 0; i < 5; ++i) RunKey(1);
  EXPECT_EQ(calls_, 3);
  EXPECT_EQ(captures(), 1);
  EXPECT_EQ(launches(), 6);
  RunKey(2);  // another key
  EXPECT_EQ(calls_, 4);
  EXPECT_EQ(launches(), 6);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(GraphCacheTest, IsOffWhenToldSo) {
  Make({.enabled = false});
  for (int i = 0; i < 5; ++i) RunKey(1);
  EXPECT_EQ(calls_, 5);
  EXPECT_EQ(captures() + launches(), 0);
}

TEST_F(GraphCacheTest, FreedMemoryInvalidatesGraphs) {
  Make();
  for (int i = 0; i < 4; ++i) RunKey(1);
  EXPECT_EQ(calls_, 3);
  auto other = CudaBuffer::Allocate(MemoryKind::kDevice, 8, &stream_).value();
  RunKey(1);  // what the graph refers to has not moved
  EXPECT_EQ(calls_, 3);
  other.reset();
  RunKey(1);  // captured again at once, since it has been run directly before
  EXPECT_EQ(calls_, 4);
  EXPECT_EQ(captures(), 2);
  RunKey(1);
  EXPECT_EQ(calls_, 4);
  EXPECT_EQ(cache_->size(), 1);
}

TEST_F(GraphCacheTest, KeepsGraphsWhenOtherMemoryGoes) {
  Make();
  for (int i = 0; i < 3; ++i) RunKey(1);
  for (const MemoryKind kind : {MemoryKind::kDeviceOutsideGraphs, MemoryKind::kPinnedHost}) {
    CudaBuffer::Allocate(kind, 8, &stream_).value().reset();
    RunKey(1);
  }
  EXPECT_EQ(captures(), 1);
}

// Memory of another model, on this device or on another one.
TEST_F(GraphCacheTest, KeepsGraphsWhenOtherStreamsFree) {
  Make();
  for (int i = 0; i < 3; ++i) RunKey(1);
  auto other = std::make_unique<Stream>();
  CudaBuffer::Allocate(MemoryKind::kDevice, 8, other.get()).value().reset();
  EXPECT_EQ(other->frees(), 1);
  auto left = CudaBuffer::Allocate(MemoryKind::kDevice, 8, other.get()).value();
  other.reset();
  left.reset();  // in any order
  RunKey(1);
  EXPECT_EQ(captures(), 1);
}

TEST_F(GraphCacheTest, EvictsLeastRecentlyUsed) {
  Make({.max_graphs = 3, .launches_per_capture = 1});
  for (const int key : {1, 2, 3}) {
    for (int i = 0; i < 4; ++i) RunKey(key);
  }
  RunKey(1);
  EXPECT_EQ(cache_->size(), 3);
  calls_ = 0;
  for (int i = 0; i < 4; ++i) RunKey(4);  // replaces 2
  EXPECT_EQ(calls_, 3);
  EXPECT_EQ(cache_->size(), 3);
  EXPECT_EQ(cuda_emulation::LiveGraphs(), 3);
  RunKey(1), RunKey(3);
  EXPECT_EQ(calls_, 3);
  RunKey(2);
  EXPECT_EQ(calls_, 4);
}

TEST_F(GraphCacheTest, CapturesHaveToBeEarned) {
  Make({.max_graphs = 4, .launches_per_capture = 8});
  // Ten keys in turn, more than fit: nearly none would be replayed before its eviction.
  for (int round = 0; round < 200; ++round) {
    for (int key = 0; key < 10; ++key) RunKey(key);
  }
  EXPECT_LE(captures(), 4 + launches() / 8);
  EXPECT_GT(launches(), 200);  // the remaining ones are used
}

TEST_F(GraphCacheTest, ForgetsKeysThatDoNotReturn) {
  Make({.max_graphs = 4});
  for (int i = 0; i < 3; ++i) RunKey(5);
  for (int key = 100; key < 1100; ++key) RunKey(key);
  EXPECT_EQ(captures(), 1);
  // A thousand keys later the graph is still there, but the first use of key 100 is forgotten, so
  // it is captured only at its third use from now on.
  calls_ = 0;
  RunKey(5);
  EXPECT_EQ(calls_, 0);
  RunKey(100), RunKey(100);
  EXPECT_EQ(captures(), 1);
  RunKey(100);
  EXPECT_EQ(captures(), 2);
}

class GraphFailure : public GraphCacheTest, public ::testing::WithParamInterface<GraphCall> {};

TEST_P(GraphFailure, TurnsGraphsOffAndLosesNothing) {
  Make();
  for (int i = 0; i < 4; ++i) RunKey(1);
  for (int i = 0; i < 2; ++i) RunKey(2);
  FailNext(GetParam(), cudaErrorMemoryAllocation);
  if (GetParam() == GraphCall::kLaunch) RunKey(1);
  for (int i = 0; i < 3; ++i) RunKey(2);
  EXPECT_FALSE(cache_->enabled());
  EXPECT_EQ(cache_->size(), 0);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_THAT(warnings_[0], HasSubstr("CUDA graphs are off"));
  EXPECT_THAT(warnings_[0], HasSubstr("out of memory"));
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);  // the next launch does not report it
  const int before = calls_;
  RunKey(1);
  EXPECT_EQ(calls_, before + 1);
}

INSTANTIATE_TEST_SUITE_P(Calls, GraphFailure,
                         ::testing::Values(GraphCall::kBeginCapture, GraphCall::kEndCapture,
                                           GraphCall::kInstantiate, GraphCall::kLaunch),
                         [](const auto& test) { return GraphCallName(test.param); });

// Calls that a capture does not allow: the sequence runs directly, and the process survives.
TEST_F(GraphCacheTest, RunsUncapturableWorkDirectly) {
  UploadRing ring(&stream_);
  PinnedStaging staging;
  Scratch scratch(&stream_);
  const std::vector<int> values = {1, 2, 3};
  size_t growing = 8;
  const std::vector<std::pair<std::string, std::function<void()>>> calls = {
      {"operation not permitted", [&] { stream_.Wait(); }},
      {"working memory grows", [&] { scratch.AtLeast(growing *= 2); }},
      {"a host array is sent", [&] { ring.Add(values.data(), 3); }},
      {"a host array is sent", [&] { staging.Take(100); }},
      {"invalid configuration",
       [&] {
         // Only during the capture: otherwise this would terminate the process.
         if (StreamCapture::UnderWay()) {
           MustSucceed(cudaErrorInvalidConfiguration, "launching");
         }
       }},
  };
  for (const auto& [reason, call] : calls) {
    warnings_.clear();
    Make();
    for (int i = 0; i < 5; ++i) {
      *number_ = 0;
      cache_->Run({1}, [&, &call = call] {
        MustSucceed(LaunchDigit(number_, 4, stream_.get()), "launching");
        call();
        MustSucceed(LaunchDigit(number_, 2, stream_.get()), "launching");
      });
      EXPECT_EQ(*number_, 42) << reason;
    }
    ASSERT_THAT(warnings_, ElementsAre(HasSubstr(reason)));
    EXPECT_EQ(launches(), 0);
  }
}

TEST_F(GraphCacheTest, NestedSequenceJoinsOuterOne) {
  Make();
  for (int i = 0; i < 5; ++i) {
    *number_ = 0;
    cache_->Run({1}, [&] {
      MustSucceed(LaunchDigit(number_, 4, stream_.get()), "launching");
      cache_->Run({2}, [&] { MustSucceed(LaunchDigit(number_, 2, stream_.get()), "launching"); });
    });
    EXPECT_EQ(*number_, 42);
  }
  EXPECT_EQ(captures(), 1);
  EXPECT_EQ(launches(), 3);
}

// A graph may still be running when it is evicted.
TEST_F(GraphCacheTest, WaitsForGraphBeforeDestroyingIt) {
  Make({.max_graphs = 1, .launches_per_capture = 1});
  cuda_emulation::SetLate(true);
  const auto use = [&](int key) {
    cache_->Run({key}, [&] { MustSucceed(LaunchDigit(number_, key, stream_.get()), "launching"); });
  };
  for (const int key : {1, 1, 1, 2, 2, 2}) use(key);
  EXPECT_EQ(captures(), 2);
  stream_.Wait();
  cuda_emulation::SetLate(false);
  EXPECT_EQ(*number_, 111222);
}

}  // namespace
}  // namespace outrider
