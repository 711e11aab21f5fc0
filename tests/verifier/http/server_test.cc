#include "verifier/http/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "tests/support/allocation_watch.h"
#include "tests/support/http_client.h"
#include "tests/support/time_limit.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;
using testing::HttpClient;
using testing::HttpResponse;

// Answers /echo with the body, keeps the exchange of /hold, rejects /closed by its head, streams at
// /stream until its client disconnects.
class Handler final : public HttpHandler {
 public:
  static constexpr int kParts = 100;
  std::optional<HttpReply> Admit(const HttpRequest& head) override {
    if (head.path == "/closed") return HttpReply{.code = 401, .body = "no"};
    return std::nullopt;
  }
  void Handle(HttpRequest request, std::shared_ptr<HttpExchange> exchange) override {
    ++handled;
    if (request.path == "/parts") return Serve(*exchange);
    if (request.path == "/echo") return exchange->Reply({.body = request.body + "."});
    if (request.path == "/coding") return exchange->Reply({.body = request.content_encoding});
    exchange->OnGone([this] { gone.set_value(); });
    if (request.path == "/stream") {
      exchange->BeginStream({.content_type = "text/plain"});
      Pour(exchange);
    }
    held.set_value(exchange);
  }
  HttpReply Malformed(int code, const std::string& message) override {
    return {.code = code, .body = message};
  }

  // Writes many parts of 64 KiB, much more than may wait for a client, between short ones.
  static void Serve(HttpExchange& exchange) {
    exchange.BeginStream({.content_type = "text/plain"});
    exchange.Write("begin,");
    for (const char letter : {'a', 'b'}) {
      exchange.WriteFrom([letter, left = kParts]() mutable {
        return left-- > 0 ? std::string(65536, letter) : std::string();
      });
      exchange.Write(std::string(1, letter) + ",");
    }
    exchange.Write("end");
    exchange.EndStream();
  }

  // Writes 64 KiB per task, 200 times, until `gone`.
  void Pour(const std::shared_ptr<HttpExchange>& exchange) {
    exchange->Write(std::string(65536, 'x'));
    if (--left > 0) exchange->Post([this, exchange] { Pour(exchange); });
  }

  std::atomic<int> handled = 0;
  std::promise<void> gone;
  std::promise<std::shared_ptr<HttpExchange>> held;
  int left = 200;
};

class HttpServerTest : public ::testing::Test {
 protected:
  ~HttpServerTest() override {
    server_.Shutdown(Duration::zero());
    handler_.held = {};  // no exchange may outlive the server
  }

  void Start(HttpServerOptions options = {}) {
    options.listen = "127.0.0.1:0";
    const Status status = server_.Start(options, &handler_);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  static void AwaitBodyBytes(const HttpServer& server, size_t bytes) {
    EXPECT_TRUE(testing::Await([&] { return server.body_bytes() == bytes; })) << bytes;
  }
  void AwaitAnswers(int answers) const {
    const auto until = std::chrono::steady_clock::now() + testing::kTimeLimit;
    while (server_.answers() != answers && std::chrono::steady_clock::now() < until) {
      std::this_thread::yield();
    }
    EXPECT_EQ(server_.answers(), answers);
  }
  static bool AwaitEvent(std::future<void> event) {
    return event.wait_for(testing::kTimeLimit) == std::future_status::ready;
  }

  Handler handler_;
  HttpServer server_;
};

TEST_F(HttpServerTest, AnswersPipelinedRequests) {
  Start();
  HttpClient client(server_.port());
  for (int i = 0; i < 3; ++i) {
    client.Send("POST", "/echo", "a" + std::to_string(i));
    EXPECT_EQ(client.Receive().value().body, "a" + std::to_string(i) + ".");
  }
  for (int i = 0; i < 3; ++i) client.Send("POST", "/echo", "b" + std::to_string(i));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(client.Receive().value().body, "b" + std::to_string(i) + ".");
  }
}

TEST_F(HttpServerTest, EveryAnswerNamesItsRequest) {
  Start({.max_header_bytes = 1000, .max_body_bytes = 100, .bodies = {1 << 20, 10}});
  const std::string length = "Content-Length: ";
  std::set<std::string> ids;
  const auto receive = [&](const std::string& bytes, int code) {
    HttpClient client(server_.port());
    client.SendRaw(bytes);
    HttpResponse response = client.Receive().value_or(HttpResponse{});
    EXPECT_EQ(response.code, code) << bytes;
    return response.headers["x-request-id"];
  };
  const std::string mine = "X-Request-ID: mine\r\n", rest = " HTTP/1.1\r\n";
  for (const auto& [bytes, code] :
       {std::pair("GET /echo" + rest, 200), std::pair("GET /parts" + rest, 200),
        std::pair("GET /closed" + rest, 401),
        std::pair("POST /echo" + rest + length + "101\r\n", 413),
        std::pair("POST /echo" + rest + "Transfer-Encoding: gzip\r\n", 400)}) {
    EXPECT_EQ(receive(bytes + mine + "\r\n", code), "mine") << bytes;
    ids.insert(receive(bytes + "\r\n", code));
  }
  EXPECT_EQ(
      receive("POST /echo" + rest + length + "20\r\n" + mine + "\r\n" + std::string(20, 'x'), 429),
      "mine");
  ids.insert(receive("nonsense\r\n\r\n", 400));
  ids.insert(receive("GET /" + rest + "A: " + std::string(2000, 'a') + "\r\n\r\n", 431));
  EXPECT_EQ(ids.size(), 7u) << "all differ";
  EXPECT_FALSE(ids.contains(""));
}

// Proxies send whole URIs.
TEST_F(HttpServerTest, FindsPathOfWholeUri) {
  Start();
  HttpClient client(server_.port());
  for (const char* target : {"/echo?a=http://x/y", "http://host:80/echo", "HTTPS://[::1]/echo?x"}) {
    client.SendRaw("POST " + std::string(target) + " HTTP/1.1\r\nContent-Length: 1\r\n\r\nx");
    EXPECT_EQ(client.Receive().value_or(HttpResponse{}).body, "x.") << target;
  }
}

TEST_F(HttpServerTest, TellsContentEncoding) {
  Start();
  HttpClient client(server_.port());
  const auto coding = [&](const std::string& headers) {
    client.Send("POST", "/coding", "x", headers);
    return client.Receive().value_or(HttpResponse{.body = "none"}).body;
  };
  EXPECT_EQ(coding(""), "");
  EXPECT_EQ(coding("Content-Encoding: Identity\r\n"), "");
  EXPECT_EQ(coding("Content-Encoding: identity\r\ncontent-encoding: gzip\r\n"), "gzip");
}

// Parts of a source are generated as the client reads, so they never wait in memory.
TEST_F(HttpServerTest, GeneratesAnswerPartsOnDemand) {
  Start({.max_waiting_bytes = 100 << 10});
  std::string expected = "begin,";
  for (const char letter : {'a', 'b'}) {
    expected += std::string(size_t{65536} * Handler::kParts, letter) + letter + ",";
  }
  expected += "end";
  HttpClient client(server_.port());
  for (int i = 0; i < 2; ++i) {
    client.Send("GET", "/parts");
    EXPECT_TRUE(client.Receive().value().body == expected) << i;
  }
  client.SendRaw("GET /parts HTTP/1.0\r\n\r\n");
  std::string all;
  for (std::string some = client.ReceiveSome(); !some.empty(); some = client.ReceiveSome()) {
    all += some;
  }
  EXPECT_TRUE(all.ends_with(expected));
}

TEST_F(HttpServerTest, TakesChunkedBodiesAndSaysContinue) {
  Start();
  HttpClient client(server_.port());
  client.SendRaw("POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
  EXPECT_EQ(client.Receive().value().body, "abc.");
  client.SendRaw("POST /echo HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(client.Receive().value().code, 100);
  client.SendRaw("hi");
  EXPECT_EQ(client.Receive().value().body, "hi.");
}

TEST_F(HttpServerTest, Http10ClosesConnectionAfterAnswer) {
  Start();
  HttpClient client(server_.port());
  client.SendRaw("POST /echo HTTP/1.0\r\nContent-Length: 1\r\n\r\nx");
  EXPECT_EQ(client.Receive().value().headers["connection"], "close");
  EXPECT_TRUE(client.AwaitEnd());
}

TEST_F(HttpServerTest, RefusesInvalidAndTooLargeRequests) {
  Start({.max_header_bytes = 1000, .max_body_bytes = 100});
  std::string body;
  const auto answer = [&](const std::string& bytes) {
    HttpClient client(server_.port());
    client.SendRaw(bytes);
    const HttpResponse response = client.Receive().value_or(HttpResponse{});
    EXPECT_TRUE(client.AwaitEnd());
    body = response.body;
    return response.code;
  };
  EXPECT_EQ(answer("nonsense\r\n\r\n"), 400);
  EXPECT_EQ(answer("GET / HTTP/1.1\r\nno colon\r\n\r\n"), 400);
  EXPECT_EQ(answer("POST /echo HTTP/1.1\r\nContent-Length: -1\r\n\r\n"), 400);
  // No page needs a body, and some are open to anybody.
  EXPECT_EQ(answer("GET /echo HTTP/1.1\r\nContent-Length: 9\r\n\r\nx"), 400);
  const std::string chunked =
      "GET /echo HTTP/1.1\r\nConnection: close\r\nTransfer-Encoding: chunked";
  for (const std::string chunk : {"9\r\nx", "1\r\nx\r\n0\r\n\r\n"}) {
    EXPECT_EQ(answer(chunked + "\r\n\r\n" + chunk), 400) << chunk;
  }
  EXPECT_EQ(answer(chunked + "\r\n\r\n0\r\n\r\n"), 200) << "as some proxies send it";
  EXPECT_EQ(answer("GET / HTTP/1.1\r\nA: " + std::string(2000, 'a') + "\r\n\r\n"), 431);
  EXPECT_THAT(body, HasSubstr("the head has more than 1000 bytes"));
  EXPECT_EQ(answer("POST /echo HTTP/1.1\r\nContent-Length: 101\r\n\r\n"), 413);
  EXPECT_THAT(body, HasSubstr("the body has more than 100 bytes"));
  const std::string long_chunk = "65\r\n" + std::string(101, 'b') + "\r\n0\r\n\r\n";
  EXPECT_EQ(answer("POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + long_chunk), 413);
}

TEST_F(HttpServerTest, ErrorsAfterHeadHaveBodies) {
  Start();
  HttpClient client(server_.port());
  client.SendRaw("HEAD /echo HTTP/1.1\r\n\r\nnonsense\r\n\r\n");
  std::string bytes;
  for (std::string more = client.ReceiveSome(); !more.empty(); more = client.ReceiveSome()) {
    bytes += more;
  }
  EXPECT_THAT(bytes, HasSubstr("HTTP/1.1 200"));
  EXPECT_THAT(bytes, HasSubstr("HTTP/1.1 400"));
  EXPECT_NE(bytes.substr(bytes.rfind("\r\n\r\n") + 4), "");
}

// If the end of a body is ambiguous, one side of a proxy takes part of it for the next request.
TEST_F(HttpServerTest, RefusesTransferEncodingsExceptChunked) {
  Start();
  for (const std::string head :
       {"HTTP/1.1\r\nTransfer-Encoding: gzip", "HTTP/1.1\r\nTransfer-Encoding: gzip, chunked",
        "HTTP/1.1\r\nTransfer-Encoding: chunked, gzip", "HTTP/1.1\r\nTransfer-Encoding: identity",
        "HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: gzip",
        "HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 3",
        "HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked",
        "HTTP/1.0\r\nTransfer-Encoding: chunked"}) {
    HttpClient client(server_.port());
    client.SendRaw("POST /echo " + head + "\r\n\r\nGET /echo HTTP/1.1\r\n\r\n");
    EXPECT_EQ(client.Receive().value_or(HttpResponse{}).code, 400) << head;
    EXPECT_TRUE(client.AwaitEnd()) << head;
  }
  EXPECT_EQ(handler_.handled, 0) << "a body was read as a request";
}

// One extension that never ends, and many short ones.
TEST_F(HttpServerTest, ChunkExtensionsHaveALimit) {
  Start();
  std::string many;
  for (int i = 0; i < 100; ++i) many += "1;" + std::string(1000, 'x') + "\r\na\r\n";
  for (const std::string& body : {"1;" + std::string(4 << 20, 'x'), many}) {
    HttpClient client(server_.port());
    client.SendRaw("POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + body);
    EXPECT_EQ(client.Receive().value_or(HttpResponse{}).code, 400);
    EXPECT_TRUE(client.AwaitEnd());
  }
}

TEST_F(HttpServerTest, UnfinishedBodiesHaveLimits) {
  const std::string head = "POST /echo HTTP/1.1\r\nContent-Length: 60000\r\n\r\n";
  const std::string part(40000, 'x'), rest(20000, 'x');
  for (const auto& [bodies, code] : {std::pair(BodyBudget::Limits{1 << 20, 70000}, 429),
                                     std::pair(BodyBudget::Limits{70000, 1 << 20}, 503)}) {
    HttpServer server;
    ASSERT_TRUE(server.Start({.listen = "127.0.0.1:0", .bodies = bodies}, &handler_).ok());
    HttpClient first(server.port()), second(server.port());
    first.SendRaw(head + part);
    AwaitBodyBytes(server, part.size());
    second.SendRaw(head + part);
    const HttpResponse refused = second.Receive().value_or(HttpResponse{});
    EXPECT_EQ(refused.code, code);
    EXPECT_EQ(refused.headers.at("retry-after"), "1");
    EXPECT_TRUE(second.AwaitEnd());
    first.SendRaw(rest);
    EXPECT_EQ(first.Receive().value_or(HttpResponse{}).code, 200);
    AwaitBodyBytes(server, 0);
  }
}

TEST_F(HttpServerTest, BodiesTakeNoMemoryInAdvance) {
  Start();
  constexpr int kAnnounced = 8 << 20;
  const testing::AllocationWatch watch;
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(std::make_unique<HttpClient>(server_.port()));
    clients.back()->SendRaw("POST /echo HTTP/1.1\r\nContent-Length: " + std::to_string(kAnnounced) +
                            "\r\n\r\nx");
  }
  AwaitBodyBytes(server_, clients.size());
  EXPECT_LT(watch.peak(), kAnnounced) << "of eight times as much";
}

TEST_F(HttpServerTest, RefusalByHeadReachesSendingClient) {
  Start();
  HttpClient client(server_.port());
  client.SendRaw("POST /closed HTTP/1.1\r\nContent-Length: 4000000\r\n\r\n" +
                 std::string(1000000, 'x'));
  EXPECT_EQ(client.Receive().value().code, 401);
}

TEST_F(HttpServerTest, CutsOffSlowHeadsAndBodies) {
  Start({.head_timeout = std::chrono::milliseconds(100),
         .body_timeout = std::chrono::milliseconds(100)});
  for (const char* start :
       {"", "GET /echo HT", "POST /echo HTTP/1.1\r\nContent-Length: 9\r\n\r\nx"}) {
    HttpClient client(server_.port());
    client.SendRaw(start);
    EXPECT_TRUE(client.AwaitEnd()) << start;
  }
}

TEST_F(HttpServerTest, ReportsEarlyDisconnect) {
  Start();
  {
    HttpClient client(server_.port());
    client.Send("POST", "/hold", "x");
    handler_.held.get_future().wait();
  }
  EXPECT_TRUE(AwaitEvent(handler_.gone.get_future()));
}

TEST_F(HttpServerTest, PipelinedBytesHideNoDisconnect) {
  Start();
  {
    HttpClient client(server_.port());
    client.SendRaw("POST /hold HTTP/1.1\r\nContent-Length: 1\r\n\r\nxGET /ec");
    handler_.held.get_future().wait();
  }
  EXPECT_TRUE(AwaitEvent(handler_.gone.get_future()));
}

TEST_F(HttpServerTest, DisconnectsClientSendingTooFarAhead) {
  Start();
  HttpClient client(server_.port());
  client.SendRaw("POST /hold HTTP/1.1\r\nContent-Length: 1\r\n\r\nx");
  handler_.held.get_future().wait();
  client.SendRaw(std::string(1 << 20, 'x'));
  EXPECT_TRUE(AwaitEvent(handler_.gone.get_future()));
}

TEST_F(HttpServerTest, DisconnectsAReaderThatLags) {
  Start({.max_waiting_bytes = 1 << 20});
  HttpClient client(server_.port());
  client.Send("GET", "/stream");
  EXPECT_TRUE(AwaitEvent(handler_.gone.get_future()));
}

TEST_F(HttpServerTest, DisconnectsStalledReader) {
  Start({.max_waiting_bytes = 1 << 30, .write_timeout = std::chrono::milliseconds(200)});
  HttpClient client(server_.port());
  client.Send("GET", "/stream");
  EXPECT_TRUE(AwaitEvent(handler_.gone.get_future()));
}

TEST_F(HttpServerTest, IdleConnectionsMakeRoomAtLimit) {
  Start({.max_connections = 2});
  HttpClient silent(server_.port()), half(server_.port());
  half.SendRaw("POST /echo HTTP/1.1\r\nX-A: ");
  HttpClient third(server_.port());
  third.Send("POST", "/echo", "c");
  EXPECT_EQ(third.Receive().value_or(HttpResponse{}).code, 200);
  HttpClient fourth(server_.port());
  fourth.Send("POST", "/echo", "d");
  EXPECT_EQ(fourth.Receive().value_or(HttpResponse{}).code, 200);
  EXPECT_TRUE(silent.AwaitEnd());
  EXPECT_TRUE(half.AwaitEnd());
}

// One address could otherwise keep all others out, with requests that need no token.
TEST_F(HttpServerTest, StuckReadersMakeRoomAtLimit) {
  Start({.max_connections = 2, .write_timeout = std::chrono::hours(1)});
  HttpClient parts(server_.port(), /*receive_buffer=*/65536);
  HttpClient also_parts(server_.port(), /*receive_buffer=*/65536);
  for (HttpClient* client : {&parts, &also_parts}) {
    client->Send("GET", "/parts");
    client->Send("GET", "/closed");
  }
  AwaitAnswers(2);
  const auto is_answered = [&] {
    return testing::Fetch(server_.port(), "POST", "/echo", "c").code == 200;
  };
  EXPECT_TRUE(testing::Await(is_answered)) << "once they have not read for a second";
}

TEST_F(HttpServerTest, ConnectionLimitCutsNoAnswer) {
  Start({.max_connections = 1});
  HttpClient busy(server_.port());
  busy.Send("POST", "/hold", "x");
  const std::shared_ptr<HttpExchange> exchange = handler_.held.get_future().get();
  EXPECT_TRUE(HttpClient(server_.port()).AwaitEnd());
  exchange->Post([exchange] { exchange->Reply({.body = "done"}); });
  EXPECT_EQ(busy.Receive().value_or(HttpResponse{}).body, "done");
}

TEST_F(HttpServerTest, ShutdownFinishesAnswers) {
  Start();
  HttpClient idle(server_.port()), busy(server_.port());
  idle.Send("POST", "/echo", "x");
  ASSERT_TRUE(idle.Receive().has_value());
  busy.Send("POST", "/hold", "x");
  const std::shared_ptr<HttpExchange> exchange = handler_.held.get_future().get();
  std::thread stopper([&] { server_.Shutdown(testing::kTimeLimit); });
  EXPECT_TRUE(idle.AwaitEnd());
  exchange->Post([exchange] { exchange->Reply({.body = "late"}); });
  EXPECT_EQ(busy.Receive().value().body, "late");
  EXPECT_TRUE(busy.AwaitEnd());
  stopper.join();
}

TEST_F(HttpServerTest, DrainEndsConnectionsBetweenRequests) {
  Start();
  HttpClient idle(server_.port()), half(server_.port()), busy(server_.port());
  idle.Send("POST", "/echo", "x");
  EXPECT_EQ(idle.Receive().value().headers.at("connection"), "keep-alive");
  busy.Send("POST", "/hold", "x");
  const std::shared_ptr<HttpExchange> exchange = handler_.held.get_future().get();
  AwaitBodyBytes(server_, 0);  // of the busy one
  half.SendRaw("POST /echo HTTP/1.1\r\nContent-Length: 2\r\n\r\na");
  AwaitBodyBytes(server_, 1);
  server_.Drain();
  EXPECT_TRUE(idle.AwaitEnd());
  half.SendRaw("b");
  exchange->Post([exchange] { exchange->Reply({.body = "late"}); });
  HttpClient fresh(server_.port());
  fresh.Send("POST", "/echo", "c");
  for (const auto& [client, body] : {std::pair{&half, "ab."}, {&busy, "late"}, {&fresh, "c."}}) {
    std::optional<HttpResponse> answer = client->Receive();
    ASSERT_TRUE(answer.has_value()) << body;
    EXPECT_EQ(answer->body, body);
    EXPECT_EQ(answer->headers["connection"], "close");
    EXPECT_TRUE(client->AwaitEnd());
  }
}

TEST_F(HttpServerTest, CountsAnswersToTheirLastByte) {
  Start();
  constexpr size_t kBytes = 16 << 20;
  HttpClient idle(server_.port()), busy(server_.port(), /*receive_buffer=*/65536);
  idle.Send("POST", "/echo", "x");
  ASSERT_TRUE(idle.Receive().has_value());
  AwaitAnswers(0);
  busy.Send("POST", "/hold", "x");
  const std::shared_ptr<HttpExchange> exchange = handler_.held.get_future().get();
  EXPECT_EQ(server_.answers(), 1);
  exchange->Post([exchange] { exchange->Reply({.body = std::string(kBytes, 'x')}); });
  size_t received = busy.ReceiveSome().size();
  ASSERT_GT(received, 0u);
  EXPECT_EQ(server_.answers(), 1) << "most of it is not read";
  idle.Send("POST", "/closed", "x");
  EXPECT_EQ(idle.Receive().value().code, 401);
  while (received < kBytes) {
    const size_t more = busy.ReceiveSome().size();
    ASSERT_GT(more, 0u);
    received += more;
  }
  AwaitAnswers(0);
  {
    HttpClient gone(server_.port());
    handler_.held = {};
    gone.Send("POST", "/hold", "x");
    handler_.held.get_future().wait();
    EXPECT_EQ(server_.answers(), 1);
  }
  AwaitAnswers(0);
}

TEST_F(HttpServerTest, ShutdownClosesWhatDoesNotEnd) {
  Start();
  HttpClient client(server_.port());
  client.Send("POST", "/hold", "x");
  handler_.held.get_future().wait();
  server_.Shutdown(std::chrono::milliseconds(50));
  EXPECT_TRUE(client.AwaitEnd());
}

TEST_F(HttpServerTest, RefusesTakenOrMalformedAddress) {
  Start();
  for (const std::string& listen :
       {"127.0.0.1:" + std::to_string(server_.port()), std::string("nowhere"), std::string(":"),
        std::string("127.0.0.1:x")}) {
    HttpServer second;
    const Status status = second.Start({.listen = listen}, &handler_);
    EXPECT_EQ(status.code(), Code::kUnavailable);
    EXPECT_THAT(status.message(), HasSubstr("--http"));
  }
}

}  // namespace
}  // namespace outrider
