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

TEST(HostileVerifier, FloodLeavesOtherVerifierItsDrafts) {
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
  const v1::GetStatusResponse status = client.Status();
  ASSERT_EQ(status.drafters_size(), 1);
  EXPECT_GT(status.drafters(0).accepted_tokens(), 0u);
  EXPECT_EQ(drafter->Log().find("not attached"), std::string::npos) << drafter->Log();
}

}  // namespace
}  // namespace outrider
