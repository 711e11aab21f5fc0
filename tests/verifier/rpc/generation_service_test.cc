// The service over an engine without weights, with all tokenizing workers busy: whatever is
// answered needed no worker.
#include "verifier/rpc/generation_service.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/rpc/channel.h"
#include "common/rpc/server.h"
#include "tests/support/allocation_watch.h"
#include "tests/support/fake_model.h"
#include "tests/support/held_workers.h"
#include "tests/support/services.h"
#include "tests/support/time_limit.h"
#include "tests/support/tiny_tokenizer.h"
#include "verifier/pool/drafter_pool.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;
using testing::HeldWorkers;

constexpr int kContext = 64;

class GenerationServiceTest : public ::testing::Test {
 protected:
  struct Answer {
    grpc::Status status;
    std::string pushback;
  };

  explicit GenerationServiceTest(const TextWorkersOptions& options = {},
                                 const std::string& client_tokens = "")
      : tokens_(client_tokens.empty() ? nullptr : Tokens(client_tokens)),
        held_(options, &clock_, &metrics_) {
    auto server = RpcServer::Start({.listen = "127.0.0.1:0"}, {&service_});
    server_ = std::move(server).value();
    stub_ =
        v1::Generation::NewStub(MakeChannel("127.0.0.1:" + std::to_string(server_->port()), {}));
  }
  ~GenerationServiceTest() override {
    held_.Release();
    (void)held_.workers().Stop(testing::kTimeLimit);
    server_->Shutdown(Duration::zero());
  }

  std::unique_ptr<TokenFile> Tokens(const std::string& text) const {
    std::ofstream(dir_ / "tokens") << text;
    return TokenFile::Open(dir_ / "tokens").value();
  }

  // Makes each call on a separate thread, so that it does not block.
  std::future<Answer> Generate(const v1::GenerateRequest& request, grpc::ClientContext& context) {
    return std::async(std::launch::async, [this, request, &context] {
      const auto reader = stub_->Generate(&context, request);
      v1::GenerateResponse response;
      while (reader->Read(&response)) {
      }
      const grpc::Status status = reader->Finish();
      const auto& trailing = context.GetServerTrailingMetadata();
      const auto found = trailing.find("grpc-retry-pushback-ms");
      return Answer{status, found == trailing.end()
                                ? ""
                                : std::string(found->second.data(), found->second.size())};
    });
  }
  std::future<grpc::Status> Tokenize(const std::string& text, grpc::ClientContext& context) {
    return std::async(std::launch::async, [this, text, &context] {
      v1::TokenizeRequest request;
      request.set_text(text);
      v1::TokenizeResponse response;
      const grpc::Status status = stub_->Tokenize(&context, request, &response);
      const size_t tokens = static_cast<size_t>(response.token_ids_size());
      EXPECT_EQ(tokens, status.ok() ? text.size() : 0u);
      return status;
    });
  }

  // Returns false if the count is not reached in time. Then releases the workers, so that every
  // call ends.
  bool AwaitWaiting(int count) {
    if (testing::Await([&] { return metrics_.tokenizer_requests_waiting.value() == count; })) {
      return true;
    }
    held_.Release();
    return false;
  }

  static v1::GenerateRequest Text(const std::string& text) {
    v1::GenerateRequest request;
    request.set_text(text);
    request.mutable_stop()->set_max_tokens(3);
    return request;
  }

  testing::TempDir dir_;
  FakeModel model_{{.vocab_size = testing::kAsciiTokens, .max_position_embeddings = kContext}};
  std::unique_ptr<Tokenizer> tokenizer_ =
      Tokenizer::FromJson(testing::AsciiTokenizerJson()).value();
  std::unique_ptr<grammar::GrammarCache> grammars_ =
      grammar::GrammarCache::Create(*tokenizer_, std::vector<TokenId>{95}, testing::kAsciiTokens)
          .value();
  SteadyClock clock_;
  MetricsRegistry registry_;
  VerifierMetrics metrics_{registry_};
  DrafterPool pool_{TargetIdentity{}, {}, &metrics_, &clock_};
  Engine engine_{{}, &model_, tokenizer_.get(), &pool_, &metrics_, &clock_};
  EngineThread thread_{&engine_};
  Intake intake_{&engine_, &thread_};
  ClientTokens tokens_;
  ClientAuthorization authorization_{&tokens_};
  HeldWorkers held_;
  GenerationService service_{{.tokenizer = tokenizer_.get(),
                              .config = model_.config(),
                              .limits = engine_.limits(),
                              .authorization = &authorization_,
                              .text_workers = &held_.workers(),
                              .grammars = grammars_.get()},
                             &engine_,
                             &pool_.roster(),
                             &thread_,
                             &intake_};
  std::unique_ptr<RpcServer> server_;
  std::unique_ptr<v1::Generation::Stub> stub_;
};

TEST_F(GenerationServiceTest, StatusCallsShareOneSnapshot) {
  struct Call {
    grpc::ClientContext context;
    v1::GetStatusResponse response;
    grpc::StatusCode code = grpc::StatusCode::UNKNOWN;
  };
  constexpr int kRefused = 3;
  std::vector<Call> calls(StatusCalls::kMaxOpen + kRefused);
  std::atomic<int> ok = 0, refused = 0;
  std::promise<void> release;
  thread_.Post([&] { release.get_future().wait(); });
  for (Call& call : calls) {
    static const v1::GetStatusRequest kRequest;
    stub_->async()->GetStatus(&call.context, &kRequest, &call.response, [&](grpc::Status status) {
      call.code = status.error_code();
      ++(status.ok() ? ok : refused);
    });
  }
  EXPECT_TRUE(testing::Await([&] { return refused == kRefused; }));
  EXPECT_EQ(ok, 0);
  release.set_value();
  ASSERT_TRUE(testing::Await([&] { return ok + refused == std::ssize(calls); }));
  std::set<double> uptimes;
  for (const Call& call : calls) {
    if (call.code == grpc::StatusCode::OK) uptimes.insert(call.response.uptime_seconds());
  }
  EXPECT_EQ(ok, static_cast<int>(StatusCalls::kMaxOpen));
  EXPECT_EQ(uptimes.size(), 1u);
}

TEST_F(GenerationServiceTest, OnlyWorkersTokenize) {
  grpc::ClientContext generate_context, tokenize_context;
  auto generated = Generate(Text("abc"), generate_context);
  auto tokenized = Tokenize("abc", tokenize_context);
  grpc::ClientContext stop_context;  // stop strings are searched for special tokens
  v1::GenerateRequest with_stop = Text("");
  with_stop.mutable_token_ids()->add_ids(1);
  with_stop.mutable_stop()->add_stop_strings("z");
  auto stopped = Generate(with_stop, stop_context);
  ASSERT_TRUE(AwaitWaiting(3));

  // Meanwhile, calls that need no worker are answered: ids, and those rejected by their sizes.
  grpc::ClientContext ids_context, long_context, stops_context;
  v1::GenerateRequest ids = Text("");
  ids.mutable_token_ids()->add_ids(1);
  EXPECT_TRUE(Generate(ids, ids_context).get().status.ok());
  const grpc::Status too_long =
      Generate(Text(std::string(kContext + 1, 'a')), long_context).get().status;
  EXPECT_EQ(too_long.error_code(), grpc::StatusCode::OUT_OF_RANGE);
  EXPECT_THAT(too_long.error_message(), HasSubstr("text: 65 bytes"));
  v1::GenerateRequest stops = Text("abc");
  for (int i = 0; i < 257; ++i) stops.mutable_stop()->add_stop_token_ids(1);
  const grpc::Status too_many = Generate(stops, stops_context).get().status;
  EXPECT_EQ(too_many.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(too_many.error_message(), HasSubstr("stop.stop_token_ids: 257 entries, at most 256"));
  EXPECT_EQ(metrics_.tokenizer_seconds.count(), 0u) << "a worker had work";

  EXPECT_EQ(generated.wait_for(Duration::zero()), std::future_status::timeout);
  EXPECT_EQ(tokenized.wait_for(Duration::zero()), std::future_status::timeout);
  held_.Release();
  EXPECT_TRUE(generated.get().status.ok());
  EXPECT_TRUE(stopped.get().status.ok());
  EXPECT_TRUE(tokenized.get().ok());
}

TEST_F(GenerationServiceTest, OnlyWorkersCompileGrammars) {
  v1::GenerateRequest request = Text("");
  request.mutable_token_ids()->add_ids(1);
  request.mutable_sampling()->mutable_structured_output()->set_regex("z{9}");
  grpc::ClientContext context, odd_context, large_context;
  auto answer = Generate(request, context);
  request.mutable_sampling()->mutable_structured_output()->set_regex("(z");
  auto odd = Generate(request, odd_context);
  ASSERT_TRUE(AwaitWaiting(2));
  request.mutable_sampling()->mutable_structured_output()->set_regex(
      std::string(kMaxGrammarBytes + 1, 'z'));
  const grpc::Status large = Generate(request, large_context).get().status;
  EXPECT_THAT(large.error_message(), HasSubstr("sampling.structured_output: 262145 bytes"));
  held_.Release();
  EXPECT_TRUE(answer.get().status.ok());
  const grpc::Status refused = odd.get().status;
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(refused.error_message(), ::testing::StartsWith("sampling.structured_output: "));
}

TEST_F(GenerationServiceTest, CancelledCallsLeaveTheQueue) {
  grpc::ClientContext generate_context, tokenize_context, late_context;
  late_context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(50));
  auto generated = Generate(Text("abc"), generate_context);
  auto tokenized = Tokenize("abc", tokenize_context);
  EXPECT_EQ(Generate(Text("abc"), late_context).get().status.error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  ASSERT_TRUE(AwaitWaiting(2));
  generate_context.TryCancel();
  tokenize_context.TryCancel();
  EXPECT_EQ(generated.get().status.error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(tokenized.get().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(AwaitWaiting(0));
}

class FullTokenizerQueue : public GenerationServiceTest {
 protected:
  FullTokenizerQueue() : GenerationServiceTest({.max_waiting = 2}) {}
};

TEST_F(FullTokenizerQueue, RefusesWithRetryDelay) {
  grpc::ClientContext waiting_context, refused_context;
  auto waiting = Generate(Text("abc"), waiting_context);
  ASSERT_TRUE(AwaitWaiting(1));
  // Under another name, from the same host.
  refused_context.AddMetadata("outrider-client", "other");
  const Answer refused = Generate(Text("abc"), refused_context).get();
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(refused.pushback, "1000");
  held_.Release();
  EXPECT_TRUE(waiting.get().status.ok());
}

class SharedTokenizerQueue : public GenerationServiceTest {
 protected:
  SharedTokenizerQueue() : GenerationServiceTest({.max_waiting = 2}, "alice tok-a\nbob tok-b\n") {}
};

TEST_F(SharedTokenizerQueue, HasAShareForEachToken) {
  grpc::ClientContext alice_context, refused_context, bob_context;
  alice_context.AddMetadata("authorization", "Bearer tok-a");
  refused_context.AddMetadata("authorization", "Bearer tok-a");
  bob_context.AddMetadata("authorization", "Bearer tok-b");
  auto alice = Generate(Text("abc"), alice_context);
  ASSERT_TRUE(AwaitWaiting(1));
  EXPECT_EQ(Generate(Text("abc"), refused_context).get().status.error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  auto bob = Generate(Text("abc"), bob_context);
  ASSERT_TRUE(AwaitWaiting(2));
  held_.Release();
  EXPECT_TRUE(alice.get().status.ok());
  EXPECT_TRUE(bob.get().status.ok());
}

constexpr int64_t kUnknownBytes = 4 << 20;
v1::GenerateRequest WithUnknownField(v1::GenerateRequest request) {
  request.GetReflection()->MutableUnknownFields(&request)->AddLengthDelimited(
      1000, std::string(size_t{kUnknownBytes}, 'x'));
  return request;
}

class SmallTokenizerQueue : public GenerationServiceTest {
 protected:
  SmallTokenizerQueue() : GenerationServiceTest({.max_waiting_bytes = 1 << 20}) {}
};

TEST_F(SmallTokenizerQueue, CountsAllThatAMessageHolds) {
  grpc::ClientContext context;
  EXPECT_EQ(Generate(WithUnknownField(Text("abc")), context).get().status.error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST_F(GenerationServiceTest, FreesMessageAfterTokenizing) {
  if (!testing::AllocationWatch::kCounts) GTEST_SKIP() << "the sanitizer has an operator new";
  const v1::GenerateRequest request = WithUnknownField(Text("abc"));
  // The generation stays alive while the engine is blocked.
  std::promise<void> go_on;
  thread_.Post([held = go_on.get_future().share()] { held.wait(); });
  const testing::AllocationWatch watch;
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, request);
  ASSERT_TRUE(AwaitWaiting(1));
  EXPECT_GE(watch.held(), kUnknownBytes) << "the message waits";
  held_.Release();
  EXPECT_TRUE(testing::Await([&] { return watch.held() < kUnknownBytes / 2; }));
  go_on.set_value();
  v1::GenerateResponse response;
  while (reader->Read(&response)) {
  }
  EXPECT_TRUE(reader->Finish().ok());
}

}  // namespace
}  // namespace outrider
