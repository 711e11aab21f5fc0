#include "verifier/http/api_answer.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/tiny_tokenizer.h"

namespace outrider {
namespace {

class ApiAnswerTest : public ::testing::Test {
 protected:
  ApiAnswerTest() : tokenizer_(Tokenizer::FromJson(testing::TinyTokenizerJson(26)).value()) {
    model_.name = "m";
    model_.tokenizer = tokenizer_.get();
  }

  ApiAnswer MakeAnswer(bool chat, bool stream, bool logprobs = false, int choices = 1) const {
    ApiRequest request{
        .chat = chat, .choices = choices, .kept = choices, .stream = stream, .include_usage = true};
    request.prompts.push_back({.prompt = {0, 1, 2}});
    if (logprobs) request.logprobs = request.prompts[0].logprobs = 1;
    return ApiAnswer(request, model_, 7, 1000);
  }

  static Chunk AbChunk() { return {.text = "ab", .tokens = {0, 1}, .accepted = 1, .drafted = 4}; }
  static Chunk AbChunkWithLogprobs() {
    Chunk chunk = AbChunk();
    chunk.logprobs = {{.logprob = -0.5f, .top = {{0, -0.5f}}},
                      {.logprob = -std::numeric_limits<float>::infinity(), .top = {{2, -0.25f}}}};
    return chunk;
  }
  static Summary StopSummary() {
    Summary s{.reason = FinishReason::kStop,
              .prompt_tokens = 3,
              .cached_tokens = 2,
              .completion_tokens = 2,
              .seed = 9};
    s.rounds = 1;
    s.drafted_rounds = 1;
    s.drafted_tokens = 4;
    s.accepted_tokens = 1;
    s.accepted_per_position = {1, 0, 0, 0};
    s.drafter = "d";
    s.arm_rounds = {{"draft-1x4", 1}};
    return s;
  }

  std::unique_ptr<Tokenizer> tokenizer_;
  ApiModel model_;
};

const nlohmann::json kSpeculation =
    nlohmann::json::parse(R"({"rounds": 1, "drafted_rounds": 1, "drafted": 4,
    "accepted": 1, "accepted_per_position": [1, 0, 0, 0],
    "forced": 0, "drafter": "d",
    "arms": {"draft-1x4": 1}, "arm_switches": 0, "seed": 9})");
const nlohmann::json kUsage =
    nlohmann::json::parse(R"({"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5,
    "prompt_tokens_details": {"cached_tokens": 2},
    "completion_tokens_details": {"accepted_prediction_tokens": 1,
                                  "rejected_prediction_tokens": 3}})");

const nlohmann::json kOneStep = nlohmann::json::parse(R"({"mean_acceptance_length": 2.0,
    "draft_acceptance_rate": 0.25, "acceptance_histogram": [0, 1, 0, 0, 0], "num_spec_steps": 1,
    "num_accepted_draft_tokens": 1, "num_draft_tokens": 4, "num_spec_tokens": 4})");

TEST_F(ApiAnswerTest, WholeCompletion) {
  ApiAnswer answer = MakeAnswer(/*chat=*/false, /*stream=*/false);
  EXPECT_TRUE(answer.Add(0, AbChunk()).empty());
  EXPECT_TRUE(answer.Add(0, AbChunk()).empty());
  EXPECT_FALSE(answer.complete());
  EXPECT_TRUE(answer.Finish(0, StopSummary()).empty());
  ASSERT_TRUE(answer.complete());
  EXPECT_EQ(nlohmann::json::parse(answer.Body().All()),
            nlohmann::json({{"id", "cmpl-1000-7"},
                            {"object", "text_completion"},
                            {"created", 1000},
                            {"model", "m"},
                            {"choices", nlohmann::json::array({{{"index", 0},
                                                                {"text", "abab"},
                                                                {"logprobs", nullptr},
                                                                {"finish_reason", "stop"},
                                                                {"speculation", kSpeculation}}})},
                            {"usage", kUsage},
                            {"metrics", {{"speculative_decoding", kOneStep}}}}));
}

// As AIPerf reads it: over all choices, index j counts the steps that accepted j draft tokens.
TEST_F(ApiAnswerTest, CountsAcceptedDraftTokensPerStep) {
  ApiAnswer answer = MakeAnswer(/*chat=*/false, /*stream=*/true, /*logprobs=*/false, /*choices=*/3);
  Summary deeper;
  deeper.drafted_rounds = 5;
  deeper.drafted_tokens = 10;
  deeper.accepted_tokens = 5;
  deeper.accepted_per_position = {3, 2};
  for (const auto& [index, summary] : {std::pair(0, StopSummary()), {1, deeper}, {2, Summary()}}) {
    answer.Add(index, AbChunk());
    answer.Finish(index, summary);
  }
  const nlohmann::json usage = nlohmann::json::parse(answer.UsageEvent());
  EXPECT_EQ(usage["metrics"]["speculative_decoding"],
            nlohmann::json::parse(
                R"({"mean_acceptance_length": 2.0, "draft_acceptance_rate": 0.42857142857142855,
                "acceptance_histogram": [2, 2, 2, 0, 0], "num_spec_steps": 6,
                "num_accepted_draft_tokens": 6, "num_draft_tokens": 14, "num_spec_tokens": 4})"));
  EXPECT_EQ(usage["usage"]["prompt_tokens_details"]["cached_tokens"], 2) << "of the first choice";
  ApiAnswer plain = MakeAnswer(/*chat=*/true, /*stream=*/false);
  plain.Add(0, AbChunk());
  plain.Finish(0, Summary());
  EXPECT_FALSE(nlohmann::json::parse(plain.Body().All()).contains("metrics"))
      << "no step had a draft";
}

TEST_F(ApiAnswerTest, WholeChat) {
  ApiAnswer answer = MakeAnswer(/*chat=*/true, /*stream=*/false);
  answer.Add(0, AbChunk());
  Summary summary = StopSummary();
  summary.reason = FinishReason::kLength;
  answer.Finish(0, summary);
  const nlohmann::json body = nlohmann::json::parse(answer.Body().All());
  EXPECT_EQ(body["id"], "chatcmpl-1000-7");
  EXPECT_EQ(body["object"], "chat.completion");
  EXPECT_EQ(body["choices"][0]["message"],
            nlohmann::json({{"role", "assistant"}, {"content", "ab"}, {"refusal", nullptr}}));
  EXPECT_EQ(body["choices"][0]["finish_reason"], "length");
}

// By mean log probability, separately for each prompt; usage counts everything that was generated.
TEST_F(ApiAnswerTest, BestOfKeepsTheMostLikely) {
  ApiRequest request{.choices = 3, .kept = 2};
  request.prompts.assign(2, {.prompt = {0, 1, 2}, .logprobs = 0});
  ApiAnswer answer(request, model_, 7, 1000);
  const auto add = [&](int index, const std::string& text, std::vector<float> logprobs) {
    Chunk chunk{.text = text, .tokens = std::vector<TokenId>(logprobs.size())};
    for (const float logprob : logprobs) chunk.logprobs.push_back({.logprob = logprob});
    answer.Add(index, std::move(chunk));
    answer.Finish(index, {.completion_tokens = static_cast<int>(logprobs.size())});
  };
  add(0, "worst", {-3.f});
  add(1, "long", {-1.f, -1.f, -1.f, -1.f});
  add(2, "best", {-0.5f});
  add(3, "same", {-1.f});
  add(4, "as this", {-1.f});
  add(5, "never", {-std::numeric_limits<float>::infinity()});
  const nlohmann::json body = nlohmann::json::parse(answer.Body().All());
  std::vector<std::string> texts;
  for (const nlohmann::json& choice : body["choices"]) {
    EXPECT_EQ(choice["index"], texts.size());
    EXPECT_TRUE(choice["logprobs"].is_null()) << "nobody asked";
    texts.push_back(choice["text"]);
  }
  EXPECT_EQ(texts, (std::vector<std::string>{"best", "long", "same", "as this"}));
  EXPECT_EQ(body["usage"]["completion_tokens"], 9);
}

TEST_F(ApiAnswerTest, StreamOfACompletion) {
  ApiAnswer answer = MakeAnswer(/*chat=*/false, /*stream=*/true);
  const auto events = answer.Add(0, AbChunk());
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(nlohmann::json::parse(events[0]),
            nlohmann::json({{"id", "cmpl-1000-7"},
                            {"object", "text_completion"},
                            {"created", 1000},
                            {"model", "m"},
                            {"choices", nlohmann::json::array({{{"index", 0},
                                                                {"text", "ab"},
                                                                {"logprobs", nullptr},
                                                                {"finish_reason", nullptr}}})},
                            {"usage", nullptr}}));
  EXPECT_TRUE(answer.Add(0, {.text = "", .tokens = {3}}).empty()) << "its text comes later";
  const auto last = answer.Finish(0, StopSummary());
  ASSERT_EQ(last.size(), 1u);
  const nlohmann::json end = nlohmann::json::parse(last[0]);
  EXPECT_EQ(end["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(end["choices"][0]["speculation"], kSpeculation);
  const nlohmann::json usage = nlohmann::json::parse(answer.UsageEvent());
  EXPECT_EQ(usage["usage"], kUsage);
  EXPECT_TRUE(usage["choices"].empty());
}

TEST_F(ApiAnswerTest, ChatStreamBeginsWithRoles) {
  ApiAnswer answer = MakeAnswer(/*chat=*/true, /*stream=*/true, /*logprobs=*/false, /*choices=*/2);
  for (const int index : {1, 0}) {
    const auto events = answer.Add(index, AbChunk());
    ASSERT_EQ(events.size(), 2u);
    const nlohmann::json begin = nlohmann::json::parse(events[0])["choices"][0];
    EXPECT_EQ(begin["index"], index);
    EXPECT_EQ(begin["delta"], nlohmann::json({{"role", "assistant"}, {"content", ""}}));
    EXPECT_EQ(nlohmann::json::parse(events[1])["choices"][0]["delta"],
              nlohmann::json({{"content", "ab"}}));
    EXPECT_EQ(nlohmann::json::parse(events[1])["object"], "chat.completion.chunk");
    EXPECT_EQ(answer.Add(index, AbChunk()).size(), 1u);
  }
  answer.Finish(1, StopSummary());
  EXPECT_FALSE(answer.complete());
  EXPECT_EQ(nlohmann::json::parse(answer.Finish(0, StopSummary())[0])["choices"][0]["delta"],
            nlohmann::json::object());
  EXPECT_TRUE(answer.complete());
  const nlohmann::json usage = nlohmann::json::parse(answer.UsageEvent())["usage"];
  EXPECT_EQ(usage["prompt_tokens"], 3) << "the prompt counts once";
  EXPECT_EQ(usage["completion_tokens"], 4);
}

TEST_F(ApiAnswerTest, LogprobOffsetsRunAcrossChunks) {
  ApiAnswer answer = MakeAnswer(/*chat=*/false, /*stream=*/true, /*logprobs=*/true);
  answer.Add(0, AbChunkWithLogprobs());
  const nlohmann::json event = nlohmann::json::parse(answer.Add(0, AbChunkWithLogprobs())[0]);
  EXPECT_EQ(event["choices"][0]["logprobs"], nlohmann::json::parse(R"({"tokens": ["a", "b"],
      "token_logprobs": [-0.5, -9999.0], "top_logprobs": [{"a": -0.5},
      {"c": -0.25, "b": -9999.0}],
      "text_offset": [2, 3]})"));
}

TEST_F(ApiAnswerTest, ZeroLogprobsHaveSampledToken) {
  ApiAnswer answer = MakeAnswer(/*chat=*/false, /*stream=*/false, /*logprobs=*/true);
  Chunk chunk = AbChunk();
  chunk.logprobs = {{.logprob = -0.5f, .top = {}}, {.logprob = -1.f, .top = {}}};
  answer.Add(0, std::move(chunk));
  answer.Finish(0, StopSummary());
  EXPECT_EQ(nlohmann::json::parse(answer.Body().All())["choices"][0]["logprobs"]["top_logprobs"],
            nlohmann::json::parse(R"([{"a": -0.5}, {"b": -1.0}])"));
}

TEST_F(ApiAnswerTest, ContinuousUsageIsInEveryEvent) {
  ApiRequest request{.stream = true, .include_usage = true, .continuous_usage = true};
  request.prompts.push_back({.prompt = {0, 1, 2}});
  ApiAnswer answer(request, model_, 7, 1000);
  for (const int so_far : {2, 4}) {
    const nlohmann::json usage = nlohmann::json::parse(answer.Add(0, AbChunk())[0])["usage"];
    EXPECT_EQ(usage["completion_tokens"], so_far);
    EXPECT_EQ(usage["total_tokens"], 3 + so_far);
  }
}

TEST_F(ApiAnswerTest, LogprobsOfAChatHaveBytes) {
  ApiAnswer answer = MakeAnswer(/*chat=*/true, /*stream=*/false, /*logprobs=*/true);
  answer.Add(0, AbChunkWithLogprobs());
  answer.Finish(0, StopSummary());
  EXPECT_EQ(nlohmann::json::parse(answer.Body().All())["choices"][0]["logprobs"],
            nlohmann::json::parse(R"({"content": [
      {"token": "a", "logprob": -0.5, "bytes": [97],
       "top_logprobs": [{"token": "a", "logprob": -0.5, "bytes": [97]}]},
      {"token": "b", "logprob": -9999.0, "bytes": [98],
       "top_logprobs": [{"token": "c", "logprob": -0.25, "bytes": [99]}]}], "refusal": null})"))
      << "as many as requested, and not the sampled one";
}

class EchoTest : public ApiAnswerTest {
 protected:
  // For the prompt "abc", with two choices.
  ApiRequest Request(bool stream) const {
    ApiRequest request{.choices = 2, .kept = 2, .logprobs = 1, .stream = stream};
    request.prompts.push_back({.prompt = {0, 1, 2}, .logprobs = 1, .prompt_logprobs = 1});
    request.echoes = {{.text = "abc"}};
    return request;
  }
  static Chunk FirstChunk() {
    Chunk chunk = AbChunkWithLogprobs();
    chunk.prompt_logprobs = {{.logprob = -1.f, .rank = 1, .top = {{1, -1.f}}},
                             {.logprob = -2.f, .rank = 7, .top = {{3, -0.25f}}}};
    return chunk;
  }
  const nlohmann::json logprobs_ = nlohmann::json::parse(R"({"tokens": ["a", "b", "c", "a", "b"],
      "token_logprobs": [null, -1.0, -2.0, -0.5, -9999.0],
      "top_logprobs": [null, {"b": -1.0}, {"d": -0.25, "c": -2.0}, {"a": -0.5},
                       {"c": -0.25, "b": -9999.0}],
      "text_offset": [0, 1, 2, 3, 4]})");
};

TEST_F(EchoTest, IsThePromptBeforeEachChoice) {
  ApiAnswer answer(Request(/*stream=*/false), model_, 7, 1000);
  answer.Add(0, FirstChunk());
  answer.Finish(0, StopSummary());
  answer.Add(1, AbChunkWithLogprobs());  // does not ask for rows of the prompt
  answer.Finish(1, StopSummary());
  const nlohmann::json body = nlohmann::json::parse(answer.Body().All());
  for (const nlohmann::json& choice : body["choices"]) {
    EXPECT_EQ(choice["text"], "abcab");
    EXPECT_EQ(choice["logprobs"], logprobs_);
    EXPECT_FALSE(choice.contains("prompt_logprobs"));
  }
  EXPECT_EQ(body["usage"]["completion_tokens"], 4);
}

TEST_F(EchoTest, PrecedesFirstEventOfChoice) {
  ApiAnswer answer(Request(/*stream=*/true), model_, 7, 1000);
  for (const int index : {0, 1}) {
    const std::string first =
        answer.Add(index, index == 0 ? FirstChunk() : AbChunkWithLogprobs()).at(0);
    const ApiAnswer::EventSource echo = answer.TakeEcho(index);
    ASSERT_NE(echo, nullptr);
    nlohmann::json whole;
    for (const std::string& event : {echo(), first}) {
      const nlohmann::json choice = nlohmann::json::parse(event)["choices"][0];
      EXPECT_EQ(choice["index"], index);
      EXPECT_EQ(choice["text"], whole.is_null() ? "abc" : "ab");
      for (const auto& [field, list] : choice["logprobs"].items()) {
        for (const nlohmann::json& entry : list) whole[field].push_back(entry);
      }
    }
    EXPECT_EQ(whole, logprobs_);
    EXPECT_EQ(echo(), "");
    EXPECT_EQ(nlohmann::json::parse(answer.Add(index, AbChunk())[0])["choices"][0]["text"], "ab");
    EXPECT_EQ(answer.TakeEcho(index), nullptr) << "once";
  }
  ApiAnswer whole(Request(/*stream=*/false), model_, 7, 1000);
  whole.Add(0, FirstChunk());
  EXPECT_EQ(whole.TakeEcho(0), nullptr);
}

// No event is large, whatever the prompt, and together they contain what a whole answer does.
TEST_F(EchoTest, SplitsLongPromptOverEvents) {
  constexpr size_t kTokens = 3000;
  for (const bool has_logprobs : {false, true}) {
    const auto make = [&](bool stream) {
      ApiRequest request = Request(stream);
      request.choices = request.kept = 1;
      request.echo_only = true;
      request.prompts[0].prompt.clear();
      request.echoes[0].text.clear();
      for (size_t i = 0; i < kTokens; ++i) {
        request.prompts[0].prompt.push_back(static_cast<TokenId>(i % 26));
        request.echoes[0].text += static_cast<char>('a' + i % 26);
      }
      if (!has_logprobs) {
        request.logprobs.reset();
        request.prompts[0].prompt_logprobs.reset();
        request.echoes[0].text =
            std::string(100'000, 'x') + "\xe2\x82\xac" + std::string(50'000, 'y');
      } else {
        request.logprobs = 20;
      }
      return ApiAnswer(request, model_, 7, 1000);
    };
    Chunk first{.text = "a", .tokens = {0}};
    for (size_t i = 1; has_logprobs && i < kTokens; ++i) {
      TokenLogprobs token{.logprob = -1.f / static_cast<float>(i), .rank = 3};
      for (TokenId id = 0; id < 20; ++id) token.top.emplace_back(id, -0.25f);
      first.prompt_logprobs.push_back(token);
    }
    if (has_logprobs) first.logprobs = {{.logprob = -1}};
    ApiAnswer stream = make(true), body = make(false);
    EXPECT_TRUE(stream.Add(0, first).empty());
    std::string text;
    nlohmann::json logprobs;
    const ApiAnswer::EventSource echo = stream.TakeEcho(0);
    int events = 0;
    for (std::string event = echo(); !event.empty(); event = echo()) {
      ++events;
      EXPECT_LT(event.size(), size_t{64} << 10);
      const nlohmann::json choice = nlohmann::json::parse(event)["choices"][0];
      text += choice["text"].get<std::string>();
      if (!has_logprobs) continue;
      for (const auto& [field, list] : choice["logprobs"].items()) {
        for (const nlohmann::json& entry : list) logprobs[field].push_back(entry);
      }
    }
    EXPECT_GT(events, 3);
    body.Add(0, first);
    body.Finish(0, StopSummary());
    const nlohmann::json whole = nlohmann::json::parse(body.Body().All())["choices"][0];
    EXPECT_EQ(text, whole["text"]);
    EXPECT_EQ(logprobs, whole["logprobs"]);
  }
}

TEST_F(EchoTest, WholeAnswerIsMadeInPieces) {
  ApiRequest request = Request(/*stream=*/false);
  request.prompt_logprobs = 20;
  request.prompts[0].prompt.assign(5000, 0);
  ApiAnswer answer(request, model_, 7, 1000);
  Chunk first = FirstChunk();
  first.prompt_logprobs.assign(4999, {.logprob = -1, .rank = 1, .top = {{1, -0.5f}, {2, -0.75f}}});
  for (const int index : {0, 1}) {
    answer.Add(index, first);
    answer.Finish(index, StopSummary());
  }
  JsonPieces pieces = answer.Body();
  std::string body;
  int count = 0;
  for (std::string piece = pieces.Next(); !piece.empty(); piece = pieces.Next()) {
    EXPECT_LT(piece.size(), JsonPieces::kPieceBytes + (8 << 10)) << "of a piece and one entry";
    body += piece;
    ++count;
  }
  EXPECT_GT(count, 10);
  const nlohmann::json choices = nlohmann::json::parse(body)["choices"];
  for (const nlohmann::json& choice : choices) {
    EXPECT_EQ(choice["prompt_logprobs"].size(), 5000u);
    EXPECT_EQ(choice["logprobs"]["text_offset"].size(), 5002u);
  }
}

TEST_F(EchoTest, WithoutNewTokensIsPromptAlone) {
  ApiRequest request = Request(/*stream=*/false);
  request.choices = request.kept = 1;
  request.echo_only = true;
  ApiAnswer answer(request, model_, 7, 1000);
  answer.Add(0, FirstChunk());
  answer.Finish(0, StopSummary());
  const nlohmann::json body = nlohmann::json::parse(answer.Body().All());
  EXPECT_EQ(body["choices"][0]["text"], "abc");
  EXPECT_EQ(body["choices"][0]["logprobs"]["tokens"], nlohmann::json::parse(R"(["a", "b", "c"])"));
  EXPECT_EQ(body["usage"]["completion_tokens"], 0);
}

TEST_F(EchoTest, PromptLogprobsHaveVllmsShape) {
  ApiRequest request = Request(/*stream=*/false);
  request.choices = request.kept = 1;
  request.echoes.clear();
  request.prompt_logprobs = 1;
  ApiAnswer answer(request, model_, 7, 1000);
  answer.Add(0, FirstChunk());
  answer.Finish(0, StopSummary());
  const nlohmann::json body = nlohmann::json::parse(answer.Body().All());
  EXPECT_EQ(body["choices"][0]["text"], "ab");
  EXPECT_EQ(body["choices"][0]["prompt_logprobs"], nlohmann::json::parse(R"([null,
      {"1": {"logprob": -1.0, "rank": 1, "decoded_token": "b"}},
      {"2": {"logprob": -2.0, "rank": 7, "decoded_token": "c"},
       "3": {"logprob": -0.25, "rank": 1, "decoded_token": "d"}}])"));
}

}  // namespace
}  // namespace outrider
