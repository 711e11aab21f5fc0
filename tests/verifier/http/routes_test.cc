// Routes other than completions and chats, and their answers, without a server.
#include "verifier/http/routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "common/rpc/client_tokens.h"
#include "tests/verifier/http/api_request_fixture.h"
#include "verifier/http/api.h"
#include "verifier/http/open_api.h"
#include "verifier/http/request_fields.h"
#include "verifier/http/token_requests.h"

namespace outrider {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using testing::kBosToken;
using testing::kMarkToken;
using ::testing::Not;
using ::testing::Pair;

TEST(Routes, EveryPathIsItsOwnRoute) {
  std::set<std::string> paths, names;
  for (const Route& route : Routes()) {
    EXPECT_EQ(RouteOf(route.path), &route) << route.path;
    EXPECT_TRUE(paths.insert(route.path).second) << route.path;
    EXPECT_TRUE(names.insert(route.name).second) << route.name;
  }
  EXPECT_EQ(RouteOf("/v1/models/org%2Fname"), RouteOf("/v1/models/{model}"));
  for (const char* path : {"/", "", "/v1", "/v1/completions/", "/metricsx", "/v1/embeddings"}) {
    EXPECT_EQ(RouteOf(path), nullptr) << path;
  }
}

// Only heads: what follows an accepted head needs no engine here.
class RoutesOfAnApi : public ::testing::Test {
 protected:
  std::unique_ptr<HttpApi> MakeApi(bool metrics, const std::string& cors = "") {
    HttpApi::Served served{
        .model = {}, .tokens = &tokens_, .version = "1.2.3", .cors_origin = cors};
    if (metrics)
      served.metrics = [] { return HttpReply{.content_type = "text/plain", .body = "m"}; };
    return std::make_unique<HttpApi>(std::move(served), nullptr, nullptr, &http_metrics_);
  }
  static HttpRequest Head(const std::string& method, const std::string& path) {
    return {.method = method, .path = path, .content_type = "application/json"};
  }

  ClientTokens tokens_{nullptr};
  MetricsRegistry registry_;
  HttpMetrics http_metrics_{registry_};
};

TEST_F(RoutesOfAnApi, WrongPathListsRoutes) {
  const auto api = MakeApi(/*metrics=*/false);
  const auto refusal = api->Admit(Head("GET", "/v1/embeddings\x01"));
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->code, 404);
  const std::string message = nlohmann::json::parse(refusal->body)["error"]["message"];
  EXPECT_THAT(message, AllOf(HasSubstr("there is no endpoint /v1/embeddings?; this server has "),
                             HasSubstr("POST /v1/completions, "), HasSubstr("GET /ping"),
                             Not(HasSubstr("/metrics"))));
  EXPECT_EQ(api->Admit(Head("GET", "/metrics"))->code, 404) << "switched off";
  EXPECT_FALSE(MakeApi(/*metrics=*/true)->Admit(Head("GET", "/metrics")).has_value());
}

TEST_F(RoutesOfAnApi, BodiesAreJsonWithoutCoding) {
  const auto api = MakeApi(/*metrics=*/false);
  HttpRequest head = Head("POST", "/v1/completions");
  for (const char* type : {"application/json", "Application/JSON; charset=utf-8",
                           "application/json;x=y", "application/json\t; x=y"}) {
    head.content_type = type;
    EXPECT_FALSE(api->Admit(head).has_value()) << type;
  }
  for (const char* type : {"", "text/plain", "application/jsonx", "application/jso"}) {
    head.content_type = type;
    const auto refusal = api->Admit(head);
    ASSERT_TRUE(refusal.has_value()) << type;
    EXPECT_EQ(refusal->code, 415) << type;
  }
  head = Head("POST", "/v1/completions");
  head.content_encoding = "gzip";
  const auto coded = api->Admit(head);
  ASSERT_TRUE(coded.has_value());
  EXPECT_EQ(coded->code, 415);
  EXPECT_THAT(coded->body, HasSubstr("Content-Encoding: gzip is not served"));
}

TEST_F(RoutesOfAnApi, OnlyHealthSaysThatItDrains) {
  const auto api = MakeApi(/*metrics=*/true);
  api->Drain();
  for (const Route& route : Routes()) {
    const auto refusal = api->Admit(Head(route.method, route.path));
    EXPECT_EQ(refusal.has_value(), !route.while_draining) << route.path;
    if (refusal.has_value()) {
      EXPECT_EQ(refusal->code, 503) << route.path;
    }
  }
}

TEST_F(RoutesOfAnApi, AnswersBrowsersOfAllowedOrigins) {
  const auto refusal = MakeApi(/*metrics=*/true)->Admit(Head("OPTIONS", "/v1/completions"));
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->code, 405);
  const auto asked =
      MakeApi(/*metrics=*/true, "https://a.example")->Admit(Head("OPTIONS", "/v1/completions"));
  ASSERT_TRUE(asked.has_value());
  EXPECT_EQ(asked->code, 200);
  EXPECT_THAT(asked->headers, Contains(Pair("Access-Control-Allow-Methods", "POST")));
  EXPECT_THAT(asked->headers, Contains(Pair("Access-Control-Allow-Headers", "authorization, *")));
}

// The document describes what is served: its paths are the routes, its properties exactly the
// fields that the tables serve.
TEST(OpenApi, MatchesRoutesAndFieldTables) {
  const nlohmann::json document = nlohmann::json::parse(OpenApi(Routes(), "1.2.3", "m"));
  EXPECT_EQ(document["openapi"], "3.1.0");
  EXPECT_EQ(document["info"]["version"], "1.2.3");
  ASSERT_EQ(document["paths"].size(), Routes().size());
  for (const Route& route : Routes()) {
    const nlohmann::json& path = document["paths"][route.path];
    const char* const method = std::string(route.method) == "GET" ? "get" : "post";
    ASSERT_EQ(path.size(), 1u) << route.path;
    ASSERT_TRUE(path.contains(method)) << route.path;
    EXPECT_EQ(path[method].contains("requestBody"), std::string(method) == "post") << route.path;
    EXPECT_EQ(path[method].contains("security"), route.needs_token) << route.path;
  }
  const auto schema = [&](const char* path) {
    return document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"];
  };
  const auto expect = [](const nlohmann::json& object, FieldsOf kind, const char* required) {
    const std::vector<ServedField> served = ServedFields(kind);
    EXPECT_EQ(object["properties"].size(), served.size());
    for (const ServedField& field : served) {
      ASSERT_TRUE(object["properties"].contains(std::string(field.name))) << field.name;
      for (const nlohmann::json& type : object["properties"][std::string(field.name)]["type"]) {
        EXPECT_THAT((std::set<std::string>{"string", "integer", "number", "boolean", "array",
                                           "object", "null"}),
                    Contains(type.get<std::string>()))
            << field.name;
      }
    }
    EXPECT_EQ(object["required"], nlohmann::json::array({required}));
  };
  expect(schema("/v1/completions"), FieldsOf::kCompletion, "prompt");
  expect(schema("/v1/chat/completions"), FieldsOf::kChat, "messages");
  expect(schema("/tokenize")["anyOf"][0], FieldsOf::kTokenize, "prompt");
  expect(schema("/tokenize")["anyOf"][1], FieldsOf::kTokenizeChat, "messages");
  expect(schema("/detokenize"), FieldsOf::kDetokenize, "tokens");
  const nlohmann::json completion = schema("/v1/completions")["properties"];
  EXPECT_TRUE(completion.contains("echo") && completion.contains("temperature"));
  EXPECT_FALSE(completion.contains("tools") || completion.contains("user"));
}

TEST(OpenApi, TellsRangesItemsAndMembers) {
  const nlohmann::json document = nlohmann::json::parse(OpenApi(Routes(), "1", "m"));
  const auto properties = [&](const char* path) {
    return document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
                   ["properties"];
  };
  const nlohmann::json completion = properties("/v1/completions");
  const nlohmann::json chat = properties("/v1/chat/completions");
  EXPECT_EQ(completion["top_p"],
            nlohmann::json::parse(
                R"({"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": 1})"));
  EXPECT_EQ(completion["logprobs"],
            nlohmann::json::parse(R"({"type": ["integer", "null"], "minimum": 0, "maximum": 20})"));
  EXPECT_EQ(chat["logprobs"]["type"], nlohmann::json::parse(R"(["boolean", "null"])"));
  EXPECT_EQ(completion["seed"]["minimum"], std::numeric_limits<int64_t>::min());
  EXPECT_EQ(completion["stop_token_ids"]["items"]["minimum"], 0);
  EXPECT_EQ(completion["logit_bias"]["additionalProperties"]["maximum"], 100);
  const nlohmann::json& stop = completion["speculation"]["properties"]["stop"];
  EXPECT_EQ(stop["type"], nlohmann::json::parse(R"(["object", "null"])"));
  EXPECT_TRUE(stop["properties"].contains("threshold"));
  EXPECT_EQ(stop["properties"]["kind"]["enum"].size(), 5u) << "null among them";
  EXPECT_EQ(chat["model"]["enum"], nlohmann::json::parse(R"(["m", null])"));
  const nlohmann::json& tool = chat["tools"]["items"];
  EXPECT_EQ(tool["properties"]["function"]["required"], nlohmann::json::array({"name"}));
  EXPECT_EQ(chat["messages"]["items"]["properties"]["content"]["items"]["required"],
            nlohmann::json::array({"text"}));
}

// Every reference of the document can be resolved, and a path's variables are its parameters.
TEST(OpenApi, HoldsTogether) {
  const nlohmann::json document = nlohmann::json::parse(OpenApi(Routes(), "1", "m"));
  const nlohmann::json flat = document.flatten();
  std::set<std::string> named;
  for (const auto& [path, value] : flat.items()) {
    if (!path.ends_with("/$ref")) continue;
    const auto target = value.get<std::string>();
    EXPECT_TRUE(document.contains(nlohmann::json::json_pointer(target.substr(1)))) << target;
    named.insert(target.substr(target.rfind('/') + 1));
  }
  for (const auto& [name, schema] : document["components"]["schemas"].items()) {
    EXPECT_THAT(named, Contains(name)) << "nothing refers to it";
  }
  const nlohmann::json& model = document["paths"]["/v1/models/{model}"]["get"];
  EXPECT_EQ(model["parameters"][0]["name"], "model");
}

class TokenRequests : public ApiModelTest {
 protected:
  TokenRequests() : ApiModelTest(testing::SpecialTokenizerJson()) {}

  nlohmann::json Tokens(const std::string& body) const {
    const Result<std::string> answer = Tokenize(body, model_);
    EXPECT_TRUE(answer.ok()) << answer.status().ToString();
    return answer.ok() ? nlohmann::json::parse(*answer) : nlohmann::json();
  }
};

TEST_F(TokenRequests, PromptTokensMatchCompletion) {
  EXPECT_EQ(Tokens(R"({"prompt": "a<x>b", "model": "m"})"),
            nlohmann::json({{"count", 4},
                            {"max_model_len", 64},
                            {"tokens", {kBosToken, 0, kMarkToken, 1}},
                            {"token_strs", nullptr}}));
  EXPECT_EQ(
      Tokens(R"({"prompt": "ab", "add_special_tokens": false, "return_token_strs": true})"),
      nlohmann::json(
          {{"count", 2}, {"max_model_len", 64}, {"tokens", {0, 1}}, {"token_strs", {"a", "b"}}}));
  EXPECT_EQ(Tokens(R"({"prompt": ""})")["tokens"], nlohmann::json::array({kBosToken}));
}

TEST_F(TokenRequests, ChatTokensMatchChatCompletion) {
  const std::string fields = R"("messages": [{"role": "user", "content": "a<x>"}])";
  const auto chat = ParseChat("{" + fields + R"(, "max_tokens": 1})", model_);
  ASSERT_TRUE(chat.ok()) << chat.status().ToString();
  EXPECT_EQ(Tokens("{" + fields + "}")["tokens"], nlohmann::json(chat->prompts.at(0).prompt));
}

TEST_F(TokenRequests, TokensBecomeTheirText) {
  const Result<std::string> text = Detokenize(R"({"tokens": [0, 97, 1]})", model_);
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(nlohmann::json::parse(*text), nlohmann::json({{"prompt", "a<x>b"}}));
}

TEST_F(TokenRequests, TextHasLimit) {
  std::string json = testing::SpecialTokenizerJson();
  const std::string mark = R"("content":"<x>")";
  json.replace(json.find(mark), mark.size(), R"("content":")" + std::string(256, 'x') + "\"");
  tokenizer_ = Tokenizer::FromJson(json).value();
  model_.tokenizer = tokenizer_.get();
  const auto text = [&](int tokens) {
    std::string list = "97";
    for (int i = 1; i < tokens; ++i) list += ",97";
    return Detokenize(R"({"tokens": [)" + list + "]}", model_).status();
  };
  constexpr int kMost = 4194304 / 256;
  EXPECT_TRUE(text(kMost).ok()) << text(kMost).ToString();
  EXPECT_THAT(text(kMost + 1).message(), HasSubstr("tokens: a text of more than 4194304 bytes"));
}

TEST_F(TokenRequests, AnswerTokensHaveLimit) {
  const auto tokenize = [&](size_t letters) {
    return Tokenize(R"({"add_special_tokens": false, "return_token_strs": true, "prompt": ")" +
                        std::string(letters, 'a') + "\"}",
                    model_);
  };
  const Result<std::string> most = tokenize(262'144);
  ASSERT_TRUE(most.ok()) << most.status().ToString();
  EXPECT_EQ(nlohmann::json::parse(*most)["token_strs"].size(), 262'144u);
  EXPECT_THAT(tokenize(262'145).status().message(), HasSubstr("prompt: 262145 tokens"));
  const size_t bytes = tokenizer_->MostBytes(262'144);
  ASSERT_LT(bytes, Tokenizer::kMaxTextBytes);
  EXPECT_THAT(tokenize(bytes).status().message(), HasSubstr("tokens; an answer"));
  EXPECT_THAT(tokenize(bytes + 1).status().message(),
              HasSubstr("prompt: " + std::to_string(bytes + 1) + " bytes of text"))
      << "without a look into the text";
}

TEST_F(TokenRequests, WrongOnesAreRefusedByName) {
  const auto expect = [](const Result<std::string>& answer, Code code, const char* named) {
    EXPECT_EQ(answer.status().code(), code) << named;
    EXPECT_THAT(answer.status().message(), HasSubstr(named));
  };
  expect(Tokenize("{}", model_), Code::kInvalidArgument, "prompt");
  expect(Tokenize(R"({"prompt": [1]})", model_), Code::kInvalidArgument, "prompt");
  expect(Tokenize(R"({"prompt": "a", "x": 1})", model_), Code::kInvalidArgument,
         "x is not a field");
  expect(Tokenize(R"({"prompt": "a", "model": "other"})", model_), Code::kNotFound, "model");
  expect(Tokenize(R"({"messages": []})", model_), Code::kInvalidArgument, "messages");
  expect(Tokenize("[", model_), Code::kInvalidArgument, "body");
  expect(Detokenize("{}", model_), Code::kInvalidArgument, "tokens");
  for (const char* bad : {"[98]", "[-1]", "[\"a\"]", "[0.5]", "5"}) {
    expect(Detokenize(std::string(R"({"tokens": )") + bad + "}", model_), Code::kInvalidArgument,
           "tokens");
  }
}

}  // namespace
}  // namespace outrider
