#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <thread>

#include "drafter/rpc/grpc_verifier_link.h"
#include "tests/drafter/rpc/fake_drafting_server.h"
#include "tests/drafter/rpc/recorded_link.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class VerifierLinkTest : public ::testing::Test {
 protected:
  std::unique_ptr<GrpcVerifierLink> Link(const std::string& address) {
    return Link(address, &events_);
  }
  std::unique_ptr<GrpcVerifierLink> Link(const std::string& address, LinkEvents* events) {
    VerifierLinkOptions options;
    options.dial.address = address;
    options.dial.hello = {
        .name = "d0",
        .model = "small",
        .tokenizer = {.vocabulary = 11, .merges = 12, .special_tokens = 13, .vocab_size = 30},
        .vocab_size = 32,
        .max_sessions = 5,
        .max_draft_length = 6,
        .max_draft_tokens = 24,
        .max_context = 77};
    options.max_pause = std::chrono::milliseconds(10);
    options.max_refused_pause = std::chrono::milliseconds(1);
    return std::make_unique<GrpcVerifierLink>(options, events, &observer_);
  }

  // The link of the n-th attachment.
  std::shared_ptr<VerifierLink> Attached(int n = 1) {
    const LinkEvent event = events_.Await<WelcomeEvent>(n);
    const auto* welcome = std::get_if<WelcomeEvent>(&event.message);
    return welcome == nullptr ? nullptr : welcome->link;
  }

  RecordedEvents events_;
  RecordedObserver observer_;
};

DraftPart MakeDraft(uint64_t session, uint32_t round) {
  DraftChunk chunk;
  chunk.tokens = {3, 4, 3};
  chunk.parents = {0, 0, 1};
  chunk.distributions = {{{3, 4}, {60000, 5536}}, {{3}, {65536}}};
  chunk.more = true;
  return {.session = session, .round = round, .chunk = chunk};
}

int Drafts(const std::vector<v1::FromDrafter>& messages) {
  int drafts = 0;
  for (const v1::FromDrafter& message : messages) drafts += message.drafts().drafts_size();
  return drafts;
}

TEST_F(VerifierLinkTest, SaysHelloAndIsWelcomed) {
  FakeDraftingServer server(&FakeDraftingServer::Welcomer);
  const auto link = Link(server.address());
  const LinkEvent event = events_.Await<WelcomeEvent>();
  const DrafterWelcome& welcome = std::get<WelcomeEvent>(event.message).welcome;
  EXPECT_EQ(welcome.vocab_limit, 30);
  EXPECT_EQ(welcome.distribution_limits.mass, 0.99f);
  EXPECT_EQ(welcome.distribution_limits.max_entries, 8);
  ASSERT_THAT(server.received(), SizeIs(1));
  const v1::Hello hello = server.received()[0].hello();
  EXPECT_EQ(hello.protocol_version(), 3u) << "which verifiers of version 3 require";
  EXPECT_EQ(hello.highest_protocol_version(), 4u);
  EXPECT_EQ(hello.name(), "d0");
  EXPECT_EQ(hello.model(), "small");
  EXPECT_EQ(hello.tokenizer().vocab_size(), 30u);
  EXPECT_EQ(hello.tokenizer().vocabulary(), 11u);
  EXPECT_EQ(hello.tokenizer().merges(), 12u);
  EXPECT_EQ(hello.tokenizer().special_tokens(), 13u);
  EXPECT_EQ(hello.vocab_size(), 32u);
  EXPECT_EQ(hello.max_sessions(), 5u);
  EXPECT_EQ(hello.max_draft_length(), 6u);
  EXPECT_EQ(hello.max_draft_tokens(), 24u);
  EXPECT_EQ(hello.max_context(), 77u);
}

TEST_F(VerifierLinkTest, CarriesDraftsAndLoad) {
  FakeDraftingServer server(&FakeDraftingServer::Welcomer);
  const auto link = Link(server.address());
  const std::shared_ptr<VerifierLink> stream = Attached();
  ASSERT_NE(stream, nullptr);
  stream->SendDrafts({MakeDraft(8, 2), {.session = 9, .round = 4, .chunk = {}}});
  stream->SendLoad({.sessions = 3, .free_pages = 21, .session_limit = 4});
  ASSERT_TRUE(server.Await([](const auto& messages) { return messages.size() == 3; }));
  const v1::DraftBatch drafts = server.received()[1].drafts();
  ASSERT_EQ(drafts.drafts_size(), 2);
  EXPECT_EQ(drafts.drafts(0).session(), 8u);
  EXPECT_EQ(drafts.drafts(0).round(), 2u);
  EXPECT_THAT(drafts.drafts(0).token_ids(), ElementsAre(3, 4, 3));
  EXPECT_THAT(drafts.drafts(0).parents(), ElementsAre(0, 0, 1));
  EXPECT_THAT(drafts.drafts(0).rows(0).weights(), ElementsAre(60000, 5536));
  EXPECT_TRUE(drafts.drafts(0).more());
  EXPECT_EQ(drafts.drafts(1).token_ids_size(), 0);
  EXPECT_FALSE(drafts.drafts(1).more());
  EXPECT_EQ(server.received()[2].load().sessions(), 3u);
  EXPECT_EQ(server.received()[2].load().free_pages(), 21u);
  EXPECT_TRUE(server.received()[2].load().has_session_limit());
  EXPECT_EQ(server.received()[2].load().session_limit(), 4u);
}

TEST_F(VerifierLinkTest, CarriesSessionsAndVerdicts) {
  FakeDraftingServer server(&FakeDraftingServer::Welcomer);
  const auto link = Link(server.address());
  ASSERT_NE(Attached(), nullptr);
  v1::FromVerifier message;
  v1::Open* open = message.mutable_open();
  open->set_session(5);
  open->mutable_token_ids()->Add(1);
  open->mutable_token_ids()->Add(2);
  open->set_prompt_tokens(1);
  open->set_seed(~uint64_t{0});
  open->mutable_sampling()->set_temperature(0.5f);
  open->mutable_plan()->set_round(3);
  open->mutable_plan()->set_length(4);
  open->mutable_plan()->add_branching(2);
  open->mutable_plan()->add_branching(3);
  open->mutable_plan()->mutable_stop()->set_kind(v1::StopRule::KIND_CONFIDENCE);
  open->mutable_plan()->mutable_stop()->set_threshold(0.5f);
  open->set_kind(v1::DRAFT_KIND_RACE);
  server.Send(message);
  v1::Verdict* verdict = message.mutable_verdicts()->add_verdicts();
  verdict->set_session(5);
  verdict->set_round(3);
  verdict->set_node(2);
  verdict->add_next(9);
  verdict->mutable_plan()->set_round(4);
  server.Send(message);
  message.mutable_close()->set_session(5);
  server.Send(message);
  message.mutable_drain();
  server.Send(message);

  const LinkEvent opened = events_.Await<SessionOpening>();
  const auto& session = std::get<SessionOpening>(opened.message);
  EXPECT_EQ(session.session, 5u);
  EXPECT_THAT(session.tokens, ElementsAre(1, 2));
  EXPECT_EQ(session.prompt_tokens, 1);
  EXPECT_EQ(session.seed, ~uint64_t{0});
  EXPECT_EQ(session.sampling.temperature, 0.5f);
  EXPECT_EQ(session.plan.round, 3u);
  EXPECT_EQ(session.plan.shape, (DraftShape{.length = 4, .branching = {2, 3}}));
  EXPECT_EQ(session.plan.stop, (StopRule{.kind = StopRule::Kind::kConfidence, .threshold = 0.5f}));
  EXPECT_EQ(session.kind, DraftKind::kRace);
  const LinkEvent decided = events_.Await<std::vector<SessionVerdict>>();
  const auto& decisions = std::get<std::vector<SessionVerdict>>(decided.message);
  ASSERT_THAT(decisions, SizeIs(1));
  EXPECT_EQ(decisions[0].session, 5u);
  EXPECT_EQ(decisions[0].round, 3u);
  EXPECT_EQ(decisions[0].node, 2);
  EXPECT_THAT(decisions[0].next, ElementsAre(9));
  EXPECT_EQ(decisions[0].plan.round, 4u);
  EXPECT_EQ(std::get<CloseEvent>(events_.Await<CloseEvent>().message).session, 5u);
  (void)events_.Await<DrainEvent>();
}

TEST_F(VerifierLinkTest, ReportsRefusalAndDialsAgain) {
  FakeDraftingServer server([](const v1::FromDrafter&, FakeDraftingServer::Sink& sink) {
    sink.Close({grpc::StatusCode::FAILED_PRECONDITION, "tokenizer: 30 tokens here, 31 there"});
  });
  const auto link = Link(server.address());
  const std::vector<Status> refusals = observer_.AwaitRefusals(2);
  ASSERT_GE(refusals.size(), 2u);
  EXPECT_EQ(refusals[0].code(), Code::kFailedPrecondition);
  EXPECT_THAT(refusals[0].message(), HasSubstr("30 tokens here"));
  EXPECT_EQ(observer_.attached(), 0);
  EXPECT_EQ(events_.Count<DisconnectedEvent>(), 0);
}

TEST_F(VerifierLinkTest, MissingAuthorizationIsRefusal) {
  int dials = 0;
  FakeDraftingServer server([&](const v1::FromDrafter&, FakeDraftingServer::Sink& sink) {
    sink.Close(++dials == 1 ? grpc::Status(grpc::StatusCode::UNAUTHENTICATED, "token?")
                            : grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "name?"));
  });
  const auto link = Link(server.address());
  const std::vector<Status> refusals = observer_.AwaitRefusals(2);
  ASSERT_GE(refusals.size(), 2u);
  EXPECT_EQ(refusals[0].ToString(), "UNAUTHENTICATED: token?");
  EXPECT_EQ(refusals[1].ToString(), "PERMISSION_DENIED: name?");
}

TEST_F(VerifierLinkTest, AttachesAgainAfterTheVerifierRestarts) {
  auto server = std::make_unique<FakeDraftingServer>(&FakeDraftingServer::Welcomer);
  const int port = server->port();
  const auto link = Link(server->address());
  const LinkEvent first = events_.Await<WelcomeEvent>();
  const std::shared_ptr<VerifierLink> old_stream = Attached();
  server.reset();
  EXPECT_EQ(events_.Await<DisconnectedEvent>().connection, first.connection);
  server = std::make_unique<FakeDraftingServer>(&FakeDraftingServer::Welcomer, port);
  const LinkEvent second = events_.Await<WelcomeEvent>(2);
  EXPECT_NE(second.connection, first.connection);
  EXPECT_EQ(observer_.detached(), 1);
  EXPECT_EQ(observer_.lost(), 1);

  // Drafts that the loop still had for the old stream must not reach the new one.
  old_stream->SendDrafts({MakeDraft(1, 1)});
  std::get<WelcomeEvent>(second.message).link->SendDrafts({MakeDraft(2, 2)});
  ASSERT_TRUE(server->Await([](const auto& messages) { return Drafts(messages) > 0; }));
  EXPECT_EQ(server->received().back().drafts().drafts(0).session(), 2u);
}

TEST_F(VerifierLinkTest, WaitsForVerifierToStart) {
  int port = 0;
  { port = FakeDraftingServer(&FakeDraftingServer::Welcomer).port(); }
  const auto link = Link("127.0.0.1:" + std::to_string(port));
  FakeDraftingServer server(&FakeDraftingServer::Welcomer, port);
  EXPECT_NE(Attached(), nullptr);
}

// The verdict on a draft may be read before OnWriteDone of the draft has run.
TEST_F(VerifierLinkTest, RepliesMayPrecedeWriteCompletion) {
  constexpr uint32_t kRounds = 3000;
  FakeDraftingServer server([](const v1::FromDrafter& message, FakeDraftingServer::Sink& sink) {
    FakeDraftingServer::Welcomer(message, sink);
    for (const v1::Draft& draft : message.drafts().drafts()) {
      v1::FromVerifier answer;
      v1::Verdict* verdict = answer.mutable_verdicts()->add_verdicts();
      verdict->set_session(draft.session());
      verdict->mutable_plan()->set_round(draft.round() + 1);
      sink.Send(std::move(answer));
    }
  });
  std::shared_ptr<VerifierLink> stream;
  events_.on_event_ = [&stream](LinkEvent& event) {
    if (auto* welcome = std::get_if<WelcomeEvent>(&event.message)) {
      stream = welcome->link;
      stream->SendDrafts({MakeDraft(1, 1)});
    } else if (auto* decisions = std::get_if<std::vector<SessionVerdict>>(&event.message)) {
      const uint32_t round = decisions->at(0).plan.round;
      if (round <= kRounds) stream->SendDrafts({MakeDraft(1, round)});
    }
  };
  const auto link = Link(server.address());
  (void)events_.Await<std::vector<SessionVerdict>>(kRounds);
  const std::vector<v1::FromDrafter> received = server.received();
  ASSERT_EQ(Drafts(received), static_cast<int>(kRounds));
  for (uint32_t i = 0; i < kRounds; ++i) {
    EXPECT_EQ(received[i + 1].drafts().drafts(0).round(), i + 1);
  }
}

TEST_F(VerifierLinkTest, SurvivesCancellationMidStream) {
  FakeDraftingServer server(&FakeDraftingServer::Welcomer);
  const auto link = Link(server.address());
  for (int n = 1; n <= 20; ++n) {
    const std::shared_ptr<VerifierLink> stream = Attached(n);
    ASSERT_NE(stream, nullptr);
    for (uint32_t i = 0; i < 50; ++i) {
      stream->SendDrafts({MakeDraft(1, i)});
      if (i == 25) server.Cancel();
    }
    (void)events_.Await<DisconnectedEvent>(n);
    stream->SendLoad({});
  }
}

TEST_F(VerifierLinkTest, LeavesVerifierWithoutWelcome) {
  FakeDraftingServer server([](const v1::FromDrafter&, FakeDraftingServer::Sink& sink) {
    v1::FromVerifier message;
    message.mutable_close()->set_session(1);
    sink.Send(std::move(message));
  });
  const auto link = Link(server.address());
  ASSERT_TRUE(server.Await([](const auto& messages) { return messages.size() >= 2; }));
  EXPECT_EQ(events_.Count<CloseEvent>(), 0);
  EXPECT_EQ(events_.Count<WelcomeEvent>(), 0);
}

TEST_F(VerifierLinkTest, SecondWelcomeEndsStream) {
  FakeDraftingServer server(&FakeDraftingServer::Welcomer);
  const auto link = Link(server.address());
  ASSERT_NE(Attached(), nullptr);
  server.Send(FakeDraftingServer::Welcome());
  (void)events_.Await<DisconnectedEvent>();
  EXPECT_NE(Attached(2), nullptr);
}

TEST_F(VerifierLinkTest, FullInboxEndsStream) {
  FakeDraftingServer server(&FakeDraftingServer::Welcomer);
  const auto link = Link(server.address());
  ASSERT_NE(Attached(), nullptr);
  events_.set_full(true);
  v1::FromVerifier message;
  message.mutable_close()->set_session(1);
  server.Send(message);
  (void)events_.Await<DisconnectedEvent>();
  EXPECT_EQ(events_.Count<CloseEvent>(), 0);
  events_.set_full(false);
  EXPECT_NE(Attached(2), nullptr);
}

TEST_F(VerifierLinkTest, FloodStaysInItsConnection) {
  events_.HoldRoom();
  FakeDraftingServer server(&FakeDraftingServer::Welcomer);
  const auto link = Link(server.address());
  ASSERT_NE(Attached(), nullptr);
  v1::FromVerifier message;
  message.mutable_close()->set_session(1);
  for (int i = 0; i < 1000; ++i) server.Send(message);
  // With the welcome, a MiB at 4 KiB each.
  (void)events_.Await<CloseEvent>(255);
  // Meanwhile another verifier is served.
  FakeDraftingServer other(&FakeDraftingServer::Welcomer);
  const auto other_link = Link(other.address());
  ASSERT_NE(Attached(2), nullptr);
  other.Send(FakeDraftingServer::Welcome());
  (void)events_.Await<DisconnectedEvent>();
  EXPECT_EQ(events_.Count<CloseEvent>(), 255) << "the rest is not read";
  events_.HandleAll();
  (void)events_.Await<CloseEvent>(1000);
}

TEST_F(VerifierLinkTest, EachVerdictTakesRoom) {
  events_.HoldRoom();
  FakeDraftingServer server(&FakeDraftingServer::Welcomer);
  const auto link = Link(server.address());
  ASSERT_NE(Attached(), nullptr);
  v1::FromVerifier verdicts, close;
  for (int i = 0; i < 256; ++i) verdicts.mutable_verdicts()->add_verdicts();
  close.mutable_close()->set_session(1);
  server.Send(verdicts);
  server.Send(close);
  (void)events_.Await<std::vector<SessionVerdict>>();
  FakeDraftingServer other(&FakeDraftingServer::Welcomer);
  const auto other_link = Link(other.address());
  ASSERT_NE(Attached(2), nullptr);
  EXPECT_EQ(events_.Count<CloseEvent>(), 0);
  events_.HandleAll();
  (void)events_.Await<CloseEvent>();
}

TEST_F(VerifierLinkTest, LeavesVerifierThatDoesNotRead) {
  FakeDraftingServer server(&FakeDraftingServer::Welcomer, 0, /*reads=*/false);
  const auto link = Link(server.address());
  const std::shared_ptr<VerifierLink> stream = Attached();
  ASSERT_NE(stream, nullptr);
  // The capacity of the buffers in between is unknown; at 40 kB per message they are full soon.
  DraftPart large{.session = 1, .round = 1, .chunk = {}};
  large.chunk.tokens.assign(20000, 1000);
  const Time deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (events_.Count<DisconnectedEvent>() == 0 && std::chrono::steady_clock::now() < deadline) {
    stream->SendDrafts({large});
  }
  (void)events_.Await<DisconnectedEvent>();
}

TEST_F(VerifierLinkTest, UnreadBytesEndStream) {
  for (const bool reads : {true, false}) {
    RecordedEvents events;
    FakeDraftingServer server(&FakeDraftingServer::Welcomer, 0, reads);
    const auto link = Link(server.address(), &events);
    const LinkEvent welcome = events.Await<WelcomeEvent>();
    // Fewer messages than may wait, of a MB each.
    DraftPart large{.session = 1, .round = 1, .chunk = {}};
    large.chunk.tokens.assign(500'000, 1000);
    for (int i = 1; i <= 64; ++i) {
      std::get<WelcomeEvent>(welcome.message).link->SendDrafts({large});
      if (!reads) continue;
      ASSERT_TRUE(server.Await([i](const auto& messages) { return Drafts(messages) == i; }));
    }
    if (reads) {
      EXPECT_EQ(events.Count<DisconnectedEvent>(), 0);
    } else {
      (void)events.Await<DisconnectedEvent>();
    }
  }
}

// Sends what fills the connection's room, so that it is not read until HandleAll.
void Pause(FakeDraftingServer& server, RecordedEvents& events) {
  events.HoldRoom();
  v1::FromVerifier verdicts;
  for (int i = 0; i < 256; ++i) verdicts.mutable_verdicts()->add_verdicts();
  server.Send(verdicts);
  (void)events.Await<std::vector<SessionVerdict>>();
}

TEST_F(VerifierLinkTest, PausedStreamEndsWhenHandled) {
  using End = std::function<void(FakeDraftingServer&, VerifierLink&)>;
  const End ends[] = {
      [](FakeDraftingServer& server, VerifierLink&) { server.End(grpc::Status::OK); },
      [](FakeDraftingServer& server, VerifierLink&) { server.Cancel(); },
      [](FakeDraftingServer& server, VerifierLink& stream) {
        server.Cancel();
        for (uint32_t i = 0; i < 50; ++i) stream.SendDrafts({MakeDraft(1, i)});
      }};
  for (const End& end : ends) {
    RecordedEvents events;
    FakeDraftingServer server(&FakeDraftingServer::Welcomer);
    const auto link = Link(server.address(), &events);
    const LinkEvent welcome = events.Await<WelcomeEvent>();
    Pause(server, events);
    end(server, *std::get<WelcomeEvent>(welcome.message).link);
    EXPECT_EQ(events.Count<DisconnectedEvent>(), 0);
    events.HandleAll();
    (void)events.Await<DisconnectedEvent>();
    (void)events.Await<WelcomeEvent>(2);
  }
}

TEST_F(VerifierLinkTest, PausedStreamStopsWhenHandled) {
  FakeDraftingServer server(&FakeDraftingServer::Welcomer);
  const auto link = Link(server.address());
  ASSERT_NE(Attached(), nullptr);
  Pause(server, events_);
  std::thread stopper([&link] { link->Stop(); });
  EXPECT_TRUE(server.AwaitHalfClosed(1));
  events_.HandleAll();
  stopper.join();
  EXPECT_EQ(events_.Count<DisconnectedEvent>(), 1);
}

TEST_F(VerifierLinkTest, StopFlushesAndHalfCloses) {
  FakeDraftingServer server(&FakeDraftingServer::Welcomer);
  const auto link = Link(server.address());
  const std::shared_ptr<VerifierLink> stream = Attached();
  ASSERT_NE(stream, nullptr);
  for (uint32_t i = 0; i < 100; ++i) stream->SendDrafts({MakeDraft(1, i)});
  link->Stop();
  EXPECT_EQ(Drafts(server.received()), 100);
  EXPECT_TRUE(server.AwaitHalfClosed(1));
  EXPECT_EQ(events_.Count<DisconnectedEvent>(), 1);
  EXPECT_EQ(observer_.detached(), 1);
  EXPECT_EQ(observer_.lost(), 0) << "it is not dialled again";
  stream->SendDrafts({MakeDraft(1, 1)});  // late: ignored
}

TEST_F(VerifierLinkTest, StopsWhileTheVerifierIsAway) {
  int port = 0;
  { port = FakeDraftingServer(&FakeDraftingServer::Welcomer).port(); }
  const auto link = Link("127.0.0.1:" + std::to_string(port));
  link->Stop();
  EXPECT_EQ(observer_.attached(), 0);
}

}  // namespace
}  // namespace outrider
