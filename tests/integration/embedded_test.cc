// A drafter in the verifier's own process (--draft-model).
#include <gmock/gmock.h>

#include <csignal>
#include <string>

#include "tests/integration/random_models.h"
#include "tests/support/services.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;
using testing::Process;
using testing::ProgramPath;
using testing::StartDrafter;
using testing::StartVerifier;
using testing::TempDir;
using testing::TestClient;

class Embedded : public ::testing::Test {
 protected:
  static v1::GenerateRequest Request() {
    v1::GenerateRequest request = testing::TextRequest("abc", 200);
    request.mutable_sampling()->set_temperature(0);
    return request;
  }

  TempDir dir_;
  const std::string target_ = testing::MakeRandomModel(dir_ / "target");
  const std::string drafter_ = testing::MakeRandomDrafter(dir_ / "drafter");
};

TEST_F(Embedded, DraftsWithoutChangingTheText) {
  const auto verifier =
      StartVerifier(target_, dir_ / "verifier.log",
                    {"--draft-model", drafter_, "--policy", "fixed", "--min-draft-wait", "30"});
  ASSERT_NE(verifier.port, 0) << verifier.process->Log();
  TestClient client(verifier.address());
  const v1::GetStatusResponse status = client.Status();
  ASSERT_EQ(status.drafters_size(), 1);
  EXPECT_EQ(status.drafters(0).name(), "embedded");
  v1::GenerateRequest plain = Request();
  plain.mutable_speculation()->set_mode(v1::SpeculationOptions::MODE_OFF);
  const auto want = client.Generate(plain);
  ASSERT_TRUE(want.status.ok());
  const auto got = client.Generate(Request());
  ASSERT_TRUE(got.status.ok()) << got.status.error_message();
  EXPECT_EQ(got.tokens, want.tokens);
  uint32_t accepted = 0;
  for (const uint32_t chunk : got.accepted_per_chunk) accepted += chunk;
  EXPECT_GT(accepted, 0u) << verifier.process->Log();
  verifier.process->Signal(SIGTERM);
  EXPECT_EQ(verifier.process->Wait(), 0) << verifier.process->Log();
}

TEST_F(Embedded, HasTheVerifiersCacheType) {
  const auto verifier = StartVerifier(target_, dir_ / "verifier.log",
                                      {"--draft-model", drafter_, "--policy", "fixed",
                                       "--min-draft-wait", "30", "--kv-cache-dtype", "fp8"});
  ASSERT_NE(verifier.port, 0) << verifier.process->Log();
  const std::string log = verifier.process->Log();
  const std::string words = "kv_cache=fp8";
  const size_t first = log.find(words);
  ASSERT_NE(first, std::string::npos) << log;
  EXPECT_NE(log.find(words, first + 1), std::string::npos) << log;
  TestClient client(verifier.address());
  const auto got = client.Generate(Request());
  ASSERT_TRUE(got.status.ok()) << got.status.error_message();
  EXPECT_GT(got.finished.speculation().accepted_tokens(), 0u) << verifier.process->Log();
}

TEST_F(Embedded, CacheHasItsOwnSize) {
  const auto verifier =
      StartVerifier(target_, dir_ / "verifier.log",
                    {"--draft-model", drafter_, "--kv-tokens", "4096", "--draft-kv-tokens", "528"});
  ASSERT_NE(verifier.port, 0) << verifier.process->Log();
  EXPECT_THAT(verifier.process->Log(), HasSubstr("kv_tokens=4096"));
  EXPECT_THAT(verifier.process->Log(), HasSubstr("kv_tokens=528"));
}

TEST_F(Embedded, WorksBesideAttachedDrafters) {
  const auto verifier = StartVerifier(target_, dir_ / "verifier.log", {"--draft-model", drafter_});
  ASSERT_NE(verifier.port, 0) << verifier.process->Log();
  const auto drafter = StartDrafter(drafter_, verifier.address(), dir_ / "drafter.log");
  TestClient client(verifier.address());
  EXPECT_TRUE(client.AwaitDrafters(2)) << drafter->Log();
}

TEST_F(Embedded, StopsWhileItDrafts) {
  for (int i = 0; i < 5; ++i) {
    const auto verifier =
        StartVerifier(target_, dir_ / "verifier.log",
                      {"--draft-model", drafter_, "--policy", "fixed", "--drain-timeout", "0"});
    ASSERT_NE(verifier.port, 0) << verifier.process->Log();
    TestClient client(verifier.address());
    grpc::ClientContext context;
    const auto reader = client.stub().Generate(&context, Request());
    v1::GenerateResponse response;
    EXPECT_TRUE(reader->Read(&response));
    verifier.process->Signal(SIGTERM);
    while (reader->Read(&response)) {
    }
    (void)reader->Finish();
    EXPECT_EQ(verifier.process->Wait(), 0) << verifier.process->Log();
  }
}

TEST_F(Embedded, NeedsMostTokensInTarget) {
  const std::string other = testing::MakeRandomModel(dir_ / "other", {.vocab_size = 600});
  const auto process =
      Process::Start({ProgramPath("outrider-verifier"), "--model", target_, "--draft-model", other,
                      "--listen", "127.0.0.1:0", "--metrics", ""},
                     dir_ / "verifier.log");
  EXPECT_EQ(process->Wait(), 1);
  EXPECT_THAT(process->Log(), HasSubstr("FAILED_PRECONDITION: --draft-model: "));
  EXPECT_THAT(process->Log(), HasSubstr("50 % of its 600 tokens"));
}

}  // namespace
}  // namespace outrider
