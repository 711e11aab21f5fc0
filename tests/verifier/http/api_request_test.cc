#include "verifier/http/api_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/verifier/http/api_request_fixture.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::StartsWith;

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

// Of a model with a long context, which such an answer could not hold.
TEST_F(ApiRequestTest, LogprobsBoundChatsOfAnyLength) {
  model_.limits.max_context = model_.limits.kv_tokens = 1 << 17;
  const auto tokens = [&](const std::string& fields) {
    const auto chat = Chat(fields);
    return chat.ok() ? chat->prompts.at(0).max_tokens : std::optional<int>(-1);
  };
  EXPECT_EQ(tokens(R"("logprobs": true, "top_logprobs": 5)"), (1 << 18) / 6);
  EXPECT_EQ(tokens(R"("logprobs": true, "top_logprobs": 5, "n": 4)"), (1 << 18) / 24);
  const auto both = Chat(R"("logprobs": true, "top_logprobs": 5, "prompt_logprobs": 0)");
  ASSERT_TRUE(both.ok()) << both.status().ToString();
  EXPECT_LT(both->prompts.at(0).max_tokens, (1 << 18) / 6);
  EXPECT_EQ(tokens(R"("logprobs": true, "top_logprobs": 5, "max_tokens": 9)"), 9);
  EXPECT_EQ(tokens(R"("logprobs": true, "top_logprobs": 5, "stream": true)"), std::nullopt);
  EXPECT_EQ(tokens(R"("top_logprobs": null)"), std::nullopt);
  EXPECT_EQ(tokens(R"("logprobs": true, "top_logprobs": 5, "max_tokens": 100000)"), -1);
  EXPECT_EQ(tokens(R"("logprobs": true, "top_logprobs": 5, "n": 100)"), -1) << "hardly any";
}

TEST_F(ApiRequestTest, BestOfGeneratesMoreThanKept) {
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

TEST_F(ApiRequestTest, EchoAsksForPromptLogprobs) {
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

TEST_F(ApiRequestTest, NullUnknownFieldIsAbsent) {
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
