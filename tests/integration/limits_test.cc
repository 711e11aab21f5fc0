// Walks the tables of docs/security.md, "Limits": every row is tried at its limit and above it
// against a running verifier, which must answer with the row's error; if that is all that can be
// done, only above it, or by another test.
//
// A row without a case fails the test, and so does a case without a row. To add a row:
//  1. Write it into the table of its port (a third-level heading below "## Limits"). The first
//     column names the input and is the row's key, together with the heading. The column "Limit"
//     begins with the number, if there is one (`8 KiB`, `10 s`, `256`, `2^20`). The column "Error"
//     has what the peer sees in backticks, or is just that; if empty, it is INVALID_ARGUMENT. The
//     file in "Enforced in" and the flags in "Flag" must exist.
//  2. Add a case with that key to the cases of its port below. A `Try` gets the limit as stated in
//     the table (in bytes, milliseconds or pieces), makes an input of that size and returns what
//     the peer saw: "OK", the name of a gRPC code, an HTTP code, "closed" ... It is called twice:
//     with the limit, which must not be answered with the row's error, and with the limit + 1,
//     which must be. If the size cannot be exact, or the limit is not a number, use an `Only`: it
//     is called once, with the limit + 1. For a limit that takes too long to reach from outside,
//     name the test that checks it (`HeldBy`).
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <string>
#include <variant>
#include <vector>

#include "common/spec/drafter_hello.h"
#include "common/text/tokenizer.h"
#include "outrider/v1/drafting.grpc.pb.h"
#include "outrider/v1/generation.grpc.pb.h"
#include "tests/support/checkpoint_maker.h"
#include "tests/support/http_client.h"
#include "tests/support/services.h"

namespace outrider {
namespace {

using testing::Fetch;
using ::testing::HasSubstr;
using testing::HttpClient;
using testing::HttpResponse;
using testing::Process;
using testing::ProgramPath;
using testing::SourcePath;
using testing::StartVerifier;
using testing::TempDir;
using testing::VerifierProcess;

// ---------------------------------------------------------------------------------------------
// The tables.

struct Row {
  std::string key;  // "Heading: input"
  std::string limit_text;
  std::optional<int64_t> limit;  // bytes, milliseconds or pieces
  std::string enforced_in;
  std::string error;  // what the peer sees
  std::vector<std::string> flags;
};

std::string Trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(' ');
  return begin == text.npos ? "" : text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

std::vector<std::string> CellsOf(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream in(line.substr(1));
  for (std::string cell; std::getline(in, cell, '|');) cells.push_back(Trimmed(cell));
  return cells;
}

std::vector<std::string> Quoted(const std::string& cell) {
  static const std::regex quoted("`([^`]*)`");
  std::vector<std::string> all;
  for (std::sregex_iterator it(cell.begin(), cell.end(), quoted), end; it != end; ++it) {
    all.push_back((*it)[1]);
  }
  return all;
}

// The number at the beginning of a cell, and its unit.
std::optional<int64_t> NumberOf(const std::string& cell) {
  if (cell.starts_with("2^")) return int64_t{1} << std::stoi(cell.substr(2));
  static const std::regex number("^([0-9][0-9,]*)( (KiB|MiB|GiB|s)\\b)?.*");
  static const std::map<std::string, int64_t> units = {
      {"", 1}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"s", 1000}};
  std::smatch match;
  if (!std::regex_match(cell, match, number)) return std::nullopt;
  std::string digits = match[1];
  std::erase(digits, ',');
  return std::stoll(digits) * units.at(match[3]);
}

std::vector<Row> ReadRows() {
  std::ifstream page(SourcePath("docs/security.md"));
  std::vector<Row> rows;
  bool inside = false;
  std::string heading;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("## ")) inside = line == "## Limits";
    if (line.starts_with("### ")) heading = line.substr(4);
    const bool row =
        inside && line.starts_with("| ") && !line.starts_with("| Input | Limit | Enforced in |");
    if (!row) continue;
    const std::vector<std::string> cells = CellsOf(line);
    if (cells.size() != 5) {
      ADD_FAILURE() << "a row of five cells: " << line;
      continue;
    }
    const std::vector<std::string> errors = Quoted(cells[3]);
    rows.push_back({.key = heading + ": " + cells[0],
                    .limit_text = cells[1],
                    .limit = NumberOf(cells[1]),
                    .enforced_in = cells[2],
                    .error = !errors.empty()    ? errors.front()
                             : cells[3].empty() ? "INVALID_ARGUMENT"
                                                : cells[3],
                    .flags = Quoted(cells[4])});
  }
  return rows;
}

// ---------------------------------------------------------------------------------------------
// Helpers for the cases.

// The processes under test, and helpers to call them.
struct Target {
  std::string model;
  VerifierProcess verifier;  // logs JSON
  int http_port = 0;
  TempDir dir;

  std::string CodeOf(const std::string& method, const std::string& request,
                     const std::map<std::string, std::string>& metadata = {}) const {
    const grpc::Status status = testing::CallByBytes(verifier.address(), method, request, metadata);
    return CodeName(static_cast<Code>(status.error_code()));
  }
};

using Ask = std::function<std::string(Target&, int64_t size)>;
struct Try {
  Ask ask;
};
struct Only {
  Ask ask;
};
struct HeldBy {
  std::string file;
  std::string test;
};
using Case = std::variant<Try, Only, HeldBy>;
using Cases = std::map<std::string, Case>;

std::string CodeText(const std::optional<HttpResponse>& response) {
  return response.has_value() ? std::to_string(response->code) : "closed";
}

// ---------------------------------------------------------------------------------------------
// Metrics and status.

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

std::string SilentConnection(int port) { return HttpClient(port).AwaitEnd() ? "closed" : "open"; }

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

// ---------------------------------------------------------------------------------------------
// Connections and streams.

constexpr char kGenerate[] = "/outrider.v1.Generation/Generate";
constexpr char kTokenize[] = "/outrider.v1.Generation/Tokenize";

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
    const size_t at = all.find("too_many_pings");  // the message of a GOAWAY, after its code
    if (at != all.npos && at >= 4) return all[at - 1] == 0xb ? "ENHANCE_YOUR_CALM" : "GOAWAY";
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
     HeldBy{"tests/common/rpc/connection_intake_test.cc", "APeerAndAllHaveALimit"}},
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
     HeldBy{"tests/integration/hostile_drafter_test.cc", "FloodsEndOrWaitInTheirOwnConnection"}},
    {"messages that wait for a drafter that does not read",
     HeldBy{"tests/common/rpc/stream_sink_test.cc", "APeerThatDoesNotReadLosesItsStream"}},
    {"messages that wait for a client that does not read",
     HeldBy{"tests/common/rpc/stream_sink_test.cc", "APeerThatDoesNotReadLosesItsStream"}},
};

// ---------------------------------------------------------------------------------------------
// Logs.

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
    {"bytes of a line",
     HeldBy{"tests/common/base/log_test.cc", "LongValuesAreCutSoThatAPipeTakesTheLineWhole"}},
    {"lines that stderr has no room for",
     HeldBy{"tests/integration/log_test.cc", "StallsNothingAndIsCounted"}},
};

constexpr char kExporterTest[] = "tests/common/trace_http/http_exporter_test.cc";
const Cases kCollectorCases = {
    {"bytes of an answer", HeldBy{kExporterTest, "OnlyTheBeginningOfALongAnswerIsKept"}},
    {"time of a request", HeldBy{kExporterTest, "SilentEndpointCostsSpansOnly"}},
    {"batches that wait", HeldBy{kExporterTest, "FullQueueDropsAndCountsAndNeverWaits"}},
};

// ---------------------------------------------------------------------------------------------
// HTTP.

constexpr char kServerTest[] = "tests/verifier/http/server_test.cc";
constexpr char kRequestTest[] = "tests/verifier/http/api_request_test.cc";
constexpr char kToolsTest[] = "tests/verifier/http/tool_fields_test.cc";
constexpr char kGrammarTest[] = "tests/common/grammar/grammar_limits_test.cc";
constexpr char kTemplateTest[] = "tests/common/text/jinja/limits_test.cc";
constexpr char kCompletion[] = R"({"model":"model","prompt":"abc","max_tokens":1})";

using Json = nlohmann::json;

// A case that sends a completion with the fields that `fields` makes for a size. `says`: a part of
// the error message, if another mistake could have the same code.
template <class Fields>
Ask Completing(Fields fields, const std::string& says = "") {
  return [fields, says](Target& target, int64_t size) {
    Json body = Json::parse(kCompletion);
    body.update(fields(size));
    const HttpResponse response = Fetch(target.http_port, "POST", "/v1/completions", body.dump());
    if (response.code == 400) {
      EXPECT_THAT(response.body, HasSubstr(says));
    }
    return std::to_string(response.code);
  };
}

template <class Item>
Json ListOf(int64_t size, const Item& item) {
  Json list = Json::array();
  for (int64_t i = 0; i < size; ++i) list.push_back(item(i));
  return list;
}

Json Nested(int64_t depth) {
  const auto count = static_cast<size_t>(depth);
  return Json::parse(std::string(count, '[') + std::string(count, ']'));
}

// A request in one chunk with an extension of `size` bytes.
std::string ChunkExtension(Target& target, int64_t size) {
  const std::string body = kCompletion;
  char length[20];
  std::snprintf(length, sizeof length, "%zx", body.size());
  HttpClient client(target.http_port);
  client.SendRaw(
      "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
      "Transfer-Encoding: chunked\r\n\r\n" +
      std::string(length) + ";" + std::string(static_cast<size_t>(size), 'x') + "\r\n" + body +
      "\r\n0\r\n\r\n");
  return CodeText(client.Receive());
}

std::string HttpBody(Target& target, int64_t size) {
  std::string body = kCompletion;
  body.resize(static_cast<size_t>(size), ' ');
  return std::to_string(Fetch(target.http_port, "POST", "/v1/completions", body).code);
}

std::string RequestId(Target& target, int64_t size) {
  const std::string id(static_cast<size_t>(size), 'x');
  HttpResponse response = Fetch(target.http_port, "POST", "/v1/completions", kCompletion,
                                "X-Request-Id: " + id + "\r\n");
  return response.headers["x-request-id"] == id ? "kept" : "replaced";
}

std::string PrefixHeader(Target& target, int64_t size) {
  const std::string name(static_cast<size_t>(size), 'x');
  HttpResponse response = Fetch(target.http_port, "POST", "/v1/completions", kCompletion,
                                "X-Outrider-Prefix: " + name + "\r\n");
  return response.headers["x-outrider-prefix"] == name ? "kept" : "replaced";
}

std::string GzippedBody(Target& target, int64_t) {
  HttpClient client(target.http_port);
  client.SendRaw(
      "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
      "Transfer-Encoding: gzip\r\n\r\n");
  return CodeText(client.Receive());
}

std::string TwoPrompts(Target& target, int64_t) {
  const std::string body = R"({"model":"model","prompt":"abc","prompt":"abc","max_tokens":1})";
  return std::to_string(Fetch(target.http_port, "POST", "/v1/completions", body).code);
}

std::string TopLogprobs(Target& target, int64_t size) {
  const Json body = {{"model", "model"},
                     {"messages", {{{"role", "user"}, {"content", "abc"}}}},
                     {"logprobs", true},
                     {"top_logprobs", size}};
  const HttpResponse response =
      Fetch(target.http_port, "POST", "/v1/chat/completions", body.dump());
  EXPECT_THAT(response.body, HasSubstr("top_logprobs"));
  return std::to_string(response.code);
}

Json BiasOf(int64_t size) {
  Json bias = Json::object();
  for (int64_t i = 0; i < size; ++i) bias[std::to_string(i)] = 1;
  return {{"logit_bias", bias}};
}

const Cases kHttpCases = {
    {"connections", HeldBy{kServerTest, "BeyondTheLimitConnectionsThatWaitMakeRoom"}},
    {"head of a request",
     Only{[](Target& t, int64_t above) { return HeadAbove(t.http_port, "/health", above); }}},
    {"time of a head, and of a body", HeldBy{kServerTest, "SlowHeadsAndBodiesAreCutOff"}},
    {"`Transfer-Encoding`", Only{GzippedBody}},
    {"extensions of a body's chunks", Only{ChunkExtension}},
    {"body", Try{HttpBody}},
    {"unfinished bodies of an address (IPv6: of its network of 64 bits)",
     HeldBy{kServerTest, "UnfinishedBodiesHaveALimitForAPeerAndForAll"}},
    {"unfinished bodies of all",
     HeldBy{kServerTest, "UnfinishedBodiesHaveALimitForAPeerAndForAll"}},
    {"bytes ahead of an answer", HeldBy{kServerTest, "AClientThatSendsTooFarAheadIsGone"}},
    {"a stream that its client does not read", HeldBy{kServerTest, "DisconnectsAReaderThatLags"}},
    {"`x-request-id`", Try{RequestId}},
    {"`x-outrider-prefix`", Try{PrefixHeader}},
    {"depth of the JSON", Only{Completing([](int64_t size) {
       return Json{{"metadata", Nested(size)}};
     })}},
    {"values of the JSON", Only{Completing([](int64_t size) {
       return Json{{"metadata", ListOf(size, [](int64_t) { return 1; })}};
     })}},
    {"of these members, strings, arrays and objects", Only{Completing([](int64_t size) {
       return Json{{"metadata", ListOf(size, [](int64_t) { return ""; })}};
     })}},
    {"a member that comes twice in an object", Only{TwoPrompts}},
    {"a field that is not served or unknown", Only{Completing(
                                                  [](int64_t) {
                                                    return Json{{"frobnicate", 1}};
                                                  },
                                                  "frobnicate")}},
    {"`prompt` as token ids", Only{Completing([](int64_t) {
       return Json{{"prompt", ListOf(512, [](int64_t) { return 5; })}};
     })}},
    {"prompts of a request", Only{Completing([](int64_t size) {
       return Json{{"prompt", ListOf(size, [](int64_t) { return "abc"; })}};
     })}},
    {"`n`, times the prompts", Only{Completing([](int64_t size) {
       return Json{{"n", size}};
     })}},
    {"`stop`", Try{Completing([](int64_t size) {
       return Json{{"stop", ListOf(size, [](int64_t i) { return "z" + std::to_string(i); })}};
     })}},
    {"bytes of one of `stop`", Try{Completing([](int64_t size) {
       return Json{{"stop", std::string(static_cast<size_t>(size), 'z')}};
     })}},
    {"`stop_token_ids`", Try{Completing([](int64_t size) {
       return Json{{"stop_token_ids", ListOf(size, [](int64_t i) { return i; })}};
     })}},
    {"`logit_bias`", Only{Completing(BiasOf, "1024")}},
    {"`prompt_logprobs`", Try{Completing([](int64_t size) {
       return Json{{"prompt_logprobs", size}};
     })}},
    {"log probabilities of a request's prompts (choices x tokens x alternatives)",
     HeldBy{kRequestTest, "AnAnswersLogProbabilitiesOfPromptsHaveALimitInStreamsToo"}},
    {"rows of logits of prompts in one step",
     HeldBy{"tests/verifier/engine/prompt_logprobs_test.cc",
            "HaveALimitOfRowsAStepAndOfThemselves"}},
    {"`echo`: bytes of prompts, over all choices", HeldBy{kRequestTest, "EchoesHaveALimit"}},
    {"`allowed_token_ids`",
     Only{Completing(
         [](int64_t size) {
           return Json{{"allowed_token_ids", ListOf(size, [](int64_t) { return 5; })}};
         },
         "at most 65536")}},
    {"`bad_words`", Try{Completing([](int64_t size) {
       return Json{{"bad_words", ListOf(size, [](int64_t i) { return "z" + std::to_string(i); })}};
     })}},
    {"choices of `structured_outputs`", Try{Completing(
                                            [](int64_t size) {
                                              const auto text = [](int64_t) { return "a"; };
                                              return Json{{"guided_choice", ListOf(size, text)}};
                                            },
                                            "at most 1024")}},
    {"bytes of `response_format`, `structured_outputs` and its like",
     Try{Completing(
         [](int64_t size) {
           const std::string begin = R"({"type":"null","title":")", end = "\"}";
           const size_t rest = static_cast<size_t>(size) - begin.size() - end.size();
           return Json{{"guided_json", begin + std::string(rest, 't') + end}};
         },
         "at most 262144")}},
    {"steps of compiling a grammar", HeldBy{kGrammarTest, "StatesAndSteps"}},
    {"steps of a grammar's mask", HeldBy{kGrammarTest, "StepsOfNodeMasksAreBounded"}},
    {"grammars of running and waiting requests, with their masks",
     HeldBy{"tests/common/grammar/grammar_cache_test.cc", "RefusesMoreThanRequestsMayHold"}},
    {"steps of the masks of a round's draft, but for the last mask",
     HeldBy{"tests/verifier/engine/structured_output_test.cc", "DraftsEndWhereTheirStepsDo"}},
    {"steps of reading a byte by a grammar", HeldBy{kGrammarTest, "StepsOfAByteAreBounded"}},
    {"bytes of one of `bad_words`", Only{Completing(
                                        [](int64_t) {
                                          return Json{{"bad_words", std::string(1025, 'z')}};
                                        },
                                        "at most 1024")}},
    {"`/tokenize`: tokens of its answer",
     HeldBy{"tests/verifier/http/routes_test.cc", "AnAnswerListsSoManyTokens"}},
    {"`/detokenize`: text of its tokens",
     HeldBy{"tests/verifier/http/routes_test.cc", "ATextHasALimit"}},
    {"`best_of`, times the prompts", Only{Completing([](int64_t size) {
       return Json{{"best_of", size}};
     })}},
    {"`speculation.tree`",
     Only{Completing(
         [](int64_t) {
           return Json{{"speculation", {{"tree", ListOf(2000, [](int64_t) { return 1; })}}}};
         },
         "tree")}},
    {"`min_tokens`", Only{Completing(
                         [](int64_t) {
                           return Json{{"min_tokens", 2}};
                         },
                         "min_tokens")}},
    {"`logprobs`", Try{Completing([](int64_t size) {
       return Json{{"logprobs", size}};
     })}},
    {"log probabilities of an answer that is no stream (choices x tokens x alternatives)",
     Only{Completing([](int64_t) {
       return Json{{"n", 128}, {"max_tokens", 200}, {"logprobs", 20}};
     })}},
    {"`top_logprobs`", Only{TopLogprobs}},
    {"`tools`", HeldBy{kToolsTest, "ToolsHaveLimits"}},
    {"bytes of `tools`, as JSON", HeldBy{kToolsTest, "ToolsHaveLimits"}},
    {"name of a tool", HeldBy{kToolsTest, "ToolsHaveLimits"}},
    {"`tool_calls` of a message", HeldBy{kToolsTest, "CallsOfMessagesHaveLimits"}},
    {"id of a call", HeldBy{kToolsTest, "CallsOfMessagesHaveLimits"}},
    {"values in the `arguments` of a request's calls, one for 64 bytes too",
     HeldBy{kToolsTest, "CallsOfMessagesHaveLimits"}},
    {"calls of an answer",
     HeldBy{"tests/verifier/chat/call_parser_test.cc", "LeavesOutCallsBeyondTheLimit"}},
    {"levels of a call's arguments in Python",
     HeldBy{"tests/verifier/chat/python_arguments_test.cc", "OthersAreRefused"}},
    {"integers", Only{Completing([](int64_t) {
       return Json{{"max_tokens", int64_t{1} << 31}};
     })}},
    {"steps of a match of the tokenizer's expressions",
     HeldBy{"tests/common/text/pattern_test.cc", "AMatchThatBacktracksWithoutBoundIsAnError"}},
    {"a chat template's file", HeldBy{kTemplateTest, "NestingOfTemplatesHasALimit"}},
    {"steps of a chat template", HeldBy{kTemplateTest, "StepsEndWhateverRepeats"}},
    {"bytes of strings and lists that a chat template makes",
     HeldBy{kTemplateTest, "BytesAreCountedBeforeTheyAreMade"}},
    {"bytes that a chat template renders", HeldBy{kTemplateTest, "OutputHasALimit"}},
    {"calls of a chat template in each other",
     HeldBy{kTemplateTest, "RecursionOfMacrosAndLoopsHasALimit"}},
    {"a text that is being tokenized when the server stops",
     HeldBy{"tests/verifier/engine/text_workers_test.cc", "StopReturnsWhileATextRuns"}},
};

// ---------------------------------------------------------------------------------------------
// gRPC's fields.

constexpr char kLinkMessageTest[] = "tests/drafter/rpc/link_message_test.cc";
constexpr char kDrafterLimits[] = "EveryFieldOfAVerifiersMessageHasALimit";
constexpr char kWorkersTest[] = "tests/verifier/engine/text_workers_test.cc";

// The answer of Generate to a request completed by `fill`.
template <class Fill>
Ask Generating(Fill fill) {
  return [fill](Target& target, int64_t size) {
    v1::GenerateRequest request;
    request.set_text("abc");
    request.mutable_stop()->set_max_tokens(1);
    fill(size, request);
    testing::TestClient client(target.verifier.address());
    grpc::ClientContext context;
    const auto stream = client.stub().Generate(&context, request);
    v1::GenerateResponse response;
    while (stream->Read(&response)) {
    }
    return CodeName(static_cast<Code>(stream->Finish().error_code()));
  };
}

v1::FromDrafter HelloOf(const std::string& model) {
  const auto tokenizer = Tokenizer::Load(model);
  EXPECT_TRUE(tokenizer.ok());
  const TokenizerFingerprint fingerprint = (*tokenizer)->fingerprint();
  v1::FromDrafter message;
  v1::Hello* hello = message.mutable_hello();
  hello->set_protocol_version(kDraftingProtocol);
  hello->set_name("d0");
  v1::TokenizerFingerprint* wire = hello->mutable_tokenizer();
  wire->set_vocab_size(static_cast<uint32_t>(fingerprint.vocab_size));
  wire->set_vocabulary(fingerprint.vocabulary);
  wire->set_merges(fingerprint.merges);
  wire->set_special_tokens(fingerprint.special_tokens);
  hello->set_vocab_size(300);
  hello->set_max_sessions(1);
  hello->set_max_draft_length(4);
  hello->set_max_draft_tokens(4);
  hello->set_max_context(512);
  return message;
}

// The outcome for a drafter that matches and then sends `message`.
std::string Attached(Target& target, const v1::FromDrafter& message) {
  const auto stub = v1::Drafting::NewStub(
      grpc::CreateChannel(target.verifier.address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  const auto stream = stub->Attach(&context);
  v1::FromVerifier received;
  if (!stream->Write(HelloOf(target.model)) || !stream->Read(&received)) {
    return "refused: " + stream->Finish().error_message();
  }
  stream->Write(message);
  stream->WritesDone();
  while (stream->Read(&received)) {
  }
  const bool closed = stream->Finish().error_code() == grpc::StatusCode::INVALID_ARGUMENT;
  return closed ? "its stream is closed" : "accepted";
}

std::string LongNames(Target& target, int64_t size) {
  int closed = 0;
  for (const bool name : {true, false}) {
    v1::FromDrafter message;
    v1::Hello* hello = message.mutable_hello();
    *(name ? hello->mutable_name() : hello->mutable_model()) =
        std::string(static_cast<size_t>(size), 'x');
    const std::string code =
        target.CodeOf("/outrider.v1.Drafting/Attach", message.SerializeAsString());
    closed += code == "INVALID_ARGUMENT" ? 1 : 0;
  }
  return closed == 2 ? "its stream is closed" : "accepted";
}

std::string DraftsOfAMessage(Target& target, int64_t size) {
  v1::FromDrafter message;
  for (int64_t i = 0; i < size; ++i) message.mutable_drafts()->add_drafts();
  return Attached(target, message);
}

std::string TokensOfAPart(Target& target, int64_t size) {
  v1::FromDrafter message;
  v1::Draft* draft = message.mutable_drafts()->add_drafts();
  for (int64_t i = 0; i < size; ++i) draft->add_token_ids(5);
  return Attached(target, message);
}

std::string TokenizeText(Target& target, int64_t size) {
  v1::TokenizeRequest request;
  request.set_text(std::string(static_cast<size_t>(size), ' '));
  return target.CodeOf(kTokenize, request.SerializeAsString());
}

std::string DetokenizeIds(Target& target, int64_t size) {
  v1::DetokenizeRequest request;
  for (int64_t i = 0; i < size; ++i) request.add_token_ids(5);
  return target.CodeOf("/outrider.v1.Generation/Detokenize", request.SerializeAsString());
}

const Cases kGrpcCases = {
    {"`Generate`: `text`", Only{Generating([](int64_t, v1::GenerateRequest& r) {
       r.set_text(std::string(64 << 10, ' '));
     })}},
    {"`Generate`: `token_ids`", Only{Generating([](int64_t, v1::GenerateRequest& r) {
       for (int i = 0; i < 512; ++i) r.mutable_token_ids()->add_ids(5);
     })}},
    {"`Generate`: `sampling.logit_bias`", Only{Generating([](int64_t size, v1::GenerateRequest& r) {
       auto& bias = *r.mutable_sampling()->mutable_logit_bias();
       for (int64_t i = 0; i < size; ++i) bias[static_cast<uint32_t>(i)] = 1;
     })}},
    {"`Generate`: `sampling.allowed_token_ids`",
     Only{Generating([](int64_t, v1::GenerateRequest& r) {
       r.mutable_sampling()->mutable_allowed_token_ids()->Resize((1 << 16) + 1, 5);
     })}},
    {"`Generate`: `sampling.bad_words`", Only{Generating([](int64_t, v1::GenerateRequest& r) {
       for (int i = 0; i <= 512; ++i) r.mutable_sampling()->add_bad_words()->add_ids(5);
     })}},
    {"`Generate`: `sampling.structured_output`",
     Only{Generating([](int64_t size, v1::GenerateRequest& r) {
       const std::string text(static_cast<size_t>(size), 'a');
       r.mutable_sampling()->mutable_structured_output()->set_regex(text);
     })}},
    {"`Generate`: `sampling.structured_output.choice`, `.schemas`",
     Only{Generating([](int64_t size, v1::GenerateRequest& r) {
       auto& choice = *r.mutable_sampling()->mutable_structured_output()->mutable_choice();
       for (int64_t i = 0; i < size; ++i) choice.add_texts("a");
     })}},
    {"`Generate`: `stop.stop_strings`", Try{Generating([](int64_t size, v1::GenerateRequest& r) {
       for (int64_t i = 0; i < size; ++i) r.mutable_stop()->add_stop_strings("z");
     })}},
    {"`Generate`: `stop.stop_token_ids`", Try{Generating([](int64_t size, v1::GenerateRequest& r) {
       for (int64_t i = 0; i < size; ++i) r.mutable_stop()->add_stop_token_ids(5);
     })}},
    {"`Generate`: `prompt_logprobs`",
     Only{Generating([](int64_t, v1::GenerateRequest& r) { r.set_prompt_logprobs(21); })}},
    {"`Generate`: `speculation.tree`", Only{Generating([](int64_t, v1::GenerateRequest& r) {
       for (int i = 0; i < 2000; ++i) r.mutable_speculation()->add_tree(1);
     })}},
    {"`Tokenize`: `text`", Try{TokenizeText}},
    {"`Detokenize`: `token_ids`", Try{DetokenizeIds}},
    {"texts that wait for a worker", HeldBy{kWorkersTest, "RefuseWhatHasNoRoomOrNoTime"}},
    {"texts of one client that are tokenized at once",
     HeldBy{kWorkersTest, "OneClientsTextsLeaveAWorkerToOthers"}},
    {"drafter: `hello.name`, `hello.model`", Try{LongNames}},
    {"drafters attached",
     HeldBy{"tests/verifier/pool/drafter_pool_test.cc", "RefusesDraftersBeyondTheirNumber"}},
    {"drafter: `drafts` of a message", Only{DraftsOfAMessage}},
    {"drafter: `token_ids`, `parents`, `rows` of a part", Only{TokensOfAPart}},
    {"drafter: early drafts of a round",
     HeldBy{"tests/verifier/pool/assignments_test.cc", "AreWholeValidAndFew"}},
    {"drafter: entries of a row",
     HeldBy{"tests/common/rpc/drafting_wire_test.cc", "MalformedDraftsAreRefused"}},
    {"verifier: `vocabulary.entries`, `vocabulary.text`", HeldBy{kLinkMessageTest, kDrafterLimits}},
    {"verifier: `vocabulary.end_tokens`", HeldBy{kLinkMessageTest, kDrafterLimits}},
    {"verifier: a token of `vocabulary`",
     HeldBy{"tests/common/rpc/drafting_wire_test.cc", "MalformedVocabulariesAreRefused"}},
    {"verifier: `open.token_ids`, `verdicts.next`", HeldBy{kLinkMessageTest, kDrafterLimits}},
    {"verifier: `open.sampling.logit_bias`", HeldBy{kLinkMessageTest, kDrafterLimits}},
    {"verifier: `open.sampling.allowed_token_ids`, `open.sampling.bad_words`",
     HeldBy{kLinkMessageTest, kDrafterLimits}},
    {"verifier: `open.sampling.structured_output`", HeldBy{kLinkMessageTest, kDrafterLimits}},
    {"verifier: `plan.branching`, `verdicts.acceptance`", HeldBy{kLinkMessageTest, kDrafterLimits}},
    {"verifier: `verdicts` of a message", HeldBy{kLinkMessageTest, kDrafterLimits}},
    {"verifier: `welcome.model`, `welcome.zone`, `open.traceparent`",
     HeldBy{kLinkMessageTest, kDrafterLimits}},
};

// ---------------------------------------------------------------------------------------------

constexpr char kGgufTest[] = "tests/common/gguf/gguf_file_test.cc";
constexpr char kGgufTokenizerTest[] = "tests/common/text/gguf_tokenizer_test.cc";
const Cases kModelFileCases = {
    {"GGUF: pairs of metadata", HeldBy{kGgufTest, "IsRefusedWithTheFileAndTheFault"}},
    {"GGUF: tensors", HeldBy{kGgufTest, "IsRefusedWithTheFileAndTheFault"}},
    {"GGUF: counts, lengths, shapes and offsets",
     HeldBy{kGgufTest, "IsRefusedWithTheFileAndTheFault"}},
    {"GGUF: tokens", HeldBy{kGgufTokenizerTest, "RefusesListsThatDoNotFit"}},
    {"Unigram and WordPiece: bytes of a token",
     HeldBy{"tests/common/text/tokenizer_json_test.cc",
            "LongTokensOfUnigramAndWordPieceAreRefused"}},
    {"SentencePiece: bytes of a piece", HeldBy{kGgufTokenizerTest, "RefusesListsThatDoNotFit"}},
    {"SentencePiece: merges that follow from scores",
     HeldBy{kGgufTokenizerTest, "RefusesListsThatDoNotFit"}},
};

const std::map<std::string, const Cases*> kPorts = {
    {"HTTP", &kHttpCases},
    {"gRPC", &kGrpcCases},
    {"Metrics and status", &kMetricsCases},
    {"Connections and streams", &kConnectionCases},
    {"Logs", &kLogCases},
    {"Trace collectors", &kCollectorCases},
    {"Model files", &kModelFileCases},
};

Cases AllCases() {
  Cases all;
  for (const auto& [heading, cases] : kPorts) {
    for (const auto& [input, one] : *cases) all.emplace(heading + ": " + input, one);
  }
  return all;
}

std::string ReadAll(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void CheckRow(const Row& row, const Case& one, Target& target) {
  SCOPED_TRACE(row.key);
  if (const auto* held = std::get_if<HeldBy>(&one)) {
    EXPECT_THAT(ReadAll(SourcePath(held->file)), HasSubstr(", " + held->test + ")"));
    return;
  }
  if (const auto* tried = std::get_if<Try>(&one)) {
    ASSERT_TRUE(row.limit.has_value()) << "no number in '" << row.limit_text << "'";
    EXPECT_NE(tried->ask(target, *row.limit), row.error) << "at the limit";
    EXPECT_EQ(tried->ask(target, *row.limit + 1), row.error) << "above the limit";
    return;
  }
  EXPECT_EQ(std::get<Only>(one).ask(target, row.limit.value_or(0) + 1), row.error);
}

TEST(Limits, EveryRowOfTheTablesHolds) {
  Target target;
  target.model = target.dir / "model";
  ASSERT_TRUE(MakeCheckpoint(target.model, {.vocab_size = 300, .tokenizer = true}).ok());
  target.verifier = StartVerifier(target.model, target.dir / "verifier.log",
                                  {"--http", "127.0.0.1:0", "--log-json"});
  ASSERT_NE(target.verifier.port, 0);
  const nlohmann::json serving =
      nlohmann::json::parse(target.verifier.process->AwaitLine("\"serving\""));
  target.http_port = serving.at("http_port");

  const auto help =
      Process::Start({ProgramPath("outrider-verifier"), "--help"}, target.dir / "help");
  EXPECT_EQ(help->Wait(), 0);
  Cases cases = AllCases();
  const std::vector<Row> rows = ReadRows();
  ASSERT_GT(rows.size(), 10u);
  for (const Row& row : rows) {
    EXPECT_TRUE(std::filesystem::exists(SourcePath(row.enforced_in))) << row.key;
    for (const std::string& flag : row.flags) EXPECT_THAT(help->Log(), HasSubstr(flag)) << row.key;
    const auto found = cases.find(row.key);
    if (found == cases.end()) {
      ADD_FAILURE() << "no case for the row '" << row.key << "'";
      continue;
    }
    CheckRow(row, found->second, target);
    cases.erase(found);
  }
  for (const auto& [key, one] : cases) ADD_FAILURE() << "no row for the case '" << key << "'";

  // Whatever the input, the log is JSON: no line comes from a library or contains part of a peer's
  // name.
  std::istringstream log(target.verifier.process->Log());
  for (std::string line; std::getline(log, line);) {
    EXPECT_TRUE(nlohmann::json::accept(line)) << line;
  }
}

}  // namespace
}  // namespace outrider
