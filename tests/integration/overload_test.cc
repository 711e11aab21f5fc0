// With more requests than capacity, the excess is rejected at once with a message and a time to
// retry, shares are fair, and accepted requests are served.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/support/checkpoint_maker.h"
#include "tests/support/services.h"
#include "tests/support/time_limit.h"
#include "tests/support/tiny_tokenizer.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;
using testing::StartVerifier;
using testing::TempDir;
using testing::TestClient;

// Takes seconds of decoding.
constexpr int kContext = 16384;

// A request that runs until it is cancelled.
class LongRequest {
 public:
  LongRequest(TestClient& client, const std::string& key) {
    v1::GenerateRequest request;
    request.mutable_token_ids()->add_ids(1);
    request.mutable_stop()->set_max_tokens(kContext - 1);
    request.mutable_stop()->set_ignore_eos(true);
    context_.AddMetadata("outrider-client", key);
    reader_ = client.stub().Generate(&context_, request);
  }
  ~LongRequest() {
    context_.TryCancel();
    if (!finished_) Finish();
  }
  bool AwaitChunk() {
    v1::GenerateResponse response;
    return reader_->Read(&response);
  }
  // For a request that is rejected.
  grpc::Status Finish() {
    finished_ = true;
    v1::GenerateResponse response;
    while (reader_->Read(&response)) {
    }
    return reader_->Finish();
  }
  std::string Pushback() const {
    const auto& trailing = context_.GetServerTrailingMetadata();
    const auto found = trailing.find("grpc-retry-pushback-ms");
    return found == trailing.end() ? "" : std::string(found->second.data(), found->second.size());
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> reader_;
  bool finished_ = false;
};

void AwaitSessions(TestClient& client, uint32_t running, uint32_t waiting) {
  const auto reached = [&] {
    const v1::GetStatusResponse status = client.Status();
    return status.sessions_running() == running && status.sessions_waiting() == waiting;
  };
  EXPECT_TRUE(testing::Await(reached)) << running << " running and " << waiting << " waiting";
}

TEST(Overload, IsRefusedWithRetryDelay) {
  TempDir dir;
  ASSERT_TRUE(MakeCheckpoint(dir / "target", {.vocab_size = 32,
                                              .hidden_size = 64,
                                              .intermediate_size = 128,
                                              .num_layers = 4,
                                              .num_heads = 4,
                                              .num_kv_heads = 4,
                                              .head_dim = 16,
                                              .max_position_embeddings = kContext,
                                              .eos_token_ids = {}})
                  .ok());
  std::ofstream(dir / "target/tokenizer.json") << testing::TinyTokenizerJson(32);
  const auto verifier =
      StartVerifier(dir / "target", dir / "verifier.log",
                    {"--max-sessions", "1", "--max-waiting", "2", "--max-waiting-per-client", "1"});
  ASSERT_NE(verifier.port, 0);
  TestClient client(verifier.address());
  LongRequest running(client, "a");
  ASSERT_TRUE(running.AwaitChunk());
  LongRequest waiting(client, "a");
  AwaitSessions(client, 1, 1);

  LongRequest greedy(client, "a");
  grpc::Status status = greedy.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("this client"));
  EXPECT_GT(std::atoi(greedy.Pushback().c_str()), 0);

  LongRequest other(client, "b");
  AwaitSessions(client, 1, 2);
  LongRequest late(client, "c");
  status = late.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("queue is full"));
  EXPECT_GT(std::atoi(late.Pushback().c_str()), 0);
  EXPECT_TRUE(running.AwaitChunk()) << "the one that runs goes on";
}

}  // namespace
}  // namespace outrider
