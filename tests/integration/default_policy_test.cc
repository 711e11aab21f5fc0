// A verifier's default policy, where drafts certainly pay: many tests fix the plan, so nothing else
// would notice a controller that never drafts.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "tests/support/deepened_checkpoint.h"
#include "tests/support/services.h"

namespace outrider {
namespace {

using testing::SmallPair;
using testing::StartDrafter;
using testing::StartVerifier;
using testing::TempDir;
using testing::TestClient;

// A step of this target costs about thirty of the drafter's, whatever else the machine does, and
// about three of four draft tokens are accepted.
constexpr int kLayers = 60;

TEST(DefaultPolicy, DraftsMostRoundsOfSlowTarget) {
  TempDir dir;
  ASSERT_TRUE(DeepenCheckpoint(SmallPair("target"), dir / "deep", kLayers).ok());
  const auto verifier = StartVerifier(dir / "deep", dir / "verifier.log");
  ASSERT_NE(verifier.port, 0);
  const auto drafter = StartDrafter(SmallPair("drafter"), verifier.address(), dir / "drafter.log");
  TestClient client(verifier.address());
  ASSERT_TRUE(client.AwaitDrafters(1)) << drafter->Log();

  v1::GenerateRequest request = testing::StoryRequest(128);
  request.mutable_sampling()->set_temperature(0);
  // The controller learns from the first requests, and a drafter that a busy machine has slowed
  // down is suspended for a while: one request is enough, however late it comes.
  uint32_t drafted = 0, rounds = 0;
  const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(3);
  do {
    const TestClient::Outcome outcome = client.Generate(request);
    ASSERT_TRUE(outcome.status.ok()) << outcome.status.error_message();
    drafted = outcome.finished.speculation().drafted_rounds();
    rounds = outcome.finished.speculation().rounds();
  } while (2 * drafted < rounds && std::chrono::steady_clock::now() < until);
  EXPECT_GE(2 * drafted, rounds) << drafted << " of " << rounds << " rounds had a draft";
}

}  // namespace
}  // namespace outrider
