// Traces through real processes: how a client's traceparent appears in the files of a verifier and
// of a drafter.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/http_client.h"
#include "tests/support/http_collector.h"
#include "tests/support/metrics_reader.h"
#include "tests/support/services.h"
#include "tests/support/time_limit.h"

namespace outrider {
namespace {

using Json = nlohmann::json;
using testing::Fetch;
using ::testing::HasSubstr;
using testing::HttpResponse;
using ::testing::IsEmpty;
using testing::Process;
using testing::ReadMetrics;
using testing::SmallPair;
using testing::StartDrafter;
using testing::StartVerifier;
using testing::TempDir;
using testing::TestClient;
using testing::VerifierProcess;

constexpr char kTrace[] = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr char kClientSpan[] = "00f067aa0ba902b7";
const std::string kSampled = std::string("00-") + kTrace + "-" + kClientSpan + "-01";
const std::string kUnsampled = std::string("00-") + kTrace + "-" + kClientSpan + "-00";

struct ReadSpan {
  Json json;
  std::string service;
  std::string id() const { return json["spanId"]; }
  std::string parent() const { return json.value("parentSpanId", ""); }
  std::string trace() const { return json["traceId"]; }
  std::string name() const { return json["name"]; }
  uint64_t start() const { return std::stoull(json["startTimeUnixNano"].get<std::string>()); }
  uint64_t end() const { return std::stoull(json["endTimeUnixNano"].get<std::string>()); }
  bool error() const { return json["status"].value("code", 0) == 2; }
  // The attribute's value as text; "": there is no such attribute.
  std::string attribute(const std::string& key) const {
    for (const Json& attribute : json["attributes"]) {
      if (attribute["key"] != key) continue;
      const Json& value = attribute["value"].begin().value();
      return value.is_string() ? value.get<std::string>() : value.dump();
    }
    return "";
  }
};

class Traces : public ::testing::Test {
 protected:
  void Start(std::vector<std::string> flags = {}, bool verifier_traces = true) {
    flags.insert(flags.end(), {"--http", "127.0.0.1:0", "--min-draft-wait", "30"});
    if (verifier_traces) flags.insert(flags.end(), {"--trace-file", verifier_file_});
    verifier_ = StartVerifier(SmallPair("target"), dir_ / "verifier.log", flags);
    ASSERT_NE(verifier_.port, 0);
    client_ = std::make_unique<TestClient>(verifier_.address());
  }
  void StartTheDrafter() {
    drafter_ = StartDrafter(SmallPair("drafter"), verifier_.address(), dir_ / "drafter.log",
                            {"--trace-file", drafter_file_, "--name", "d0"});
    ASSERT_TRUE(client_->AwaitDrafters(1)) << drafter_->Log();
  }

  static v1::GenerateRequest StoryRequest(int tokens) {
    v1::GenerateRequest request = testing::StoryRequest(static_cast<uint32_t>(tokens));
    request.mutable_sampling()->set_temperature(0.7f);
    request.set_seed(7);
    return request;
  }
  // Returns the text; `traceparent` "": none.
  std::string Generate(const v1::GenerateRequest& request, const std::string& traceparent,
                       const std::string& tracestate = "", grpc::Status* status = nullptr) {
    grpc::ClientContext context;
    if (!traceparent.empty()) context.AddMetadata("traceparent", traceparent);
    if (!tracestate.empty()) context.AddMetadata("tracestate", tracestate);
    const auto reader = client_->stub().Generate(&context, request);
    std::string text;
    for (v1::GenerateResponse response; reader->Read(&response);) text += response.chunk().text();
    const grpc::Status ended = reader->Finish();
    if (status != nullptr) {
      *status = ended;
    } else {
      EXPECT_TRUE(ended.ok()) << ended.error_message();
    }
    return text;
  }
  HttpResponse Post(const Json& body, const std::string& headers) {
    return Fetch(verifier_.http_port, "POST", "/v1/completions", body.dump(), headers);
  }

  // Stops both services, which flush their spans, and reads their files.
  std::vector<ReadSpan> StopAndRead() {
    if (drafter_ != nullptr) {
      drafter_->Signal(SIGTERM);
      EXPECT_EQ(drafter_->Wait(), 0) << drafter_->Log();
    }
    verifier_.process->Signal(SIGTERM);
    EXPECT_EQ(verifier_.process->Wait(), 0) << verifier_.process->Log();
    std::vector<ReadSpan> spans;
    for (const std::string& path : {verifier_file_, drafter_file_}) {
      std::ifstream in(path);
      for (std::string line; std::getline(in, line);) {
        const Json request = Json::parse(line);
        for (const Json& resource_spans : request["resourceSpans"]) {
          ReadSpan resource{.json = resource_spans["resource"]};
          for (const Json& span : resource_spans["scopeSpans"][0]["spans"]) {
            spans.push_back({.json = span, .service = resource.attribute("service.name")});
          }
        }
      }
    }
    return spans;
  }

  // Every span except the topmost has its parent among them, is within its times, and belongs to
  // the same trace; ids are unique. Returns the topmost span.
  static ReadSpan ExpectOneTree(const std::vector<ReadSpan>& spans) {
    std::map<std::string, ReadSpan> by_id;
    for (const ReadSpan& span : spans) {
      EXPECT_TRUE(by_id.emplace(span.id(), span).second) << "an id twice";
      EXPECT_LE(span.start(), span.end());
    }
    std::vector<ReadSpan> top;
    for (const ReadSpan& span : spans) {
      EXPECT_EQ(span.trace(), spans.front().trace());
      const auto parent = by_id.find(span.parent());
      if (parent == by_id.end()) {
        top.push_back(span);
        continue;
      }
      EXPECT_GE(span.start(), parent->second.start())
          << span.name() << " in " << parent->second.name();
      EXPECT_LE(span.end(), parent->second.end()) << span.name() << " in " << parent->second.name();
    }
    EXPECT_EQ(top.size(), 1u);
    return top.empty() ? ReadSpan{} : top.front();
  }
  static std::vector<ReadSpan> ChildrenOf(const std::vector<ReadSpan>& spans,
                                          const ReadSpan& parent, const std::string& name) {
    std::vector<ReadSpan> children;
    for (const ReadSpan& span : spans) {
      if (span.parent() == parent.id() && span.name() == name) children.push_back(span);
    }
    return children;
  }
  // Expects spans for queue, prefill, decode with rounds, and the drafter, through either API.
  static void ExpectWholeRequest(const std::vector<ReadSpan>& spans, const ReadSpan& request) {
    EXPECT_EQ(request.trace(), kTrace);
    EXPECT_EQ(request.parent(), kClientSpan);
    EXPECT_EQ(request.service, "outrider-verifier");
    EXPECT_EQ(request.json["kind"], 2) << "SERVER";
    EXPECT_FALSE(request.error());
    EXPECT_EQ(request.json.value("traceState", ""), "vendor=1,other=2");
    EXPECT_EQ(request.attribute("gen_ai.operation.name"), "text_completion");
    EXPECT_EQ(request.attribute("gen_ai.request.model"), "target");
    EXPECT_EQ(request.attribute("gen_ai.request.max_tokens"), "60");
    EXPECT_EQ(request.attribute("gen_ai.usage.output_tokens"), "60");
    EXPECT_GT(std::stoi(request.attribute("gen_ai.usage.input_tokens")), 5);
    EXPECT_THAT(request.attribute("gen_ai.response.finish_reasons"), HasSubstr("length"));
    EXPECT_EQ(request.attribute("outrider.drafter"), "d0");
    EXPECT_GT(std::stoi(request.attribute("outrider.tokens.accepted")), 0);

    for (const char* phase : {"queue", "prefill", "decode"}) {
      ASSERT_EQ(ChildrenOf(spans, request, phase).size(), 1u) << phase;
    }
    const ReadSpan queue = ChildrenOf(spans, request, "queue")[0];
    const ReadSpan prefill = ChildrenOf(spans, request, "prefill")[0];
    const ReadSpan decode = ChildrenOf(spans, request, "decode")[0];
    EXPECT_EQ(queue.end(), prefill.start());
    EXPECT_EQ(prefill.end(), decode.start());
    const std::vector<ReadSpan> rounds = ChildrenOf(spans, decode, "round");
    ASSERT_GT(rounds.size(), 3u);
    int accepted = 0;
    for (const ReadSpan& round : rounds) {
      accepted += std::stoi(round.attribute("outrider.tokens.accepted"));
      EXPECT_EQ(round.attribute("outrider.arm"),
                round.attribute("outrider.tokens.drafted") == "0" ? "plain" : "drafter");
    }
    if (std::stoul(request.attribute("outrider.rounds")) == rounds.size() + 1) {
      EXPECT_LE(accepted, std::stoi(request.attribute("outrider.tokens.accepted")));
    }

    const std::vector<ReadSpan> drafts = ChildrenOf(spans, request, "draft");
    ASSERT_EQ(drafts.size(), 1u);
    EXPECT_EQ(drafts[0].service, "outrider-drafter");
    EXPECT_EQ(drafts[0].json["kind"], 2);
    EXPECT_FALSE(drafts[0].json.contains("traceState")) << "that is not for drafters";
    EXPECT_GT(std::stoi(drafts[0].attribute("outrider.drafts")), 3);
    EXPECT_EQ(drafts[0].json["events"][0]["name"], "draft sent");
  }

  TempDir dir_;
  const std::string verifier_file_ = dir_ / "verifier.jsonl",
                    drafter_file_ = dir_ / "drafter.jsonl";
  VerifierProcess verifier_;
  std::unique_ptr<Process> drafter_;
  std::unique_ptr<TestClient> client_;
};

TEST_F(Traces, GrpcRequestIsOneTree) {
  Start();
  StartTheDrafter();
  Generate(StoryRequest(60), kSampled, "vendor=1,other=2");
  const std::vector<ReadSpan> spans = StopAndRead();
  const ReadSpan request = ExpectOneTree(spans);
  EXPECT_EQ(request.name(), "outrider.v1.Generation/Generate");
  EXPECT_EQ(request.attribute("rpc.grpc.status_code"), "0");
  ExpectWholeRequest(spans, request);
}

TEST_F(Traces, HttpRequestIsOneTree) {
  Start();
  StartTheDrafter();
  const HttpResponse response =
      Post({{"model", "target"},
            {"prompt", "Once upon a time, there was a little"},
            {"max_tokens", 60},
            {"temperature", 0.7},
            {"seed", 7},
            {"ignore_eos", true}},
           "Traceparent: " + kSampled + "\r\ntracestate: vendor=1\r\nTraceState: other=2\r\n");
  ASSERT_EQ(response.code, 200) << response.body;
  const std::vector<ReadSpan> spans = StopAndRead();
  const ReadSpan request = ExpectOneTree(spans);
  EXPECT_EQ(request.name(), "POST /v1/completions");
  EXPECT_EQ(request.attribute("http.response.status_code"), "200");
  ExpectWholeRequest(spans, request);
}

TEST_F(Traces, ChoicesShareOneRequestSpan) {
  Start();
  const HttpResponse response = Post({{"model", "target"},
                                      {"prompt", "Once upon a time"},
                                      {"max_tokens", 5},
                                      {"n", 3},
                                      {"stream", true},
                                      {"ignore_eos", true}},
                                     "traceparent: " + kSampled + "\r\n");
  ASSERT_EQ(response.code, 200) << response.body;
  const std::vector<ReadSpan> spans = StopAndRead();
  const ReadSpan request = ExpectOneTree(spans);
  EXPECT_EQ(ChildrenOf(spans, request, "decode").size(), 3u);
  EXPECT_EQ(request.attribute("gen_ai.usage.output_tokens"), "15");
}

TEST_F(Traces, FailedRequestsAreMarked) {
  Start();
  v1::GenerateRequest bad = StoryRequest(5);
  bad.mutable_sampling()->set_top_p(7.f);
  grpc::Status status;
  Generate(bad, kSampled, "", &status);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Post({{"prompt", "Once"}, {"model", "target"}, {"top_p", 7}}, "").code, 400);
  {  // A client that disconnects.
    grpc::ClientContext context;
    const auto reader = client_->stub().Generate(&context, StoryRequest(400));
    v1::GenerateResponse response;
    ASSERT_TRUE(reader->Read(&response));
    context.TryCancel();
    while (reader->Read(&response)) {
    }
    (void)reader->Finish();
  }
  const std::vector<ReadSpan> spans = StopAndRead();
  std::map<std::string, ReadSpan> requests;
  for (const ReadSpan& span : spans) {
    if (span.json["kind"] == 2) requests[span.attribute("error.type") + " " + span.name()] = span;
  }
  const ReadSpan& grpc = requests["INVALID_ARGUMENT outrider.v1.Generation/Generate"];
  ASSERT_TRUE(grpc.json.is_object());
  EXPECT_TRUE(grpc.error());
  EXPECT_EQ(grpc.parent(), kClientSpan);
  EXPECT_THAT(grpc.json["status"]["message"].get<std::string>(), HasSubstr("top_p"));
  EXPECT_EQ(grpc.attribute("rpc.grpc.status_code"), "3");
  const ReadSpan& http = requests["INVALID_ARGUMENT POST /v1/completions"];
  ASSERT_TRUE(http.json.is_object());
  EXPECT_TRUE(http.error());
  EXPECT_EQ(http.attribute("http.response.status_code"), "400");
  const ReadSpan& gone = requests["CANCELLED outrider.v1.Generation/Generate"];
  ASSERT_TRUE(gone.json.is_object());
  EXPECT_TRUE(gone.error());
  ASSERT_EQ(ChildrenOf(spans, gone, "decode").size(), 1u);
  EXPECT_TRUE(ChildrenOf(spans, gone, "decode")[0].error()) << "the phase that it ended in";
}

TEST_F(Traces, MalformedTraceparentBeginsNewTrace) {
  Start();
  Generate(StoryRequest(3), "00-" + std::string(kTrace) + "-" + kClientSpan + "-1", "vendor=1");
  const std::vector<ReadSpan> spans = StopAndRead();
  const ReadSpan request = ExpectOneTree(spans);
  EXPECT_NE(request.trace(), kTrace);
  EXPECT_EQ(request.parent(), "");
  EXPECT_FALSE(request.json.contains("traceState"));
}

TEST_F(Traces, ClientsFlagOverridesRatio) {
  Start({"--trace-sample-ratio", "0", "--policy", "fixed"});
  StartTheDrafter();
  v1::GenerateRequest story = StoryRequest(30);
  // Late drafts do not change the text.
  story.mutable_speculation()->set_rule(v1::SpeculationOptions::RULE_GUMBEL);
  // First, because an unknown drafter is tried, but one that was late may be suspended.
  const std::string sampled = Generate(story, kSampled);
  Generate(StoryRequest(3), "");
  EXPECT_EQ(Generate(story, kUnsampled), sampled) << "a trace has no part in the text";
  const auto metrics = ReadMetrics(verifier_.metrics_port);
  EXPECT_EQ(metrics.at("outrider_trace_spans_dropped_total"), 0);
  const std::vector<ReadSpan> spans = StopAndRead();
  const ReadSpan request = ExpectOneTree(spans);
  EXPECT_EQ(request.attribute("gen_ai.usage.output_tokens"), "30");
  EXPECT_EQ(ChildrenOf(spans, request, "draft").size(), 1u);
}

TEST_F(Traces, PassesClientsTraceOnWithoutFile) {
  Start({}, /*verifier_traces=*/false);
  StartTheDrafter();
  Generate(StoryRequest(30), kSampled);
  const std::vector<ReadSpan> spans = StopAndRead();
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_EQ(spans[0].service, "outrider-drafter");
  EXPECT_EQ(spans[0].trace(), kTrace);
  EXPECT_EQ(spans[0].parent(), kClientSpan);
}

TEST_F(Traces, RoundSpansAreBounded) {
  Start();
  Generate(StoryRequest(150), kSampled);
  const std::vector<ReadSpan> spans = StopAndRead();
  const ReadSpan request = ExpectOneTree(spans);
  const ReadSpan decode = ChildrenOf(spans, request, "decode").at(0);
  EXPECT_EQ(decode.attribute("outrider.rounds"), "150");
  const std::vector<ReadSpan> rounds = ChildrenOf(spans, decode, "round");
  ASSERT_EQ(rounds.size(), 33u);
  for (size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(rounds[i].attribute("outrider.round"), std::to_string(i + 2));
  }
  EXPECT_GT(std::stoi(rounds[32].attribute("outrider.round")), 33) << "the slowest of the others";
}

TEST_F(Traces, UnauthorizedCallsLeaveNoSpans) {
  const std::string tokens = dir_ / "tokens";
  std::ofstream(tokens) << "known secret-token\n";
  Start({"--client-tokens", tokens});
  grpc::Status status;
  Generate(StoryRequest(3), kSampled, "", &status);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(
      Post({{"prompt", "Once"}, {"model", "target"}}, "traceparent: " + kSampled + "\r\n").code,
      401);
  EXPECT_THAT(StopAndRead(), IsEmpty());
}

TEST_F(Traces, UnwritableFileEndsProgram) {
  const auto verifier = Process::Start(
      {testing::ProgramPath("outrider-verifier"), "--model", SmallPair("target"), "--listen",
       "127.0.0.1:0", "--metrics", "", "--trace-file", dir_ / "no/such/file"},
      dir_ / "verifier.log");
  EXPECT_EQ(verifier->Wait(), 1);
  EXPECT_THAT(verifier->Log(), HasSubstr("--trace-file: "));
}

// Both services send to a collector, and outrider begins the trace.
TEST(TraceEndpoint, GetsTheSpansOfBothServices) {
  testing::HttpCollector collector;
  const TempDir dir;
  VerifierProcess verifier = StartVerifier(
      SmallPair("target"), dir / "verifier.log",
      {"--trace-endpoint", collector.url(), "--trace-sample-ratio", "0", "--min-draft-wait", "30"});
  ASSERT_NE(verifier.port, 0);
  const auto drafter = StartDrafter(SmallPair("drafter"), verifier.address(), dir / "drafter.log",
                                    {"--trace-endpoint", collector.url(), "--name", "d0"});
  TestClient client(verifier.address());
  ASSERT_TRUE(client.AwaitDrafters(1)) << drafter->Log();
  const auto generate = [&](const std::vector<std::string>& flags) {
    std::vector<std::string> argv = {testing::ProgramPath("outrider"),
                                     "generate",
                                     "--verifier",
                                     verifier.address(),
                                     "--prompt",
                                     "Once upon a time",
                                     "--max-tokens",
                                     "20",
                                     "--ignore-eos",
                                     "--json"};
    argv.insert(argv.end(), flags.begin(), flags.end());
    const auto process = Process::Start(argv, dir / "generate.log");
    EXPECT_EQ(process->Wait(), 0) << process->Log();
    return Json::parse(process->Log());
  };
  EXPECT_FALSE(generate({}).contains("trace_id")) << "and so it is not recorded";
  const std::string trace = generate({"--trace"})["trace_id"];
  drafter->Signal(SIGTERM);
  EXPECT_EQ(drafter->Wait(), 0) << drafter->Log();
  // Before the end, the metrics say so.
  const auto sent = [&] {
    return ReadMetrics(verifier.metrics_port)["outrider_trace_spans_sent_total"];
  };
  EXPECT_TRUE(testing::Await([&] { return sent() > 0; }));
  verifier.process->Signal(SIGTERM);
  EXPECT_EQ(verifier.process->Wait(), 0) << verifier.process->Log();

  std::map<std::string, int> spans;  // by service and name
  for (const auto& request : collector.requests()) {
    const Json resource_spans = Json::parse(request.body)["resourceSpans"][0];
    const ReadSpan resource{.json = resource_spans["resource"]};
    for (const Json& span : resource_spans["scopeSpans"][0]["spans"]) {
      EXPECT_EQ(span["traceId"], trace);
      ++spans[resource.attribute("service.name") + " " + span["name"].get<std::string>()];
    }
  }
  EXPECT_EQ(spans["outrider-verifier outrider.v1.Generation/Generate"], 1);
  EXPECT_EQ(spans["outrider-verifier decode"], 1);
  EXPECT_EQ(spans["outrider-drafter draft"], 1);
}

// A collector that takes connections and says nothing.
TEST(TraceEndpoint, SilentOneDelaysNothing) {
  const int silent = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(silent, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(silent, 4), 0);
  ASSERT_EQ(getsockname(silent, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const TempDir dir;
  VerifierProcess verifier =
      StartVerifier(SmallPair("target"), dir / "verifier.log",
                    {"--trace-endpoint",
                     "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port)) + "/v1/traces"});
  ASSERT_NE(verifier.port, 0);
  TestClient client(verifier.address());
  v1::GenerateRequest request;
  request.set_text("Once");
  request.mutable_stop()->set_max_tokens(2);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(client.Generate(request).status.ok());
  verifier.process->Signal(SIGTERM);
  EXPECT_EQ(verifier.process->Wait(), 0) << verifier.process->Log();
  close(silent);
}

}  // namespace
}  // namespace outrider
