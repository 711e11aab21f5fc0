#include "common/ranks/shared_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

namespace outrider {
namespace {

// Runs `rank(communicator)` on a thread for each rank.
void OnRanks(int ranks, size_t floats, const std::function<void(Communicator& own)>& rank) {
  const FileDescriptor region = SharedCommunicator::CreateRegion(ranks, floats).value();
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      const auto own = SharedCommunicator::Open(region.get(), r, ranks, floats).value();
      EXPECT_EQ(own->rank(), r);
      EXPECT_EQ(own->ranks(), ranks);
      rank(*own);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(SharedCommunicator, AddsInTheOrderOfRanks) {
  // In any other order the small ones would be lost, or the large ones would not cancel first.
  constexpr float kParts[] = {1e8f, -1e8f, 3.f, 1e-3f};
  OnRanks(4, 8, [&](Communicator& own) {
    for (int round = 1; round <= 50; ++round) {
      const auto factor = static_cast<float>(round);
      std::vector<float> values(static_cast<size_t>(round % 8 + 1),
                                factor * kParts[static_cast<size_t>(own.rank())]);
      own.AllReduce(values.data(), values.size());
      const float sum =
          ((factor * kParts[0] + factor * kParts[1]) + factor * kParts[2]) + factor * kParts[3];
      EXPECT_THAT(values, ::testing::Each(sum));
    }
  });
}

TEST(SharedCommunicator, GathersColumnsInOrder) {
  constexpr int kRows = 3, kColumns = 8;  // of three ranks: 3, 3 and 2
  OnRanks(3, 9, [&](Communicator& own) {
    const int first = own.rank() * 3, width = own.rank() == 2 ? 2 : 3;
    std::vector<float> mine;
    for (int row = 0; row < kRows; ++row) {
      for (int i = 0; i < width; ++i) {
        mine.push_back(static_cast<float>(10 * row + first + i));
      }
    }
    std::vector<float> all(kRows * kColumns, -1.f);
    own.GatherColumns(mine.data(), kRows, kColumns, own.rank() == 0 ? all.data() : nullptr);
    if (own.rank() != 0) return;
    std::vector<float> expected;
    for (int row = 0; row < kRows; ++row) {
      for (int i = 0; i < kColumns; ++i) expected.push_back(static_cast<float>(10 * row + i));
    }
    EXPECT_EQ(all, expected);
  });
}

}  // namespace
}  // namespace outrider
