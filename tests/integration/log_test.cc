// The log of real services: a line for each request, and a reader of stderr that does not read.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/http_client.h"
#include "tests/support/metrics_reader.h"
#include "tests/support/services.h"

namespace outrider {
namespace {

using Json = nlohmann::json;
using testing::Fetch;
using ::testing::HasSubstr;
using testing::Process;
using testing::ProgramPath;
using testing::ReadMetrics;
using testing::SmallPair;
using testing::StartDrafter;
using testing::StartVerifier;
using testing::StoryRequest;
using testing::TempDir;
using testing::TestClient;
using testing::VerifierProcess;

class RequestLog : public ::testing::Test {
 protected:
  void SetUp() override {
    verifier_ = StartVerifier(SmallPair("target"), dir_ / "verifier.log",
                              {"--log-json", "--http", "127.0.0.1:0"});
    ASSERT_NE(verifier_.port, 0);
    client_ = std::make_unique<TestClient>(verifier_.address());
  }

  // The line of the request with this id; null if none comes.
  Json LineOf(const std::string& id) {
    const std::string line = verifier_.process->AwaitLine("\"id\":\"" + id + "\"");
    return Json::parse(line, nullptr, /*allow_exceptions=*/false);
  }
  grpc::Status Generate(const v1::GenerateRequest& request, const std::string& id,
                        int cancel_after_chunks = 0) {
    grpc::ClientContext context;
    context.AddMetadata("x-request-id", id);
    context.AddMetadata("outrider-client", "alice");
    const auto reader = client_->stub().Generate(&context, request);
    v1::GenerateResponse response;
    for (int chunks = 1; reader->Read(&response); ++chunks) {
      if (chunks == cancel_after_chunks) context.TryCancel();
    }
    return reader->Finish();
  }

  TempDir dir_;
  VerifierProcess verifier_;
  std::unique_ptr<TestClient> client_;
};

TEST_F(RequestLog, GrpcRequestsHaveALineEach) {
  ASSERT_TRUE(Generate(StoryRequest(6), "finished").ok());
  Json line = LineOf("finished");
  EXPECT_EQ(line["message"], "request finished") << verifier_.process->Log();
  EXPECT_EQ(line["route"], "Generate");
  EXPECT_EQ(line["client"], "alice");
  EXPECT_GT(line["prompt_tokens"], 0);
  EXPECT_EQ(line["tokens"], 6);
  EXPECT_EQ(line["drafted"], 0);
  EXPECT_EQ(line["finish_reason"], "length");
  EXPECT_TRUE(line["ttft_seconds"].is_number_float());

  v1::GenerateRequest bad = StoryRequest(6);
  bad.mutable_sampling()->set_temperature(-1);
  ASSERT_FALSE(Generate(bad, "refused").ok());
  line = LineOf("refused");
  EXPECT_EQ(line["finish_reason"], "error");
  EXPECT_THAT(line["error"].get<std::string>(), HasSubstr("INVALID_ARGUMENT: "));

  ASSERT_FALSE(Generate(StoryRequest(300), "cancelled", /*cancel_after_chunks=*/2).ok());
  line = LineOf("cancelled");
  EXPECT_EQ(line["finish_reason"], "abort");
  EXPECT_GE(line["tokens"], 2);
}

TEST_F(RequestLog, HttpRequestsHaveALineEach) {
  const auto post = [&](const Json& body, const std::string& id) {
    return Fetch(verifier_.http_port, "POST", "/v1/completions", body.dump(),
                 "x-request-id: " + id + "\r\n")
        .code;
  };
  ASSERT_EQ(post({{"model", "target"},
                  {"prompt", "Once"},
                  {"max_tokens", 4},
                  {"n", 2},
                  {"ignore_eos", true},
                  {"temperature", 1}},
                 "both"),
            200);
  const Json line = LineOf("both");
  EXPECT_EQ(line["route"], "completions") << verifier_.process->Log();
  EXPECT_EQ(line["tokens"], 8) << "of both choices";
  EXPECT_EQ(line["finish_reason"], "length");
  ASSERT_EQ(post({{"model", "target"}, {"prompt", 5}}, "refused"), 400);
  EXPECT_THAT(LineOf("refused")["error"].get<std::string>(), HasSubstr("INVALID_ARGUMENT"));
}

TEST_F(RequestLog, SaysWhyDrafterLeft) {
  const auto start = [&](const std::string& name) {
    auto drafter = StartDrafter(SmallPair("drafter"), verifier_.address(), dir_ / (name + ".log"),
                                {"--name", name});
    EXPECT_TRUE(client_->AwaitDrafters(1)) << drafter->Log();
    return drafter;
  };
  const auto reason = [&](const std::string& name) {
    const std::string line =
        verifier_.process->AwaitLine("\"drafter left\",\"drafter\":\"" + name + "\"");
    return Json::parse(line)["reason"].get<std::string>();
  };
  auto stopped = start("stopped");
  stopped->Signal(SIGTERM);
  EXPECT_THAT(reason("stopped"), HasSubstr("closed its stream"));
  EXPECT_EQ(stopped->Wait(), 0);
  EXPECT_THAT(stopped->Log(), HasSubstr("stopping signal=SIGTERM"));
  start("killed")->Signal(SIGKILL);
  EXPECT_THAT(reason("killed"), HasSubstr("the connection broke"));
  verifier_.process->Signal(SIGTERM);
  EXPECT_EQ(verifier_.process->Wait(), 0);
  EXPECT_THAT(verifier_.process->Log(),
              HasSubstr("\"draining\",\"signal\":\"SIGTERM\",\"running\":0,\"waiting\":0,"
                        "\"timeout_seconds\":"));
}

// Without room for a line the verifier would stop at the first one.
TEST(FullStderr, StallsNothingAndIsCounted) {
  TempDir dir;
  const std::string fifo = dir / "stderr";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const int reader = open(fifo.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  ASSERT_GT(fcntl(reader, F_SETPIPE_SZ, 16384), 0);
  const auto verifier = Process::Start(
      {"/bin/sh", "-c",
       "exec " + ProgramPath("outrider-verifier") + " --model " + SmallPair("target") +
           " --listen 127.0.0.1:0 --metrics 127.0.0.1:0 --policy fixed 2>" + fifo},
      dir / "stdout");
  std::string log;
  while (log.find("http_port=") == std::string::npos) {
    std::array<char, 4096> piece;
    const ssize_t n = read(reader, piece.data(), piece.size());
    ASSERT_GT(n, 0);
    log.append(piece.data(), static_cast<size_t>(n));
  }
  const auto port = [&log](const std::string& key) {
    return std::stoi(log.substr(log.find(" " + key + "=") + key.size() + 2));
  };
  TestClient client("127.0.0.1:" + std::to_string(port("port")));
  const auto lost = [&] {
    return ReadMetrics(port("metrics_port"))["outrider_log_lines_lost_total"];
  };
  // 16 KiB hold fewer than 200 lines.
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(client.Generate(StoryRequest(1)).status.ok());
  }
  EXPECT_GT(lost(), 0);
  EXPECT_TRUE(client.Generate(StoryRequest(20)).status.ok());
  verifier->Signal(SIGTERM);
  EXPECT_EQ(verifier->Wait(), 0);
  close(reader);
}

}  // namespace
}  // namespace outrider
