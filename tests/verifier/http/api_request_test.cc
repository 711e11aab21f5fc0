#include "verifier/http/api_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>

#include "tests/support/tiny_tokenizer.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Completions and chats of letters: "a" is token 0.
class ApiRequestTest : public ::testing::Test {
 protected:
  ApiRequestTest() : tokenizer_(Tokenizer::FromJson(testing::AsciiTokenizerJson()).value()) {
    model_ = {.name = "m",
              .tokenizer = tokenizer_.get(),
              .chat_template = ChatTemplate(),
              .limits = {.vocab_size = testing::kAsciiTokens,
                         .max_context = 64,
                         .kv_tokens = 64,
                         .max_draft_length = 8,
                         .max_paths = 4,
                         .max_draft_tokens = 24}};
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
  ApiModel model_;
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

TEST_F(ApiRequestTest, NullIsAbsentAndUnknownFieldsAreIgnored) {
  EXPECT_EQ(One(R"("max_tokens": null, "stop": null, "seed": null, "n": null, "speculation": null,
                  "stream_options": null, "tools": null, "whatever": {"a": [1]}, "tools": [],
                  "suffix": "", "response_format": {"type": "text"}, "user": "u")")
                .max_tokens,
            16);
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

struct BadField {
  const char* fields;
  const char* named;
};

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
      {R"("seed": 1.5)", "seed"},
      {R"("seed": "1")", "seed"},
      {R"("n": 0)", "n:"},
      {R"("n": 129)", "n:"},
      {R"("n": "1")", "n:"},
      {R"("stream": 1)", "stream"},
      {R"("stream_options": {})", "stream_options"},
      {R"("stream": true, "stream_options": 1)", "stream_options"},
      {R"("stream": true, "stream_options": {"include_usage": 1})", "stream_options.include_usage"},
      {R"("user": 1)", "user"},
      {R"("echo": true)", "echo"},
      {R"("suffix": "x")", "suffix"},
      {R"("tools": [{}])", "tools"},
      {R"("functions": [{}])", "functions"},
      {R"("response_format": {"type": "json_object"})", "response_format"},
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
      {R"("speculation": {"stop": {"kind": "confidence", "threshold": 2}})", "threshold"},
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
  EXPECT_THAT(Completion(R"("best_of": 2)").status().message(), HasSubstr("best_of"));
  EXPECT_THAT(Completion(R"("prompt": ["a", "b"], "n": 65)").status().message(), HasSubstr("n:"));
  EXPECT_THAT(Chat(R"("logprobs": 1)").status().message(), HasSubstr("logprobs"));
  EXPECT_THAT(Chat(R"("top_logprobs": 1)").status().message(), HasSubstr("top_logprobs"));
  EXPECT_THAT(Chat(R"("logprobs": true, "top_logprobs": 21)").status().message(),
              HasSubstr("logprobs"));
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
        R"([{"role": "tool", "content": "a"}])", R"([{"role": "user", "content": 1}])",
        R"([{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}])",
        R"([{"role": "user", "content": ["a"]}])"}) {
    const auto parsed = chat(bad);
    ASSERT_FALSE(parsed.ok()) << bad;
    EXPECT_THAT(parsed.status().message(), HasSubstr("messages")) << bad;
  }
  model_.chat_template = ChatTemplate::FromText("{{ something.new }}");
  EXPECT_EQ(Chat("").status().code(), Code::kFailedPrecondition);
  EXPECT_THAT(Chat("").status().message(), HasSubstr("--chat-template"));
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
