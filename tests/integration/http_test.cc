// The HTTP front of a verifier process with a drafter process: the texts and their log
// probabilities.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/http_fixture.h"
#include "tests/support/metrics_reader.h"

namespace outrider {
namespace {

using testing::EventsOf;
using ::testing::HasSubstr;
using testing::HttpResponse;
using testing::ReadMetrics;
using testing::TestClient;

TEST_F(Http, StreamedWholeAndGrpcTextsAgree) {
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

  v1::GenerateRequest request = testing::TextRequest(kPrompt, 100);
  request.mutable_sampling()->set_temperature(0);
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

TEST_F(Http, GrpcSendsLogprobsWithEveryToken) {
  StartWithDrafter();
  v1::GenerateRequest request = testing::TextRequest(kPrompt, 40);
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

TEST_F(Http, StopStringsEndText) {
  Start();
  const std::string stop = PieceOfStory();
  Json body = Story(200);
  const std::string free = Complete(body)["choices"][0]["text"];
  body["stop"] = {stop, "zzz"};
  const Json choice = Complete(body)["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_EQ(choice["text"], free.substr(0, free.find(stop)));

  body["min_tokens"] = 60;
  const Json longer = Complete(body);
  EXPECT_GE(longer["usage"]["completion_tokens"], 60);
  EXPECT_THAT(longer["choices"][0]["text"].get<std::string>(), HasSubstr(stop));
  TestClient client(verifier_.address());
  v1::GenerateRequest request = testing::TextRequest(kPrompt, 200);
  request.mutable_sampling()->set_temperature(0);
  request.mutable_stop()->set_min_tokens(60);
  for (const std::string& text : {stop, std::string("zzz")}) {
    request.mutable_stop()->add_stop_strings(text);
  }
  EXPECT_EQ(client.Generate(request).text, longer["choices"][0]["text"].get<std::string>());
}

TEST_F(Http, ChoicesRepeatAndShareTheirPrompt) {
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

// <|endoftext|> is the model's BOS token.
TEST_F(Http, RequestControlsSpecialTokens) {
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

TEST_F(Http, MasksHoldWithAndWithoutDrafts) {
  StartWithDrafter({"--policy", "fixed"});  // which drafts
  Json body = Story(60);
  body["logprobs"] = 0;
  const Json free = Complete(body)["choices"][0]["logprobs"]["tokens"];
  // Two words of the free text that are a token each, with and without the space before them.
  std::set<std::string> banned;
  const auto is_letter = [](unsigned char c) { return std::isalpha(c) != 0; };
  for (const Json& token : free) {
    const std::string word = token;
    if (banned.size() == 2 || word.size() < 2 || word[0] != ' ') continue;
    if (!std::all_of(word.begin() + 1, word.end(), is_letter)) continue;
    const Json bare = {{"prompt", word.substr(1)}, {"add_special_tokens", false}};
    const Json tokens = Json::parse(Post("/tokenize", bare).body)["tokens"];
    if (tokens.size() == 1) banned.insert(word);
  }
  ASSERT_EQ(banned.size(), 2u) << free;
  for (const std::string& word : banned) body["bad_words"].push_back(word.substr(1));
  const Json drafted = Complete(body);
  const std::string text = drafted["choices"][0]["text"];
  for (const Json& token : drafted["choices"][0]["logprobs"]["tokens"]) {
    EXPECT_FALSE(banned.contains(token.get<std::string>())) << text;
  }
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
TEST_F(Http, EchoScoresEqualDecoding) {
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
    for (size_t pos = 1; pos < whole.size(); ++pos) {
      EXPECT_NEAR(logprobs[pos].get<double>(), expected[pos - 1], 1e-2) << pos;
      double best = -1e9;
      for (const Json& top : answer["logprobs"]["top_logprobs"][pos]) {
        best = std::max(best, top.get<double>());
      }
      if (pos >= prompt.size()) {
        EXPECT_EQ(logprobs[pos].get<double>(), best) << "the greedy text";
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

  const std::string stop = PieceOfStory();
  Json stops = Story(40);
  stops["stop"] = {stop};
  const std::string text = Complete(stops)["choices"][0]["text"];
  EXPECT_THAT(text, Not(HasSubstr(stop)));
  stops["include_stop_str_in_output"] = true;
  EXPECT_EQ(Complete(stops)["choices"][0]["text"], text + stop);
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

}  // namespace
}  // namespace outrider
