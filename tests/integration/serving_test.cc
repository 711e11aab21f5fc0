// One verifier process and one drafter process on the default pair, as seen by a client.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "common/rpc/channel.h"
#include "tests/support/services.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;
using testing::SmallPair;
using testing::StartDrafter;
using testing::StartVerifier;
using testing::StoryRequest;
using testing::TempDir;
using testing::TestClient;
using testing::VerifierProcess;

class Serving : public ::testing::Test {
 protected:
  void SetUp() override {
    verifier_ = StartVerifier(SmallPair("target"), dir_ / "verifier.log",
                              {"--policy", "fixed", "--min-draft-wait", "30"});
    ASSERT_NE(verifier_.port, 0);
    drafter_ = StartDrafter(SmallPair("drafter"), verifier_.address(), dir_ / "drafter.log");
    client_ = std::make_unique<TestClient>(verifier_.address());
    ASSERT_TRUE(client_->AwaitDrafters(1)) << drafter_->Log();
  }

  TempDir dir_;
  VerifierProcess verifier_;
  std::unique_ptr<testing::Process> drafter_;
  std::unique_ptr<TestClient> client_;
};

TEST_F(Serving, StreamsTextAndCountsAcceptedDrafts) {
  const TestClient::Outcome outcome = client_->Generate(StoryRequest(100));
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  EXPECT_EQ(outcome.tokens.size(), 100u);
  EXPECT_EQ(outcome.finished.reason(), v1::Finished::REASON_LENGTH);
  EXPECT_EQ(outcome.finished.completion_tokens(), 100u);
  EXPECT_FALSE(outcome.text.empty());
  const v1::SpeculationStats& stats = outcome.finished.speculation();
  EXPECT_GT(stats.drafted_tokens(), 0u);
  EXPECT_GT(stats.accepted_tokens(), 0u);
  EXPECT_EQ(stats.rounds(), outcome.accepted_per_chunk.size());
  uint32_t accepted = 0, drafted = 0, per_position = 0;
  for (const uint32_t a : outcome.accepted_per_chunk) accepted += a;
  for (const uint32_t d : outcome.drafted_per_chunk) drafted += d;
  for (const uint32_t p : stats.accepted_per_position()) per_position += p;
  EXPECT_EQ(accepted, stats.accepted_tokens());
  EXPECT_EQ(drafted, stats.drafted_tokens());
  EXPECT_EQ(per_position, stats.accepted_tokens());
  EXPECT_EQ(stats.accepted_tokens() + stats.rounds(), outcome.tokens.size());
}

TEST_F(Serving, SpeculationOffMeansNoDraft) {
  v1::GenerateRequest request = StoryRequest(40);
  request.mutable_speculation()->set_mode(v1::SpeculationOptions::MODE_OFF);
  const TestClient::Outcome outcome = client_->Generate(request);
  ASSERT_TRUE(outcome.status.ok());
  EXPECT_EQ(outcome.finished.speculation().drafted_tokens(), 0u);
  EXPECT_EQ(outcome.finished.speculation().rounds(), 40u);
  EXPECT_EQ(client_->Status().drafters(0).drafted_tokens(), 0u);
}

TEST_F(Serving, SeedDeterminesText) {
  v1::GenerateRequest request = StoryRequest(80);
  request.set_seed(7);
  const TestClient::Outcome first = client_->Generate(request);
  const TestClient::Outcome second = client_->Generate(request);
  request.set_seed(8);
  const TestClient::Outcome other = client_->Generate(request);
  ASSERT_TRUE(first.status.ok() && second.status.ok() && other.status.ok());
  EXPECT_GT(first.finished.speculation().accepted_tokens(), 0u);
  EXPECT_EQ(first.tokens, second.tokens);
  EXPECT_EQ(first.text, second.text);
  EXPECT_NE(first.tokens, other.tokens);
}

TEST_F(Serving, UsesRequestsDraftLengthAndRule) {
  v1::GenerateRequest request = StoryRequest(60);
  request.mutable_speculation()->set_rule(v1::SpeculationOptions::RULE_TOKEN);
  request.mutable_speculation()->set_draft_length(2);
  const TestClient::Outcome outcome = client_->Generate(request);
  ASSERT_TRUE(outcome.status.ok());
  for (const uint32_t drafted : outcome.drafted_per_chunk) EXPECT_LE(drafted, 2u);
  EXPECT_EQ(outcome.finished.speculation().accepted_per_position_size(), 2);
}

TEST_F(Serving, StopStringEndsText) {
  v1::GenerateRequest request = StoryRequest(200);
  request.mutable_stop()->add_stop_strings("a");
  const TestClient::Outcome outcome = client_->Generate(request);
  ASSERT_TRUE(outcome.status.ok());
  EXPECT_EQ(outcome.finished.reason(), v1::Finished::REASON_STOP);
  EXPECT_EQ(outcome.text.find('a'), std::string::npos);
}

TEST_F(Serving, BadRequestsNameTheField) {
  struct Case {
    std::string field;
    v1::GenerateRequest request;
    grpc::StatusCode code = grpc::StatusCode::INVALID_ARGUMENT;
  };
  std::vector<Case> cases;
  const auto add = [&cases](const std::string& field, auto change) {
    Case& c = cases.emplace_back(Case{field, StoryRequest(10)});
    change(c.request);
  };
  add("text", [](auto& r) {
    r.set_text("");
    r.set_add_prefix(false);
  });
  add("text", [](auto& r) {
    r.mutable_token_ids();
    r.clear_prompt();
  });
  add("prompt", [](auto& r) { r.mutable_token_ids(); });
  add("token_ids", [](auto& r) { r.mutable_token_ids()->add_ids(1u << 30); });
  add("token_ids", [](auto& r) { r.mutable_token_ids()->add_ids(0xffffffffu); });
  add("token_ids", [](auto& r) {
    for (int i = 0; i < 5000; ++i) r.mutable_token_ids()->add_ids(5);
  });
  cases.back().code = grpc::StatusCode::OUT_OF_RANGE;
  add("max_tokens", [](auto& r) { r.mutable_stop()->set_max_tokens(0); });
  add("max_tokens", [](auto& r) { r.mutable_stop()->set_max_tokens(100000); });
  add("temperature", [](auto& r) { r.mutable_sampling()->set_temperature(-1); });
  add("temperature", [](auto& r) { r.mutable_sampling()->set_temperature(NAN); });
  add("top_p", [](auto& r) { r.mutable_sampling()->set_top_p(0); });
  add("min_p", [](auto& r) { r.mutable_sampling()->set_min_p(2); });
  add("repetition_penalty", [](auto& r) { r.mutable_sampling()->set_repetition_penalty(0); });
  add("logit_bias", [](auto& r) { (*r.mutable_sampling()->mutable_logit_bias())[1u << 20] = 1; });
  add("stop_token_ids", [](auto& r) { r.mutable_stop()->add_stop_token_ids(1u << 20); });
  add("stop_strings", [](auto& r) { r.mutable_stop()->add_stop_strings(""); });
  add("draft_length", [](auto& r) { r.mutable_speculation()->set_draft_length(1000); });
  for (const Case& c : cases) {
    const TestClient::Outcome outcome = client_->Generate(c.request);
    EXPECT_EQ(outcome.status.error_code(), c.code) << c.field;
    EXPECT_THAT(outcome.status.error_message(), HasSubstr(c.field.substr(0, 4)));
    EXPECT_TRUE(outcome.tokens.empty());
  }
  EXPECT_TRUE(client_->Generate(StoryRequest(10)).status.ok());
}

TEST_F(Serving, CancelledRequestFreesItsPages) {
  grpc::ClientContext context;
  const auto reader = client_->stub().Generate(&context, StoryRequest(480));
  v1::GenerateResponse response;
  ASSERT_TRUE(reader->Read(&response));
  context.TryCancel();
  while (reader->Read(&response)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  // TearDown checks the pages.
}

TEST_F(Serving, ExpiredRequestEndsWithDeadlineExceeded) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(5));
  const auto reader = client_->stub().Generate(&context, StoryRequest(480));
  v1::GenerateResponse response;
  while (reader->Read(&response)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
}

TEST_F(Serving, ManySessionsAtOnceAllFinish) {
  std::vector<std::thread> threads;
  std::vector<TestClient::Outcome> outcomes(16);
  for (size_t i = 0; i < outcomes.size(); ++i) {
    threads.emplace_back([&, i] { outcomes[i] = client_->Generate(StoryRequest(60)); });
  }
  for (std::thread& t : threads) t.join();
  for (const TestClient::Outcome& o : outcomes) {
    EXPECT_TRUE(o.status.ok()) << o.status.error_message();
    EXPECT_EQ(o.tokens.size(), 60u);
  }
}

TEST_F(Serving, SigtermFinishesRequestsAndExitsZero) {
  grpc::ClientContext context;
  const auto reader = client_->stub().Generate(&context, StoryRequest(400));
  v1::GenerateResponse response;
  ASSERT_TRUE(reader->Read(&response));
  verifier_.process->Signal(SIGTERM);
  ASSERT_FALSE(verifier_.process->AwaitLine("draining").empty());
  size_t tokens = static_cast<size_t>(response.chunk().token_ids_size());
  bool finished = false;
  while (reader->Read(&response)) {
    tokens += static_cast<size_t>(response.chunk().token_ids_size());
    finished = finished || response.has_finished();
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_TRUE(finished);
  EXPECT_EQ(tokens, 400u);
  EXPECT_EQ(verifier_.process->Wait(), 0) << verifier_.process->Log();
  drafter_->Signal(SIGTERM);
  EXPECT_EQ(drafter_->Wait(), 0) << drafter_->Log();
}

TEST_F(Serving, TokenizesAndDetokenizes) {
  v1::TokenizeRequest request;
  request.set_text("Tom had 3 apples.\n");
  v1::TokenizeResponse ids;
  grpc::ClientContext context;
  ASSERT_TRUE(client_->stub().Tokenize(&context, request, &ids).ok());
  EXPECT_GT(ids.token_ids_size(), 3);
  v1::DetokenizeRequest back;
  *back.mutable_token_ids() = ids.token_ids();
  v1::DetokenizeResponse text;
  grpc::ClientContext second;
  ASSERT_TRUE(client_->stub().Detokenize(&second, back, &text).ok());
  EXPECT_EQ(text.text(), request.text());
}

}  // namespace
}  // namespace outrider
