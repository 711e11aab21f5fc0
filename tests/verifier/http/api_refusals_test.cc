// Requests that are refused, and what the errors say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/verifier/http/api_request_fixture.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// Each would change the text, so ignoring it would answer another question than the client's.
TEST_F(ApiRequestTest, RefusesUnservedFieldsByName) {
  constexpr BadField kUnserved[] = {
      {R"("guided_decoding_backend": "x")", "guided_decoding_backend"},
      {R"("guided_whitespace_pattern": " ")", "guided_whitespace_pattern"},
      {R"("grammar": "root ::= a")", "grammar"},
      {R"("json_schema": {})", "json_schema"},
      {R"("reasoning_effort": "low")", "reasoning_effort"},
      {R"("use_beam_search": true)", "use_beam_search"},
      {R"("truncate_prompt_tokens": 5)", "truncate_prompt_tokens"},
      {R"("frobnicate": 1)", "frobnicate"}};
  constexpr BadField kOfChats[] = {{R"("chat_template": "{{ x }}")", "chat_template"},
                                   {R"("add_special_tokens": true)", "add_special_tokens"},
                                   {R"("prompt": "a")", "prompt"}};
  const auto expect = [](const Result<ApiRequest>& parsed, const BadField& field) {
    ASSERT_FALSE(parsed.ok()) << field.fields;
    EXPECT_EQ(parsed.status().code(), Code::kInvalidArgument) << field.fields;
    EXPECT_THAT(parsed.status().message(), StartsWith(std::string(field.named) + " is "));
  };
  for (const BadField& field : kUnserved) {
    expect(Completion(field.fields), field);
    expect(Chat(field.fields), field);
  }
  for (const BadField& field : kOfChats) expect(Chat(field.fields), field);
  expect(Completion(R"("include_reasoning": false)"), {"", "include_reasoning"});
  expect(Completion(R"("stream": true, "stream_options": {"x": 1})"), {"", "stream_options.x"});

  model_.ignore_unknown = true;
  for (const BadField& field : kUnserved) EXPECT_TRUE(Completion(field.fields).ok()) << field.named;
  for (const BadField& field : kOfChats) EXPECT_TRUE(Chat(field.fields).ok()) << field.named;
  EXPECT_TRUE(Completion(R"("unknown": 123456789012345678901)").ok());
  for (const char* always : {R"("suffix": "x")", R"("tools": [{}])"}) {
    EXPECT_FALSE(Completion(always).ok()) << always;
  }
  for (const char* typo :
       {R"("speculation": {"typo": 1})", R"("speculation": {"stop": {"x": 1}})"}) {
    const Status refused = Completion(typo).status();
    EXPECT_EQ(refused.code(), Code::kInvalidArgument) << typo;
    EXPECT_EQ(refused.message().find("--http-ignore-unknown"), std::string::npos)
        << "it makes no difference: " << refused.message();
  }
}

// Sizes are rejected before the entries are read, which here do not even have the right type.
TEST_F(ApiRequestTest, ListsHaveLimits) {
  const auto list = [](int count) {
    std::string items = "[null";
    for (int i = 1; i < count; ++i) items += ",null";
    return items + "]";
  };
  const auto expect = [](const Result<ApiRequest>& parsed, const std::string& message,
                         Code code = Code::kInvalidArgument) {
    ASSERT_FALSE(parsed.ok());
    EXPECT_EQ(parsed.status().code(), code);
    EXPECT_THAT(parsed.status().message(), HasSubstr(message));
  };
  expect(Completion(R"("stop_token_ids": )" + list(257)),
         "stop_token_ids: 257 entries, at most 256");
  expect(Completion(R"("stop": )" + list(17)), "stop: 17 entries, at most 16");
  expect(Completion(R"("speculation": {"tree": )" + list(9) + "}"),
         "speculation.tree: 9 entries, at most 8");
  std::string bias = R"("logit_bias": {"0": null)";
  for (int i = 1; i <= 1024; ++i) bias += ",\"" + std::to_string(i) + "\": null";
  expect(Completion(bias + "}"), "logit_bias: 1025 entries, at most 1024");
  expect(ParseCompletion(R"({"prompt": )" + list(64) + "}", model_), "prompt: 64 tokens leave no",
         Code::kOutOfRange);
  std::string prompts = R"({"prompt": ["a")";
  for (int i = 0; i < kMaxChoices; ++i) prompts += R"(,"a")";
  expect(ParseCompletion(prompts + "]}", model_), "prompt: 129 prompts, at most 128");
}

TEST_F(ApiRequestTest, ManyLogprobsMustBeStreamed) {
  model_.limits.max_context = model_.limits.kv_tokens = 4096;
  const std::string fields = R"("max_tokens": 200, "logprobs": 20, "n": )";
  EXPECT_TRUE(Completion(fields + "62").ok()) << "62 x 200 x 21";
  const Status status = Completion(fields + "63").status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("logprobs: up to 264600"));
  EXPECT_TRUE(Completion(fields + R"(63, "stream": true)").ok());
  EXPECT_THAT(Chat(R"("max_tokens": 200, "logprobs": true, "top_logprobs": 20, "n": 63)")
                  .status()
                  .message(),
              StartsWith("top_logprobs: up to 264600"));
}

// All choices enter the queue at once.
TEST_F(ApiRequestTest, ChoicesFitTheQueue) {
  model_.limits.max_waiting = 4;
  const auto message = [](const Result<ApiRequest>& parsed) { return parsed.status().message(); };
  const auto prompts = [&](int count, const std::string& fields) {
    std::string body = R"({"prompt": ["a")";
    for (int i = 1; i < count; ++i) body += R"(,"a")";
    return ParseCompletion(body + "]" + fields + "}", model_);
  };
  EXPECT_TRUE(Completion(R"("n": 4)").ok());
  EXPECT_TRUE(Chat(R"("n": 4)").ok());
  EXPECT_TRUE(prompts(2, R"(, "n": 2)").ok());
  const std::string rest =
      ": 5 choices over all prompts, but only 4 may wait here (--max-waiting, ";
  EXPECT_THAT(message(Completion(R"("n": 5)")), StartsWith("n" + rest));
  EXPECT_THAT(message(Chat(R"("n": 5)")), StartsWith("n" + rest));
  EXPECT_THAT(message(Completion(R"("best_of": 5)")), StartsWith("best_of" + rest));
  EXPECT_THAT(message(prompts(5, "")), StartsWith("prompt" + rest));
  model_.limits.max_waiting = 0;
  EXPECT_TRUE(Completion("").ok()) << "the queue refuses it";
}

// The error shows the value as the client sent it, whatever it is converted to.
TEST_F(ApiRequestTest, RefusalsShowFieldAndValue) {
  for (const BadField& c : std::vector<BadField>{
           {R"("max_tokens": 99999999999)", "max_tokens is 99999999999, must be an integer"},
           {R"("max_tokens": "5")", R"(max_tokens is "5", must be an integer)"},
           {R"("top_k": -99999999999)", "top_k is -99999999999"},
           {R"("temperature": 1e300)", "temperature is 1e+300"},
           {R"("stop_token_ids": [99999999999])", "stop_token_ids: 99999999999 is not an integer"},
           {R"("logit_bias": {"05": 1})", R"(logit_bias: the key "05" is not a token id)"},
           {R"("logit_bias": {"+5": 1})", R"(logit_bias: the key "+5" is not a token id)"},
           {R"("logit_bias": {"5": 1, "5": 1})", R"(logit_bias.5 is given twice)"},
           {R"("max_tokens": 5, "max_tokens": 6)", "max_tokens is given twice"},
           {R"("a\u001bc\n": 5)", R"(["a?c?"] is not a field)"},
           {R"("n": 129)", "n is 129"},
           {R"("min_tokens": 17)", "min_tokens: 17, must be from 0 to the 16 tokens"},
           {R"("min_tokens": -1)", "min_tokens: -1"}}) {
    EXPECT_THAT(Completion(c.fields).status().message(), HasSubstr(c.named)) << c.fields;
  }
  EXPECT_THAT(Chat(R"("logprobs": true, "top_logprobs": 21)").status().message(),
              StartsWith("top_logprobs is 21"));
  EXPECT_THAT(ParseCompletion(R"({"prompt": [99999999999]})", model_).status().message(),
              HasSubstr("99999999999"));
}

TEST_F(ApiRequestTest, WrongOnesAreRefusedByName) {
  constexpr BadField kBoth[] = {
      {R"("model": 1)", "model"},
      {R"("max_tokens": "5")", "max_tokens"},
      {R"("max_tokens": 1.5)", "max_tokens"},
      {R"("max_tokens": 0)", "max_tokens"},
      {R"("max_tokens": -1)", "max_tokens"},
      {R"("max_tokens": 10000000000000000000000)", "max_tokens"},
      {R"("max_tokens": 1000000000000)", "max_tokens"},
      {R"("temperature": "hot")", "temperature"},
      {R"("temperature": -1)", "temperature"},
      {R"("top_p": 0)", "top_p"},
      {R"("top_p": true)", "top_p"},
      {R"("top_k": -2)", "top_k"},
      {R"("min_p": 2)", "min_p"},
      {R"("repetition_penalty": 0)", "repetition_penalty"},
      {R"("presence_penalty": 3)", "presence_penalty"},
      {R"("frequency_penalty": 3)", "frequency_penalty"},
      {R"("logit_bias": [1])", "logit_bias"},
      {R"("logit_bias": {"x": 1})", "logit_bias"},
      {R"("logit_bias": {"1": "x"})", "logit_bias"},
      {R"("logit_bias": {"96": 1})", "logit_bias"},
      {R"("logit_bias": {"1": 101})", "logit_bias"},
      {R"("stop": 1)", "stop"},
      {R"("stop": [1])", "stop"},
      {R"("stop": [""])", "stop"},
      {R"("stop_token_ids": 1)", "stop_token_ids"},
      {R"("stop_token_ids": [96])", "stop_token_ids"},
      {R"("ignore_eos": 1)", "ignore_eos"},
      {R"("skip_special_tokens": 1)", "skip_special_tokens"},
      {R"("include_stop_str_in_output": "yes")", "include_stop_str_in_output"},
      {R"("allowed_token_ids": [])", "allowed_token_ids"},
      {R"("allowed_token_ids": [96])", "allowed_token_ids"},
      {R"("allowed_token_ids": 1)", "allowed_token_ids"},
      {R"("bad_words": [1])", "bad_words"},
      {R"("bad_words": [""])", "bad_words"},
      {R"("bad_words": ["a"], "allowed_token_ids": [0])", "bad_words"},
      {R"("seed": 1.5)", "seed"},
      {R"("seed": "1")", "seed"},
      {R"("n": 0)", "n is"},
      {R"("n": 129)", "n is"},
      {R"("n": "1")", "n is"},
      {R"("stream": 1)", "stream"},
      {R"("stream_options": {})", "stream_options"},
      {R"("stream": true, "stream_options": 1)", "stream_options"},
      {R"("stream": true, "stream_options": {"include_usage": 1})", "stream_options.include_usage"},
      {R"("prompt_logprobs": 21)", "prompt_logprobs"},
      {R"("prompt_logprobs": -1)", "prompt_logprobs"},
      {R"("prompt_logprobs": 1, "stream": true)", "prompt_logprobs"},
      {R"("suffix": "x")", "suffix"},
      {R"("tools": [{}])", "tools"},
      {R"("functions": [{}])", "functions"},
      {R"("response_format": {"type": "x"})", "response_format.type"},
      {R"("structured_outputs": {"x": 1})", "structured_outputs.x"},
      {R"("guided_regex": "(")", "guided_regex"},
      {R"("speculation": 1)", "speculation"},
      {R"("speculation": {"typo": 1})", "speculation"},
      {R"("speculation": {"mode": "on"})", "speculation.mode"},
      {R"("speculation": {"rule": "x"})", "speculation.rule"},
      {R"("speculation": {"rule": "greedy-block"})", "speculation.rule"},
      {R"("speculation": {"rule": "token", "paths": 2})", "speculation.rule"},
      {R"("speculation": {"paths": 5})", "speculation.paths"},
      {R"("speculation": {"draft_length": 9})", "speculation.draft_length"},
      {R"("speculation": {"draft_length": "9"})", "speculation.draft_length"},
      {R"("speculation": {"tree": [0]})", "speculation.tree"},
      {R"("speculation": {"tree": 1})", "speculation.tree"},
      {R"("speculation": {"stop": 1})", "speculation.stop"},
      {R"("speculation": {"stop": {"kind": "x"}})", "speculation.stop"},
      {R"("speculation": {"stop": {"x": 1}})", "speculation.stop.x is"},
      {R"("speculation": {"stop": {"kind": "confidence", "threshold": 2}})",
       "speculation.stop.threshold: "},
  };
  for (const BadField& c : kBoth) {
    for (const Result<ApiRequest>& parsed : {Completion(c.fields), Chat(c.fields)}) {
      ASSERT_FALSE(parsed.ok()) << c.fields;
      EXPECT_EQ(parsed.status().code(), Code::kInvalidArgument) << c.fields;
      EXPECT_THAT(parsed.status().message(), HasSubstr(c.named)) << c.fields;
    }
  }
  EXPECT_THAT(Completion(R"("logprobs": 21)").status().message(), HasSubstr("logprobs"));
  EXPECT_THAT(Completion(R"("logprobs": true)").status().message(), HasSubstr("logprobs"));
  EXPECT_THAT(Completion(R"("n": 2, "best_of": 1)").status().message(),
              HasSubstr("best_of is 1, must be from n, which is 2, to 128"));
  EXPECT_THAT(Completion(R"("best_of": 2, "stream": true)").status().message(),
              HasSubstr("best_of: above n it is not streamed"));
  EXPECT_THAT(
      ParseCompletion(R"({"prompt": ["a", "b"], "best_of": 65})", model_).status().message(),
      HasSubstr("best_of: 128 choices at most"));
  EXPECT_THAT(ParseCompletion(R"({"prompt": ["a", "b"], "n": 65})", model_).status().message(),
              HasSubstr("n:"));
  EXPECT_THAT(Chat(R"("logprobs": 1)").status().message(), HasSubstr("logprobs"));
  EXPECT_THAT(Chat(R"("top_logprobs": 1)").status().message(), HasSubstr("top_logprobs"));
}

TEST_F(ApiRequestTest, PromptLogprobsHaveLimitInStreams) {
  model_.limits.max_context = model_.limits.kv_tokens = 4096;
  const auto parse = [&](int choices) {
    std::string prompt = "0";
    for (int i = 1; i < 1000; ++i) prompt += ",0";
    return ParseCompletion(
               R"({"echo": true, "logprobs": 20, "max_tokens": 1, "stream": true, "n": )" +
                   std::to_string(choices) + R"(, "prompt": [)" + prompt + "]}",
               model_)
        .status();
  };
  EXPECT_TRUE(parse(12).ok()) << parse(12).ToString();
  EXPECT_THAT(parse(13).message(), StartsWith("echo: 273000 log probabilities of prompts"));
}

TEST_F(ApiRequestTest, EchoesHaveALimit) {
  model_.limits.max_context = model_.limits.kv_tokens = 1 << 20;
  const std::string prompt(kMaxEchoBytes / 128 + 1, 'a');
  const auto parse = [&](int choices) {
    return ParseCompletion(R"({"echo": true, "n": )" + std::to_string(choices) +
                               R"(, "prompt": ")" + prompt + "\"}",
                           model_)
        .status();
  };
  EXPECT_TRUE(parse(127).ok()) << parse(127).ToString();
  EXPECT_THAT(parse(128).message(), StartsWith("echo: more than 16777216 bytes"));
}

TEST_F(ApiRequestTest, ChecksModelNameFirst) {
  EXPECT_TRUE(Completion(R"("model": "m")").ok());
  EXPECT_EQ(Completion(R"("model": "x", "n": 0)").status().code(), Code::kNotFound);
  EXPECT_EQ(Chat(R"("model": "x")").status().code(), Code::kNotFound);
}

TEST_F(ApiRequestTest, RefusesBodyThatIsNoObject) {
  const std::string deep(100000, '[');
  std::string many = R"({"a": [0)";
  for (int i = 0; i < 1 << 20; ++i) many += ",0";
  many += "]}";
  for (const std::string& body :
       {std::string(), std::string("["), std::string("[]"), std::string("1"),
        std::string("{\"prompt\": \"\xff\"}"), std::string("{\"prompt\": \"\\ud800\"}"),
        std::string("{} x"), R"({"a": )" + deep,
        R"({"a": )" + deep + std::string(100000, ']') + "}", many}) {
    const auto parsed = ParseCompletion(body, model_);
    ASSERT_FALSE(parsed.ok());
    EXPECT_EQ(parsed.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(parsed.status().message(), HasSubstr("body"));
  }
}

TEST_F(ApiRequestTest, BeyondContextIsOutOfRange) {
  const auto code = [](const Result<ApiRequest>& parsed) { return parsed.status().code(); };
  model_.limits.max_prompt_bytes = 100;
  const std::string prompt(70, 'a');
  EXPECT_EQ(code(ParseCompletion(R"({"prompt": ")" + prompt + "\"}", model_)), Code::kOutOfRange);
  EXPECT_EQ(code(ParseCompletion(R"({"prompt": ")" + prompt + prompt + "\"}", model_)),
            Code::kOutOfRange);
  EXPECT_EQ(code(Completion(R"("max_tokens": 62)")), Code::kOutOfRange);
  EXPECT_EQ(code(Chat(R"("max_tokens": 64)")), Code::kOutOfRange);
  EXPECT_EQ(
      code(ParseChat(R"({"messages": [{"role": "user", "content": ")" + prompt + prompt + "\"}]}",
                     model_)),
      Code::kOutOfRange);
  std::string messages = R"({"messages": [{"role": "user", "content": ")" + prompt + "\"}]}";
  EXPECT_THAT(ParseChat(messages, model_).status().message(), StartsWith("messages: "));
  EXPECT_EQ(code(Completion(R"("guided_choice": ["the context", 1])")), Code::kInvalidArgument);
}

}  // namespace
}  // namespace outrider
