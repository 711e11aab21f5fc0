// A body on its way to a worker and back, without a server: connections are fakes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "common/base/mutex.h"
#include "tests/support/fake_model.h"
#include "tests/support/held_workers.h"
#include "tests/support/http_client.h"
#include "tests/support/plain_chat.h"
#include "tests/support/time_limit.h"
#include "tests/support/tiny_tokenizer.h"
#include "verifier/http/api.h"

namespace outrider {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using testing::HeldWorkers;
using ::testing::Pair;

// Runs posted tasks when the test tells it to.
class PuppetExchange final : public HttpExchange {
 public:
  void Post(std::function<void()> task) override {
    MutexLock lock(mu_);
    tasks_.push_back(std::move(task));
    posted_.notify_all();
  }
  void Reply(HttpReply reply) override { replies.push_back(std::move(reply)); }
  void BeginStream(HttpReply head) override { heads.push_back(std::move(head)); }
  void Write(std::string bytes) override {
    largest_part = std::max(largest_part, bytes.size());
    streamed += bytes;
  }
  void WriteFrom(HttpSource source) override {
    for (std::string part = source(); !part.empty(); part = source()) Write(std::move(part));
  }
  void EndStream() override { has_ended = true; }
  void OnGone(std::function<void()> called) override { gone = std::move(called); }

  // Runs the next task; returns false if none arrived within 30 s.
  bool RunNext() {
    std::function<void()> task;
    {
      MutexLock lock(mu_);
      const Time until = std::chrono::steady_clock::now() + testing::kTimeLimit;
      while (tasks_.empty()) {
        if (lock.WaitUntil(posted_, until) == std::cv_status::timeout) return false;
      }
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
    return true;
  }
  // Drops the references to the exchange.
  void Forget() {
    MutexLock lock(mu_);
    tasks_.clear();
    gone = nullptr;
  }
  bool RunUntilReply() {
    while (replies.empty() && !has_ended) {
      if (!RunNext()) return false;
    }
    return true;
  }

  std::vector<HttpReply> replies;
  std::vector<HttpReply> heads;  // of streams
  std::string streamed;
  size_t largest_part = 0;
  bool has_ended = false;
  std::function<void()> gone;

 private:
  Mutex mu_;
  std::condition_variable posted_;
  std::deque<std::function<void()>> tasks_ OUTRIDER_GUARDED_BY(mu_);
};

class ApiQueueTest : public ::testing::Test {
 protected:
  ~ApiQueueTest() override {
    held_.Release();
    EXPECT_TRUE(held_.workers().Stop(testing::kTimeLimit));
    thread_.Stop();
    for (const auto& exchange : exchanges_) exchange->Forget();
  }

  std::shared_ptr<PuppetExchange> Post(const std::string& path, const std::string& body,
                                       const std::string& peer = "10.0.0.1",
                                       const std::string& client = "") {
    const auto exchange = exchanges_.emplace_back(std::make_shared<PuppetExchange>());
    api_.Handle({.method = "POST", .path = path, .peer = peer, .client = client, .body = body},
                exchange);
    return exchange;
  }
  // As counted by HttpMetrics.
  double Answers(const std::string& route, int code) {
    return registry_
        .MakeCounter("outrider_http_requests_total",
                     "HTTP requests answered, by route and status code",
                     {{"route", route}, {"code", std::to_string(code)}})
        .value();
  }
  double Waiting() const { return metrics_.tokenizer_requests_waiting.value(); }

  std::vector<std::shared_ptr<PuppetExchange>> exchanges_;
  FakeModel model_{{.vocab_size = testing::kAsciiTokens}};
  std::unique_ptr<Tokenizer> tokenizer_ =
      Tokenizer::FromJson(testing::AsciiTokenizerJson()).value();
  SteadyClock clock_;
  MetricsRegistry registry_;
  VerifierMetrics metrics_{registry_};
  HttpMetrics http_metrics_{registry_};
  Engine engine_{{}, &model_, tokenizer_.get(), nullptr, &metrics_, &clock_};
  EngineThread thread_{&engine_};
  Intake intake_{&engine_, &thread_};
  ClientTokens tokens_{nullptr};
  HeldWorkers held_{{.max_waiting = 4}, &clock_, &metrics_};
  HttpApi api_{{.model = {.name = "m",
                          .tokenizer = tokenizer_.get(),
                          .chat_template = testing::PlainChatTemplate(),
                          .limits = engine_.limits()},
                .tokens = &tokens_},
               &intake_,
               &held_.workers(),
               &http_metrics_};
};

constexpr char kCompletion[] = R"({"prompt": "abc", "max_tokens": 2})";
constexpr char kChat[] = R"({"messages": [{"role": "user", "content": "abc"}], "max_tokens": 2})";

TEST_F(ApiQueueTest, OnlyWorkersReadBodies) {
  const auto completion = Post("/v1/completions", kCompletion);
  const auto chat = Post("/v1/chat/completions", kChat);
  EXPECT_EQ(Waiting(), 2);
  EXPECT_EQ(metrics_.tokenizer_seconds.count(), 0u);
  held_.Release();
  for (const auto& exchange : {completion, chat}) {
    ASSERT_TRUE(exchange->RunUntilReply());
    EXPECT_EQ(exchange->replies.at(0).code, 200) << exchange->replies.at(0).body;
  }
}

TEST_F(ApiQueueTest, TokensAreMadeOnWorkersToo) {
  const auto tokens = Post("/tokenize", R"({"prompt": "abc"})");
  const auto text = Post("/detokenize", R"({"tokens": [0, 1]})");
  EXPECT_EQ(Waiting(), 2);
  const auto refused = Post("/tokenize", R"({"prompt": "abc"})");
  ASSERT_EQ(refused->replies.size(), 1u);
  EXPECT_EQ(refused->replies[0].code, 429);
  held_.Release();
  ASSERT_TRUE(tokens->RunUntilReply() && text->RunUntilReply());
  EXPECT_THAT(tokens->replies[0].body, HasSubstr("\"tokens\":[0,1,2]"));
  EXPECT_EQ(text->replies[0].body, R"({"prompt":"ab"})");
}

TEST_F(ApiQueueTest, FullQueueIs429WithRetryAfter) {
  for (int i = 0; i < 2; ++i) Post("/v1/completions", kCompletion);  // half of it, from one client
  const auto refused = Post("/v1/completions", kCompletion);
  ASSERT_EQ(refused->replies.size(), 1u);
  EXPECT_EQ(refused->replies[0].code, 429);
  EXPECT_THAT(refused->replies[0].headers, Contains(Pair("Retry-After", "1")));
}

TEST_F(ApiQueueTest, HostKeepsOneShareUnderAliases) {
  for (const char* client : {"a", "b"}) Post("/v1/completions", kCompletion, "10.0.0.1", client);
  const auto third = Post("/v1/completions", kCompletion, "10.0.0.1", "c");
  ASSERT_EQ(third->replies.size(), 1u);
  EXPECT_EQ(third->replies[0].code, 429);
  const auto other = Post("/v1/completions", kCompletion, "10.0.0.2", "a");
  EXPECT_TRUE(other->replies.empty());
  EXPECT_EQ(Waiting(), 3);
}

TEST_F(ApiQueueTest, DisconnectDropsTheBody) {
  const auto waiting = Post("/v1/completions", kCompletion);
  ASSERT_NE(waiting->gone, nullptr);
  waiting->gone();
  EXPECT_EQ(Waiting(), 0);

  // The client disconnects after a worker has read the body: nothing reaches the engine.
  const auto read = Post("/v1/completions", kCompletion);
  const auto other = Post("/v1/completions", kCompletion);
  held_.Release();
  ASSERT_TRUE(other->RunUntilReply());  // from the same client, so `read` has been read before
  read->gone();
  ASSERT_TRUE(read->RunNext());
  std::promise<bool> idle;
  thread_.Post([&] { idle.set_value(engine_.idle()); });
  EXPECT_TRUE(idle.get_future().get());
  EXPECT_TRUE(read->replies.empty() && waiting->replies.empty());
}

TEST_F(ApiQueueTest, RefusedRequestIsCountedOnce) {
  held_.Release();
  const auto refused = Post("/v1/completions", R"({"prompt": 1})");
  ASSERT_TRUE(refused->RunUntilReply());
  EXPECT_EQ(refused->replies[0].code, 400);
  refused->gone();
  EXPECT_EQ(Answers("completions", 400), 1);
  EXPECT_EQ(Answers("completions", 499), 0);
}

constexpr char kEightChoices[] = R"({"prompt": ["abc", "d"], "max_tokens": 2, "n": 4})";

// The engine drains as soon as it has the request.
TEST_F(ApiQueueTest, DrainingFinishesAllChoices) {
  held_.Release();
  const auto exchange = Post("/v1/completions", kEightChoices);
  std::promise<void> submitted;
  thread_.Post([this, done = submitted.get_future().share()] {
    done.wait();
    thread_.Post([this] { engine_.Drain(); });
  });
  ASSERT_TRUE(exchange->RunNext());  // its body has been read
  submitted.set_value();
  ASSERT_TRUE(exchange->RunUntilReply());
  EXPECT_EQ(exchange->replies[0].code, 200) << exchange->replies[0].body;
  EXPECT_EQ(nlohmann::json::parse(exchange->replies[0].body)["choices"].size(), 8u);
}

TEST_F(ApiQueueTest, FullQueueRefusesAllChoices) {
  held_.Release();
  const int others = EngineOptions().admission.max_waiting - 7;
  ASSERT_TRUE(engine_.gate().TryEnter(others));
  const auto refused = Post("/v1/completions", kEightChoices);
  ASSERT_TRUE(refused->RunUntilReply());
  EXPECT_EQ(refused->replies[0].code, 429);
  EXPECT_EQ(metrics_.requests_refused_queue_full.value(), 1);
  EXPECT_EQ(metrics_.generation_tokens_total.value(), 0);
  engine_.gate().Leave();
  const auto served = Post("/v1/completions", kEightChoices);
  ASSERT_TRUE(served->RunUntilReply());
  EXPECT_EQ(served->replies[0].code, 200) << served->replies[0].body;
}

// Log probabilities of a prompt of 200 tokens.
nlohmann::json Scoring(int choices) {
  return {{"prompt", std::string(200, 'a')}, {"max_tokens", 1}, {"n", choices}};
}

// A connection's thread writes 64 KiB at a time, and serves other connections in between.
TEST_F(ApiQueueTest, LargeAnswersGoOutInParts) {
  held_.Release();
  nlohmann::json body = Scoring(4);
  body["prompt_logprobs"] = 20;
  const auto exchange = Post("/v1/completions", body.dump());
  ASSERT_TRUE(exchange->RunUntilReply());
  ASSERT_EQ(exchange->heads.size(), 1u);
  EXPECT_EQ(exchange->heads[0].code, 200);
  EXPECT_EQ(exchange->heads[0].content_type, "application/json");
  EXPECT_GT(exchange->streamed.size(), size_t{800} << 10);
  EXPECT_LT(exchange->largest_part, size_t{80} << 10);
  const auto choices = nlohmann::json::parse(exchange->streamed)["choices"];
  ASSERT_EQ(choices.size(), 4u);
  for (const auto& choice : choices) EXPECT_EQ(choice["prompt_logprobs"].size(), 200u);
}

// A stream may have 64 KiB waiting for its client here, and each choice begins with more.
TEST_F(ApiQueueTest, StreamedEchoesWaitForClient) {
  held_.Release();
  HttpServer server;
  ASSERT_TRUE(server.Start({.listen = "127.0.0.1:0", .max_waiting_bytes = 64 << 10}, &api_).ok());
  constexpr int kChoices = 3;
  nlohmann::json body = Scoring(kChoices);
  body.update({{"echo", true}, {"logprobs", 20}, {"stream", true}});
  const testing::HttpResponse response = testing::Fetch(
      server.port(), "POST", "/v1/completions", body.dump(), "Content-Type: application/json\r\n");
  ASSERT_EQ(response.code, 200) << response.body;
  EXPECT_GT(response.body.size(), size_t{3 * 80} << 10);
  const std::vector<std::string> events = testing::EventsOf(response.body);
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.back(), "[DONE]");
  std::vector<std::string> texts(kChoices);
  std::vector<size_t> tokens(kChoices);
  for (const std::string& event : events) {
    if (event == "[DONE]") break;
    const auto choice = nlohmann::json::parse(event)["choices"][0];
    texts[choice["index"]] += choice["text"].get<std::string>();
    if (!choice["logprobs"].is_null()) {
      tokens[choice["index"]] += choice["logprobs"]["tokens"].size();
    }
  }
  for (size_t i = 0; i < kChoices; ++i) {
    EXPECT_TRUE(texts[i].starts_with(std::string(200, 'a'))) << texts[i];
    EXPECT_EQ(tokens[i], 201u);
  }
  server.Shutdown(testing::kTimeLimit);
}

// The same of an answer that is no stream: its first piece has more than may wait.
TEST_F(ApiQueueTest, FirstPieceMayExceedWhatWaits) {
  held_.Release();
  HttpServer server;
  ASSERT_TRUE(server.Start({.listen = "127.0.0.1:0", .max_waiting_bytes = 16 << 10}, &api_).ok());
  nlohmann::json body = Scoring(4);
  body["prompt_logprobs"] = 20;
  const testing::HttpResponse response = testing::Fetch(
      server.port(), "POST", "/v1/completions", body.dump(), "Content-Type: application/json\r\n");
  EXPECT_EQ(response.code, 200);
  const auto answer = nlohmann::json::parse(response.body, nullptr, /*allow_exceptions=*/false);
  ASSERT_FALSE(answer.is_discarded()) << response.body.size() << " bytes";
  EXPECT_EQ(answer["choices"].size(), 4u);
  server.Shutdown(testing::kTimeLimit);
}

TEST_F(ApiQueueTest, StoppingAnswers503) {
  const auto waiting = Post("/v1/completions", kCompletion);
  held_.Release();
  EXPECT_TRUE(held_.workers().Stop(testing::kTimeLimit));
  ASSERT_TRUE(waiting->RunUntilReply());
  const auto late = Post("/v1/completions", kCompletion);
  ASSERT_EQ(late->replies.size(), 1u);
  EXPECT_EQ(late->replies[0].code, 503);
  EXPECT_THAT(late->replies[0].body, HasSubstr("takes no new requests"));
}

}  // namespace
}  // namespace outrider
