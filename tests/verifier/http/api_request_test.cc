#include "verifier/http/api_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/support/plain_chat.h"
#include "tests/support/tiny_tokenizer.h"

namespace outrider {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Completions and chats of letters: "a" is token 0.
class ApiRequestTest : public ::testing::Test {
 protected:
  ApiRequestTest() : tokenizer_(Tokenizer::FromJson(testing::AsciiTokenizerJson()).value()) {
    model_ = {.name = "m",
              .tokenizer = tokenizer_.get(),
              .chat_template = testing::PlainChatTemplate(),
              .limits = {.vocab_size = testing::kAsciiTokens,
                         .max_context = 64,
                         .kv_tokens = 64,
                         .max_draft_length = 8,
                         .max_paths = 4,
                         .max_draft_tokens = 24}};
    grammars_ =
        grammar::GrammarCache::Create(*tokenizer_, std::vector<TokenId>{95}, testing::kAsciiTokens)
            .value();
    model_.grammars = grammars_.get();
  }

  Result<ApiRequest> Completion(const std::string& fields) const {
    return ParseCompletion(R"({"prompt": "abc")" + (fields.empty() ? "" : ", " + fields) + "}",
                           model_);
  }
  Result<ApiRequest> Chat(const std::string& fields) const {
    return ParseChat(R"({"messages": [{"role": "user", "content": "abc"}])" +
                         (fields.empty() ? "" : ", " + fields) + "}",
                     model_);
  }
  GenerationRequest One(const std::string& fields) const {
    const auto parsed = Completion(fields);
    EXPECT_TRUE(parsed.ok()) << fields << ": " << parsed.status().ToString();
    return parsed.ok() ? parsed->prompts.at(0) : GenerationRequest{};
  }

  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<grammar::GrammarCache> grammars_;
  ApiModel model_;
};

struct BadField {
  const char* fields;
  const char* named;
};

TEST_F(ApiRequestTest, DefaultsAreThoseOfOpenAi) {
  const auto completion = Completion("");
  ASSERT_TRUE(completion.ok());
  EXPECT_EQ(completion->choices, 1);
  EXPECT_FALSE(completion->stream || completion->chat);
  const GenerationRequest& request = completion->prompts.at(0);
  EXPECT_THAT(request.prompt, ElementsAre(0, 1, 2));
  EXPECT_EQ(request.max_tokens, 16);
  EXPECT_EQ(request.sampling.temperature, 1.f);
  EXPECT_FALSE(request.seed.has_value() || request.logprobs.has_value());
  EXPECT_TRUE(request.speculation.enabled);
  const auto chat = Chat("");
  ASSERT_TRUE(chat.ok()) << chat.status().ToString();
  EXPECT_FALSE(chat->prompts.at(0).max_tokens.has_value());
  EXPECT_TRUE(chat->chat);
}

TEST_F(ApiRequestTest, EveryFieldArrives) {
  EXPECT_EQ(One(R"("max_tokens": 5)").max_tokens, 5);
  EXPECT_EQ(One(R"("max_tokens": 5, "max_completion_tokens": 6)").max_tokens, 6);
  EXPECT_EQ(One(R"("min_tokens": 5)").min_tokens, 5);
  EXPECT_EQ(One(R"("temperature": 0.5)").sampling.temperature, 0.5f);
  EXPECT_EQ(One(R"("temperature": 0)").sampling.temperature, 0.f);
  EXPECT_EQ(One(R"("top_p": 0.5)").sampling.top_p, 0.5f);
  EXPECT_EQ(One(R"("top_k": 7)").sampling.top_k, 7);
  EXPECT_EQ(One(R"("top_k": -1)").sampling.top_k, 0);
  EXPECT_EQ(One(R"("min_p": 0.25)").sampling.min_p, 0.25f);
  EXPECT_EQ(One(R"("repetition_penalty": 1.5)").sampling.repetition_penalty, 1.5f);
  EXPECT_EQ(One(R"("presence_penalty": -1)").sampling.presence_penalty, -1.f);
  EXPECT_EQ(One(R"("frequency_penalty": 0.5)").sampling.frequency_penalty, 0.5f);
  EXPECT_THAT(One(R"("logit_bias": {"3": -100, "4": 1.5})").sampling.logit_bias,
              ElementsAre(std::pair(3, -100.f), std::pair(4, 1.5f)));
  EXPECT_THAT(One(R"("stop": "x")").stop_strings, ElementsAre("x"));
  EXPECT_THAT(One(R"("stop": ["x", "y"])").stop_strings, ElementsAre("x", "y"));
  EXPECT_THAT(One(R"("stop_token_ids": [3, 4])").stop_tokens, ElementsAre(3, 4));
  EXPECT_TRUE(One(R"("ignore_eos": true)").ignore_eos);
  EXPECT_TRUE(One("").skip_special);
  EXPECT_FALSE(One(R"("skip_special_tokens": false)").skip_special);
  EXPECT_FALSE(One("").include_stop);
  EXPECT_TRUE(One(R"("include_stop_str_in_output": true)").include_stop);
  EXPECT_THAT(One(R"("allowed_token_ids": [3, 5])").sampling.allowed_tokens, ElementsAre(3, 5));
  EXPECT_THAT(One(R"("bad_words": ["a", "bc"])").sampling.bad_words,
              ElementsAre(ElementsAre(0), ElementsAre(1, 2)));
  EXPECT_TRUE(One(R"("bad_words": [])").sampling.bad_words.empty());
  EXPECT_EQ(One(R"("seed": 18446744073709551615)").seed, ~uint64_t{0});
  EXPECT_EQ(One(R"("seed": -1)").seed, ~uint64_t{0});
  EXPECT_EQ(One(R"("logprobs": 3)").logprobs, 3);
  EXPECT_EQ(Completion(R"("n": 3)")->choices, 3);
  const auto stream = Completion(R"("stream": true, "stream_options": {"include_usage": true})");
  EXPECT_TRUE(stream->stream && stream->include_usage);
  EXPECT_EQ(Chat(R"("max_completion_tokens": 9)")->prompts.at(0).max_tokens, 9);
  EXPECT_EQ(Chat(R"("max_tokens": 8)")->prompts.at(0).max_tokens, 8);
  EXPECT_EQ(Chat(R"("logprobs": true)")->prompts.at(0).logprobs, 0);
  EXPECT_EQ(Chat(R"("logprobs": true, "top_logprobs": 4)")->prompts.at(0).logprobs, 4);
  EXPECT_FALSE(Chat(R"("logprobs": false)")->prompts.at(0).logprobs.has_value());
}

TEST_F(ApiRequestTest, BestOfGeneratesMoreThanItKeeps) {
  const auto one = Completion(R"("best_of": 5)");
  EXPECT_EQ(one->choices, 5);
  EXPECT_EQ(one->kept, 1);
  EXPECT_FALSE(one->logprobs);
  EXPECT_EQ(one->prompts.at(0).logprobs, 0) << "its choices are ranked by them";
  const auto two = Completion(R"("n": 2, "best_of": 2, "stream": true)");
  EXPECT_EQ(two->choices, 2);
  EXPECT_EQ(two->kept, 2);
  EXPECT_FALSE(two->prompts.at(0).logprobs.has_value());
  EXPECT_EQ(Completion(R"("n": 3)")->kept, 3);
  EXPECT_TRUE(Completion(R"("best_of": 3, "logprobs": 2)")->logprobs);
}

TEST_F(ApiRequestTest, EchoAsksForThePromptsLogProbabilitiesToo) {
  const auto plain = Completion(R"("echo": true)");
  ASSERT_TRUE(plain.ok()) << plain.status().ToString();
  EXPECT_THAT(plain->echoes, ElementsAre(Field(&PromptEcho::text, "abc")));
  EXPECT_FALSE(plain->echo_only);
  EXPECT_FALSE(plain->prompts.at(0).prompt_logprobs.has_value());
  EXPECT_TRUE(Completion("")->echoes.empty());
  const auto told = Completion(R"("echo": true, "logprobs": 2)");
  EXPECT_EQ(told->prompts.at(0).prompt_logprobs, 2);
  EXPECT_FALSE(told->prompt_logprobs.has_value()) << "no field of its own";
  const auto both = Completion(R"("echo": true, "logprobs": 2, "prompt_logprobs": 5)");
  EXPECT_EQ(both->prompts.at(0).prompt_logprobs, 5);
  EXPECT_EQ(both->logprobs, 2);
  EXPECT_EQ(both->prompt_logprobs, 5);
  const auto nothing_new = Completion(R"("echo": true, "max_tokens": 0)");
  ASSERT_TRUE(nothing_new.ok()) << nothing_new.status().ToString();
  EXPECT_TRUE(nothing_new->echo_only);
  EXPECT_EQ(nothing_new->prompts.at(0).max_tokens, 1);
  const auto many = ParseCompletion(R"({"prompt": [[0, 1], [2]], "echo": true})", model_);
  EXPECT_THAT(many->echoes,
              ElementsAre(Field(&PromptEcho::text, "ab"), Field(&PromptEcho::text, "c")));
  EXPECT_EQ(Chat(R"("prompt_logprobs": 1)")->prompts.at(0).prompt_logprobs, 1);
  EXPECT_THAT(Chat(R"("echo": true)").status().message(), StartsWith("echo is true, which is not"));
  EXPECT_FALSE(ChoiceOf(told->prompts.at(0), 1).prompt_logprobs.has_value());
  EXPECT_TRUE(ChoiceOf(told->prompts.at(0), 0).prompt_logprobs.has_value());
}

TEST_F(ApiRequestTest, AnAnswersLogProbabilitiesOfPromptsHaveALimitInStreamsToo) {
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

TEST_F(ApiRequestTest, SpeculationMirrorsTheContract) {
  const SpeculationOptions options =
      One(R"("speculation": {"mode": "auto", "rule": "multipath-block", "paths": 2,
           "draft_length": 3, "stop": {"kind": "confidence", "threshold": 0.5}})")
          .speculation;
  EXPECT_TRUE(options.enabled);
  EXPECT_EQ(options.rule, Rule::kMultiPathBlock);
  EXPECT_EQ(options.paths, 2);
  EXPECT_EQ(options.draft_length, 3);
  EXPECT_EQ(options.stop, (StopRule{.kind = StopRule::Kind::kConfidence, .threshold = 0.5f}));
  EXPECT_THAT(One(R"("speculation": {"rule": "spectr", "tree": [2, 1]})").speculation.tree,
              ElementsAre(2, 1));
  EXPECT_FALSE(One(R"("speculation": {"mode": "off"})").speculation.enabled);
}

TEST_F(ApiRequestTest, NullIsAbsentAlsoWhereTheFieldIsUnknown) {
  EXPECT_EQ(One(R"("max_tokens": null, "stop": null, "seed": null, "n": null, "speculation": null,
                  "stream_options": null, "tools": null, "whatever": null, "guided_json": null)")
                .max_tokens,
            16);
}

// What clients send in addition to their actual request. Each body is as that program sends it.
TEST_F(ApiRequestTest, BodiesOfKnownClientsPass) {
  for (const char* body :
       {// langchain-openai, OpenAI
        R"("model": "m", "frequency_penalty": 0, "logit_bias": {}, "max_tokens": 25, "n": 1,
              "presence_penalty": 0, "temperature": 0.7, "top_p": 1, "best_of": 1, "user": "u",
              "logprobs": null, "seed": null, "stream": false, "stop": null)",
        // lm-eval, local-completions
        R"("model": "m", "max_tokens": 25, "temperature": 0, "stop": ["a", "<s>"], "seed": 1234)",
        // vLLM's serving benchmark
        R"("model": "m", "temperature": 0.0, "repetition_penalty": 1.0, "max_tokens": 8,
              "logprobs": null, "stream": true, "stream_options": {"include_usage": true},
              "ignore_eos": true, "best_of": 1, "use_beam_search": false, "echo": false)",
        // guidellm
        R"("model": "m", "stream": true, "max_tokens": 8, "max_completion_tokens": 8,
              "stop": null, "ignore_eos": true,
              "stream_options": {"include_usage": true, "continuous_usage_stats": true})",
        // AIPerf, with the extra inputs of its guide
        R"("model": "m", "stream": true, "max_tokens": 8, "min_tokens": 8, "ignore_eos": true,
              "stream_options": {"include_usage": true})"}) {
    const auto parsed = Completion(body);
    EXPECT_TRUE(parsed.ok()) << body << ": " << parsed.status().ToString();
  }
  for (const char* body :
       {// openai, with all that it may send about a request
        R"("messages": [{"role": "user", "content": "a"}], "model": "m", "metadata": {"a": "b"},
              "store": false, "service_tier": "auto", "user": "u", "safety_identifier": "s",
              "prompt_cache_key": "k", "parallel_tool_calls": true, "tool_choice": "none",
              "tools": [], "modalities": ["text"], "prediction": {"type": "content", "content": "a"},
              "response_format": {"type": "text"}, "verbosity": "medium", "logprobs": false,
              "top_logprobs": 0, "stream": true, "stream_options": {"include_obfuscation": false})",
        // an answer sent back unchanged
        R"("messages": [{"role": "user", "content": "a"},
              {"role": "assistant", "content": "b", "refusal": null, "annotations": [],
               "audio": null, "function_call": null, "tool_calls": null},
              {"role": "user", "content": "c"}])",
        // litellm, with a part marked for another provider
        R"("model": "m", "messages": [{"role": "user", "content": [{"type": "text", "text": "a",
              "cache_control": {"type": "ephemeral"}}]}], "stream": true, "max_tokens": 8,
              "stream_options": {"include_usage": true}, "tool_choice": "auto")",
        // llama-index
        R"("model": "m", "messages": [{"role": "system", "content": "a"},
              {"role": "user", "content": "b"}], "stream": false, "temperature": 0.1)",
        // lm-eval, local-chat-completions
        R"("model": "m", "messages": [{"role": "user", "content": "a", "type": "text"}],
              "max_tokens": 8, "temperature": 0, "stop": ["a"], "seed": 1234)",
        // AIPerf
        R"("model": "m", "messages": [{"role": "user", "name": "", "content": "a"}],
              "stream": true, "max_completion_tokens": 8, "stream_options": {"include_usage": true})",
        // vLLM's defaults for fields that are not supported
        R"("messages": [{"role": "user", "content": "a"}], "add_generation_prompt": true,
              "continue_final_message": false, "add_special_tokens": false, "documents": [],
              "chat_template_kwargs": {}, "bad_words": [], "skip_special_tokens": true,
              "spaces_between_special_tokens": true, "length_penalty": 1.0, "priority": 0,
              "include_stop_str_in_output": false, "request_id": "r")"}) {
    const auto parsed = ParseChat("{" + std::string(body) + "}", model_);
    EXPECT_TRUE(parsed.ok()) << body << ": " << parsed.status().ToString();
  }
}

// Each would change the text, so ignoring it would answer another question than the client's.
TEST_F(ApiRequestTest, WhatIsNotServedIsRefusedByName) {
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
  for (const char* always : {R"("suffix": "x")", R"("tools": [{}])"}) {
    EXPECT_FALSE(Completion(always).ok()) << always;
  }
  EXPECT_FALSE(Completion(R"("speculation": {"typo": 1})").ok());
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

// The error shows the value as the client sent it, whatever it is converted to.
TEST_F(ApiRequestTest, AnAnswerOfManyLogProbabilitiesHasToBeAStream) {
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

TEST_F(ApiRequestTest, RefusalsShowTheFieldAndTheValue) {
  for (const BadField& c : std::vector<BadField>{
           {R"("max_tokens": 99999999999)", "max_tokens is 99999999999, must be an integer"},
           {R"("max_tokens": "5")", R"(max_tokens is "5", must be an integer)"},
           {R"("top_k": -99999999999)", "top_k is -99999999999"},
           {R"("temperature": 1e300)", "temperature is 1e+300"},
           {R"("stop_token_ids": [99999999999])", "stop_token_ids: 99999999999 is no integer"},
           {R"("logit_bias": {"05": 1})", R"(logit_bias: the key "05" is no token id)"},
           {R"("logit_bias": {"+5": 1})", R"(logit_bias: the key "+5" is no token id)"},
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

TEST_F(ApiRequestTest, PromptsComeInFourForms) {
  const auto prompts = [&](const std::string& prompt) {
    std::vector<std::vector<TokenId>> all;
    const auto parsed = ParseCompletion(R"({"prompt": )" + prompt + "}", model_);
    if (!parsed.ok()) return all;
    for (const GenerationRequest& request : parsed->prompts) all.push_back(request.prompt);
    return all;
  };
  using Ids = std::vector<TokenId>;
  EXPECT_THAT(prompts(R"("ab")"), ElementsAre(Ids{0, 1}));
  EXPECT_THAT(prompts(R"(["ab", "c"])"), ElementsAre(Ids{0, 1}, Ids{2}));
  EXPECT_THAT(prompts("[5, 6]"), ElementsAre(Ids{5, 6}));
  EXPECT_THAT(prompts("[[5, 6], [7]]"), ElementsAre(Ids{5, 6}, Ids{7}));
  for (const char* bad :
       {R"("")", "[]", "[[]]", R"([""])", R"(["a", 1])", R"([1, "a"])", R"(["a", [1]])", "[[1], 2]",
        "[96]", "[-1]", "[1.5]", "1", "{}", "true", "[[[1]]]", "[true]", "[99999999999]"}) {
    const auto parsed = ParseCompletion(std::string(R"({"prompt": )") + bad + "}", model_);
    ASSERT_FALSE(parsed.ok()) << bad;
    EXPECT_EQ(parsed.status().code(), Code::kInvalidArgument) << bad;
    EXPECT_THAT(parsed.status().message(), HasSubstr("prompt")) << bad;
  }
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

TEST_F(ApiRequestTest, AnotherModelIsNotFoundBeforeAllElse) {
  EXPECT_TRUE(Completion(R"("model": "m")").ok());
  EXPECT_EQ(Completion(R"("model": "x", "n": 0)").status().code(), Code::kNotFound);
  EXPECT_EQ(Chat(R"("model": "x")").status().code(), Code::kNotFound);
}

TEST_F(ApiRequestTest, ChatsAreRenderedAndOddMessagesRefused) {
  const auto chat = [&](const std::string& messages) {
    return ParseChat(R"({"messages": )" + messages + "}", model_);
  };
  for (const char* good :
       {R"([{"role": "system", "content": "a"}, {"role": "user", "content": "b"},
            {"role": "assistant", "content": null}, {"role": "user", "content": "c"}])",
        R"([{"role": "developer", "content": [{"type": "text", "text": "a"}]}])"}) {
    EXPECT_TRUE(chat(good).ok()) << chat(good).status().ToString();
  }
  for (const char* bad :
       {"null", "[]", "{}", "[1]", R"([{"content": "a"}])", R"([{"role": 1, "content": "a"}])",
        R"([{"role": "robot", "content": "a"}])", R"([{"role": "user", "content": 1}])",
        R"([{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}])",
        R"([{"role": "user", "content": [{"type": "image_url", "text": "a"}]}])",
        R"([{"role": "user", "content": [{"type": 5, "text": "a"}]}])",
        R"([{"role": "user", "content": ["a"]}])"}) {
    const auto parsed = chat(bad);
    ASSERT_FALSE(parsed.ok()) << bad;
    EXPECT_THAT(parsed.status().message(), HasSubstr("messages")) << bad;
  }
}

// Chats with a template that writes its input, and letters only.
class ChatTemplateFields : public ApiRequestTest {
 protected:
  std::string PromptOf(const std::string& body) {
    const auto parsed = ParseChat("{" + body + "}", model_);
    if (!parsed.ok()) return parsed.status().ToString();
    return tokenizer_->Decode(parsed->prompts.at(0).prompt, /*skip_special=*/false);
  }
  void Use(const std::string& jinja) { model_.chat_template = ChatTemplate::FromText(jinja); }

  const std::string user_ = R"("messages": [{"role": "user", "content": "abc"}])";
};

TEST_F(ChatTemplateFields, KwargsBecomeVariables) {
  Use("{% for name, value in extra.items() %}{{ name }}{{ value }}{% endfor %}"
      "{{ 'on' if thinks else 'off' }}{{ depth + 1 }}");
  EXPECT_EQ(PromptOf(user_ + R"(, "chat_template_kwargs":
                {"thinks": true, "depth": 2, "extra": {"z": "y", "b": null, "a": [1.5, false]}})"),
            "zybNonea[1.5, False]on3");
  EXPECT_THAT(PromptOf(user_), HasSubstr("messages: line 1: 'extra' is undefined"));
  for (const char* name : {"messages", "tools", "bos_token", "eos_token", "add_generation_prompt",
                           "continue_final_message"}) {
    EXPECT_THAT(PromptOf(user_ + R"(, "chat_template_kwargs": {")" + name + R"(": "x"})"),
                HasSubstr("chat_template_kwargs." + std::string(name) + ": is set by the server"));
  }
  EXPECT_THAT(PromptOf(user_ + R"(, "chat_template_kwargs": [1])"),
              HasSubstr("chat_template_kwargs is an array, must be an object"));
  EXPECT_THAT(PromptOf(user_ + R"(, "chat_template_kwargs": {"n": 18446744073709551615})"),
              HasSubstr("chat_template_kwargs.n is 18446744073709551615, must be an integer"));
}

TEST_F(ChatTemplateFields, NamesAndPartsAreShown) {
  const std::string body =
      R"("messages": [{"role": "user", "name": "bo", "content":
           [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}])";
  Use("{% for m in messages %}{{ m.name ~ m.content }}{% endfor %}");
  EXPECT_EQ(PromptOf(body), "boa\nb");
  Use("{% for m in messages %}{% for p in m['content'] %}<{{ p.type ~ p.text }}>{% endfor %}{% "
      "endfor %}");
  EXPECT_EQ(PromptOf(body), "<texta><textb>");
  Use("{% macro show(content) %}{% for p in content %}<{{ p.text }}>{% endfor %}{% endmacro %}"
      "{{ show(messages[0].content) }}");
  EXPECT_EQ(PromptOf(body), "<a><b>");
}

TEST_F(ChatTemplateFields, TheLastMessageIsContinued) {
  const std::string body =
      R"("messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "so "}])";
  EXPECT_EQ(PromptOf(body), "user: a\nassistant: so \nassistant:");
  EXPECT_EQ(PromptOf(body + R"(, "add_generation_prompt": false)"), "user: a\nassistant: so \n");
  EXPECT_EQ(PromptOf(body + R"(, "add_generation_prompt": false, "continue_final_message": true)"),
            "user: a\nassistant: so ");
  EXPECT_THAT(PromptOf(body + R"(, "continue_final_message": true)"),
              HasSubstr("continue_final_message: needs add_generation_prompt: false"));
  Use("{{ messages[0].content }}");
  EXPECT_THAT(
      PromptOf(body + R"(, "add_generation_prompt": false, "continue_final_message": true)"),
      HasSubstr("does not show the last message"));
}

TEST_F(ChatTemplateFields, TemplatesThatFailRefuseTheChat) {
  Use("{% if messages | length > 1 %}\n{{ raise_exception('one message at most') }}{% endif %}");
  EXPECT_EQ(PromptOf(R"("messages": [{"role": "user"}, {"role": "user"}])"),
            "INVALID_ARGUMENT: messages: line 2: the chat template refuses: one message at most");
  Use("a\n{% new %}");
  EXPECT_EQ(Chat("").status().code(), Code::kFailedPrecondition);
  EXPECT_THAT(Chat("").status().message(), AllOf(HasSubstr("line 2: '{% new %}' is not supported"),
                                                 HasSubstr("--chat-template")));
  model_.chat_template = ChatTemplate();
  EXPECT_EQ(Chat("").status().code(), Code::kFailedPrecondition);
  EXPECT_THAT(Chat("").status().message(),
              AllOf(HasSubstr("has no chat template"), HasSubstr("--chat-template")));
}

TEST_F(ApiRequestTest, BodiesThatAreNoJsonObjectAreRefused) {
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

TEST_F(ApiRequestTest, ChoicesShareMasksAndGrammar) {
  const auto parsed = ParseCompletion(
      R"({"prompt": ["a", "b"], "allowed_token_ids": [0, 1, 95], "bad_words": ["ab"],
          "guided_regex": "a+"})",
      model_);
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  const GenerationRequest& first = parsed->prompts.at(0);
  ASSERT_FALSE(first.sampling.allowed_tokens.empty() || first.sampling.bad_words.empty());
  ASSERT_TRUE(first.sampling.grammar.has_value());
  const auto expect_shared = [&](const GenerationRequest& request) {
    EXPECT_EQ(request.sampling.allowed_tokens.data(), first.sampling.allowed_tokens.data());
    EXPECT_EQ(request.sampling.bad_words.data(), first.sampling.bad_words.data());
    EXPECT_EQ(&*request.sampling.grammar, &*first.sampling.grammar);
    EXPECT_EQ(request.grammar_masks, first.grammar_masks);
  };
  expect_shared(parsed->prompts.at(1));
  for (int choice = 0; choice < kMaxChoices; ++choice) expect_shared(ChoiceOf(first, choice));
}

TEST_F(ApiRequestTest, WhatTheContextHasNoRoomForIsOutOfRange) {
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
  EXPECT_EQ(code(Completion(R"("guided_choice": ["the context", 1])")), Code::kInvalidArgument);
}

TEST_F(ApiRequestTest, ChoicesHaveSeedsOfTheirOwn) {
  const GenerationRequest seeded = One(R"("seed": 7)");
  EXPECT_EQ(ChoiceOf(seeded, 0).seed, 7u);
  std::set<uint64_t> seeds;
  for (int choice = 0; choice < kMaxChoices; ++choice) seeds.insert(*ChoiceOf(seeded, choice).seed);
  EXPECT_EQ(seeds.size(), static_cast<size_t>(kMaxChoices));
  EXPECT_EQ(ChoiceOf(seeded, 5).seed, ChoiceOf(seeded, 5).seed);
  EXPECT_FALSE(ChoiceOf(One(""), 3).seed.has_value());
}

TEST_F(ApiRequestTest, UnsetSamplingHasTheModelsDefaults) {
  model_.limits.defaults = {.sampling = {.temperature = 0.6f, .top_k = 20, .top_p = 0.9f},
                            .max_tokens = 7};
  const GenerationRequest completion = One("");
  EXPECT_EQ(completion.sampling, model_.limits.defaults.sampling);
  EXPECT_EQ(completion.max_tokens, 16) << "OpenAI's own default";
  const auto chat = Chat("");
  ASSERT_TRUE(chat.ok());
  EXPECT_EQ(chat->prompts.at(0).sampling, model_.limits.defaults.sampling);
  EXPECT_EQ(MaxNewTokens(chat->prompts.at(0), model_.limits), 7);
  const GenerationRequest asked = One(R"("temperature": 1, "top_k": 0, "top_p": 1)");
  EXPECT_EQ(asked.sampling, SamplingParams());
}

}  // namespace
}  // namespace outrider
