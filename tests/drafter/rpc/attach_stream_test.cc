#include "drafter/rpc/attach_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/rpc/channel.h"
#include "common/rpc/drafting_wire.h"
#include "drafter/rpc/link_message.h"
#include "tests/drafter/rpc/fake_drafting_server.h"
#include "tests/drafter/rpc/recorded_link.h"

namespace outrider {
namespace {

// If the call held a reference, it would be dropped on gRPC's thread, together with the channel if
// it was the last one: that occasionally aborts the process.
TEST(AttachStream, CallHoldsNoReference) {
  FakeDraftingServer server([](const v1::FromDrafter&, FakeDraftingServer::Sink&) {});
  RecordedEvents events;
  RecordedObserver observer;
  AttachStub stub(MakeChannel(server.address(), {}));
  const std::shared_ptr<AttachStream> stream = AttachStream::Start(
      stub, server.address(), 1, "", {.name = "d0"}, nullptr, &events, &observer);
  EXPECT_EQ(stream.use_count(), 1);
  stream->Cancel();
  EXPECT_EQ(stream->WaitForEnd(std::nullopt)->code(), Code::kCancelled);
  EXPECT_EQ(stream.use_count(), 1);
}

TEST(AttachStream, ManyOrManyBytesEndIt) {
  v1::FromVerifier large, crowded;
  large.mutable_open()->mutable_sampling()->mutable_structured_output()->set_gbnf(
      std::string(kVerifierMessage.bytes, 'a'));
  for (int i = 0; i < kVerifierMessage.entries; ++i) crowded.mutable_verdicts()->add_verdicts();
  const std::pair<v1::FromVerifier, std::string> cases[] = {
      {large, "bytes, at most 8388608"}, {crowded, "more than 32768 strings, messages"}};
  for (const auto& [message, words] : cases) {
    FakeDraftingServer server(
        [&message = message](const v1::FromDrafter&, FakeDraftingServer::Sink& sink) {
          sink.Send(FakeDraftingServer::Welcome());
          sink.Send(message);
        });
    RecordedEvents events;
    RecordedObserver observer;
    AttachStub stub(MakeChannel(server.address(), {}));
    const auto stream = AttachStream::Start(stub, server.address(), 1, "", {.name = "d0"}, nullptr,
                                            &events, &observer);
    const Status end = *stream->WaitForEnd(std::nullopt);
    EXPECT_EQ(end.code(), Code::kInvalidArgument);
    EXPECT_THAT(end.message(), ::testing::HasSubstr(words));
  }
}

// A verifier that answers Hello with `vocabulary`, and a VocabularyMatch with Welcome.
class AnotherVocabulary : public ::testing::Test {
 protected:
  static FakeDraftingServer::Behaviour SendVocabulary(const v1::FromVerifier& vocabulary) {
    return [vocabulary](const v1::FromDrafter& message, FakeDraftingServer::Sink& sink) {
      if (message.has_hello()) sink.Send(vocabulary);
      if (message.has_match()) sink.Send(FakeDraftingServer::Welcome());
    };
  }
  static v1::FromVerifier Vocabulary(const std::vector<std::string>& tokens) {
    VocabularyEntries entries;
    for (const std::string& token : tokens) EXPECT_TRUE(entries.Add(TokenKind::kText, token).ok());
    return ToWire(entries);
  }
  static std::shared_ptr<const DrafterVocabulary> OwnVocabulary() {
    DrafterVocabulary own;
    for (const char* token : {"c", "a", "b"}) {
      EXPECT_TRUE(own.entries.Add(TokenKind::kText, token).ok());
    }
    return std::make_shared<const DrafterVocabulary>(std::move(own));
  }

  std::shared_ptr<AttachStream> Attach(const FakeDraftingServer& server,
                                       std::shared_ptr<const DrafterVocabulary> own) {
    stub_ = std::make_unique<AttachStub>(MakeChannel(server.address(), {}));
    return AttachStream::Start(*stub_, server.address(), 1, "", {.name = "d0"}, std::move(own),
                               &events_, &observer_);
  }

  std::unique_ptr<AttachStub> stub_;
  RecordedEvents events_;
  RecordedObserver observer_;
};

TEST_F(AnotherVocabulary, IsComparedAndTranslated) {
  FakeDraftingServer server(SendVocabulary(Vocabulary({"a", "ac", "b"})));
  const auto stream = Attach(server, OwnVocabulary());
  const LinkEvent event = events_.Await<WelcomeEvent>();
  const auto& welcome = std::get<WelcomeEvent>(event.message);
  ASSERT_NE(welcome.vocabulary, nullptr);
  EXPECT_EQ(welcome.vocabulary->ToVerifier(2), 2);
  EXPECT_THAT(welcome.vocabulary->ToOwn(1), ::testing::ElementsAre(1, 0));
  const v1::VocabularyMatch match = server.received().at(1).match();
  EXPECT_EQ(match.shared(), 2u);
  EXPECT_EQ(match.tokens(), 3u);
  // Only once, and before the welcome.
  server.Send(Vocabulary({"a"}));
  EXPECT_EQ(stream->WaitForEnd(std::nullopt)->code(), Code::kInvalidArgument);
}

TEST_F(AnotherVocabulary, InvalidOneEndsStream) {
  v1::FromVerifier cut = Vocabulary({"a", "b"});
  cut.mutable_vocabulary()->set_text("a");
  const std::pair<v1::FromVerifier, std::string> cases[] = {
      {Vocabulary({"a", "b", "a"}), "ids 0 and 2 are the same token"}, {cut, "ends within id 1"}};
  for (const auto& [vocabulary, words] : cases) {
    FakeDraftingServer server(SendVocabulary(vocabulary));
    const Status end = *Attach(server, OwnVocabulary())->WaitForEnd(std::nullopt);
    EXPECT_EQ(end.code(), Code::kInvalidArgument);
    EXPECT_THAT(end.message(), ::testing::HasSubstr(words));
    EXPECT_EQ(events_.Count<WelcomeEvent>(), 0);
  }
  FakeDraftingServer server(SendVocabulary(Vocabulary({"a"})));
  const Status end = *Attach(server, nullptr)->WaitForEnd(std::nullopt);
  EXPECT_EQ(end.code(), Code::kFailedPrecondition);
}

}  // namespace
}  // namespace outrider
