// The HTTP front of a verifier process with a drafter process, on the default pair.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/certificates.h"
#include "tests/support/http_client.h"
#include "tests/support/metrics_reader.h"
#include "tests/support/services.h"

namespace outrider {
namespace {

using Json = nlohmann::json;
using ::testing::AllOf;
using testing::CertificateAuthority;
using testing::EventsOf;
using testing::Fetch;
using ::testing::HasSubstr;
using testing::HttpClient;
using testing::HttpResponse;
using testing::IssuedCertificate;
using testing::Process;
using testing::ReadMetrics;
using testing::SmallPair;
using testing::StartDrafter;
using testing::StartVerifier;
using testing::TempDir;
using testing::TestClient;
using testing::VerifierProcess;

constexpr char kPrompt[] = "Once upon a time, there was a little";

class Http : public ::testing::Test {
 protected:
  void Start(std::vector<std::string> flags = {}) {
    flags.insert(flags.end(), {"--http", "127.0.0.1:0", "--min-draft-wait", "30"});
    verifier_ = StartVerifier(SmallPair("target"), dir_ / "verifier.log", flags);
    ASSERT_NE(verifier_.port, 0);
    const std::string line = verifier_.process->AwaitLine("http_port=");
    port_ = std::stoi(line.substr(line.find("http_port=") + 10));
    ASSERT_NE(port_, 0);
  }
  void StartWithDrafter(const std::vector<std::string>& flags = {}) {
    Start(flags);
    drafter_ = StartDrafter(SmallPair("drafter"), verifier_.address(), dir_ / "drafter.log");
    client_ = std::make_unique<TestClient>(verifier_.address());
    ASSERT_TRUE(client_->AwaitDrafters(1)) << drafter_->Log();
  }

  static Json Story(int max_tokens) {
    return {{"model", "target"},
            {"prompt", kPrompt},
            {"max_tokens", max_tokens},
            {"temperature", 0},
            {"ignore_eos", true}};
  }
  HttpResponse Post(const std::string& path, const Json& body, const std::string& headers = "") {
    return Fetch(port_, "POST", path, body.dump(), headers);
  }
  Json Complete(const Json& body) {
    const HttpResponse response = Post("/v1/completions", body);
    EXPECT_EQ(response.code, 200) << response.body;
    return Json::parse(response.body, nullptr, false);
  }

  TempDir dir_;
  VerifierProcess verifier_;
  int port_ = 0;
  std::unique_ptr<Process> drafter_;
  std::unique_ptr<TestClient> client_;
};

TEST_F(Http, StreamedWholeAndGrpcTextsAreOneAndDraftsCount) {
  StartWithDrafter();
  Json body = Story(100);
  const Json whole = Complete(body);
  const Json& choice = whole["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_EQ(whole["usage"]["completion_tokens"], 100);
  EXPECT_GT(whole["usage"]["completion_tokens_details"]["accepted_prediction_tokens"], 0);
  EXPECT_EQ(choice["speculation"]["accepted"],
            whole["usage"]["completion_tokens_details"]["accepted_prediction_tokens"]);
  EXPECT_FALSE(choice["speculation"]["drafter"].is_null());

  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  const HttpResponse streamed = Post("/v1/completions", body);
  EXPECT_EQ(streamed.headers.at("content-type"), "text/event-stream");
  const std::vector<std::string> events = EventsOf(streamed.body);
  ASSERT_GT(events.size(), 3u);
  EXPECT_EQ(events.back(), "[DONE]");
  EXPECT_EQ(Json::parse(events[events.size() - 2])["usage"]["completion_tokens"], 100);
  std::string text, reason;
  for (size_t i = 0; i + 2 < events.size(); ++i) {
    const Json one = Json::parse(events[i])["choices"][0];
    text += one["text"].get<std::string>();
    if (!one["finish_reason"].is_null()) reason = one["finish_reason"];
  }
  EXPECT_EQ(text, choice["text"]);
  EXPECT_EQ(reason, "length");

  v1::GenerateRequest request;
  request.set_text(kPrompt);
  request.mutable_sampling()->set_temperature(0);
  request.mutable_stop()->set_max_tokens(100);
  request.mutable_stop()->set_ignore_eos(true);
  request.set_logprobs(2);
  const TestClient::Outcome outcome = client_->Generate(request);
  EXPECT_EQ(outcome.text, text);

  // The log probabilities are the same in both APIs, and the greedy token is the most likely.
  body = Story(100);
  body["logprobs"] = 2;
  const Json logprobs = Complete(body)["choices"][0]["logprobs"];
  ASSERT_EQ(logprobs["tokens"].size(), 100u);
  for (size_t i = 0; i < 100; ++i) {
    const double logprob = logprobs["token_logprobs"][i];
    EXPECT_LE(logprob, 0);
    double largest = -1e9;
    for (const auto& [token, other] : logprobs["top_logprobs"][i].items()) {
      largest = std::max(largest, other.get<double>());
    }
    EXPECT_EQ(logprob, largest);
  }
}

TEST_F(Http, LogprobsOverGrpcComeWithEveryToken) {
  StartWithDrafter();
  v1::GenerateRequest request;
  request.set_text(kPrompt);
  request.mutable_stop()->set_max_tokens(40);
  request.mutable_stop()->set_ignore_eos(true);
  request.set_logprobs(3);
  grpc::ClientContext context;
  const auto reader = client_->stub().Generate(&context, request);
  v1::GenerateResponse response;
  int tokens = 0;
  while (reader->Read(&response)) {
    ASSERT_EQ(response.chunk().logprobs_size(), response.chunk().token_ids_size());
    for (const v1::TokenLogprobs& token : response.chunk().logprobs()) {
      ++tokens;
      ASSERT_EQ(token.top_logprobs_size(), 3);
      EXPECT_EQ(token.top_token_ids_size(), 3);
      EXPECT_GE(token.top_logprobs(0), token.logprob());
    }
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(tokens, 40);
}

TEST_F(Http, ChatsAreAnsweredWholeAndStreamed) {
  Start();
  Json body = {{"messages", {{{"role", "user"}, {"content", "Tell me a story"}}}},
               {"temperature", 0},
               {"max_tokens", 20}};
  const HttpResponse whole = Post("/v1/chat/completions", body, "x-request-id: mine\r\n");
  ASSERT_EQ(whole.code, 200) << whole.body;
  EXPECT_EQ(whole.headers.at("x-request-id"), "mine");
  const Json message = Json::parse(whole.body)["choices"][0]["message"];
  EXPECT_EQ(message["role"], "assistant");
  body["stream"] = true;
  std::string text;
  for (const std::string& event : EventsOf(Post("/v1/chat/completions", body).body)) {
    if (event == "[DONE]") continue;
    text += Json::parse(event)["choices"][0]["delta"].value("content", "");
  }
  EXPECT_EQ(text, message["content"]);
}

TEST_F(Http, StopStringsEndTheTextBeforeThem) {
  Start();
  Json body = Story(200);
  body["stop"] = {"girl", "zzz"};
  const Json choice = Complete(body)["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_THAT(choice["text"].get<std::string>(), Not(HasSubstr("girl")));

  body["min_tokens"] = 60;
  const Json longer = Complete(body);
  EXPECT_GE(longer["usage"]["completion_tokens"], 60);
  EXPECT_THAT(longer["choices"][0]["text"].get<std::string>(), HasSubstr("girl"));
  TestClient client(verifier_.address());
  v1::GenerateRequest request;
  request.set_text(kPrompt);
  request.mutable_sampling()->set_temperature(0);
  request.mutable_stop()->set_max_tokens(200);
  request.mutable_stop()->set_min_tokens(60);
  request.mutable_stop()->set_ignore_eos(true);
  for (const char* stop : {"girl", "zzz"}) request.mutable_stop()->add_stop_strings(stop);
  EXPECT_EQ(client.Generate(request).text, longer["choices"][0]["text"].get<std::string>());
}

TEST_F(Http, ChoicesAreManyRepeatableAndShareTheirPrompt) {
  Start();
  Json body = Story(30);
  body["prompt"] = {std::string(kPrompt) + " girl named Lily. She loved to play outside in the sun",
                    "The dog"};
  body["temperature"] = 1;
  body["seed"] = 5;
  body["n"] = 3;
  const Json first = Complete(body);
  ASSERT_EQ(first["choices"].size(), 6u);
  std::set<std::string> texts;
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(first["choices"][i]["index"], i);
    texts.insert(first["choices"][i]["text"]);
  }
  EXPECT_EQ(texts.size(), 6u);
  EXPECT_GE(ReadMetrics(verifier_.metrics_port)["outrider_prefix_cache_hits_total"], 32)
      << "two more choices of a prompt of 16 tokens at least";
  const Json second = Complete(body);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(first["choices"][i]["text"], second["choices"][i]["text"]);
  }
  body["n"] = 1;
  EXPECT_EQ(Complete(body)["choices"][0]["text"], first["choices"][0]["text"]);
}

TEST_F(Http, AClosedConnectionEndsItsGenerations) {
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
      while (ReadMetrics(verifier_.metrics_port)["outrider_num_requests_running"] == 0) {
      }
    }
    testing::ExpectNoPageLeaked(verifier_.metrics_port);
    EXPECT_LT(ReadMetrics(verifier_.metrics_port)["outrider_generation_tokens_total"] - tokens,
              8 * 450)
        << "it ran to its end";
  }
}

TEST_F(Http, SixtyFourStreamsAtOnceWhileSomeReadNothing) {
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

TEST_F(Http, AFullQueueSaysWhenToComeBack) {
  Start({"--max-sessions", "1", "--max-waiting", "1"});
  HttpClient running(port_), waiting(port_);
  running.Send("POST", "/v1/completions", Story(450).dump());
  const auto await = [&](const char* metric) {
    while (ReadMetrics(verifier_.metrics_port)[metric] == 0) {
    }
  };
  await("outrider_num_requests_running");
  waiting.Send("POST", "/v1/completions", Story(450).dump());
  await("outrider_num_requests_waiting");
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

// <|endoftext|> is the model's BOS token.
TEST_F(Http, PromptsTextIsParsedAsTheRequestSays) {
  Start();
  const auto tokens = [&](const std::string& prompt, const Json& fields) {
    Json body = {{"prompt", prompt}, {"max_tokens", 1}, {"temperature", 0}};
    body.update(fields);
    return Complete(body)["usage"]["prompt_tokens"].get<int>();
  };
  EXPECT_EQ(tokens("", Json::object()), 1);
  EXPECT_EQ(tokens("<|endoftext|>", Json::object()), 2);
  EXPECT_EQ(tokens("<|endoftext|>", {{"add_special_tokens", false}}), 1);
  EXPECT_GT(tokens("<|endoftext|>", {{"parse_special", false}}), 2);
  const HttpResponse empty =
      Post("/v1/completions", {{"prompt", ""}, {"add_special_tokens", false}});
  EXPECT_EQ(empty.code, 400);
  EXPECT_EQ(Json::parse(empty.body)["error"]["param"], "prompt");
}

TEST_F(Http, MasksHoldWithAndWithoutDraftsInTheSameText) {
  StartWithDrafter({"--policy", "fixed"});  // which drafts
  Json body = Story(60);
  const std::string free = Complete(body)["choices"][0]["text"];
  ASSERT_THAT(free, AllOf(HasSubstr(" to "), HasSubstr(" her ")));
  body["bad_words"] = {"to", "her"};  // each is a token, and another one after a space
  const Json drafted = Complete(body);
  const std::string text = drafted["choices"][0]["text"];
  EXPECT_THAT(text, Not(HasSubstr(" to ")));
  EXPECT_THAT(text, Not(HasSubstr(" her ")));
  EXPECT_GT(drafted["choices"][0]["speculation"]["accepted"], 0);
  body["speculation"] = {{"mode", "off"}};
  EXPECT_EQ(Complete(body)["choices"][0]["text"], text);

  Json few = Story(20);
  few["allowed_token_ids"] = Json::array({40, 41, 42});
  few["logprobs"] = 0;
  const Json letters = Complete(few);
  std::set<std::string> tokens;
  for (const Json& token : letters["choices"][0]["logprobs"]["tokens"]) tokens.insert(token);
  EXPECT_LE(tokens.size(), 3u);
  few["speculation"] = {{"mode", "off"}};
  EXPECT_EQ(Complete(few)["choices"][0]["text"], letters["choices"][0]["text"]);
}

// As lm-eval's loglikelihood requests use it: the log probabilities from greedy decoding equal
// those in an echo of the same tokens.
TEST_F(Http, EchoScoresATextAsDecodingDid) {
  StartWithDrafter();
  v1::GenerateRequest request;
  const std::vector<uint32_t> prompt = {4095, 310, 320, 330, 340, 350};
  request.mutable_token_ids()->mutable_ids()->Assign(prompt.begin(), prompt.end());
  request.mutable_sampling()->set_temperature(0);
  request.mutable_stop()->set_max_tokens(24);
  request.mutable_stop()->set_ignore_eos(true);
  request.set_logprobs(0);
  request.set_prompt_logprobs(0);
  std::vector<double> expected;
  std::vector<uint32_t> whole = prompt;
  grpc::ClientContext context;
  const auto reader = client_->stub().Generate(&context, request);
  for (v1::GenerateResponse response; reader->Read(&response);) {
    const v1::TokenChunk& chunk = response.chunk();
    for (const v1::TokenLogprobs& token : chunk.prompt_logprobs()) {
      expected.push_back(token.logprob());
    }
    for (const v1::TokenLogprobs& token : chunk.logprobs()) expected.push_back(token.logprob());
    whole.insert(whole.end(), chunk.token_ids().begin(), chunk.token_ids().end());
  }
  ASSERT_TRUE(reader->Finish().ok());
  ASSERT_EQ(whole.size(), prompt.size() + 24);
  ASSERT_EQ(expected.size(), whole.size() - 1);
  const Json score = {{"model", "target"}, {"prompt", whole}, {"max_tokens", 1},
                      {"logprobs", 1},     {"echo", true},    {"seed", 1234}};
  Json answers = Json::array();
  answers.push_back(Complete(score)["choices"][0]);
  answers.push_back(Complete(score)["choices"][0]);  // the prefix cache could serve it now
  Json batch = score;
  batch["prompt"] = Json::array({whole, prompt, whole});
  for (const int index : {0, 2}) answers.push_back(Complete(batch)["choices"][index]);
  for (const Json& answer : answers) {
    const Json& logprobs = answer["logprobs"]["token_logprobs"];
    ASSERT_EQ(logprobs.size(), whole.size() + 1);
    EXPECT_TRUE(logprobs[0].is_null());
    for (size_t at = 1; at < whole.size(); ++at) {
      EXPECT_NEAR(logprobs[at].get<double>(), expected[at - 1], 1e-2) << at;
      double best = -1e9;
      for (const Json& top : answer["logprobs"]["top_logprobs"][at]) {
        best = std::max(best, top.get<double>());
      }
      if (at >= prompt.size()) {
        EXPECT_EQ(logprobs[at].get<double>(), best) << "the greedy text";
      }
    }
  }
  Json none = score;
  none["max_tokens"] = 0;
  EXPECT_EQ(Complete(none)["choices"][0]["logprobs"]["tokens"].size(), whole.size());
  none.erase("echo");
  EXPECT_EQ(Post("/v1/completions", none).code, 400);
  Json field = {{"prompt", prompt}, {"max_tokens", 2}, {"prompt_logprobs", 3}};
  const Json listed = Complete(field)["choices"][0]["prompt_logprobs"];
  ASSERT_EQ(listed.size(), prompt.size());
  EXPECT_TRUE(listed[0].is_null());
  EXPECT_GE(listed[1].size(), 3u);
}

// The first prompt is in a round while rows of the second one are read.
TEST_F(Http, PromptLogprobsComeBesideRounds) {
  Start();
  const Json second = {1, 2, 3, 4};
  Json alone = {{"prompt", second}, {"prompt_logprobs", 0}, {"max_tokens", 4}, {"temperature", 0}};
  Json both = alone;
  both["prompt"] = Json::array({Json::array({5}), second});
  const Json expected = Complete(alone)["choices"][0];
  const Json answer = Complete(both)["choices"];
  EXPECT_EQ(answer[0]["prompt_logprobs"].size(), 1u);
  EXPECT_EQ(answer[1]["prompt_logprobs"], expected["prompt_logprobs"]);
  EXPECT_EQ(answer[1]["text"], expected["text"]);

  Json echo = {{"prompt", second}, {"echo", true}, {"logprobs", 1}, {"max_tokens", 1}};
  const Json quiet = Complete(echo)["choices"][0];
  std::thread stream([&] { Complete(Story(200)); });
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(Complete(echo)["choices"][0]["logprobs"]["token_logprobs"][1],
              quiet["logprobs"]["token_logprobs"][1]);
  }
  stream.join();
}

TEST_F(Http, BestOfAnswersTheMostLikely) {
  Start();
  Json body = Story(8);
  body["temperature"] = 1;
  body["seed"] = 3;
  body["logprobs"] = 0;
  body["n"] = 4;
  const auto mean = [](const Json& choice) {
    double sum = 0;
    for (const Json& logprob : choice["logprobs"]["token_logprobs"]) sum += logprob.get<double>();
    return sum / static_cast<double>(choice["logprobs"]["token_logprobs"].size());
  };
  const Json all = Complete(body);
  body["n"] = 1;
  body["best_of"] = 4;
  const Json best = Complete(body);
  ASSERT_EQ(best["choices"].size(), 1u);
  EXPECT_EQ(best["usage"]["completion_tokens"], 32);
  double most_likely = -1e9;
  for (const Json& choice : all["choices"]) most_likely = std::max(most_likely, mean(choice));
  EXPECT_NEAR(mean(best["choices"][0]), most_likely, 1e-3);

  Json stops = Story(40);
  stops["stop"] = {"."};
  const std::string text = Complete(stops)["choices"][0]["text"];
  EXPECT_THAT(text, Not(HasSubstr(".")));
  stops["include_stop_str_in_output"] = true;
  EXPECT_EQ(Complete(stops)["choices"][0]["text"], text + ".");
  // The model's end of sequence, as the only allowed token.
  Json end = Story(4);
  end["ignore_eos"] = true;
  end["allowed_token_ids"] = {4095};
  EXPECT_EQ(Complete(end)["choices"][0]["text"], "");
  end["skip_special_tokens"] = false;
  EXPECT_EQ(Complete(end)["choices"][0]["text"],
            "<|endoftext|><|endoftext|><|endoftext|><|endoftext|>");
  end["stop"] = {"text|><|end"};
  EXPECT_EQ(Complete(end)["choices"][0]["text"], "<|endof");
}

TEST_F(Http, TheFrontTellsOfItselfAndItsTokens) {
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
  EXPECT_THAT(lost.body, HasSubstr("there is nothing at /v1/embeddings; there is POST /v1/comp"));
  const HttpResponse preflight = Fetch(port_, "OPTIONS", "/v1/completions");
  EXPECT_EQ(preflight.code, 200) << "a browser sends no token with it";
  EXPECT_EQ(preflight.headers.at("access-control-allow-methods"), "POST");
}

TEST_F(Http, MetricsOfTheFrontCanBeSwitchedOff) {
  Start({"--http-metrics", "false"});
  EXPECT_EQ(Fetch(port_, "GET", "/metrics").code, 404);
  const HttpResponse plain = Fetch(port_, "GET", "/health");
  EXPECT_EQ(plain.code, 200);
  EXPECT_FALSE(plain.headers.contains("access-control-allow-origin"));
}

TEST_F(Http, SigtermFinishesStreamsRefusesNewRequestsAndExitsZero) {
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
  idle.Send("GET", "/health");
  const auto health = idle.Receive();
  EXPECT_TRUE(!health.has_value() || health->code == 503);
  for (std::string more; !(more = running.ReceiveSome()).empty();) got += more;
  EXPECT_THAT(got, HasSubstr("\"finish_reason\":\"length\""));
  EXPECT_THAT(got, HasSubstr("data: [DONE]"));
  EXPECT_EQ(verifier_.process->Wait(), 0) << verifier_.process->Log();
}

TEST_F(Http, StreamsCutByTheEndOfTheDrainSaySo) {
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

TEST_F(Http, TlsHasTheCertificatesOfGrpcAndPaddingItsSizes) {
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

TEST_F(Http, PlaintextBeyondTheLoopbackMustBeAskedFor) {
  const auto run = Process::Start({testing::ProgramPath("outrider-verifier"), "--model",
                                   SmallPair("target"), "--http", "0.0.0.0:8000"},
                                  dir_ / "run.log");
  EXPECT_EQ(run->Wait(), 2);
  EXPECT_THAT(run->Log(), HasSubstr("--http"));
}

}  // namespace
}  // namespace outrider
