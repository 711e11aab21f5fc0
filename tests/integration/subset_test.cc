// Drafters that each serve some of the verifiers: real processes, whose list of verifiers is a file
// that keeps naming those that died.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/random_models.h"
#include "tests/support/services.h"

namespace outrider {
namespace {

using testing::Process;
using testing::TempDir;
using testing::TestClient;
using testing::VerifierProcess;

class SubsetOfVerifiers : public ::testing::Test {
 protected:
  void StartVerifiers(int count, const std::function<std::vector<std::string>(int)>& flags) {
    std::ofstream list(dir_ / "verifiers");
    for (int v = 0; v < count; ++v) {
      const std::string log = dir_ / ("verifier-" + std::to_string(v) + ".log");
      verifiers_.push_back(testing::StartVerifier(target_, log, flags(v)));
      ASSERT_NE(verifiers_.back().port, 0);
      list << verifiers_.back().address() << "\n";
      clients_.push_back(std::make_unique<TestClient>(verifiers_.back().address()));
    }
  }
  void StartDrafters(int count, std::vector<std::string> flags) {
    flags.insert(flags.end(), {"--rebalance-seconds", "0.5"});
    for (int d = 0; d < count; ++d) {
      const std::string log = dir_ / ("drafter-" + std::to_string(d) + ".log");
      drafters_.push_back(
          testing::StartDrafter(drafter_, "file:" + (dir_ / "verifiers"), log, flags));
    }
  }

  // Drafters of each verifier.
  std::vector<int> Counts() {
    std::vector<int> counts;
    for (const auto& client : clients_) counts.push_back(client->Status().drafters_size());
    return counts;
  }
  // Waits until the counts are as `right` says; fails the test after two minutes.
  void AwaitCounts(const char* what, const std::function<bool(const std::vector<int>&)>& right) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    std::vector<int> counts = Counts();
    while (!right(counts) && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      counts = Counts();
    }
    EXPECT_TRUE(right(counts)) << what << ": " << ::testing::PrintToString(counts) << "\n"
                               << drafters_[0]->Log();
  }

  TempDir dir_;
  const std::string target_ = testing::MakeRandomModel(dir_ / "target");
  const std::string drafter_ = testing::MakeRandomDrafter(dir_ / "drafter");
  std::vector<VerifierProcess> verifiers_;
  std::vector<std::unique_ptr<TestClient>> clients_;
  std::vector<std::unique_ptr<Process>> drafters_;
};

TEST_F(SubsetOfVerifiers, ReplacesLostVerifiers) {
  StartVerifiers(4, [](int) { return std::vector<std::string>(); });
  StartDrafters(6, {"--subset", "2"});
  AwaitCounts("every verifier has drafters", [](const std::vector<int>& counts) {
    int sum = 0;
    for (const int count : counts) sum += count;
    return sum == 12 && *std::min_element(counts.begin(), counts.end()) > 0;
  });
  verifiers_[0].process->Signal(SIGKILL);
  verifiers_[0].process->Wait();
  verifiers_.erase(verifiers_.begin());
  clients_.erase(clients_.begin());
  AwaitCounts("the others have all streams", [](const std::vector<int>& counts) {
    return counts[0] + counts[1] + counts[2] == 12;
  });
}

TEST_F(SubsetOfVerifiers, DemandMovesDraftersToLoad) {
  StartVerifiers(4, [](int) { return std::vector<std::string>{"--policy", "fixed"}; });
  StartDrafters(6, {"--subset", "2"});
  AwaitCounts("all are attached", [](const std::vector<int>& counts) {
    return counts[0] + counts[1] + counts[2] + counts[3] == 12;
  });
  // Forty requests at once want five drafters, at a verifier that has three at most.
  const std::vector<int> before = Counts();
  const auto loaded =
      static_cast<size_t>(std::min_element(before.begin(), before.end()) - before.begin());
  std::atomic<bool> stop = false;
  std::atomic<int> failed = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 40; ++i) {
    threads.emplace_back([&stop, &failed, address = verifiers_[loaded].address()] {
      TestClient client(address);
      while (!stop) {
        if (!client.Generate(testing::TextRequest("abc", 200)).status.ok()) ++failed;
      }
    });
  }
  AwaitCounts("drafters come",
              [loaded](const std::vector<int>& counts) { return counts[loaded] >= 5; });
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 0) << "a stream that is left drains first";
}

// The idle verifier of the other zone keeps the one drafter that it wants.
TEST_F(SubsetOfVerifiers, SpareDraftersFindTheirZone) {
  StartVerifiers(2, [](int v) {
    return std::vector<std::string>{"--zone", v == 0 ? "near" : "far"};
  });
  StartDrafters(4, {"--subset", "1", "--zone", "near"});
  AwaitCounts("all but one are in their zone", [](const std::vector<int>& counts) {
    return counts == std::vector<int>{3, 1};
  });
}

}  // namespace
}  // namespace outrider
