// A drafter that violates the protocol, over its own gRPC stream: the stream ends with a reason,
// and neither requests nor another drafter are affected.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/text/tokenizer.h"
#include "outrider/v1/drafting.grpc.pb.h"
#include "tests/support/raw_drafter.h"
#include "tests/support/services.h"
#include "tests/support/time_limit.h"

namespace outrider {
namespace {

using testing::AddDraft;
using testing::Asked;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using testing::RawDrafter;
using testing::SmallPair;
using testing::StartDrafter;
using testing::StartVerifier;
using testing::TempDir;
using testing::TestClient;
using testing::VerifierProcess;

struct InvalidMessage {
  const char* name;
  const char* words;  // in the reason, a regular expression
  grpc::StatusCode code;
  v1::DraftKind kind;  // of the attacked session
  std::function<void(const Asked&, v1::FromDrafter*)> make;
};

const InvalidMessage kInvalidMessages[] = {
    {"TokenOutsideOfTheVocabulary", "vocabulary", grpc::StatusCode::INVALID_ARGUMENT,
     v1::DRAFT_KIND_SAMPLED,
     [](const Asked& asked, v1::FromDrafter* m) {
       AddDraft(m, asked, asked.round, {1u << 20}, true);
     }},
    {"RowThatDoesNotSum", "sum", grpc::StatusCode::INVALID_ARGUMENT, v1::DRAFT_KIND_SAMPLED,
     [](const Asked& asked, v1::FromDrafter* m) {
       AddDraft(m, asked, asked.round, {5}, true)->mutable_rows(0)->set_weights(0, 65535);
     }},
    {"TokenThatItsRowDoesNotHave", "not among", grpc::StatusCode::INVALID_ARGUMENT,
     v1::DRAFT_KIND_SAMPLED,
     [](const Asked& asked, v1::FromDrafter* m) {
       AddDraft(m, asked, asked.round, {5}, true)->mutable_rows(0)->set_id_gaps(0, 6);
     }},
    {"RoundThatIsNotPlanned", "nobody asked for", grpc::StatusCode::INVALID_ARGUMENT,
     v1::DRAFT_KIND_ARGMAX,
     [](const Asked& asked, v1::FromDrafter* m) {
       AddDraft(m, asked, asked.round + 1000, {5}, false);
     }},
    // The second if the round did not wait that long.
    {"PartAfterTheLastOne", "after the last one|nobody asked for",
     grpc::StatusCode::INVALID_ARGUMENT, v1::DRAFT_KIND_ARGMAX,
     [](const Asked& asked, v1::FromDrafter* m) {
       for (int i = 0; i < 2; ++i) AddDraft(m, asked, asked.round, {5}, false);
     }},
    {"MoreDrawsThanPlanned", "asked for 1", grpc::StatusCode::INVALID_ARGUMENT,
     v1::DRAFT_KIND_ARGMAX,
     [](const Asked& asked, v1::FromDrafter* m) {
       AddDraft(m, asked, asked.round, {5, 6}, false)->mutable_parents()->Resize(2, 0);
     }},
    {"LongerThanPlanned", "asked for length", grpc::StatusCode::INVALID_ARGUMENT,
     v1::DRAFT_KIND_ARGMAX,
     [](const Asked& asked, v1::FromDrafter* m) {
       AddDraft(m, asked, asked.round, std::vector<uint32_t>(asked.length + 1, 5), false);
     }},
    {"RowsForAGreedySession", "", grpc::StatusCode::INVALID_ARGUMENT, v1::DRAFT_KIND_ARGMAX,
     [](const Asked& asked, v1::FromDrafter* m) { AddDraft(m, asked, asked.round, {5}, true); }},
    {"ASecondHello", "second Hello", grpc::StatusCode::FAILED_PRECONDITION, v1::DRAFT_KIND_ARGMAX,
     [](const Asked&, v1::FromDrafter* m) { m->mutable_hello()->set_name("again"); }},
    {"TooManyDraftsInAMessage", "70000 entries", grpc::StatusCode::INVALID_ARGUMENT,
     v1::DRAFT_KIND_ARGMAX,
     [](const Asked&, v1::FromDrafter* m) {
       for (int i = 0; i < 70000; ++i) m->mutable_drafts()->add_drafts();
     }},
};

// Endless requests, half of them greedy with a known text.
class Load {
 public:
  explicit Load(const std::string& address) : address_(address) {
    v1::GenerateRequest plain = Request(true);
    plain.mutable_speculation()->set_mode(v1::SpeculationOptions::MODE_OFF);
    text_ = TestClient(address_).Generate(plain).text;
    EXPECT_FALSE(text_.empty());
    for (int i = 0; i < 4; ++i) {
      threads_.emplace_back([this, greedy = i % 2 == 0] { Run(greedy); });
    }
  }
  ~Load() {
    stop_ = true;
    for (std::thread& t : threads_) t.join();
    EXPECT_EQ(failed_, 0);
    EXPECT_EQ(wrong_, 0) << "greedy texts";
    EXPECT_GT(finished_, 0);
  }
  int finished() const { return finished_; }

 private:
  static v1::GenerateRequest Request(bool greedy) {
    v1::GenerateRequest request = testing::StoryRequest(32);
    request.mutable_sampling()->set_temperature(greedy ? 0 : 1);
    return request;
  }
  void Run(bool greedy) {
    TestClient client(address_);
    while (!stop_) {
      const TestClient::Outcome outcome = client.Generate(Request(greedy));
      ++(outcome.status.ok() ? finished_ : failed_);
      if (greedy && outcome.text != text_) ++wrong_;
    }
  }

  const std::string address_;
  std::string text_;
  std::atomic<bool> stop_{false};
  std::atomic<int> finished_{0};
  std::atomic<int> failed_{0};
  std::atomic<int> wrong_{0};
  std::vector<std::thread> threads_;
};

class HostileStream : public ::testing::Test {
 protected:
  void SetUp() override {
    // The controller would hardly use a drafter with this pair.
    verifier_ = StartVerifier(SmallPair("target"), dir_ / "verifier.log", {"--policy", "fixed"});
    ASSERT_NE(verifier_.port, 0);
    healthy_ = StartDrafter(SmallPair("drafter"), verifier_.address(), dir_ / "drafter.log",
                            {"--name", "healthy"});
    client_ = std::make_unique<TestClient>(verifier_.address());
    ASSERT_TRUE(client_->AwaitDrafters(1)) << healthy_->Log();
    const auto tokenizer = Tokenizer::Load(SmallPair("target"));
    ASSERT_TRUE(tokenizer.ok());
    tokenizer_ = (*tokenizer)->fingerprint();
  }

  // Only the healthy one is attached, on its first stream, and its drafts are accepted.
  void ExpectHealthyUndisturbed() {
    EXPECT_TRUE(client_->AwaitDrafters(1));
    const v1::GetStatusResponse status = client_->Status();
    ASSERT_EQ(status.drafters_size(), 1);
    EXPECT_EQ(status.drafters(0).name(), "healthy");
    EXPECT_GT(status.drafters(0).accepted_tokens(), 0u);
    EXPECT_EQ(healthy_->Log().find("not attached"), std::string::npos) << healthy_->Log();
  }

  TempDir dir_;
  VerifierProcess verifier_;
  std::unique_ptr<testing::Process> healthy_;
  std::unique_ptr<TestClient> client_;
  TokenizerFingerprint tokenizer_;
};

TEST_F(HostileStream, InvalidMessagesEndOnlyThatStream) {
  {
    const Load load(verifier_.address());
    for (const InvalidMessage& message : kInvalidMessages) {
      SCOPED_TRACE(message.name);
      RawDrafter hostile(verifier_.address(), tokenizer_);
      const grpc::Status end = hostile.AnswerWith(message.kind, message.make);
      EXPECT_EQ(end.error_code(), message.code) << end.error_message();
      EXPECT_THAT(end.error_message(), ContainsRegex(message.words));
    }
  }
  ExpectHealthyUndisturbed();
}

TEST_F(HostileStream, FloodsStayInTheirConnection) {
  {
    const Load load(verifier_.address());
    // Drafts for sessions that it does not have, a MiB per message, as fast as possible.
    RawDrafter drafts(verifier_.address(), tokenizer_);
    v1::FromDrafter message;
    const Asked nothing = {.session = uint64_t{1} << 40, .round = 1, .length = 0};
    for (int i = 0; i < 20000; ++i) {
      AddDraft(&message, nothing, 1, std::vector<uint32_t>(16, 9), false);
    }
    EXPECT_GT(message.ByteSizeLong(), size_t{1} << 19);
    int sent = 0;
    while (sent < 1000 && drafts.Send(message)) ++sent;
    EXPECT_LT(sent, 1000) << "the stream was ended";
    EXPECT_THAT(drafts.End().error_message(), HasSubstr("nobody asked for"));

    // Well-formed but meaningless messages are read only as fast as the engine has time for them.
    RawDrafter loads(verifier_.address(), tokenizer_);
    v1::FromDrafter load_message;
    load_message.mutable_load()->set_sessions(1);
    for (int i = 0; i < 20000; ++i) loads.Send(load_message);
    const int finished = load.finished();
    EXPECT_TRUE(testing::Await([&] { return load.finished() >= finished + 8; }))
        << "requests go on beside it";
  }
  ExpectHealthyUndisturbed();
}

TEST_F(HostileStream, MissingHelloEndsIt) {
  const auto stub = v1::Drafting::NewStub(MakeChannel(verifier_.address(), {}));
  grpc::ClientContext context;
  const auto stream = stub->Attach(&context);
  v1::FromDrafter message;
  message.mutable_drafts();
  stream->Write(message);
  v1::FromVerifier answer;
  while (stream->Read(&answer)) {
  }
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::FAILED_PRECONDITION);
}

// The last message, sent together with the end of the stream, is checked before the stream ends.
TEST_F(HostileStream, RefusalOutlivesTheDraftersHalf) {
  const auto stub = v1::Drafting::NewStub(MakeChannel(verifier_.address(), {}));
  for (int i = 0; i < 50; ++i) {
    grpc::ClientContext context;
    const auto stream = stub->Attach(&context);
    v1::FromDrafter message;
    message.mutable_hello();  // with protocol version 0
    stream->WriteLast(message, grpc::WriteOptions());
    v1::FromVerifier answer;
    while (stream->Read(&answer)) {
    }
    ASSERT_EQ(stream->Finish().error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  }
}

}  // namespace
}  // namespace outrider
