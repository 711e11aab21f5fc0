#include <gmock/gmock.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/client/command.h"
#include "tests/client/fake_generation.h"
#include "tests/support/temp_dir.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Two chunks, the second with a drafted part and a split character between them, then the end.
grpc::Status TwoChunks(const v1::GenerateRequest&, GenerateWriter* writer) {
  writer->Write(Chunk("Once", {5}));
  writer->Write(Chunk("<6><7><8>", {6, 7, 8}, /*accepted=*/2, /*drafted=*/4));
  v1::GenerateResponse last = Finished(3, 4);
  last.mutable_finished()->set_seed(77);
  last.mutable_finished()->mutable_speculation()->set_rounds(2);
  last.mutable_finished()->mutable_speculation()->set_drafted_rounds(1);
  last.mutable_finished()->mutable_speculation()->set_drafted_tokens(4);
  last.mutable_finished()->mutable_speculation()->set_accepted_tokens(2);
  writer->Write(last);
  return grpc::Status::OK;
}

TEST(Generate, StreamsTextAndEndsWithStatistics) {
  FakeGeneration fake(TwoChunks);
  const auto result = RunOutrider({"generate", "--verifier", fake.address(), "--prompt", "p"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "Once<6><7><8>\n");
  EXPECT_THAT(result.err, StartsWith("4 tokens in "));
  EXPECT_THAT(result.err, HasSubstr("2 rounds, 4 tokens drafted, 2 accepted"));
  EXPECT_THAT(result.err, HasSubstr("finish: length; seed 77"));
}

TEST(Generate, JsonHasTheWholeResult) {
  FakeGeneration fake(TwoChunks);
  const auto result =
      RunOutrider({"generate", "--verifier", fake.address(), "--prompt", "p", "--json"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["text"], "Once<6><7><8>");
  EXPECT_EQ(json["token_ids"], nlohmann::json({5, 6, 7, 8}));
  EXPECT_EQ(json["finish_reason"], "length");
  EXPECT_EQ(json["prompt_tokens"], 3);
  EXPECT_EQ(json["completion_tokens"], 4);
  EXPECT_EQ(json["drafted_tokens"], 4);
  EXPECT_EQ(json["accepted_tokens"], 2);
  EXPECT_EQ(json["rounds"], 2);
  EXPECT_EQ(json["seed"], 77);
  EXPECT_GT(json["tokens_per_second"], 0);
}

TEST(Generate, BrokenStreamReportsReceivedTokens) {
  const auto broken = [](const v1::GenerateRequest& request, GenerateWriter* writer) {
    if (request.text() == "p") writer->Write(Chunk("Once<6>", {5, 6}));
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone");
  };
  FakeGeneration fake(broken);
  const auto result = RunOutrider({"generate", "--verifier", fake.address(), "--prompt", "p"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("gone (2 tokens were received)"));
  const auto at_once = RunOutrider({"generate", "--verifier", fake.address(), "--prompt", "q"});
  EXPECT_THAT(at_once.err, ::testing::Not(HasSubstr("received")));
}

TEST(Generate, MarksAcceptedText) {
  FakeGeneration fake(TwoChunks);
  const std::vector<std::string> arguments = {"generate", "--verifier", fake.address(),
                                              "--prompt", "p",          "--show-drafts"};
  EXPECT_EQ(RunOutrider(arguments).out, "Once[<6><7>]<8>\n");
  EXPECT_EQ(RunOutrider(arguments, {.colour = true}).out, "Once\x1b[32m<6><7>\x1b[0m<8>\n");
}

TEST(Generate, RequestFollowsTheFlags) {
  FakeGeneration fake(TwoChunks);
  RunOutrider({"generate",
               "--verifier",
               fake.address(),
               "--token-ids",
               "1,2",
               "--temperature",
               "0",
               "--max-tokens",
               "8",
               "--stop",
               "x",
               "--ignore-eos",
               "--seed",
               "9",
               "--speculation",
               "off",
               "--rule",
               "token",
               "--draft-length",
               "5"});
  ASSERT_EQ(fake.requests().size(), 1u);
  const v1::GenerateRequest request = fake.requests()[0];
  EXPECT_THAT(request.token_ids().ids(), ElementsAre(1u, 2u));
  EXPECT_TRUE(request.sampling().has_temperature());
  EXPECT_EQ(request.sampling().temperature(), 0.f);
  EXPECT_EQ(request.stop().max_tokens(), 8u);
  EXPECT_THAT(request.stop().stop_strings(), ElementsAre("x"));
  EXPECT_TRUE(request.stop().ignore_eos());
  EXPECT_EQ(request.seed(), 9u);
  EXPECT_EQ(request.speculation().mode(), v1::SpeculationOptions::MODE_OFF);
  EXPECT_EQ(request.speculation().rule(), v1::SpeculationOptions::RULE_TOKEN);
  EXPECT_EQ(request.speculation().draft_length(), 5u);
}

TEST(Generate, UnsetFlagsStayUnset) {
  FakeGeneration fake(TwoChunks);
  RunOutrider({"generate", "--verifier", fake.address(), "--prompt", "p"});
  ASSERT_EQ(fake.requests().size(), 1u);
  const v1::GenerateRequest request = fake.requests()[0];
  EXPECT_FALSE(request.stop().has_max_tokens());
  EXPECT_FALSE(request.has_seed());
  EXPECT_EQ(request.speculation().mode(), v1::SpeculationOptions::MODE_AUTO);
  EXPECT_EQ(request.speculation().rule(), v1::SpeculationOptions::RULE_DEFAULT);
}

TEST(Generate, ReadsPromptFromFileOrStdin) {
  FakeGeneration fake(TwoChunks);
  const testing::TempDir dir;
  const std::string path = dir / "prompt.txt";
  std::ofstream(path, std::ios::binary) << "from a file\n";
  RunOutrider({"generate", "--verifier", fake.address(), "--prompt-file", path});
  RunOutrider({"generate", "--verifier", fake.address(), "--prompt-file", "-"},
              {.input = "from a pipe\n"});
  ASSERT_EQ(fake.requests().size(), 2u);
  EXPECT_EQ(fake.requests()[0].text(), "from a file\n");
  EXPECT_EQ(fake.requests()[1].text(), "from a pipe\n");
}

TEST(Generate, MissingPromptFileIsError) {
  const auto result = RunOutrider({"generate", "--prompt-file", "/nowhere/prompt"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, StartsWith("error: NOT_FOUND: /nowhere/prompt"));
}

TEST(Generate, ServiceErrorIsOneLine) {
  FakeGeneration fake([](const v1::GenerateRequest&, GenerateWriter* writer) {
    writer->Write(Chunk("half", {1}));
    return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "no room");
  });
  const auto result = RunOutrider({"generate", "--verifier", fake.address(), "--prompt", "p"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.out, "half\n");
  EXPECT_EQ(result.err, "error: RESOURCE_EXHAUSTED: no room (1 token was received)\n");
}

TEST(Generate, ErrorsNameFlagsNotFields) {
  FakeGeneration fake([](const v1::GenerateRequest&, GenerateWriter*) {
    return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "stop.max_tokens: must be 1 or more");
  });
  const auto result =
      RunOutrider({"generate", "--verifier", fake.address(), "--prompt", "p", "--max-tokens", "0"});
  EXPECT_THAT(result.err, StartsWith("error: INVALID_ARGUMENT: --max-tokens: must be 1 or more"));
}

TEST(Generate, NobodyAtTheAddressIsUnavailable) {
  const auto result = RunOutrider({"generate", "--verifier", "127.0.0.1:1", "--prompt", "p"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, StartsWith("error: UNAVAILABLE: 127.0.0.1:1: "));
}

TEST(Generate, StreamWithoutLastMessageIsError) {
  FakeGeneration fake([](const v1::GenerateRequest&, GenerateWriter* writer) {
    writer->Write(Chunk("half", {1}));
    return grpc::Status::OK;
  });
  const auto result = RunOutrider({"generate", "--verifier", fake.address(), "--prompt", "p"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, StartsWith("error: INTERNAL: "));
}

TEST(Generate, TimeoutEndsCall) {
  FakeGeneration fake([](const v1::GenerateRequest&, GenerateWriter* writer) {
    while (writer->Write(Chunk("on and on ", {1}))) {
    }
    return grpc::Status::CANCELLED;
  });
  const auto result =
      RunOutrider({"generate", "--verifier", fake.address(), "--prompt", "p", "--timeout", "0.2"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, StartsWith("error: DEADLINE_EXCEEDED: "));
}

TEST(Generate, JsonEscapesTheText) {
  FakeGeneration fake([](const v1::GenerateRequest&, GenerateWriter* writer) {
    writer->Write(Chunk("tab\t\"quoted\"\n", {1}));
    writer->Write(Finished(1, 1));
    return grpc::Status::OK;
  });
  const auto result =
      RunOutrider({"generate", "--verifier", fake.address(), "--prompt", "p", "--json"});
  EXPECT_EQ(nlohmann::json::parse(result.out)["text"], "tab\t\"quoted\"\n");
}

}  // namespace
}  // namespace outrider
