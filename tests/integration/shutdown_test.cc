// How a verifier ends, at once or by draining, and what its clients and drafters see.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/deepened_checkpoint.h"
#include "tests/support/http_client.h"
#include "tests/support/services.h"
#include "tests/support/time_limit.h"

namespace outrider {
namespace {

using testing::Fetch;
using ::testing::HasSubstr;
using testing::Process;
using testing::ProgramPath;
using testing::SmallPair;
using testing::StartDrafter;
using testing::StartVerifier;
using testing::StoryRequest;
using testing::TempDir;
using testing::TestClient;
using testing::VerifierProcess;

// The small pair's target, several times as slow: requests that a test interrupts have not ended by
// then, however fast the machine is and however late it runs the test.
std::string SlowTarget(const TempDir& dir) {
  EXPECT_TRUE(DeepenCheckpoint(SmallPair("target"), dir / "slow", /*layers=*/12).ok());
  return dir / "slow";
}

TEST(Shutdown, DraftersReturnAfterVerifierIsKilled) {
  TempDir dir;
  VerifierProcess verifier = StartVerifier(SlowTarget(dir), dir / "verifier.log");
  ASSERT_NE(verifier.port, 0);
  std::vector<std::unique_ptr<Process>> drafters;
  for (const std::string name : {"one", "two"}) {
    drafters.push_back(StartDrafter(SmallPair("drafter"), verifier.address(), dir / (name + ".log"),
                                    {"--name", name}));
  }
  ASSERT_TRUE(TestClient(verifier.address()).AwaitDrafters(2)) << drafters[0]->Log();
  const std::string address = verifier.address();
  const auto generate =
      Process::Start({ProgramPath("outrider"), "generate", "--verifier", address, "--prompt",
                      "Once upon a time,\n", "--max-tokens", "480", "--ignore-eos"},
                     dir / "generate.log");
  // Some text has arrived.
  EXPECT_TRUE(testing::Await([&] { return !generate->Log().empty() || !generate->running(); }));
  verifier.process->Signal(SIGKILL);
  EXPECT_EQ(generate->Wait(), 1);
  EXPECT_THAT(generate->Log(), HasSubstr("UNAVAILABLE"));
  EXPECT_THAT(generate->Log(), ::testing::ContainsRegex("\\([0-9]+ tokens? w(as|ere) received\\)"));
  EXPECT_EQ(verifier.process->Wait(), 128 + SIGKILL);

  verifier = StartVerifier(SmallPair("target"), dir / "again.log",
                           {"--policy", "fixed", "--min-draft-wait", "30"}, address);
  ASSERT_EQ(verifier.address(), address);
  TestClient client(address);
  EXPECT_TRUE(client.AwaitDrafters(2)) << drafters[0]->Log() << drafters[1]->Log();
  const TestClient::Outcome outcome = client.Generate(StoryRequest(60));
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  EXPECT_GT(outcome.finished.speculation().accepted_tokens(), 0u);
}

TEST(Shutdown, DrainTimeoutReportsTokenCounts) {
  TempDir dir;
  const VerifierProcess verifier =
      StartVerifier(SlowTarget(dir), dir / "verifier.log", {"--drain-timeout", "0"});
  ASSERT_NE(verifier.port, 0);
  TestClient client(verifier.address());
  grpc::ClientContext context;
  const auto reader = client.stub().Generate(&context, StoryRequest(480));
  v1::GenerateResponse response;
  ASSERT_TRUE(reader->Read(&response));
  verifier.process->Signal(SIGTERM);
  int tokens = 0;
  do {
    tokens += response.chunk().token_ids_size();
  } while (reader->Read(&response));
  const grpc::Status status = reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(status.error_message(),
              HasSubstr("shutting down, after " + std::to_string(tokens) + " token"));
  EXPECT_EQ(verifier.process->Wait(), 0) << verifier.process->Log();
}

// A client that reads slowly gets the rest of its answer, however long ago it was computed.
TEST(Shutdown, WaitsForSlowReaders) {
  TempDir dir;
  // 26 MB, much more than may be under way.
  const VerifierProcess verifier =
      StartVerifier(SmallPair("target"), dir / "verifier.log", {"--pad-responses", "65536"});
  ASSERT_NE(verifier.port, 0);
  TestClient client(verifier.address());
  grpc::ClientContext context;
  const auto reader = client.stub().Generate(&context, StoryRequest(400));
  ASSERT_NE(verifier.process->AwaitLine("request finished"), "");
  verifier.process->Signal(SIGTERM);
  ASSERT_NE(verifier.process->AwaitLine("draining"), "");
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  int tokens = 0;
  for (v1::GenerateResponse response; reader->Read(&response);) {
    tokens += response.chunk().token_ids_size();
  }
  const grpc::Status status = reader->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(tokens, 400);
  EXPECT_EQ(verifier.process->Wait(), 0);
  EXPECT_THAT(verifier.process->Log(), HasSubstr("all_requests_finished=true"));
}

// One client's texts take turns, so that the others wait when the first is answered, half a second
// after they came.
TEST(Shutdown, AnswersTextsBeingTokenized) {
  TempDir dir;
  const VerifierProcess verifier = StartVerifier(SmallPair("target"), dir / "verifier.log");
  ASSERT_NE(verifier.port, 0);
  TestClient client(verifier.address());
  constexpr int kTexts = 4;
  std::vector<grpc::Status> answers(kTexts);
  {
    std::once_flag stopped;
    std::vector<std::jthread> calls;
    for (grpc::Status& answer : answers) {
      calls.emplace_back([&] {
        grpc::ClientContext context;
        v1::TokenizeRequest request;
        request.set_text(std::string(2'000'000, ' '));
        v1::TokenizeResponse response;
        answer = client.stub().Tokenize(&context, request, &response);
        std::call_once(stopped, [&] { verifier.process->Signal(SIGTERM); });
      });
    }
  }
  for (const grpc::Status& answer : answers) EXPECT_TRUE(answer.ok()) << answer.error_message();
  EXPECT_EQ(verifier.process->Wait(), 0);
  EXPECT_THAT(verifier.process->Log(), HasSubstr("all_requests_finished=true"));
}

TEST(Shutdown, DrainingVerifierFinishesAndExitsZero) {
  TempDir dir;
  const VerifierProcess verifier =
      StartVerifier(SlowTarget(dir), dir / "verifier.log", {"--drain-timeout", "250"});
  ASSERT_NE(verifier.port, 0);
  TestClient client(verifier.address());
  const auto drafter = StartDrafter(SmallPair("drafter"), verifier.address(), dir / "drafter.log");
  ASSERT_TRUE(client.AwaitDrafters(1)) << drafter->Log();
  grpc::ClientContext context;
  const auto reader = client.stub().Generate(&context, StoryRequest(400));
  v1::GenerateResponse response;
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(Fetch(verifier.metrics_port, "GET", "/ready").code, 200);
  verifier.process->Signal(SIGTERM);
  ASSERT_NE(verifier.process->AwaitLine("draining"), "");
  EXPECT_EQ(Fetch(verifier.metrics_port, "GET", "/ready").code, 503);
  int tokens = 0, plain_at_the_end = 0;
  bool finished = false;
  do {
    tokens += response.chunk().token_ids_size();
    if (response.has_chunk()) {
      plain_at_the_end = response.chunk().drafted() > 0 ? 0 : plain_at_the_end + 1;
    }
    finished = finished || response.has_finished();
  } while (reader->Read(&response));
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_TRUE(finished);
  EXPECT_EQ(tokens, 400);
  EXPECT_GT(plain_at_the_end, 20);
  EXPECT_EQ(verifier.process->Wait(), 0) << verifier.process->Log();
  EXPECT_NE(drafter->AwaitLine("verifier drains"), "");
}

}  // namespace
}  // namespace outrider
