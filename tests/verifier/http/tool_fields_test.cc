// Tools in the bodies of chats: what is read, what the template gets, and which errors name which
// field.
#include "verifier/http/tool_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/grammar/grammar.h"
#include "tests/verifier/http/api_request_fixture.h"
#include "verifier/http/json_text.h"
#include "verifier/http/token_requests.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A chat template that writes everything that it gets as JSON.
constexpr char kShowing[] =
    "{{ tools | tojson }}|{% for m in messages %}{{ m | tojson }}{% endfor %}"
    "{% if add_generation_prompt %}{{ end | default('') }}{% endif %}";

class ToolFieldsTest : public ApiModelTest {
 protected:
  ToolFieldsTest() : ApiModelTest(testing::SpecialTokenizerJson()) {
    model_.chat_template = ChatTemplate::FromText(kShowing);
    model_.answer_format = {.tools = ToolFormat::kHermes};
    model_.limits.max_context = model_.limits.kv_tokens = 1 << 20;
  }

  static Json Tool(const std::string& name, const Json& parameters = Json::object()) {
    return {{"type", "function"}, {"function", {{"name", name}, {"parameters", parameters}}}};
  }
  static Json Body(const Json& fields) {
    Json body = {{"messages", {{{"role", "user"}, {"content", "a"}}}},
                 {"tools", {Tool("f"), Tool("g")}}};
    if (fields.is_object()) body.update(fields);
    return body;
  }
  Result<ApiRequest> Parse(const Json& body) const { return ParseChat(body.dump(), model_); }
  Result<ApiRequest> With(const Json& fields) const { return Parse(Body(fields)); }
  std::string Refusal(const Json& fields) const {
    const auto parsed = With(fields);
    EXPECT_EQ(parsed.status().code(), Code::kInvalidArgument) << fields;
    return parsed.status().message();
  }
  std::string Prompt(const Json& fields) const {
    const auto parsed = With(fields);
    if (!parsed.ok()) return parsed.status().ToString();
    return tokenizer_->Decode(parsed->prompts.at(0).prompt, /*skip_special=*/false);
  }
};

TEST_F(ToolFieldsTest, ToolsReachTemplateUnchanged) {
  const Json tool = Json::parse(
      R"({"function": {"parameters": {"z": {"a": [1, null]}, "type": "object"},
          "description": "d <x>", "name": "f-1_A"}, "type": "function"})");
  EXPECT_THAT(
      Prompt({{"tools", {tool}}}),
      HasSubstr(R"([{"function": {"parameters": {"z": {"a": [1, null]}, "type": "object"}, )"
                R"("description": "d )"));
  EXPECT_THAT(Prompt({{"tools", Json::array()}}), HasSubstr("null|"));
  EXPECT_THAT(Prompt({{"tool_choice", "none"}}), HasSubstr("null|"))
      << "a model that may call nothing does not know of tools";
  const Result<std::string> tokens = Tokenize(Body({}).dump(), model_);
  ASSERT_TRUE(tokens.ok()) << tokens.status().ToString();
  EXPECT_EQ(Json::parse(*tokens)["count"], With({})->prompts[0].prompt.size());
}

TEST_F(ToolFieldsTest, ToolChoiceSetsCallParsing) {
  const auto reading = [&](const Json& fields) { return With(fields).value().reading; };
  EXPECT_EQ(reading({}).format.tools, ToolFormat::kHermes);
  EXPECT_THAT(reading({{"tool_choice", "auto"}}).tools, ElementsAre("f", "g"));
  EXPECT_EQ(reading({{"tool_choice", "none"}}).format.tools, ToolFormat::kNone);
  EXPECT_EQ(reading({{"tools", nullptr}}).format.tools, ToolFormat::kNone);
  EXPECT_EQ(reading({}).max_calls, kMaxAnswerCalls);
  EXPECT_EQ(reading({{"parallel_tool_calls", false}}).max_calls, 1);
}

TEST_F(ToolFieldsTest, ToolMessagesReachTemplate) {
  const Json messages = Json::parse(R"([
      {"role": "user", "content": "a"},
      {"role": "assistant", "content": null, "reasoning_content": "why", "tool_calls": [
          {"index": 0, "id": "c1", "type": "function",
           "function": {"name": "f", "arguments": "{\"b\": 1, \"a\": {\"c\": [2.5]}}"}},
          {"id": "c2", "function": {"name": "g", "arguments": ""}}]},
      {"role": "tool", "tool_call_id": "c1", "content": "r"}])");
  EXPECT_THAT(
      Prompt({{"messages", messages}}),
      AllOf(HasSubstr(R"({"role": "assistant", "content": null, "reasoning_content": "why", )"
                      R"("reasoning": "why", "tool_calls": [{"id": "c1", "type": "function", )"
                      R"("function": {"name": "f", "arguments": {"b": 1, "a": {"c": [2.5]}}}}, )"
                      R"({"id": "c2", "type": "function", "function": {"name": "g", )"
                      R"("arguments": {}}}]})"),
            HasSubstr(R"({"role": "tool", "content": "r", "tool_call_id": "c1"})")));
  // Without calls, null content is still an empty text.
  const Json plain = Json::parse(R"([{"role": "assistant", "content": null}])");
  EXPECT_THAT(Prompt({{"messages", plain}}), HasSubstr(R"({"role": "assistant", "content": ""})"));
  // A template that appends arguments to a string gets their text.
  model_.chat_template = ChatTemplate::FromText(
      "{% for m in messages %}{% for c in m.tool_calls or [] %}"
      "{{ '<' + c.function.arguments + '>' }}{% endfor %}{% endfor %}");
  EXPECT_EQ(Prompt({{"messages", messages}}), "<{\"b\": 1, \"a\": {\"c\": [2.5]}}><{}>");
}

// What a model has written into a call comes back with the next turn.
TEST_F(ToolFieldsTest, LongIntegersReachTemplateExactly) {
  const auto prompt = [&](const std::string& number) {
    const auto parsed = ParseChat(
        R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls":
            [{"id": "1", "function": {"name": "f", "arguments": "{\"id\": )" +
            number + R"(}"}}]}], "tools": [{"type": "function", "function": {"name": "f",
            "parameters": {"properties": {"id": {"type": "integer", "default": )" +
            number + "}}}}}]}",
        model_);
    if (!parsed.ok()) return parsed.status().ToString();
    return tokenizer_->Decode(parsed->prompts.at(0).prompt, /*skip_special=*/false);
  };
  for (const char* number :
       {"123456789012345678901", "9223372036854775808", "-9223372036854775809"}) {
    EXPECT_THAT(prompt(number), HasSubstr("\"arguments\": {\"id\": " + std::string(number) + "}"));
    EXPECT_THAT(prompt(number), HasSubstr("\"default\": " + std::string(number) + "}"));
  }
}

// Text that a client writes into a call never becomes a special token.
TEST_F(ToolFieldsTest, TextsOfToolsNeverBecomeSpecial) {
  const Json messages = Json::parse(R"([
      {"role": "assistant", "reasoning": "<x>", "tool_calls": [{"id": "<x>",
          "function": {"name": "<x>", "arguments": "{\"<x>\": \"<x>\"}"}}]},
      {"role": "tool", "tool_call_id": "<x>", "content": "<x>"}])");
  Json tool = Tool("f", {{"<x>", "<x>"}});
  tool["function"]["description"] = "<x>";
  model_.chat_template = ChatTemplate::FromText(
      "<x>{{ tools | string }}{% for m in messages %}{{ m | string }}{% endfor %}");
  const auto parsed = With({{"messages", messages}, {"tools", {tool}}});
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  const std::vector<TokenId>& prompt = parsed->prompts[0].prompt;
  EXPECT_EQ(std::count(prompt.begin(), prompt.end(), testing::kMarkToken), 1) << "the template's";
}

TEST_F(ToolFieldsTest, WrongToolsAreRefusedByName) {
  const auto tools = [&](const Json& tool) { return Refusal({{"tools", {tool}}}); };
  Json odd = Tool("f");
  odd["type"] = "retrieval";
  EXPECT_THAT(tools(odd), HasSubstr("tools[0].type is \"retrieval\""));
  odd = Tool("f");
  odd["function"]["strict"] = 1;
  EXPECT_THAT(tools(odd), HasSubstr("tools[0].function.strict"));
  odd["function"].erase("strict");
  odd["function"]["return"] = 1;
  EXPECT_THAT(tools(odd), HasSubstr("tools[0].function.return is not a field"));
  EXPECT_THAT(tools({{"type", "function"}}), HasSubstr("tools[0].function"));
  EXPECT_THAT(tools(Tool("f", 1)), HasSubstr("tools[0].function.parameters"));
  for (const char* name : {"", "a b", "a.b", "é"}) {
    EXPECT_THAT(tools(Tool(name)), HasSubstr("tools[0].function.name is ")) << name;
  }
  EXPECT_THAT(Refusal({{"tools", {Tool("f"), Tool("f")}}}),
              HasSubstr("tools[1].function.name: another tool"));
  EXPECT_THAT(Refusal({{"tools", 1}}), HasSubstr("tools"));
  EXPECT_THAT(Refusal({{"parallel_tool_calls", 1}}), HasSubstr("parallel_tool_calls"));
  EXPECT_THAT(Refusal({{"functions", {1}}}), HasSubstr("functions"));
  model_.answer_format.tools = ToolFormat::kNone;
  EXPECT_THAT(Refusal({}), HasSubstr("tools: this model's format of tool calls is unknown"));
  EXPECT_THAT(Refusal({}), HasSubstr("hermes, llama3_json, pythonic, mistral, deepseek_v3"));
  EXPECT_TRUE(With({{"tool_choice", "none"}}).ok());
}

TEST_F(ToolFieldsTest, WrongChoicesAreRefusedByName) {
  const auto choice = [&](const Json& value) { return Refusal({{"tool_choice", value}}); };
  const auto named = [](const std::string& name) {
    return Json{{"type", "function"}, {"function", {{"name", name}}}};
  };
  EXPECT_THAT(choice("any"), HasSubstr("tool_choice is \"any\""));
  EXPECT_THAT(choice(7), HasSubstr("tool_choice"));
  EXPECT_THAT(choice(named("h")), HasSubstr("tool_choice.function.name: is none of the tools"));
  EXPECT_THAT(choice({{"type", "allowed_tools"}, {"function", {{"name", "f"}}}}),
              HasSubstr("tool_choice.type"));
  EXPECT_THAT(choice({{"type", "function"}}), HasSubstr("tool_choice.function"));
  EXPECT_THAT(Refusal({{"tools", nullptr}, {"tool_choice", "required"}}),
              HasSubstr("tool_choice: needs tools"));
  EXPECT_THAT(Refusal({{"tools", nullptr}, {"tool_choice", named("f")}}),
              HasSubstr("tool_choice: needs tools"));
}

// tool_grammar_test.cc tests their grammar.
TEST_F(ToolFieldsTest, CallsThatMustComeAreConstrained) {
  const Json named = {{"type", "function"}, {"function", {{"name", "g"}}}};
  for (const Json& choice : {Json("required"), named}) {
    const auto parsed = With({{"tool_choice", choice}});
    ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
    const GenerationRequest& request = parsed->prompts.at(0);
    ASSERT_TRUE(request.sampling.grammar.has_value() && request.grammar_masks != nullptr);
    EXPECT_EQ(request.sampling.grammar->kind, GrammarSource::Kind::kGbnf);
    EXPECT_EQ(parsed->reading.format.tools, ToolFormat::kHermes);
  }
  for (const char* free : {"auto", "none"}) {
    EXPECT_EQ(With({{"tool_choice", free}})->prompts.at(0).grammar_masks, nullptr) << free;
  }
  EXPECT_THAT(Refusal({{"tool_choice", named}, {"ignore_eos", true}}), HasSubstr("ignore_eos"));
  const Json odd = Tool("g", {{"properties", {{"a", {{"not", Json::object()}}}}}});
  EXPECT_THAT(Refusal({{"tools", {odd}}, {"tool_choice", named}}),
              AllOf(::testing::StartsWith("tools: "), HasSubstr("a.not")));
  EXPECT_TRUE(With({{"tools", {odd}}}).ok()) << "what is not constrained needs no grammar";
  const JsonValue body = ParseJsonObject(Body({{"tool_choice", named}}).dump(), "the body").value();
  const ToolFields fields = ToolFieldsOf(body, model_).value();
  ASSERT_EQ(fields.callable.size(), 1u);
  EXPECT_EQ(fields.callable[0].name, "g") << "of a named function the grammar has it alone";
  EXPECT_TRUE(grammar::Grammar::Compile(ToolGrammar(fields.callable, {}).value()).ok());
}

// Under auto a strict tool's calls follow its schema, wherever they occur in the text.
TEST_F(ToolFieldsTest, StrictToolsConstrainTheirCalls) {
  Json strict = Tool("f", {{"properties", {{"a", {{"const", 1}}}}}, {"required", {"a"}}});
  strict["function"]["strict"] = true;
  const Json named = {{"type", "function"}, {"function", {{"name", "f"}}}};
  for (const Json& choice : {Json("required"), named, Json("auto"), Json(nullptr)}) {
    const auto parsed = With({{"tools", {Tool("g"), strict}}, {"tool_choice", choice}});
    ASSERT_TRUE(parsed.ok()) << choice << parsed.status().ToString();
    EXPECT_NE(parsed->prompts.at(0).grammar_masks, nullptr) << choice;
    EXPECT_EQ(parsed->reading.format.tools, ToolFormat::kHermes);
    EXPECT_EQ(parsed->reading.must_call, choice == "required" || choice == named);
  }
  EXPECT_EQ(With({{"tools", {strict}}, {"tool_choice", "none"}})->prompts.at(0).grammar_masks,
            nullptr);
  EXPECT_THAT(Refusal({{"tools", {strict}}, {"ignore_eos", true}}), HasSubstr("ignore_eos"));
  const Result<std::string> tokens = Tokenize(Body({{"tools", {strict}}}).dump(), model_);
  EXPECT_TRUE(tokens.ok()) << tokens.status().ToString();
  // Nothing is parsed as a call if the whole answer follows another grammar.
  const auto object = With({{"tools", {strict}}, {"response_format", {{"type", "json_object"}}}});
  ASSERT_TRUE(object.ok()) << object.status().ToString();
  EXPECT_EQ(object->reading.format.tools, ToolFormat::kNone);
  const Json odd = {{"not", Json::object()}};
  strict["function"]["parameters"] = odd;
  EXPECT_THAT(Refusal({{"tools", {strict}}}), HasSubstr("not: this keyword"));
  strict["function"]["strict"] = false;
  EXPECT_EQ(With({{"tools", {strict}}})->prompts.at(0).grammar_masks, nullptr);
}

TEST_F(ToolFieldsTest, StrictToolsNeedCallsWithMarkers) {
  Json strict = Tool("f");
  strict["function"]["strict"] = true;
  for (const std::string& name : ToolFormatNames()) {
    if (name == "none" || name == "hermes") continue;
    model_.answer_format.tools = ToolFormatOf(name);
    EXPECT_THAT(Refusal({{"tools", {Tool("g"), strict}}}),
                AllOf(HasSubstr("tools: f is strict"), HasSubstr("(" + name + ")")));
    EXPECT_TRUE(With({{"tools", {strict}}, {"tool_choice", "required"}}).ok()) << name;
  }
}

TEST_F(ToolFieldsTest, RefusesToolMessagesByName) {
  const auto refusal = [&](const Json& message) {
    return Refusal({{"messages", {{{"role", "user"}, {"content", "a"}}, message}}});
  };
  const auto calling = [&](const Json& call) {
    return refusal({{"role", "assistant"}, {"tool_calls", {call}}});
  };
  const auto with_arguments = [&](const Json& arguments) {
    return calling({{"id", "1"}, {"function", {{"name", "f"}, {"arguments", arguments}}}});
  };
  for (const char* text : {"[]", "1", "{", "{}x", "{\"a\": 1, \"a\": 2}"}) {
    EXPECT_THAT(with_arguments(text), HasSubstr("messages[1].tool_calls[0].function.arguments"))
        << text;
  }
  EXPECT_THAT(with_arguments(Json::object()), HasSubstr("tool_calls[0].function.arguments"));
  EXPECT_THAT(calling({{"id", "1"}}), HasSubstr("messages[1].tool_calls[0].function"));
  EXPECT_THAT(calling({{"type", "custom"}}), HasSubstr("messages[1].tool_calls[0].type"));
  EXPECT_THAT(calling({{"x", 1}}), HasSubstr("messages[1].tool_calls[0].x is not a field"));
  EXPECT_THAT(refusal({{"role", "user"}, {"content", "a"}, {"tool_calls", {1}}}),
              HasSubstr("messages[1].tool_calls: only an assistant's"));
  EXPECT_THAT(refusal({{"role", "user"}, {"content", "a"}, {"reasoning", "b"}}),
              HasSubstr("messages[1].reasoning: only an assistant's"));
  EXPECT_THAT(refusal({{"role", "assistant"}, {"reasoning", "a"}, {"reasoning_content", "b"}}),
              HasSubstr("messages[1].reasoning_content: differs from reasoning"));
  const Json answer = {{"role", "assistant"}, {"reasoning", "a"}, {"reasoning_content", "a"}};
  EXPECT_TRUE(With({{"messages", {{{"role", "user"}, {"content", "a"}}, answer}}}).ok())
      << "as answers have them";
  EXPECT_THAT(refusal({{"role", "user"}, {"content", "a"}, {"tool_call_id", "b"}}),
              HasSubstr("messages[1].tool_call_id: only a tool's"));
  EXPECT_THAT(refusal({{"role", "function"}, {"content", "a"}}), HasSubstr("messages[1].role"));
}

TEST_F(ToolFieldsTest, ToolsHaveLimits) {
  Json many = Json::array();
  for (int i = 0; i < kMaxTools; ++i) many.push_back(Tool("f" + std::to_string(i)));
  EXPECT_TRUE(With({{"tools", many}}).ok());
  many.push_back(Tool("more"));
  EXPECT_THAT(Refusal({{"tools", many}}), HasSubstr("tools: 129 tools, at most 128"));
  EXPECT_TRUE(With({{"tools", {Tool(std::string(kMaxToolNameBytes, 'f'))}}}).ok());
  EXPECT_THAT(Refusal({{"tools", {Tool(std::string(kMaxToolNameBytes + 1, 'f'))}}}),
              HasSubstr("tools[0].function.name"));
  const Json large = {{"description", std::string(kMaxToolBytes, 'd')}};
  EXPECT_THAT(Refusal({{"tools", {Tool("f", large)}}}), HasSubstr("at most 262144"));
}

TEST_F(ToolFieldsTest, CallsOfMessagesHaveLimits) {
  const auto calls = [&](size_t count, const std::string& arguments, const std::string& id) {
    Json list = Json::array();
    for (size_t i = 0; i < count; ++i) {
      list.push_back({{"id", id}, {"function", {{"name", "f"}, {"arguments", arguments}}}});
    }
    return Json{{"messages", {{{"role", "assistant"}, {"tool_calls", list}}}}};
  };
  EXPECT_TRUE(With(calls(kMaxMessageCalls, "{}", "1")).ok());
  EXPECT_THAT(Refusal(calls(kMaxMessageCalls + 1, "{}", "1")),
              HasSubstr("messages[0].tool_calls: 129 calls, at most 128"));
  EXPECT_TRUE(With(calls(1, "{}", std::string(kMaxToolCallIdBytes, '1'))).ok());
  EXPECT_THAT(Refusal(calls(1, "{}", std::string(kMaxToolCallIdBytes + 1, '1'))),
              HasSubstr("messages[0].tool_calls[0].id: 257 bytes, at most 256"));
  // Over all calls, since each may be as large as a body.
  std::string list = "{\"a\": [[]";
  for (int i = 0; i < 20000; ++i) list += ",[]";
  EXPECT_TRUE(With(calls(3, list + "]}", "1")).ok());
  EXPECT_THAT(Refusal(calls(4, list + "]}", "1")),
              HasSubstr("tool_calls[3].function.arguments: the arguments of all calls hold more "
                        "than 65536 values"));
  std::string numbers = "{\"a\": [1";
  for (size_t i = 0; i < kMaxArgumentValues; ++i) numbers += ",1";
  EXPECT_THAT(Refusal(calls(1, numbers + "]}", "1")), HasSubstr("holds more than 65536 values"));
}

// Special tokens that mark parts of an answer are output as text, so that the parts can be found.
TEST_F(ToolFieldsTest, ShowsMarkersThatAreSpecialTokens) {
  std::string json = testing::SpecialTokenizerJson();
  json.replace(json.find("\"content\":\"<x>\""), 15, "\"content\":\"[TOOL_CALLS]\"");
  const auto tokenizer = Tokenizer::FromJson(json).value();
  model_.tokenizer = tokenizer.get();
  model_.answer_format.tools = ToolFormat::kMistral;
  EXPECT_THAT(With({})->prompts[0].shown_special, ElementsAre(testing::kMarkToken));
  EXPECT_TRUE(With({{"tool_choice", "none"}})->prompts[0].shown_special.empty());
}

// Harmony's mark reasoning and content, too.
TEST_F(ToolFieldsTest, AlwaysShowsMarkersOfHarmony) {
  std::string json = testing::SpecialTokenizerJson();
  json.replace(json.find("\"content\":\"<x>\""), 15, "\"content\":\"<|channel|>\"");
  const auto tokenizer = Tokenizer::FromJson(json).value();
  model_.tokenizer = tokenizer.get();
  model_.answer_format = {.tools = ToolFormat::kHarmony, .reasoning = ReasoningFormat::kHarmony};
  for (const char* choice : {"auto", "none", "required"}) {
    const auto parsed = With({{"tool_choice", choice}});
    ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
    EXPECT_THAT(parsed->prompts[0].shown_special, ElementsAre(testing::kMarkToken)) << choice;
    EXPECT_EQ(parsed->reading.format.reasoning, ReasoningFormat::kHarmony);
  }
}

TEST_F(ToolFieldsTest, PromptsThatOpenReasoningAreKnown) {
  model_.answer_format = {.reasoning = ReasoningFormat::kQwen3};
  const auto opens = [&](const std::string& end, const Json& fields = Json::object()) {
    Json body = {{"messages", {{{"role", "user"}, {"content", "<think>"}}}}};
    body.update(fields);
    model_.chat_template = ChatTemplate::FromText(
        "{% for m in messages %}{{ m.content }}{% endfor %}"
        "{% if add_generation_prompt %}" +
        end + "{% endif %}");
    const auto parsed = Parse(body);
    EXPECT_TRUE(parsed.ok()) << parsed.status().ToString();
    return parsed.ok() && parsed->reading.opens_reasoning;
  };
  EXPECT_TRUE(opens("assistant<think>\n"));
  EXPECT_FALSE(opens("assistant<think>\n\n</think>"));
  EXPECT_FALSE(opens("assistant"));
  EXPECT_FALSE(opens("", {{"add_generation_prompt", false}})) << "a user's text opens nothing";
  Json begun = {{"messages", {{{"role", "assistant"}, {"content", "<think>So"}}}},
                {"add_generation_prompt", false},
                {"continue_final_message", true}};
  EXPECT_TRUE(opens("", begun)) << "the answer goes on with its reasoning";
  EXPECT_TRUE(With({{"tools", nullptr}})->reading.include_reasoning);
  EXPECT_FALSE(With({{"tools", nullptr}, {"include_reasoning", false}})->reading.include_reasoning);
}

}  // namespace
}  // namespace outrider
