// The HTTP server of a verifier process: connections, load, keys, routes, shutdown and TLS.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/ssl.h>

#include <csignal>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/http_fixture.h"
#include "tests/support/certificates.h"
#include "tests/support/metrics_reader.h"

namespace outrider {
namespace {

using testing::CertificateAuthority;
using testing::EventsOf;
using testing::Fetch;
using ::testing::HasSubstr;
using testing::HttpClient;
using testing::HttpResponse;
using testing::IssuedCertificate;
using ::testing::Not;
using testing::Process;
using testing::ReadMetrics;
using testing::SmallPair;

TEST_F(Http, ClosedConnectionEndsGenerations) {
  Start();
  for (const bool stream : {true, false}) {
    Json body = Story(450);
    body["stream"] = stream;
    body["n"] = 8;
    const double tokens = ReadMetrics(verifier_.metrics_port)["outrider_generation_tokens_total"];
    {
      HttpClient client(port_);
      client.Send("POST", "/v1/completions", body.dump());
      if (stream) {
        EXPECT_THAT(client.ReceiveSome(), HasSubstr("200 OK"));
      }
      AwaitSome("outrider_num_requests_running");
    }
    testing::ExpectNoPageLeaked(verifier_.metrics_port);
    EXPECT_LT(ReadMetrics(verifier_.metrics_port)["outrider_generation_tokens_total"] - tokens,
              8 * 450)
        << "it ran to its end";
  }
}

TEST_F(Http, StalledReadersDelayNoStream) {
  StartWithDrafter();
  Json body = Story(40);
  body["stream"] = true;
  const std::string want = Complete(Story(40))["choices"][0]["text"];
  std::vector<std::unique_ptr<HttpClient>> mute;
  for (int i = 0; i < 8; ++i) {
    Json much = Story(400);
    much["stream"] = true;
    much["n"] = 4;
    much["logprobs"] = 20;
    mute.push_back(std::make_unique<HttpClient>(port_));
    mute.back()->Send("POST", "/v1/completions", much.dump());
  }
  std::vector<HttpResponse> responses(64);
  std::vector<std::thread> threads;
  for (HttpResponse& response : responses) {
    threads.emplace_back([&] { response = Post("/v1/completions", body); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const HttpResponse& response : responses) {
    std::string text;
    for (const std::string& event : EventsOf(response.body)) {
      if (event != "[DONE]") text += Json::parse(event)["choices"][0]["text"].get<std::string>();
    }
    EXPECT_EQ(text, want);
  }
}

TEST_F(Http, FullQueueSendsRetryAfter) {
  Start({"--max-sessions", "1", "--max-waiting", "1"});
  HttpClient running(port_), waiting(port_);
  running.Send("POST", "/v1/completions", Story(900).dump());
  AwaitSome("outrider_num_requests_running");
  waiting.Send("POST", "/v1/completions", Story(900).dump());
  AwaitSome("outrider_num_requests_waiting");
  const HttpResponse refused = Post("/v1/completions", Story(10));
  EXPECT_EQ(refused.code, 429);
  EXPECT_GE(std::stoi(refused.headers.at("retry-after")), 1);
  EXPECT_EQ(Json::parse(refused.body)["error"]["code"], "rate_limit_exceeded");
}

TEST_F(Http, KeysAreThoseOfGrpc) {
  const std::string tokens = dir_ / "tokens";
  std::ofstream(tokens) << "alice tok-a\n";
  Start({"--client-tokens", tokens});
  EXPECT_EQ(Fetch(port_, "GET", "/health").code, 200);
  for (const char* header : {"", "Authorization: Bearer tok-x\r\n", "Authorization: tok-a\r\n"}) {
    const HttpResponse refused = Post("/v1/completions", Story(5), header);
    EXPECT_EQ(refused.code, 401) << header;
    EXPECT_EQ(Json::parse(refused.body)["error"]["code"], "invalid_api_key");
    EXPECT_EQ(Fetch(port_, "GET", "/v1/models", "", header).code, 401);
  }
  const std::string good = "Authorization: Bearer tok-a\r\n";
  EXPECT_EQ(Post("/v1/completions", Story(5), good).code, 200);
  EXPECT_EQ(Fetch(port_, "GET", "/v1/models", "", good).code, 200);
}

TEST_F(Http, RoutesModelsAndMistakes) {
  Start({"--http-model", "org/name"});
  const Json models = Json::parse(Fetch(port_, "GET", "/v1/models").body);
  EXPECT_EQ(models["object"], "list");
  EXPECT_EQ(models["data"][0]["id"], "org/name");
  EXPECT_EQ(Json::parse(Fetch(port_, "GET", "/v1/models/org/name").body), models["data"][0]);
  EXPECT_EQ(Json::parse(Fetch(port_, "GET", "/v1/models/org%2Fname").body), models["data"][0])
      << "as OpenAI's client sends it";
  EXPECT_EQ(Fetch(port_, "GET", "/v1/models/org%2name").code, 404);
  EXPECT_EQ(Fetch(port_, "GET", "/v1/models/target").code, 404);
  EXPECT_EQ(Json::parse(Post("/v1/completions", Story(5)).body)["error"]["code"],
            "model_not_found");
  EXPECT_EQ(Fetch(port_, "GET", "/v1/nothing").code, 404);
  const HttpResponse method = Fetch(port_, "GET", "/v1/completions");
  EXPECT_EQ(method.code, 405);
  EXPECT_EQ(method.headers.at("allow"), "POST");
  HttpClient form(port_);
  form.SendRaw(
      "POST /v1/completions HTTP/1.1\r\nContent-Type: text/plain\r\n"
      "Content-Length: 2\r\n\r\n{}");
  EXPECT_EQ(form.Receive().value().code, 415);
  EXPECT_EQ(Fetch(port_, "POST", "/v1/completions", "{").code, 400);
  const HttpResponse named = Post("/v1/completions", {{"prompt", "a"}, {"top_p", 3}});
  EXPECT_EQ(named.code, 400);
  EXPECT_EQ(Json::parse(named.body)["error"]["param"], "top_p");
  const HttpResponse unknown = Post("/v1/completions", {{"prompt", "a"}, {"frobnicate", 1}});
  EXPECT_EQ(unknown.code, 400);
  EXPECT_EQ(Json::parse(unknown.body)["error"]["param"], "frobnicate");
  HttpClient large(port_);
  large.SendRaw(
      "POST /v1/completions HTTP/1.1\r\nContent-Type: application/json\r\n"
      "Content-Length: 99999999\r\n\r\n");
  EXPECT_EQ(large.Receive().value().code, 413);
  HttpClient garbage(port_);
  garbage.SendRaw("\x16\x03\x01 hello\r\n\r\n");
  EXPECT_EQ(garbage.Receive().value().code, 400);
  EXPECT_EQ(Complete({{"prompt", "a"}})["model"], "org/name");
  const std::string counted = Fetch(verifier_.metrics_port, "GET", "/metrics").body;
  EXPECT_THAT(counted, HasSubstr("route=\"completions\""));
  for (const char* code : {"200", "400", "404", "405", "415"}) {
    EXPECT_THAT(counted, HasSubstr("code=\"" + std::string(code) + "\""));
  }
}

TEST_F(Http, ServesMetricsVersionAndTokens) {
  std::ofstream(dir_ / "tokens") << "alice tok-a\n";
  Start({"--client-tokens", dir_ / "tokens", "--http-cors", "https://a.example"});
  const std::string bearer = "Authorization: Bearer tok-a\r\n";
  const auto get = [&](const std::string& path) { return Fetch(port_, "GET", path, "", bearer); };
  EXPECT_EQ(Fetch(port_, "GET", "/ping").code, 200) << "needs no token";
  for (const char* path : {"/metrics", "/version", "/openapi.json"}) {
    EXPECT_EQ(Fetch(port_, "GET", path).code, 401) << path;
    EXPECT_EQ(get(path).code, 200) << path;
  }
  EXPECT_THAT(get("/metrics").body, HasSubstr("outrider_http_requests_total{"));
  EXPECT_EQ(get("/metrics").headers.at("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_FALSE(Json::parse(get("/version").body)["version"].get<std::string>().empty());
  EXPECT_TRUE(Json::parse(get("/openapi.json").body)["paths"].contains("/tokenize"));

  const HttpResponse tokens =
      Post("/tokenize", {{"prompt", "Once<|endoftext|>"}, {"model", "target"}}, bearer);
  ASSERT_EQ(tokens.code, 200) << tokens.body;
  const Json ids = Json::parse(tokens.body)["tokens"];
  EXPECT_EQ(ids.front(), 4095);
  EXPECT_EQ(ids.back(), 4095);
  const HttpResponse text = Post("/detokenize", {{"tokens", ids}}, bearer);
  EXPECT_EQ(Json::parse(text.body)["prompt"], "<|endoftext|>Once<|endoftext|>");
  EXPECT_EQ(text.headers.at("access-control-allow-origin"), "https://a.example");

  const HttpResponse lost = get("/v1/embeddings");
  EXPECT_EQ(lost.code, 404);
  EXPECT_THAT(lost.body,
              HasSubstr("there is no endpoint /v1/embeddings; this server has POST /v1/comp"));
  const HttpResponse preflight = Fetch(port_, "OPTIONS", "/v1/completions");
  EXPECT_EQ(preflight.code, 200) << "a browser sends no token with it";
  EXPECT_EQ(preflight.headers.at("access-control-allow-methods"), "POST");
}

TEST_F(Http, MetricsRouteCanBeSwitchedOff) {
  Start({"--http-metrics", "false"});
  EXPECT_EQ(Fetch(port_, "GET", "/metrics").code, 404);
  const HttpResponse plain = Fetch(port_, "GET", "/health");
  EXPECT_EQ(plain.code, 200);
  EXPECT_FALSE(plain.headers.contains("access-control-allow-origin"));
}

TEST_F(Http, NamesFieldOfAmbiguousGrammar) {
  Start();
  const Json body = {{"prompt", "a"},
                     {"max_tokens", 60},
                     {"temperature", 1},
                     {"seed", 0},
                     {"guided_regex", R"((.|a|b|[a-z]{0,300}|\w*x){0,3000})"}};
  HttpClient client(port_);
  client.Send("POST", "/v1/completions", body.dump());
  const auto answer = client.Receive();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->code, 400);
  const Json error = Json::parse(answer->body)["error"];
  EXPECT_EQ(error["param"], "guided_regex");
  EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("guided_regex: the grammar is too"));
}

TEST_F(Http, SigtermFinishesStreamsAndExitsZero) {
  Start();
  Json body = Story(400);
  body["stream"] = true;
  HttpClient running(port_), idle(port_);
  running.Send("POST", "/v1/completions", body.dump());
  std::string got = running.ReceiveSome();
  idle.Send("GET", "/health");
  ASSERT_EQ(idle.Receive().value().code, 200);
  verifier_.process->Signal(SIGTERM);
  ASSERT_FALSE(verifier_.process->AwaitLine("draining").empty());
  EXPECT_TRUE(idle.AwaitEnd()) << "its client's next request goes elsewhere";
  const HttpResponse health = Fetch(port_, "GET", "/health");
  EXPECT_TRUE(health.code == 503 || health.code == 0) << "0: it has ended already";
  for (std::string more; !(more = running.ReceiveSome()).empty();) got += more;
  EXPECT_THAT(got, HasSubstr("\"finish_reason\":\"length\""));
  EXPECT_THAT(got, HasSubstr("data: [DONE]"));
  EXPECT_EQ(verifier_.process->Wait(), 0) << verifier_.process->Log();
}

// A client that reads slowly gets the rest of its answer, however long ago it was computed.
TEST_F(Http, SigtermWaitsForSlowReaders) {
  Start();
  const Json body = {{"prompt", std::vector<std::vector<int>>(12, std::vector<int>(400, 100))},
                     {"max_tokens", 1},
                     {"prompt_logprobs", 20}};
  HttpClient slow(port_, /*receive_buffer=*/65536);
  slow.Send("POST", "/v1/completions", body.dump());
  ASSERT_FALSE(verifier_.process->AwaitLine("request finished").empty());
  verifier_.process->Signal(SIGTERM);
  ASSERT_FALSE(verifier_.process->AwaitLine("draining").empty());
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  const auto answer = slow.Receive();
  ASSERT_TRUE(answer.has_value());
  EXPECT_GT(answer->body.size(), size_t{5} << 20);
  EXPECT_EQ(Json::parse(answer->body)["choices"].size(), 12u);
  EXPECT_EQ(verifier_.process->Wait(), 0) << verifier_.process->Log();
  EXPECT_THAT(verifier_.process->Log(), HasSubstr("all_requests_finished=true"));
}

TEST_F(Http, DrainTimeoutEndsStreamsWithError) {
  Start({"--drain-timeout", "0"});
  Json body = Story(450);
  body["stream"] = true;
  body["n"] = 8;
  HttpClient client(port_);
  client.Send("POST", "/v1/completions", body.dump());
  std::string got = client.ReceiveSome();
  verifier_.process->Signal(SIGTERM);
  for (std::string more; !(more = client.ReceiveSome()).empty();) got += more;
  EXPECT_THAT(got, HasSubstr("service_unavailable_error"));
  EXPECT_THAT(got, Not(HasSubstr("[DONE]")));
  EXPECT_EQ(verifier_.process->Wait(), 0) << verifier_.process->Log();
}

TEST_F(Http, ServesTlsAndPadding) {
  const CertificateAuthority ca(dir_.path(), "ca");
  const IssuedCertificate own = ca.Issue("verifier");
  Start({"--tls-cert", own.cert, "--tls-key", own.key, "--pad-responses", "512"});
  Json body = Story(10);
  body["stream"] = true;
  std::ofstream(dir_ / "body") << body.dump();
  const auto curl = Process::Start(
      {"/usr/bin/curl", "-sS", "--cacert", ca.cert(), "-H", "Content-Type: application/json", "-d",
       "@" + (dir_ / "body"), "https://127.0.0.1:" + std::to_string(port_) + "/v1/completions"},
      dir_ / "curl.log");
  EXPECT_EQ(curl->Wait(), 0);
  const std::string got = curl->Log();
  EXPECT_THAT(got, HasSubstr("data: [DONE]"));
  EXPECT_EQ(got.size() % 512, 0u);
  EXPECT_NE(Fetch(port_, "GET", "/health").code, 200) << "no plaintext beside it";
}

// Whether TLS itself ends the answer to GET /health, so that a cut can be told from its end.
bool EndsWithCloseNotify(int port) {
  SSL_CTX* const context = SSL_CTX_new(TLS_client_method());
  BIO* const bio = BIO_new_ssl_connect(context);
  BIO_set_conn_hostname(bio, ("127.0.0.1:" + std::to_string(port)).c_str());
  BIO_puts(bio, "GET /health HTTP/1.0\r\n\r\n");
  char bytes[4096];
  while (BIO_read(bio, bytes, sizeof(bytes)) > 0) {
  }
  SSL* ssl = nullptr;
  BIO_get_ssl(bio, &ssl);
  const bool ends = (SSL_get_shutdown(ssl) & SSL_RECEIVED_SHUTDOWN) != 0;
  BIO_free_all(bio);
  SSL_CTX_free(context);
  return ends;
}

TEST_F(Http, TlsAnswersEndWithCloseNotify) {
  const IssuedCertificate own = CertificateAuthority(dir_.path(), "ca").Issue("verifier");
  Start({"--tls-cert", own.cert, "--tls-key", own.key});
  EXPECT_TRUE(EndsWithCloseNotify(port_));
}

TEST_F(Http, RemotePlaintextMustBeRequested) {
  const auto run = Process::Start({testing::ProgramPath("outrider-verifier"), "--model",
                                   SmallPair("target"), "--http", "0.0.0.0:8000"},
                                  dir_ / "run.log");
  EXPECT_EQ(run->Wait(), 2);
  EXPECT_THAT(run->Log(), HasSubstr("--http"));
}

}  // namespace
}  // namespace outrider
