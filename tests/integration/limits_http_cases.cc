// The cases of the table "HTTP".
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/integration/limits_cases.h"

namespace outrider::limits {
namespace {

using Json = nlohmann::json;
using testing::Fetch;
using ::testing::HasSubstr;
using testing::HttpClient;
using testing::HttpResponse;

constexpr char kServerTest[] = "tests/verifier/http/server_test.cc";
constexpr char kRefusalsTest[] = "tests/verifier/http/api_refusals_test.cc";
constexpr char kToolsTest[] = "tests/verifier/http/tool_fields_test.cc";
constexpr char kGrammarTest[] = "tests/common/grammar/grammar_limits_test.cc";
constexpr char kTemplateTest[] = "tests/common/text/jinja/limits_test.cc";
constexpr char kCompletion[] = R"({"model":"model","prompt":"abc","max_tokens":1})";

// A case that sends a completion with the fields that `fields` makes for a size. `says`: a part of
// the error message, if another mistake could have the same code.
template <class Fields>
Ask Completing(Fields fields, const std::string& says = "") {
  return [fields, says](Target& target, int64_t size) {
    Json body = Json::parse(kCompletion);
    body.update(fields(size));
    const HttpResponse response =
        Fetch(target.verifier.http_port, "POST", "/v1/completions", body.dump());
    if (response.code == 400) {
      EXPECT_THAT(response.body, HasSubstr(says));
    }
    return std::to_string(response.code);
  };
}

template <class Item>
Json ListOf(int64_t size, const Item& item) {
  Json list = Json::array();
  for (int64_t i = 0; i < size; ++i) list.push_back(item(i));
  return list;
}

Json Nested(int64_t depth) {
  const auto count = static_cast<size_t>(depth);
  return Json::parse(std::string(count, '[') + std::string(count, ']'));
}

// A request in one chunk with an extension of `size` bytes.
std::string ChunkExtension(Target& target, int64_t size) {
  const std::string body = kCompletion;
  char length[20];
  std::snprintf(length, sizeof length, "%zx", body.size());
  HttpClient client(target.verifier.http_port);
  client.SendRaw(
      "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
      "Transfer-Encoding: chunked\r\n\r\n" +
      std::string(length) + ";" + std::string(static_cast<size_t>(size), 'x') + "\r\n" + body +
      "\r\n0\r\n\r\n");
  return CodeText(client.Receive());
}

std::string HttpBody(Target& target, int64_t size) {
  std::string body = kCompletion;
  body.resize(static_cast<size_t>(size), ' ');
  return std::to_string(Fetch(target.verifier.http_port, "POST", "/v1/completions", body).code);
}

std::string RequestId(Target& target, int64_t size) {
  const std::string id(static_cast<size_t>(size), 'x');
  HttpResponse response = Fetch(target.verifier.http_port, "POST", "/v1/completions", kCompletion,
                                "X-Request-Id: " + id + "\r\n");
  return response.headers["x-request-id"] == id ? "kept" : "replaced";
}

std::string PrefixHeader(Target& target, int64_t size) {
  const std::string name(static_cast<size_t>(size), 'x');
  HttpResponse response = Fetch(target.verifier.http_port, "POST", "/v1/completions", kCompletion,
                                "X-Outrider-Prefix: " + name + "\r\n");
  return response.headers["x-outrider-prefix"] == name ? "kept" : "replaced";
}

std::string GzippedBody(Target& target, int64_t) {
  HttpClient client(target.verifier.http_port);
  client.SendRaw(
      "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
      "Transfer-Encoding: gzip\r\n\r\n");
  return CodeText(client.Receive());
}

std::string TwoPrompts(Target& target, int64_t) {
  const std::string body = R"({"model":"model","prompt":"abc","prompt":"abc","max_tokens":1})";
  return std::to_string(Fetch(target.verifier.http_port, "POST", "/v1/completions", body).code);
}

std::string TopLogprobs(Target& target, int64_t size) {
  const Json body = {{"model", "model"},
                     {"messages", {{{"role", "user"}, {"content", "abc"}}}},
                     {"logprobs", true},
                     {"top_logprobs", size}};
  const HttpResponse response =
      Fetch(target.verifier.http_port, "POST", "/v1/chat/completions", body.dump());
  EXPECT_THAT(response.body, HasSubstr("top_logprobs"));
  return std::to_string(response.code);
}

Json BiasOf(int64_t size) {
  Json bias = Json::object();
  for (int64_t i = 0; i < size; ++i) bias[std::to_string(i)] = 1;
  return {{"logit_bias", bias}};
}

const Cases kHttpCases = {
    {"connections", HeldBy{kServerTest, "IdleConnectionsMakeRoomAtLimit"}},
    {"head of a request", Only{[](Target& t, int64_t above) {
       return HeadAbove(t.verifier.http_port, "/health", above);
     }}},
    {"time of a head, and of a body", HeldBy{kServerTest, "CutsOffSlowHeadsAndBodies"}},
    {"`Transfer-Encoding`", Only{GzippedBody}},
    {"extensions of a body's chunks", Only{ChunkExtension}},
    {"body", Try{HttpBody}},
    {"unfinished bodies of an address (IPv6: of its network of 64 bits)",
     HeldBy{kServerTest, "UnfinishedBodiesHaveLimits"}},
    {"unfinished bodies of all", HeldBy{kServerTest, "UnfinishedBodiesHaveLimits"}},
    {"bytes ahead of an answer", HeldBy{kServerTest, "DisconnectsClientSendingTooFarAhead"}},
    {"a stream that its client does not read", HeldBy{kServerTest, "DisconnectsAReaderThatLags"}},
    {"`x-request-id`", Try{RequestId}},
    {"`x-outrider-prefix`", Try{PrefixHeader}},
    {"depth of the JSON", Only{Completing([](int64_t size) {
       return Json{{"metadata", Nested(size)}};
     })}},
    {"values of the JSON", Only{Completing([](int64_t size) {
       return Json{{"metadata", ListOf(size, [](int64_t) { return 1; })}};
     })}},
    {"of these members, strings, arrays, objects and integers beyond 64 bits",
     Only{Completing([](int64_t size) {
       return Json{{"metadata", ListOf(size, [](int64_t) { return ""; })}};
     })}},
    {"a member that comes twice in an object", Only{TwoPrompts}},
    {"a field that is not served or unknown", Only{Completing(
                                                  [](int64_t) {
                                                    return Json{{"frobnicate", 1}};
                                                  },
                                                  "frobnicate")}},
    {"`prompt` as token ids", Only{Completing([](int64_t) {
       return Json{{"prompt", ListOf(512, [](int64_t) { return 5; })}};
     })}},
    {"prompts of a request", Only{Completing([](int64_t size) {
       return Json{{"prompt", ListOf(size, [](int64_t) { return "abc"; })}};
     })}},
    {"`n`, times the prompts", Only{Completing([](int64_t size) {
       return Json{{"n", size}};
     })}},
    {"`stop`", Try{Completing([](int64_t size) {
       return Json{{"stop", ListOf(size, [](int64_t i) { return "z" + std::to_string(i); })}};
     })}},
    {"bytes of one of `stop`", Try{Completing([](int64_t size) {
       return Json{{"stop", std::string(static_cast<size_t>(size), 'z')}};
     })}},
    {"`stop_token_ids`", Try{Completing([](int64_t size) {
       return Json{{"stop_token_ids", ListOf(size, [](int64_t i) { return i; })}};
     })}},
    {"`logit_bias`", Only{Completing(BiasOf, "1024")}},
    {"`prompt_logprobs`", Try{Completing([](int64_t size) {
       return Json{{"prompt_logprobs", size}};
     })}},
    {"log probabilities of a request's prompts (choices x tokens x alternatives)",
     HeldBy{kRefusalsTest, "PromptLogprobsHaveLimitInStreams"}},
    {"rows of logits of prompts in one step",
     HeldBy{"tests/verifier/engine/prompt_logprobs_test.cc", "RowsAndResultsHaveLimits"}},
    {"`echo`: bytes of prompts, over all choices", HeldBy{kRefusalsTest, "EchoesHaveALimit"}},
    {"`allowed_token_ids`",
     Only{Completing(
         [](int64_t size) {
           return Json{{"allowed_token_ids", ListOf(size, [](int64_t) { return 5; })}};
         },
         "at most 65536")}},
    {"`bad_words`", Try{Completing([](int64_t size) {
       return Json{{"bad_words", ListOf(size, [](int64_t i) { return "z" + std::to_string(i); })}};
     })}},
    {"choices of `structured_outputs`", Try{Completing(
                                            [](int64_t size) {
                                              const auto text = [](int64_t) { return "a"; };
                                              return Json{{"guided_choice", ListOf(size, text)}};
                                            },
                                            "at most 1024")}},
    {"bytes of `response_format`, `structured_outputs` and its like",
     Try{Completing(
         [](int64_t size) {
           const std::string begin = R"({"type":"null","title":")", end = "\"}";
           const size_t rest = static_cast<size_t>(size) - begin.size() - end.size();
           return Json{{"guided_json", begin + std::string(rest, 't') + end}};
         },
         "at most 262144")}},
    {"steps of compiling a grammar", HeldBy{kGrammarTest, "StatesAndSteps"}},
    {"steps of a grammar's mask", HeldBy{kGrammarTest, "StepsOfNodeMasksAreBounded"}},
    {"grammars of running and waiting requests, with their masks",
     HeldBy{"tests/common/grammar/grammar_cache_test.cc", "RefusesMoreThanRequestsMayHold"}},
    {"steps of the masks of one step, over its rounds",
     HeldBy{"tests/verifier/engine/scheduler_test.cc", "CostlyGrammarsTakeTurns"}},
    {"steps of the masks of a round's draft, but for the last mask",
     HeldBy{"tests/verifier/engine/structured_output_test.cc", "DraftsEndWhereTheirStepsDo"}},
    {"steps of reading a byte by a grammar", HeldBy{kGrammarTest, "StepsOfAByteAreBounded"}},
    {"bytes of one of `bad_words`", Only{Completing(
                                        [](int64_t) {
                                          return Json{{"bad_words", std::string(1025, 'z')}};
                                        },
                                        "at most 1024")}},
    {"`/tokenize`: tokens of its answer",
     HeldBy{"tests/verifier/http/routes_test.cc", "AnswerTokensHaveLimit"}},
    {"`/detokenize`: text of its tokens",
     HeldBy{"tests/verifier/http/routes_test.cc", "TextHasLimit"}},
    {"`best_of`, times the prompts", Only{Completing([](int64_t size) {
       return Json{{"best_of", size}};
     })}},
    {"`speculation.tree`",
     Only{Completing(
         [](int64_t) {
           return Json{{"speculation", {{"tree", ListOf(2000, [](int64_t) { return 1; })}}}};
         },
         "tree")}},
    {"`min_tokens`", Only{Completing(
                         [](int64_t) {
                           return Json{{"min_tokens", 2}};
                         },
                         "min_tokens")}},
    {"`logprobs`", Try{Completing([](int64_t size) {
       return Json{{"logprobs", size}};
     })}},
    {"log probabilities of an answer that is no stream (choices x tokens x alternatives)",
     Only{Completing([](int64_t) {
       return Json{{"n", 128}, {"max_tokens", 200}, {"logprobs", 20}};
     })}},
    {"`top_logprobs`", Only{TopLogprobs}},
    {"`tools`", HeldBy{kToolsTest, "ToolsHaveLimits"}},
    {"bytes of `tools`, as JSON", HeldBy{kToolsTest, "ToolsHaveLimits"}},
    {"name of a tool", HeldBy{kToolsTest, "ToolsHaveLimits"}},
    {"`tool_calls` of a message", HeldBy{kToolsTest, "CallsOfMessagesHaveLimits"}},
    {"id of a call", HeldBy{kToolsTest, "CallsOfMessagesHaveLimits"}},
    {"values in the `arguments` of a request's calls, one for 64 bytes too",
     HeldBy{kToolsTest, "CallsOfMessagesHaveLimits"}},
    {"calls of an answer",
     HeldBy{"tests/verifier/chat/call_parser_test.cc", "LeavesOutCallsBeyondTheLimit"}},
    {"bytes of a message's header in harmony",
     HeldBy{"tests/verifier/chat/harmony_test.cc", "OverlongHeadersAreContent"}},
    {"levels of a call's arguments in Python",
     HeldBy{"tests/verifier/chat/python_arguments_test.cc", "OthersAreRefused"}},
    {"integers", Only{Completing([](int64_t) {
       return Json{{"max_tokens", int64_t{1} << 31}};
     })}},
    {"steps of a match of the tokenizer's expressions",
     HeldBy{"tests/common/text/pattern_test.cc", "UnboundedBacktrackingIsError"}},
    {"CPU time of the tokenizer's expressions for one text",
     HeldBy{"tests/common/text/pattern_test.cc", "TimeOfTextIsLimited"}},
    {"a chat template's file", HeldBy{kTemplateTest, "NestingOfTemplatesHasALimit"}},
    {"steps of a chat template", HeldBy{kTemplateTest, "StepsEndWhateverRepeats"}},
    {"bytes of strings, lists and scopes that a chat template makes",
     HeldBy{kTemplateTest, "CountsBytesBeforeMakingThem"}},
    {"bytes that a chat template renders", HeldBy{kTemplateTest, "OutputHasALimit"}},
    {"calls of a chat template in each other",
     HeldBy{kTemplateTest, "MacroAndLoopRecursionIsLimited"}},
    {"tokens of prompts that the verifier's own proposers read in one step",
     HeldBy{"tests/verifier/engine/planned_engine_test.cc", "LongPromptsAreReadInTurns"}},
    {"a text that is being tokenized when the server stops",
     HeldBy{"tests/verifier/engine/text_workers_test.cc", "StopReturnsWhileATextRuns"}},
};

}  // namespace

const Cases& HttpCases() { return kHttpCases; }

}  // namespace outrider::limits
