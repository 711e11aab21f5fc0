// Walks the tables of docs/security.md, "Limits": every row is tried at its limit and above it
// against a running verifier, which must answer with the row's error.
//
// A row without a case fails the test, and so does a case without a row. To add a row:
//  1. Write it into the table of its port (a heading of the third level below "## Limits"). The
//     first column names the input and is the row's key, together with the heading. The column
//     "Limit" begins with the number where there is one (`8 KiB`, `16 MiB`, `10 s`, `256`). The
//     column "Error" begins with what the peer sees, in backticks. The file of "Enforced in" and
//     the flags of "Flag" must exist.
//  2. Add a case with that key to the cases of its port below. A `Try` gets the limit as the table
//     states it (in bytes, milliseconds or pieces), makes an input of that size and returns what
//     the peer saw: "OK", a gRPC code's name, an HTTP code, "closed" .. It is called twice: with
//     the limit, which must not be answered with the row's error, and with the limit + 1, which
//     must be. Where the size cannot be exact, or the limit is no number, it is an `Only`: called
//     once, with the limit + 1. A limit that takes too much to reach from outside names the test
//     that holds it (`HeldBy`).
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
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

#include "outrider/v1/drafting.pb.h"
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

// The number that a cell begins with, and its unit.
std::optional<int64_t> NumberOf(const std::string& cell) {
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
                    .error = errors.empty() ? "" : errors.front(),
                    .flags = Quoted(cells[4])});
  }
  return rows;
}

// ---------------------------------------------------------------------------------------------
// What cases work with.

// A gRPC call by bytes, whatever the method's type.
grpc::Status Call(const std::string& address, const std::string& method, const std::string& request,
                  const std::map<std::string, std::string>& metadata = {}) {
  grpc::GenericStub stub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  for (const auto& [name, value] : metadata) context.AddMetadata(name, value);
  grpc::CompletionQueue queue;
  const grpc::Slice slice(request);
  const auto pending = stub.PrepareUnaryCall(&context, method, grpc::ByteBuffer(&slice, 1), &queue);
  pending->StartCall();
  grpc::ByteBuffer reply;
  grpc::Status status;
  pending->Finish(&reply, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  return status;
}

// What the test runs against, and how cases ask it.
struct Target {
  std::string model;
  VerifierProcess verifier;  // logs JSON
  int http_port = 0;
  TempDir dir;

  std::string CodeOf(const std::string& method, const std::string& request,
                     const std::map<std::string, std::string>& metadata = {}) const {
    const grpc::Status status = Call(verifier.address(), method, request, metadata);
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

std::string MetricsHead(Target& target, int64_t size) {
  const std::string before = "GET /metrics HTTP/1.1\r\nX-Fill: ", after = "\r\n\r\n";
  const size_t fill = static_cast<size_t>(size) - before.size() - after.size();
  HttpClient client(target.verifier.metrics_port);
  client.SendRaw(before + std::string(fill, 'x') + after);
  return CodeText(client.Receive());
}

std::string MetricsBody(Target& target, int64_t /*size*/) {
  return std::to_string(Fetch(target.verifier.metrics_port, "POST", "/metrics", "{}").code);
}

std::string MetricsConnections(Target& target, int64_t size) {
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int64_t i = 0; i < size; ++i) {
    clients.push_back(std::make_unique<HttpClient>(target.verifier.metrics_port));
  }
  // They are accepted in order: when the last is answered, all others have been.
  clients.back()->Send("GET", "/metrics");
  EXPECT_EQ(CodeText(clients.back()->Receive()), "200");
  clients.front()->Send("GET", "/metrics");
  return CodeText(clients.front()->Receive());
}

std::string SilentConnection(int port) { return HttpClient(port).AwaitEnd() ? "closed" : "open"; }

const Cases kMetricsCases = {
    {"head of a request", Try{MetricsHead}},
    {"body of a request", Only{MetricsBody}},
    {"open connections", Try{MetricsConnections}},
    {"time from a connection's start to its end",
     Only{[](Target& t, int64_t) { return SilentConnection(t.verifier.metrics_port); }}},
};

// ---------------------------------------------------------------------------------------------
// Connections and streams.

constexpr char kTokenize[] = "/outrider.v1.Generation/Tokenize";

// `count` pings on a connection without a call, by HTTP/2's frames.
std::string Pings(Target& target, int64_t count) {
  HttpClient client(target.verifier.port);
  std::string bytes = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  bytes += std::string("\0\0\0\4\0\0\0\0\0", 9);  // SETTINGS
  for (int64_t i = 0; i < count; ++i) bytes += std::string("\0\0\x8\6\0\0\0\0\0", 9) + "12345678";
  client.SendRaw(bytes);
  std::string all;
  for (std::string some = client.ReceiveSome(); !some.empty(); some = client.ReceiveSome()) {
    all += some;
    const size_t at = all.find("too_many_pings");  // a GOAWAY's words, behind its code
    if (at != all.npos && at >= 4) return all[at - 1] == 0xb ? "ENHANCE_YOUR_CALM" : "GOAWAY";
  }
  return "closed";
}

std::string WithoutToken(Target& target, int64_t) {
  std::ofstream(target.dir / "tokens") << "alice token-a\n";
  const VerifierProcess asks = StartVerifier(target.model, target.dir / "tokens.log",
                                             {"--client-tokens", target.dir / "tokens"});
  const auto call = [&](const std::string& token) {
    const grpc::Status status =
        Call(asks.address(), kTokenize, "\xff", {{"authorization", "Bearer " + token}});
    return std::string(CodeName(static_cast<Code>(status.error_code())));
  };
  EXPECT_EQ(call("token-a"), "INVALID_ARGUMENT");
  return call("token-b");
}

std::string Message(Target& target, int64_t size) {
  // A field of bytes that no message has, with its tag and length: parsed and ignored.
  std::string request = "\xfa\x7f";
  const auto content = static_cast<uint64_t>(size) - 2 - 4;
  for (uint64_t left = content; left > 0; left >>= 7) {
    request += static_cast<char>((left & 0x7f) | (left > 0x7f ? 0x80 : 0));
  }
  request.resize(static_cast<size_t>(size), 'x');
  return target.CodeOf(kTokenize, request);
}

// Every method of both services, with bytes that do not parse.
std::string Malformed(Target& target, int64_t) {
  const std::vector<const google::protobuf::ServiceDescriptor*> services = {
      v1::GenerateRequest::descriptor()->file()->FindServiceByName("Generation"),
      v1::FromDrafter::descriptor()->file()->FindServiceByName("Drafting")};
  for (const auto* service : services) {
    for (int i = 0; i < service->method_count(); ++i) {
      const auto& method = *service->method(i);
      const grpc::Status status =
          Call(target.verifier.address(), "/" + service->full_name() + "/" + method.name(), "\xff");
      EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << method.full_name();
      EXPECT_THAT(status.error_message(), HasSubstr(method.input_type()->full_name()));
    }
  }
  v1::TokenizeRequest request;
  request.set_text("1234");
  std::string bytes = request.SerializeAsString();
  bytes.replace(bytes.find("1234"), 4, "\xff\xfe\xfd\xfc");
  const grpc::Status status = Call(target.verifier.address(), kTokenize, bytes);
  EXPECT_THAT(status.error_message(), HasSubstr("outrider.v1.TokenizeRequest.text"));
  EXPECT_THAT(status.error_message(), HasSubstr("UTF-8"));
  return CodeName(static_cast<Code>(status.error_code()));
}

const Cases kConnectionCases = {
    {"time of a connection until its handshake is over",
     Only{[](Target& t, int64_t) { return SilentConnection(t.verifier.port); }}},
    {"pings of a connection", Only{[](Target& t, int64_t) { return Pings(t, 10); }}},
    {"metadata of a call, 32 bytes added for each", Only{[](Target& t, int64_t size) {
       return t.CodeOf(kTokenize, "", {{"x-fill", std::string(static_cast<size_t>(size), 'x')}});
     }}},
    {"caller", Only{WithoutToken}},
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

// A drafter of another vocabulary, whose name would clear a terminal and begin a line.
void BeRefused(Target& target) {
  v1::FromDrafter message;
  v1::Hello* hello = message.mutable_hello();
  hello->set_protocol_version(2);
  hello->set_name(
      "evil\x7f\xc2\x9b"
      "2J\n{\"level\":\"ERROR\"}\xe2\x80\xa8");
  EXPECT_EQ(target.CodeOf("/outrider.v1.Drafting/Attach", message.SerializeAsString()),
            "FAILED_PRECONDITION");
}

int64_t LinesWith(const std::string& log, const std::string& text) {
  int64_t count = 0;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) count += line.find(text) != line.npos ? 1 : 0;
  return count;
}

// At the limit as many lines as it allows; above it ten times as many, which would take minutes to
// be let through.
std::string RepeatedLines(Target& target, int64_t size) {
  static constexpr int64_t kBurst = 20;
  const int64_t before = LinesWith(target.verifier.process->Log(), kRefused);
  const int64_t count = size > kBurst ? 10 * size : size;
  for (int64_t i = 0; i < count; ++i) BeRefused(target);
  const int64_t lines = LinesWith(target.verifier.process->Log(), kRefused) - before;
  EXPECT_GT(lines, 0);
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
    {"control characters (C0, DEL, C1, U+2028, U+2029), bytes that are no UTF-8",
     Only{ControlCharacters}},
};

// ---------------------------------------------------------------------------------------------
// HTTP.

std::string Complete(Target& target, const std::string& fields) {
  return std::to_string(Fetch(target.http_port, "POST", "/v1/completions",
                              R"({"prompt":"a","max_tokens":1,)" + fields + "}")
                            .code);
}

std::string Repeated(const std::string& item, int64_t count) {
  std::string all;
  for (int64_t i = 0; i < count; ++i) all += (i > 0 ? "," : "") + item;
  return all;
}

// A field with an array of as many items.
Ask ArrayOf(const std::string& field, const std::string& item) {
  return [=](Target& target, int64_t size) {
    return Complete(target, '"' + field + "\":[" + Repeated(item, size) + "]");
  };
}

Ask NumberIn(const std::string& field) {
  return [=](Target& target, int64_t size) {
    return Complete(target, '"' + field + "\":" + std::to_string(size));
  };
}

Ask Refused(const std::string& fields) {
  return [=](Target& target, int64_t) { return Complete(target, fields); };
}

std::string HttpHead(Target& target, int64_t size) {
  const std::string before = "GET /health HTTP/1.1\r\nX-Fill: ", after = "\r\n\r\n";
  const size_t fill = static_cast<size_t>(size) - before.size() - after.size();
  HttpClient client(target.http_port);
  client.SendRaw(before + std::string(fill, 'x') + after);
  return CodeText(client.Receive());
}

constexpr char kPostHead[] =
    "POST /v1/completions HTTP/1.1\r\nContent-Type: application/json\r\nTransfer-Encoding: ";

std::string HttpCoding(Target& target, int64_t) {
  HttpClient client(target.http_port);
  client.SendRaw(std::string(kPostHead) + "gzip\r\n\r\nGET /health HTTP/1.1\r\n\r\n");
  const std::string code = CodeText(client.Receive());
  EXPECT_TRUE(client.AwaitEnd());
  return code;
}

std::string HttpChunkExtension(Target& target, int64_t size) {
  HttpClient client(target.http_port);
  client.SendRaw(std::string(kPostHead) + "chunked\r\n\r\n1;" +
                 std::string(static_cast<size_t>(size), 'x') + "\r\n{\r\n");
  return CodeText(client.Receive());
}

std::string HttpBody(Target& target, int64_t size) {
  const std::string before = R"({"prompt":"a","max_tokens":1,"user":")", after = R"("})";
  const size_t fill = static_cast<size_t>(size) - before.size() - after.size();
  return std::to_string(
      Fetch(target.http_port, "POST", "/v1/completions", before + std::string(fill, 'x') + after)
          .code);
}

std::string HttpRequestId(Target& target, int64_t size) {
  const std::string id(static_cast<size_t>(size), 'x');
  const HttpResponse response =
      Fetch(target.http_port, "POST", "/v1/completions", R"({"prompt":"a","max_tokens":1})",
            "x-request-id: " + id + "\r\n");
  return response.headers.at("x-request-id") == id ? "kept" : "replaced";
}

std::string HttpDepth(Target& target, int64_t size) {
  const auto arrays = static_cast<size_t>(size) - 1;  // in the body's object
  return Complete(target, "\"metadata\":" + std::string(arrays, '[') + std::string(arrays, ']'));
}

std::string HttpPromptIds(Target& target, int64_t) {
  const auto models = nlohmann::json::parse(Fetch(target.http_port, "GET", "/v1/models").body);
  const int64_t context = models["data"][0]["max_model_len"];
  const std::string body = R"({"max_tokens":1,"prompt":[)" + Repeated("1", context) + "]}";
  return std::to_string(Fetch(target.http_port, "POST", "/v1/completions", body).code);
}

std::string HttpPrompts(Target& target, int64_t size) {
  const std::string body = R"({"max_tokens":1,"prompt":[)" + Repeated("\"a\"", size) + "]}";
  return std::to_string(Fetch(target.http_port, "POST", "/v1/completions", body).code);
}

std::string HttpTopLogprobs(Target& target, int64_t size) {
  const std::string body =
      R"({"messages":[{"role":"user","content":"a"}],"max_tokens":1,"logprobs":true,"top_logprobs":)";
  return std::to_string(
      Fetch(target.http_port, "POST", "/v1/chat/completions", body + std::to_string(size) + "}")
          .code);
}

constexpr char kHttpServerTest[] = "tests/verifier/http/server_test.cc";

const Cases kHttpCases = {
    {"connections", HeldBy{kHttpServerTest, "MoreConnectionsThanAllowedAreClosed"}},
    {"head of a request", Try{HttpHead}},
    {"time of a head, and of a body", HeldBy{kHttpServerTest, "SlowHeadsAndBodiesAreCutOff"}},
    {"`Transfer-Encoding`", Only{HttpCoding}},
    {"extensions of a body's chunks", Only{HttpChunkExtension}},
    {"body", Try{HttpBody}},
    {"unfinished bodies of an address (IPv6: of its network of 64 bits)",
     HeldBy{kHttpServerTest, "UnfinishedBodiesHaveALimitForAPeerAndForAll"}},
    {"unfinished bodies of all",
     HeldBy{kHttpServerTest, "UnfinishedBodiesHaveALimitForAPeerAndForAll"}},
    {"bytes ahead of an answer", HeldBy{kHttpServerTest, "AClientThatSendsTooFarAheadIsGone"}},
    {"a stream that its client does not read",
     HeldBy{kHttpServerTest, "AReaderThatFallsTooFarBehindIsGone"}},
    {"`x-request-id`", Try{HttpRequestId}},
    {"depth of the JSON", Try{HttpDepth}},
    // The object, its other two fields and the array are values too.
    {"values of the JSON",
     Try{[](Target& t, int64_t size) { return ArrayOf("metadata", "0")(t, size - 4); }}},
    // The object, three members, a string and the array.
    {"of these members, strings, arrays and objects",
     Try{[](Target& t, int64_t size) { return ArrayOf("metadata", "\"\"")(t, size - 6); }}},
    {"a member that comes twice in an object", Only{Refused(R"("seed":1,"seed":2)")}},
    {"a field that is not served or unknown", Only{Refused(R"("guided_json":{})")}},
    {"`prompt` as token ids", Only{HttpPromptIds}},
    {"prompts of a request", Try{HttpPrompts}},
    {"`n`, times the prompts", Try{NumberIn("n")}},
    {"`stop`", Try{ArrayOf("stop", "\"zz\"")}},
    {"bytes of one of `stop`", Try{[](Target& t, int64_t size) {
       return Complete(t, R"("stop":")" + std::string(static_cast<size_t>(size), 'z') + '"');
     }}},
    {"`stop_token_ids`", Try{ArrayOf("stop_token_ids", "1")}},
    // The model has fewer tokens than the limit: each entry is another one.
    {"`logit_bias`", Only{[](Target& t, int64_t size) {
       std::string biases;
       for (int64_t i = 0; i < size; ++i) {
         biases += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":0";
       }
       return Complete(t, "\"logit_bias\":{" + biases + "}");
     }}},
    {"`speculation.tree`",
     Only{Refused(R"("speculation":{"tree":[)" + Repeated("1", 1000) + "]}")}},
    {"`min_tokens`", Only{Refused(R"("min_tokens":2)")}},
    {"`logprobs`", Try{NumberIn("logprobs")}},
    {"`top_logprobs`", Try{HttpTopLogprobs}},
    {"integers", Only{Refused(R"("top_k":2147483648)")}},
    {"steps of the tokenizer's expressions for a text",
     HeldBy{"tests/common/text/pattern_test.cc", "AMatchThatBacktracksWithoutBoundIsAnError"}},
    {"requests in work when the server stops",
     HeldBy{kHttpServerTest, "ShutdownDoesNotWaitForARequestInWork"}},
};

// ---------------------------------------------------------------------------------------------

const std::map<std::string, const Cases*> kPorts = {
    {"HTTP", &kHttpCases},
    {"Metrics and status", &kMetricsCases},
    {"Connections and streams", &kConnectionCases},
    {"Logs", &kLogCases},
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
  EXPECT_FALSE(row.error.empty()) << "the error begins with what the peer sees, in backticks";
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
      nlohmann::json::parse(target.verifier.process->AwaitLine("serving"));
  target.http_port = std::stoi(serving.at("http_port").get<std::string>());

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

  // Whatever came in, the log is JSON: no line is a library's own or half a peer's name.
  std::istringstream log(target.verifier.process->Log());
  for (std::string line; std::getline(log, line);) {
    EXPECT_TRUE(nlohmann::json::accept(line)) << line;
  }
}

}  // namespace
}  // namespace outrider
