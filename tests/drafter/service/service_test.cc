// The program itself: its flags, its exit codes, its health, its signals.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/rpc/drafting_wire.h"
#include "common/spec/draft_tree.h"
#include "drafter/options.h"
#include "tests/drafter/rpc/fake_drafting_server.h"
#include "tests/support/checkpoint_maker.h"
#include "tests/support/health_probe.h"
#include "tests/support/services.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;
using testing::Health;
using testing::Probe;
using testing::Process;
using testing::ProgramPath;
using testing::StartDrafter;
using testing::TempDir;

class DrafterService : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(MakeCheckpoint(model_, {.tokenizer = true}).ok()); }

  // A port on which nobody listens.
  static std::string NoVerifier() {
    return FakeDraftingServer(&FakeDraftingServer::Welcomer).address();
  }

  // Unlike StartDrafter: with a server of its own.
  std::unique_ptr<Process> StartListening(const std::string& verifier, const std::string& listen) {
    return Process::Start({ProgramPath("outrider-drafter"), "--model", model_, "--verifier",
                           verifier, "--metrics", "", "--listen", listen},
                          log_);
  }

  TempDir dir_;
  const std::string model_ = dir_ / "model";
  const std::string log_ = dir_ / "drafter.log";
};

TEST_F(DrafterService, BadFlagsExitWithTwo) {
  for (const std::vector<std::string>& flags : std::vector<std::vector<std::string>>{
           {},
           {"--model", model_},
           {"--model", model_, "--verifier", "a:1", "--weights", "f16"},
           {"--model", model_, "--verifier", "a:1", "--max-sessions", "0"},
           {"--model", model_, "--verifier", "a:1", "--max-draft-tokens", "1025"},
           {"--model", model_, "--verifier", "a:1", "--chunk-depths", "0"},
           {"--model", model_, "--verifier", "a:1", "--fp8-activations"},
           {"--model", model_, "--verifier", "a:1", "--no-such-flag"}}) {
    std::vector<std::string> argv = {ProgramPath("outrider-drafter")};
    argv.insert(argv.end(), flags.begin(), flags.end());
    const auto process = Process::Start(argv, log_);
    EXPECT_EQ(process->Wait(), 2) << process->Log();
    EXPECT_NE(process->Log(), "");
  }
}

TEST(DrafterFlags, ServeNoMoreVerifiersThanSessions) {
  const auto subset = [](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"outrider-drafter", "--model", "m", "--verifier", "127.0.0.1:1"});
    std::vector<char*> argv;
    for (std::string& flag : flags) argv.push_back(flag.data());
    DrafterOptions options;
    EXPECT_FALSE(ParseDrafterOptions(static_cast<int>(argv.size()), argv.data(), &options));
    return options.subset;
  };
  EXPECT_EQ(subset({"--max-sessions", "1"}), 1);
  EXPECT_EQ(subset({"--max-sessions", "3", "--subset", "2"}), 2);
  EXPECT_EQ(subset({}), 8);
}

TEST_F(DrafterService, UnloadableModelEndsWithOneLine) {
  std::filesystem::remove(model_ + "/tokenizer.json");
  const auto process = StartDrafter(model_, NoVerifier(), log_);
  EXPECT_EQ(process->Wait(), 1);
  EXPECT_THAT(process->Log(), HasSubstr("outrider-drafter: NOT_FOUND"));
  EXPECT_THAT(process->Log(), HasSubstr("tokenizer.json"));
}

TEST_F(DrafterService, TakenAddressEndsWithOneLine) {
  FakeDraftingServer taken(&FakeDraftingServer::Welcomer);
  const auto process = StartListening(NoVerifier(), taken.address());
  EXPECT_EQ(process->Wait(), 1);
  EXPECT_THAT(process->Log(), HasSubstr("cannot listen on " + taken.address()));
}

TEST_F(DrafterService, StopsOnSigtermWithoutVerifier) {
  const auto process = StartDrafter(model_, NoVerifier(), log_);
  ASSERT_NE(process->AwaitLine("not attached"), "") << process->Log();
  process->Signal(SIGTERM);
  EXPECT_EQ(process->Wait(), 0) << process->Log();
}

TEST_F(DrafterService, SigintHalfClosesEveryStream) {
  FakeDraftingServer one(&FakeDraftingServer::Welcomer);
  FakeDraftingServer two(&FakeDraftingServer::Welcomer);
  const auto process = StartDrafter(model_, one.address() + "," + two.address(), log_);
  const auto greeted = [](const auto& messages) { return messages.size() >= 2; };  // hello, load
  ASSERT_TRUE(one.Await(greeted) && two.Await(greeted)) << process->Log();
  process->Signal(SIGINT);
  EXPECT_EQ(process->Wait(), 0) << process->Log();
  EXPECT_TRUE(one.AwaitHalfClosed(1));
  EXPECT_TRUE(two.AwaitHalfClosed(1));
}

void Refuse(const v1::FromDrafter& /*message*/, FakeDraftingServer::Sink& sink) {
  sink.Close({grpc::StatusCode::FAILED_PRECONDITION, "another tokenizer"});
}

TEST_F(DrafterService, RefusalExitsWithThreeIfAsked) {
  FakeDraftingServer server(&Refuse);
  const auto process = StartDrafter(model_, server.address(), log_, {"--exit-on-refusal"});
  EXPECT_EQ(process->Wait(), 3) << process->Log();
  EXPECT_THAT(process->Log(), HasSubstr("another tokenizer"));
  EXPECT_THAT(process->Log(), HasSubstr("stopping reason=refused"));
}

// Each refusal asks for the end, and a second signal would end the process with another code.
TEST_F(DrafterService, RefusalsByManyExitWithThree) {
  std::vector<std::unique_ptr<FakeDraftingServer>> servers;
  std::vector<std::string> flags = {"--exit-on-refusal"};
  for (int i = 0; i < 8; ++i) {
    servers.push_back(std::make_unique<FakeDraftingServer>(&Refuse));
    if (i > 0) flags.insert(flags.end(), {"--verifier", servers.back()->address()});
  }
  for (int run = 0; run < 4; ++run) {
    const auto process = StartDrafter(model_, servers[0]->address(), log_, flags);
    EXPECT_EQ(process->Wait(), 3) << process->Log();
  }
}

TEST_F(DrafterService, IsReadyWhileItIsAttached) {
  auto server = std::make_unique<FakeDraftingServer>(&FakeDraftingServer::Welcomer);
  const auto process = StartListening(server->address(), "127.0.0.1:0");
  const std::string line = process->AwaitLine(" started ");
  const size_t pos = line.find(" port=");
  ASSERT_NE(pos, std::string::npos) << process->Log();
  const std::string address = "127.0.0.1:" + std::to_string(std::stoi(line.substr(pos + 6)));
  ASSERT_NE(process->AwaitLine(" attached "), "") << process->Log();
  EXPECT_EQ(Probe(address, ""), Health::kServing);
  EXPECT_EQ(Probe(address, "outrider.v1.Drafting"), Health::kServing);
  server.reset();
  ASSERT_NE(process->AwaitLine(" detached "), "") << process->Log();
  EXPECT_EQ(Probe(address, ""), Health::kServing);
  EXPECT_EQ(Probe(address, "outrider.v1.Drafting"), Health::kNotServing);
}

TEST_F(DrafterService, DraftsSeveralSequencesInParts) {
  FakeDraftingServer server([](const v1::FromDrafter& message, FakeDraftingServer::Sink& sink) {
    FakeDraftingServer::Welcomer(message, sink);
    if (!message.has_hello()) return;
    v1::FromVerifier wire;
    v1::Open* open = wire.mutable_open();
    open->set_session(1);
    open->add_token_ids(3);
    open->add_token_ids(4);
    open->mutable_plan()->set_round(1);
    open->mutable_plan()->set_length(3);
    open->mutable_plan()->add_branching(5);
    sink.Send(std::move(wire));
  });
  const auto process = StartDrafter(model_, server.address(), log_,
                                    {"--chunk-depths", "1", "--max-draft-tokens", "15"});
  DraftTree tree;
  bool more = true;
  ASSERT_TRUE(server.Await([&tree, &more, seen = size_t{0}](
                               const std::vector<v1::FromDrafter>& messages) mutable {
    for (; seen < messages.size(); ++seen) {
      for (const v1::Draft& draft : messages[seen].drafts().drafts()) {
        Result<DraftPart> part = FromWire(draft);
        more = draft.more();
        if (!part.ok() || !tree.Append(std::move(part->chunk)).ok()) return true;
      }
    }
    return !more;
  })) << process->Log();
  EXPECT_FALSE(more);
  EXPECT_EQ(server.received()[0].hello().max_draft_tokens(), 15u);
  EXPECT_TRUE(Validate(tree, Sequences(5, 3), /*with_distributions=*/true, 30).ok());
  EXPECT_THAT(tree.draws(DraftTree::kRoot), ::testing::SizeIs(5));
  process->Signal(SIGTERM);
  EXPECT_EQ(process->Wait(), 0) << process->Log();
}

// A verifier of the release before, which accepts its own version only and answers with it.
void ProtocolThree(const v1::FromDrafter& message, FakeDraftingServer::Sink& sink) {
  if (!message.has_hello()) return;
  if (message.hello().protocol_version() != 3) {
    sink.Close({grpc::StatusCode::FAILED_PRECONDITION, "protocol version: the verifier speaks 3"});
    return;
  }
  v1::FromVerifier welcome = FakeDraftingServer::Welcome();
  welcome.mutable_welcome()->set_protocol_version(3);
  sink.Send(std::move(welcome));
  v1::FromVerifier wire;
  v1::Open* open = wire.mutable_open();
  open->set_session(1);
  open->add_token_ids(3);
  open->mutable_plan()->set_round(1);
  open->mutable_plan()->set_length(2);
  open->mutable_plan()->add_branching(1);
  sink.Send(std::move(wire));
}

TEST_F(DrafterService, DraftsForVerifierOfProtocolThree) {
  FakeDraftingServer server(&ProtocolThree);
  const auto process = StartDrafter(model_, server.address(), log_);
  EXPECT_TRUE(server.Await([](const std::vector<v1::FromDrafter>& messages) {
    return std::any_of(messages.begin(), messages.end(), [](const v1::FromDrafter& m) {
      return m.drafts().drafts_size() > 0 && m.drafts().drafts(0).token_ids_size() > 0;
    });
  })) << process->Log();
}

TEST_F(DrafterService, ReadsFlagsFromAFile) {
  FakeDraftingServer server(&FakeDraftingServer::Welcomer);
  for (const std::string flag : {"--config", "--flagfile"}) {
    const std::string path = dir_ / "flags";
    std::ofstream(path) << "model=\"" << model_ << "\"\nverifier=\"" << server.address()
                        << "\"\nname=\"from " << flag << "\"\nmetrics=\"\"\n";
    const auto process = Process::Start({ProgramPath("outrider-drafter"), flag, path}, log_);
    EXPECT_TRUE(server.Await([&flag](const std::vector<v1::FromDrafter>& messages) {
      return std::any_of(messages.begin(), messages.end(), [&flag](const v1::FromDrafter& m) {
        return m.hello().name() == "from " + flag;
      });
    })) << process->Log();
    process->Signal(SIGTERM);
    EXPECT_EQ(process->Wait(), 0) << process->Log();
  }
}

}  // namespace
}  // namespace outrider
