// The cases of the tables "Metrics and status", "Connections and streams", "Logs" and "Trace
// collectors".
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "common/spec/drafter_hello.h"
#include "outrider/v1/drafting.grpc.pb.h"
#include "outrider/v1/generation.grpc.pb.h"
#include "tests/integration/limits_cases.h"

namespace outrider::limits {

using testing::Fetch;
using ::testing::HasSubstr;
using testing::HttpClient;
using testing::StartVerifier;
using testing::VerifierProcess;

// Beast counts the fields without the request line, so slightly more than the limit passes.
std::string HeadAbove(int port, const std::string& path, int64_t above) {
  const auto ask = [&](int64_t size) {
    const std::string before = "GET " + path + " HTTP/1.1\r\nHost: a\r\nX-Fill: ";
    const std::string after = "\r\n\r\n";
    HttpClient client(port);
    const size_t fill = static_cast<size_t>(size) - before.size() - after.size();
    client.SendRaw(before + std::string(fill, 'x') + after);
    return CodeText(client.Receive());
  };
  EXPECT_EQ(ask(above - 1), "200") << "at the limit";
  return ask(above + 256);
}

std::string SilentConnection(int port) { return HttpClient(port).AwaitEnd() ? "closed" : "open"; }

namespace {

std::string MetricsBody(Target& target, int64_t /*size*/) {
  return std::to_string(Fetch(target.verifier.metrics_port, "POST", "/metrics", "{}").code);
}

std::string MetricsConnections(Target& target, int64_t size) {
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int64_t i = 0; i < size; ++i) {
    clients.push_back(std::make_unique<HttpClient>(target.verifier.metrics_port));
  }
  // They are accepted in order: when the last is answered, all others have been accepted.
  clients.back()->Send("GET", "/metrics");
  EXPECT_EQ(CodeText(clients.back()->Receive()), "200");
  clients.front()->Send("GET", "/metrics");
  return CodeText(clients.front()->Receive());
}

const Cases kMetricsCases = {
    {"head of a request", Only{[](Target& t, int64_t above) {
       return HeadAbove(t.verifier.metrics_port, "/metrics", above);
     }}},
    {"body of a request", Only{MetricsBody}},
    {"open connections", Try{MetricsConnections}},
    {"time from a connection's start to its end",
     Only{[](Target& t, int64_t) { return SilentConnection(t.verifier.metrics_port); }}},
    {"hashes that `/prefix_cache` lists",
     HeldBy{"tests/verifier/status/prefix_page_test.cc", "IsNoLargerThanItsSlots"}},
};

constexpr char kGenerate[] = "/outrider.v1.Generation/Generate";

// Sends `count` pings on a connection without a call, as HTTP/2 frames.
std::string Pings(Target& target, int64_t count) {
  HttpClient client(target.verifier.port);
  std::string bytes = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  bytes += std::string("\0\0\0\4\0\0\0\0\0", 9);  // SETTINGS
  for (int64_t i = 0; i < count; ++i) bytes += std::string("\0\0\x8\6\0\0\0\0\0", 9) + "12345678";
  client.SendRaw(bytes);
  std::string all;
  for (std::string some = client.ReceiveSome(); !some.empty(); some = client.ReceiveSome()) {
    all += some;
    const size_t pos = all.find("too_many_pings");  // the message of a GOAWAY, after its code
    if (pos != all.npos && pos >= 4) return all[pos - 1] == 0xb ? "ENHANCE_YOUR_CALM" : "GOAWAY";
  }
  return "closed";
}

std::string WithoutToken(Target& target, int64_t) {
  std::ofstream(target.dir / "tokens") << "alice token-a\n";
  const VerifierProcess asks = StartVerifier(target.model, target.dir / "tokens.log",
                                             {"--client-tokens", target.dir / "tokens"});
  const auto call = [&](const std::string& token) {
    const grpc::Status status = testing::CallByBytes(asks.address(), kTokenize, "\xff",
                                                     {{"authorization", "Bearer " + token}});
    return std::string(CodeName(static_cast<Code>(status.error_code())));
  };
  EXPECT_EQ(call("token-a"), "INVALID_ARGUMENT");
  return call("token-b");
}

std::string Message(Target& target, int64_t size) {
  // A bytes field that no message has, with its tag and length: parsed and ignored.
  std::string request = "\xfa\x7f";
  const auto content = static_cast<uint64_t>(size) - 2 - 4;
  for (uint64_t left = content; left > 0; left >>= 7) {
    request += static_cast<char>((left & 0x7f) | (left > 0x7f ? 0x80 : 0));
  }
  request.resize(static_cast<size_t>(size), 'x');
  return target.CodeOf(kTokenize, request);
}

// Calls every method of both services with bytes that do not parse.
std::string Malformed(Target& target, int64_t) {
  const std::vector<const google::protobuf::ServiceDescriptor*> services = {
      v1::GenerateRequest::descriptor()->file()->FindServiceByName("Generation"),
      v1::FromDrafter::descriptor()->file()->FindServiceByName("Drafting")};
  for (const auto* service : services) {
    for (int i = 0; i < service->method_count(); ++i) {
      const auto& method = *service->method(i);
      const grpc::Status status = testing::CallByBytes(
          target.verifier.address(), "/" + service->full_name() + "/" + method.name(), "\xff");
      EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << method.full_name();
      EXPECT_THAT(status.error_message(), HasSubstr(method.input_type()->full_name()));
    }
  }
  v1::TokenizeRequest request;
  request.set_text("1234");
  std::string bytes = request.SerializeAsString();
  bytes.replace(bytes.find("1234"), 4, "\xff\xfe\xfd\xfc");
  const grpc::Status status = testing::CallByBytes(target.verifier.address(), kTokenize, bytes);
  EXPECT_THAT(status.error_message(), HasSubstr("outrider.v1.TokenizeRequest.text"));
  EXPECT_THAT(status.error_message(), HasSubstr("UTF-8"));
  return CodeName(static_cast<Code>(status.error_code()));
}

std::string Compressed(Target& target, int64_t) {
  testing::TestClient client(target.verifier.address());
  grpc::ClientContext context;
  context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  v1::TokenizeRequest request;
  request.set_text(std::string(10'000, 'a'));
  v1::TokenizeResponse response;
  return CodeName(
      static_cast<Code>(client.stub().Tokenize(&context, request, &response).error_code()));
}

const Cases kConnectionCases = {
    {"open connections",
     HeldBy{"tests/common/rpc/connection_intake_test.cc", "LimitsConnectionsPerPeerAndTotal"}},
    {"time of a connection until its handshake is over",
     Only{[](Target& t, int64_t) { return SilentConnection(t.verifier.port); }}},
    {"pings of a connection", Only{[](Target& t, int64_t) { return Pings(t, 10); }}},
    {"metadata of a call, 32 bytes added for each", Only{[](Target& t, int64_t size) {
       return t.CodeOf(kTokenize, "", {{"x-fill", std::string(static_cast<size_t>(size), 'x')}});
     }}},
    {"caller", Only{WithoutToken}},
    {"compressed message", Only{Compressed}},
    {"strings, messages and unknown fields of a client's message", Try{[](Target& t, int64_t size) {
       // One of them is the message that contains the others.
       v1::GenerateRequest request;
       for (int64_t i = 1; i < size; ++i) request.mutable_stop()->add_stop_strings("");
       const grpc::Status status =
           testing::CallByBytes(t.verifier.address(), kGenerate, request.SerializeAsString());
       const bool counted = status.error_message().find("send fewer") != std::string::npos;
       return counted ? CodeName(static_cast<Code>(status.error_code())) : "OK";
     }}},
    {"message", Try{Message}},
    {"message that is no protobuf of its type, or has a string that is not UTF-8", Only{Malformed}},
    {"messages of a drafter that wait for the engine",
     HeldBy{"tests/integration/hostile_drafter_test.cc", "FloodsStayInTheirConnection"}},
    {"messages that wait for a drafter that does not read",
     HeldBy{"tests/common/rpc/stream_sink_test.cc", "CancelsPeerThatDoesNotRead"}},
    {"messages that wait for a client that does not read",
     HeldBy{"tests/common/rpc/stream_sink_test.cc", "CancelsPeerThatDoesNotRead"}},
};

constexpr char kRefused[] = "drafter refused";

// A drafter with another vocabulary, whose name would clear a terminal and start a new line.
void BeRefused(Target& target) {
  v1::FromDrafter message;
  v1::Hello* hello = message.mutable_hello();
  hello->set_protocol_version(kDraftingProtocol);
  hello->set_name(
      "evil\x7f\xc2\x9b"
      "2J\n{\"level\":\"ERROR\"}\xe2\x80\xa8");
  const auto stub = v1::Drafting::NewStub(
      grpc::CreateChannel(target.verifier.address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  const auto stream = stub->Attach(&context);
  v1::FromVerifier ignored;
  EXPECT_TRUE(stream->Write(message));
  EXPECT_FALSE(stream->Read(&ignored));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::FAILED_PRECONDITION);
}

int64_t LinesWith(const std::string& log, const std::string& text) {
  int64_t count = 0;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) count += line.find(text) != line.npos ? 1 : 0;
  return count;
}

// At the limit, as many lines as it allows; above it, ten times as many, which would take minutes
// to be logged.
std::string RepeatedLines(Target& target, int64_t size) {
  static constexpr int64_t kBurst = 20;
  const int64_t before = LinesWith(target.verifier.process->Log(), kRefused);
  const int64_t count = size > kBurst ? 10 * size : size;
  for (int64_t i = 0; i < count; ++i) BeRefused(target);
  const int64_t lines = LinesWith(target.verifier.process->Log(), kRefused) - before;
  return lines < count ? "left out" : "written";
}

std::string ControlCharacters(Target& target, int64_t) {
  BeRefused(target);
  const std::string log = target.verifier.process->Log();
  for (const char* raw : {"\x7f", "\xc2\x9b", "\xe2\x80\xa8", "\\u000a{\"level"}) {
    EXPECT_EQ(log.find(raw), log.npos) << raw;
  }
  return LinesWith(log, "evil\\u007f\\u009b2J\\u000a{\\\"level\\\":\\\"ERROR\\\"}\\u2028") > 0
             ? "escaped"
             : "lost";
}

const Cases kLogCases = {
    {"lines with the same message", Try{RepeatedLines}},
    {"control characters (C0, DEL, C1, U+2028, U+2029, turns of direction), bytes that are no "
     "UTF-8",
     Only{ControlCharacters}},
    {"bytes of a line", HeldBy{"tests/common/base/log_test.cc", "CutsValuesToFitPipe"}},
    {"lines that stderr has no room for",
     HeldBy{"tests/integration/log_test.cc", "StallsNothingAndIsCounted"}},
};

constexpr char kExporterTest[] = "tests/common/trace_http/http_exporter_test.cc";
const Cases kCollectorCases = {
    {"bytes of an answer", HeldBy{kExporterTest, "KeepsBeginningOfLongAnswer"}},
    {"time of a request", HeldBy{kExporterTest, "SilentEndpointCostsSpansOnly"}},
    {"batches that wait", HeldBy{kExporterTest, "FullQueueDropsWithoutWaiting"}},
};

}  // namespace

const Cases& CollectorCases() { return kCollectorCases; }
const Cases& ConnectionCases() { return kConnectionCases; }
const Cases& LogCases() { return kLogCases; }
const Cases& MetricsCases() { return kMetricsCases; }

}  // namespace outrider::limits
