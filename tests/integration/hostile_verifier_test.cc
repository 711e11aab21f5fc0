// A verifier that floods a drafter, over its own gRPC stream, while another one is served by it.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/drafter/rpc/fake_drafting_server.h"
#include "tests/support/services.h"

namespace outrider {
namespace {

using testing::SmallPair;
using testing::TestClient;

// Each message fills the connection's room, so the next one is read only if the loop returns it.
// FloodStaysInItsConnection, with a loop that does not run, tests that no more is read.
TEST(HostileVerifier, FloodIsHandledBesideOtherVerifier) {
  constexpr int kMessages = 20, kVerdicts = 4096;
  const testing::TempDir dir;
  const testing::VerifierProcess verifier =
      testing::StartVerifier(SmallPair("target"), dir / "verifier.log");
  ASSERT_NE(verifier.port, 0);
  FakeDraftingServer hostile(&FakeDraftingServer::Welcomer);
  const auto drafter =
      testing::StartDrafter(SmallPair("drafter"), verifier.address(), dir / "drafter.log",
                            {"--verifier", hostile.address()});
  TestClient client(verifier.address());
  ASSERT_TRUE(client.AwaitDrafters(1)) << drafter->Log();
  ASSERT_TRUE(hostile.Await([](const auto& messages) { return !messages.empty(); }));

  // On sessions that it never opened.
  v1::FromVerifier message;
  for (int i = 0; i < kVerdicts; ++i) {
    message.mutable_verdicts()->add_verdicts()->set_session(static_cast<uint64_t>(i));
  }
  for (int i = 0; i < kMessages; ++i) hostile.Send(message);
  EXPECT_TRUE(client.Generate(testing::StoryRequest(64)).status.ok());
  // Each is refused, so the loop took them all.
  EXPECT_TRUE(hostile.Await([](const auto& messages) {
    int refused = 0;
    for (const v1::FromDrafter& answer : messages) refused += answer.drafts().drafts_size();
    return refused == kMessages * kVerdicts;
  }));
  EXPECT_EQ(client.Status().drafters_size(), 1);
  EXPECT_EQ(drafter->Log().find("not attached"), std::string::npos) << drafter->Log();
}

}  // namespace
}  // namespace outrider
