#include "verifier/rpc/drafting_service.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/rpc/channel.h"
#include "common/rpc/drafting_wire.h"
#include "common/rpc/server.h"
#include "tests/support/allocation_watch.h"
#include "tests/support/fake_model.h"
#include "tests/support/time_limit.h"
#include "tests/support/tiny_tokenizer.h"

namespace outrider {
namespace {

constexpr int kTokens = 100'000, kTokenBytes = 20;

TargetIdentity LargeTarget() {
  auto vocabulary = std::make_shared<VocabularyEntries>();
  for (int i = 0; i < kTokens; ++i) {
    std::string token = std::to_string(i);
    token.resize(kTokenBytes, '.');
    EXPECT_TRUE(vocabulary->Add(TokenKind::kText, token).ok());
  }
  return {.model = "large", .vocab_size = kTokens, .vocabulary = std::move(vocabulary)};
}

// Hundreds of drafters may dial at once, after a restart, or one again and again.
TEST(DraftingService, DraftersShareOneCopyOfVocabulary) {
  FakeModel model({.vocab_size = testing::kAsciiTokens});
  const auto tokenizer = Tokenizer::FromJson(testing::AsciiTokenizerJson()).value();
  const SteadyClock clock;
  MetricsRegistry registry;
  VerifierMetrics metrics(registry);
  DrafterPool pool(LargeTarget(), {}, &metrics, &clock);
  Engine engine({}, &model, tokenizer.get(), &pool, &metrics, &clock);
  EngineThread thread(&engine);
  const DrafterAuthorization anyone(nullptr, {});
  DraftingService service(&anyone, &metrics, &pool, &thread);
  const auto server = RpcServer::Start({.listen = "127.0.0.1:0"}, {&service}).value();
  const auto stub =
      v1::Drafting::NewStub(MakeChannel("127.0.0.1:" + std::to_string(server->port()), {}));

  const v1::FromDrafter hello = ToWire(DrafterHello{.name = "d0",
                                                    .model = "small",
                                                    .tokenizer = {.vocab_size = 8},
                                                    .vocab_size = 8,
                                                    .max_sessions = 1,
                                                    .max_draft_length = 1,
                                                    .max_draft_tokens = 1,
                                                    .max_context = 2,
                                                    .translates = true});
  const testing::AllocationWatch watch;
  std::vector<grpc::ClientContext> contexts(4);
  std::vector<std::unique_ptr<grpc::ClientReaderWriter<v1::FromDrafter, v1::FromVerifier>>> streams;
  for (grpc::ClientContext& context : contexts) {
    streams.push_back(stub->Attach(&context));
    EXPECT_TRUE(streams.back()->Write(hello));
  }
  const double expected = 4. * kTokens * kTokenBytes;
  EXPECT_TRUE(testing::Await([&] { return metrics.draft_bytes_sent_total.value() > expected; }));
  EXPECT_LT(watch.peak(), int64_t{kTokens} * kTokenBytes / 2);
  v1::FromVerifier vocabulary;
  EXPECT_TRUE(streams.front()->Read(&vocabulary));
  EXPECT_EQ(vocabulary.vocabulary().entries_size(), kTokens);
  for (grpc::ClientContext& context : contexts) context.TryCancel();
  for (const auto& stream : streams) (void)stream->Finish();
  server->Shutdown(Duration::zero());
}

}  // namespace
}  // namespace outrider
