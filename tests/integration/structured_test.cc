// Structured output through a verifier process with a drafter process: through every port and
// field, complete texts are valid for their grammar, and drafts do not change them.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "tests/support/http_client.h"
#include "tests/support/metrics_reader.h"
#include "tests/support/services.h"

namespace outrider {
namespace {

using Json = nlohmann::json;
using testing::EventsOf;
using testing::Fetch;
using testing::HttpResponse;
using testing::ReadMetrics;
using testing::SmallPair;
using testing::StartDrafter;
using testing::StartVerifier;
using testing::TempDir;
using testing::TestClient;
using testing::VerifierProcess;

constexpr char kPrompt[] = "Once upon a time, there was a little";
constexpr int kMaxTokens = 200;
// Every text of it fits into kMaxTokens, whatever the model.
constexpr char kSchema[] = R"({"type": "object", "properties": {
    "name": {"enum": ["Lily", "Tom the cat"]},
    "age": {"type": "integer", "minimum": 3, "maximum": 12},
    "pets": {"type": "array", "items": {"enum": ["dog", "cat"]}, "minItems": 1, "maxItems": 3},
    "note": {"type": "string", "maxLength": 8}},
    "required": ["name", "age", "pets", "note"]})";
constexpr char kRegex[] = "(Lily|Tom) had [1-9][0-9]? (dogs|cats)( and a (red|blue) ball){1,3}\\.";
constexpr char kGbnf[] =
    "root ::= word (\" \" word){2,5} \".\"\nword ::= \"the\" | \"cat\" | \"(\" word \")\"";

bool FollowsSchema(const std::string& text) {
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object() || json.size() != 4) return false;
  const Json &name = json["name"], &age = json["age"], &pets = json["pets"], &note = json["note"];
  if (name != "Lily" && name != "Tom the cat") return false;
  if (!age.is_number_integer() || age < 3 || age > 12) return false;
  if (!pets.is_array() || pets.empty() || pets.size() > 3) return false;
  for (const Json& pet : pets) {
    if (pet != "dog" && pet != "cat") return false;
  }
  // In bytes, for at most 8 characters.
  return note.is_string() && note.get<std::string>().size() <= 4 * 8;
}

bool FollowsGbnf(const std::string& text) {
  // Brackets separately, since a regular expression cannot pair them.
  int open = 0;
  std::string words;
  for (const char c : text) {
    open += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (open < 0) return false;
    if (c != '(' && c != ')') words += c;
  }
  return open == 0 && std::regex_match(words, std::regex("(the|cat)( (the|cat)){2,5}\\."));
}

// Texts of all of them end within kMaxTokens.
struct Source {
  const char* name;
  std::map<std::string, float> bias;  // by token text, for a grammar whose texts need not end
  Json fields;                        // of an HTTP body
  std::function<void(v1::StructuredOutput&)> set;
  std::function<bool(const std::string& text)> follows;
};

std::vector<Source> Sources() {
  const Json format = {{"type", "json_schema"},
                       {"json_schema", {{"name", "n"}, {"schema", Json::parse(kSchema)}}}};
  return {
      {"json_object",
       // Wherever the grammar allows either, nothing else is chosen, whatever the model prefers.
       {{"\"", 100.f}, {"}", 100.f}},
       {{"response_format", {{"type", "json_object"}}}},
       [](auto& output) { output.set_json_object(true); },
       [](const std::string& text) { return Json::parse(text, nullptr, false).is_object(); }},
      {"schema",
       {},
       {{"response_format", format}},
       [](auto& output) { output.set_json_schema(Json::parse(kSchema).dump()); },
       FollowsSchema},
      {"regex",
       {},
       {{"structured_outputs", {{"regex", kRegex}}}},
       [](auto& output) { output.set_regex(kRegex); },
       [](const std::string& text) { return std::regex_match(text, std::regex(kRegex)); }},
      {"choice",
       {},
       {{"guided_choice", {"yes, she was", "no, never", "yes"}}},
       [](auto& output) {
         for (const char* text : {"yes, she was", "no, never", "yes"}) {
           output.mutable_choice()->add_texts(text);
         }
       },
       [](const std::string& text) {
         return text == "yes, she was" || text == "no, never" || text == "yes";
       }},
      {"gbnf",
       {},
       {{"structured_outputs", {{"grammar", kGbnf}}}},
       [](auto& output) { output.set_gbnf(kGbnf); },
       FollowsGbnf},
  };
}

struct Text {
  std::string text;
  std::string reason;
};

struct RuleCase {
  const char* name;
  int paths;
};

constexpr RuleCase kRules[] = {{"token", 1},      {"block", 1},  {"multipath-block", 2},
                               {"multiround", 2}, {"spectr", 2}, {"gumbel", 2}};

class Structured : public ::testing::Test {
 protected:
  void SetUp() override {
    verifier_ = StartVerifier(SmallPair("target"), dir_ / "verifier.log",
                              {"--http", "127.0.0.1:0", "--tool-parser", "hermes", "--policy",
                               "fixed", "--min-draft-wait", "30"});
    ASSERT_NE(verifier_.port, 0);
    drafter_ = StartDrafter(SmallPair("drafter"), verifier_.address(), dir_ / "drafter.log");
    client_ = std::make_unique<TestClient>(verifier_.address());
    ASSERT_TRUE(client_->AwaitDrafters(1)) << drafter_->Log();
  }

  HttpResponse Post(const std::string& path, const Json& body) {
    const HttpResponse response = Fetch(verifier_.http_port, "POST", path, body.dump());
    EXPECT_EQ(response.code, 200) << response.body;
    return response;
  }

  int TokenOf(const std::string& text) {
    const HttpResponse response =
        Post("/tokenize", {{"prompt", text}, {"add_special_tokens", false}});
    const Json tokens = Json::parse(response.body)["tokens"];
    EXPECT_EQ(tokens.size(), 1u) << text;
    return tokens[0];
  }

  // The body of a completion, which the tests extend.
  Json BodyOf(const Source& source, float temperature, int seed) {
    Json body = {{"prompt", kPrompt},
                 {"max_tokens", kMaxTokens},
                 {"temperature", temperature},
                 {"seed", seed}};
    for (const auto& [text, bias] : source.bias) {
      body["logit_bias"][std::to_string(TokenOf(text))] = bias;
    }
    body.update(source.fields);
    return body;
  }

  // The text of a completion, streamed or whole.
  Text Complete(const Source& source, float temperature, bool stream, bool speculate = true) {
    Json body = BodyOf(source, temperature, /*seed=*/7);
    body["stream"] = stream;
    if (!speculate) body["speculation"] = {{"mode", "off"}};
    const HttpResponse response = Post("/v1/completions", body);
    if (response.code != 200) return {};
    std::vector<std::string> parts = {response.body};
    if (stream) parts = EventsOf(response.body);
    Text out;
    for (const std::string& part : parts) {
      if (part == "[DONE]") break;
      const Json choice = Json::parse(part)["choices"][0];
      out.text += choice["text"].get<std::string>();
      if (choice["finish_reason"].is_string()) out.reason = choice["finish_reason"];
    }
    return out;
  }

  Text Generate(const Source& source, float temperature) {
    v1::GenerateRequest request;
    request.set_text(kPrompt);
    request.set_seed(7);
    request.mutable_stop()->set_max_tokens(kMaxTokens);
    request.mutable_sampling()->set_temperature(temperature);
    for (const auto& [text, bias] : source.bias) {
      (*request.mutable_sampling()->mutable_logit_bias())[static_cast<uint32_t>(TokenOf(text))] =
          bias;
    }
    source.set(*request.mutable_sampling()->mutable_structured_output());
    const TestClient::Outcome outcome = client_->Generate(request);
    EXPECT_TRUE(outcome.status.ok()) << outcome.status.error_message();
    accepted_ += outcome.finished.speculation().accepted_tokens();
    const bool stopped = outcome.finished.reason() == v1::Finished::REASON_STOP;
    return {outcome.text, stopped ? "stop" : "length"};
  }

  double ForcedTokens() {
    return ReadMetrics(verifier_.metrics_port)["outrider_forced_tokens_total"];
  }

  TempDir dir_;
  VerifierProcess verifier_;
  std::unique_ptr<testing::Process> drafter_;
  std::unique_ptr<TestClient> client_;
  uint64_t accepted_ = 0;
};

TEST_F(Structured, TextsFollowTheirSource) {
  for (const Source& source : Sources()) {
    for (const float temperature : {0.f, 1.f}) {
      SCOPED_TRACE(std::string(source.name) + ", temperature " + std::to_string(temperature));
      const Text whole = Complete(source, temperature, /*stream=*/false);
      const Text streamed = Complete(source, temperature, /*stream=*/true);
      const Text generated = Generate(source, temperature);
      for (const Text& text : {whole, streamed, generated}) {
        EXPECT_EQ(text.reason, "stop") << text.text;
        EXPECT_TRUE(source.follows(text.text)) << text.text;
      }
      if (temperature > 0) continue;
      const Text plain = Complete(source, temperature, /*stream=*/false, /*speculate=*/false);
      for (const Text& text : {whole, streamed, generated}) EXPECT_EQ(text.text, plain.text);
    }
  }
  EXPECT_GT(accepted_, 0u) << "the drafter's drafts follow grammars too";
}

// With a seed and no rule in the request, gumbel would be used.
TEST_F(Structured, EveryRuleKeepsToTheSource) {
  for (const RuleCase& rule : kRules) {
    SCOPED_TRACE(rule.name);
    int accepted = 0, rejected = 0;
    for (const Source& source : Sources()) {
      for (int seed = 0; seed < 4; ++seed) {
        Json body = BodyOf(source, 1, seed);
        body["speculation"] = {{"rule", rule.name}, {"draft_length", 4}, {"paths", rule.paths}};
        const HttpResponse response = Post("/v1/completions", body);
        ASSERT_EQ(response.code, 200);
        const Json choice = Json::parse(response.body)["choices"][0];
        EXPECT_EQ(choice["finish_reason"], "stop");
        EXPECT_TRUE(source.follows(choice["text"])) << source.name << ": " << choice["text"];
        const Json& told = choice["speculation"];
        accepted += told["accepted"].get<int>();
        rejected += told["drafted"].get<int>() - told["accepted"].get<int>();
      }
    }
    EXPECT_GT(accepted, 0);
    EXPECT_GT(rejected, 0);
  }
}

// The tokenizer has no token with two of these letters, so each of them is forced whatever the
// model prefers. Words it could write in whole tokens, none of which is forced.
TEST_F(Structured, ForcedTokensOfSchemasAreCounted) {
  const Json format = {
      {"type", "json_schema"},
      {"json_schema", {{"name", "n"}, {"schema", Json::parse(R"({"enum": ["qzxjq"]})")}}}};
  const Source source{"letters", {}, {{"response_format", format}}, {}, {}};
  const double before = ForcedTokens();
  const Text text = Complete(source, 0, /*stream=*/false);
  EXPECT_EQ(text.reason, "stop") << text.text;
  EXPECT_EQ(Json::parse(text.text, nullptr, false), "qzxjq");
  EXPECT_GE(ForcedTokens() - before, 4);
}

// What openai.pydantic_function_tool sends. The model writes text, which is decoded as without the
// grammar, since it contains no "<tool_call>": the bias leaves nothing but words.
TEST_F(Structured, StrictToolsKeepFreeText) {
  Json bias;
  for (const char* word : {" the", " a", " and", " to", " was", " he", " she", " dog", " cat"}) {
    bias[std::to_string(TokenOf(word))] = 100;
  }
  Json tool = {
      {"type", "function"},
      {"function", {{"name", "f"}, {"strict", true}, {"parameters", Json::parse(kSchema)}}}};
  std::string contents[2];
  for (const bool strict : {false, true}) {
    tool["function"]["strict"] = strict;
    const HttpResponse response =
        Post("/v1/chat/completions", {{"messages", {{{"role", "user"}, {"content", kPrompt}}}},
                                      {"tools", {tool}},
                                      {"max_tokens", kMaxTokens},
                                      {"temperature", 0},
                                      {"logit_bias", bias},
                                      {"stream", false}});
    ASSERT_EQ(response.code, 200) << response.body;
    const Json choice = Json::parse(response.body)["choices"][0];
    EXPECT_FALSE(choice["message"].contains("tool_calls"));
    contents[strict ? 1 : 0] = choice["message"]["content"];
  }
  EXPECT_FALSE(contents[1].empty());
  EXPECT_EQ(contents[0], contents[1]);
}

TEST_F(Structured, RequiredCallsFollowTheirSchema) {
  const Json tool = {
      {"type", "function"},
      {"function", {{"name", "f"}, {"strict", true}, {"parameters", Json::parse(kSchema)}}}};
  for (const float temperature : {0.f, 1.f}) {
    for (const bool stream : {false, true}) {
      const Json body = {{"messages", {{{"role", "user"}, {"content", kPrompt}}}},
                         {"tools", {tool}},
                         {"tool_choice", "required"},
                         {"parallel_tool_calls", false},
                         {"max_tokens", 2 * kMaxTokens},
                         {"temperature", temperature},
                         {"seed", 7},
                         {"stream", stream}};
      const HttpResponse response = Post("/v1/chat/completions", body);
      ASSERT_EQ(response.code, 200);
      std::vector<std::string> parts = {response.body};
      if (stream) parts = EventsOf(response.body);
      std::string name, arguments, reason;
      for (const std::string& part : parts) {
        if (part == "[DONE]") break;
        const Json choice = Json::parse(part)["choices"][0];
        if (choice["finish_reason"].is_string()) reason = choice["finish_reason"];
        const Json& message = choice[stream ? "delta" : "message"];
        if (!message.contains("tool_calls")) continue;
        for (const Json& call : message["tool_calls"]) {
          name += call["function"].value("name", "");
          arguments += call["function"].value("arguments", "");
        }
      }
      EXPECT_EQ(reason, "tool_calls");
      EXPECT_EQ(name, "f");
      EXPECT_TRUE(FollowsSchema(arguments)) << arguments;
    }
  }
}

}  // namespace
}  // namespace outrider
