// Structured output in bodies: how it is requested, how it is converted, and which errors name
// which field.
#include "verifier/http/structured_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/verifier/http/api_request_fixture.h"
#include "verifier/http/api_error.h"
#include "verifier/http/json_text.h"

namespace outrider {
namespace {

using Kind = GrammarSource::Kind;
using ::testing::HasSubstr;

constexpr char kSchema[] = R"({"type":"object","properties":{"a":{"type":"integer"}}})";

class StructuredFieldsTest : public ApiModelTest {
 protected:
  StructuredFieldsTest() {
    model_.answer_format = {.tools = ToolFormat::kHermes, .reasoning = ReasoningFormat::kQwen3};
  }

  Result<ApiRequest> Completion(const Json& fields) const {
    Json body = {{"prompt", "abc"}};
    body.update(fields);
    return ParseCompletion(body.dump(), model_);
  }
  Result<ApiRequest> Chat(const Json& fields) const {
    Json body = {{"messages", {{{"role", "user"}, {"content", "a"}}}}};
    body.update(fields);
    return ParseChat(body.dump(), model_);
  }
  // Checks the grammar that completions and chats with `fields` follow.
  void ExpectSource(const Json& fields, const GrammarSource& source) const {
    for (const Result<ApiRequest>& parsed : {Completion(fields), Chat(fields)}) {
      ASSERT_TRUE(parsed.ok()) << fields << ": " << parsed.status().ToString();
      const GenerationRequest& request = parsed->prompts.at(0);
      EXPECT_EQ(request.sampling.grammar, source) << fields;
      EXPECT_NE(request.grammar_masks, nullptr) << fields;
    }
  }
  void ExpectRefused(const Json& fields, const std::string& param, const std::string& says) const {
    for (const Result<ApiRequest>& parsed : {Completion(fields), Chat(fields)}) {
      ASSERT_FALSE(parsed.ok()) << fields;
      EXPECT_EQ(HttpCodeOf(parsed.status()), 400) << fields;
      const Json error = Json::parse(ErrorJson(parsed.status()))["error"];
      EXPECT_EQ(error["param"], param) << error;
      EXPECT_THAT(error["message"].get<std::string>(), HasSubstr(says)) << fields;
    }
  }
};

Json Format(const Json& schema) {
  return {{"response_format",
           {{"type", "json_schema"},
            {"json_schema", {{"name", "n"}, {"strict", true}, {"schema", schema}}}}}};
}

TEST_F(StructuredFieldsTest, EachFieldGivesItsSource) {
  const Json schema = Json::parse(kSchema);
  const GrammarSource object{.kind = Kind::kJsonObject};
  const GrammarSource schema_source{.kind = Kind::kJsonSchema, .text = kSchema};
  const GrammarSource regex{.kind = Kind::kRegex, .text = "a+"};
  const GrammarSource choice{.kind = Kind::kChoice, .choices = {"yes", "no"}};
  const GrammarSource gbnf{.kind = Kind::kGbnf, .text = "root ::= \"a\""};
  const auto outputs = [](const char* name, const Json& value) {
    return Json{{"structured_outputs", {{name, value}}}};
  };
  ExpectSource({{"response_format", {{"type", "json_object"}}}}, object);
  ExpectSource(outputs("json_object", true), object);
  ExpectSource(Format(schema), schema_source);
  ExpectSource(outputs("json", schema), schema_source);
  ExpectSource(outputs("json", kSchema), schema_source);
  ExpectSource({{"guided_json", schema}}, schema_source);
  ExpectSource({{"guided_json", kSchema}}, schema_source);
  ExpectSource(outputs("regex", "a+"), regex);
  ExpectSource({{"guided_regex", "a+"}}, regex);
  ExpectSource(outputs("choice", {"yes", "no"}), choice);
  ExpectSource({{"guided_choice", {"yes", "no"}}}, choice);
  ExpectSource(outputs("grammar", gbnf.text), gbnf);
  ExpectSource({{"guided_grammar", gbnf.text}}, gbnf);
}

// Members of an object keep the client's order.
TEST_F(StructuredFieldsTest, SchemaKeepsItsOrder) {
  const char* const text =
      R"({"properties":{"z":{"const":1},"a":{"const":2}},"required":["z","a"]})";
  ExpectSource(Format(Json::parse(text)), {.kind = Kind::kJsonSchema, .text = text});
}

TEST_F(StructuredFieldsTest, NeutralValuesAskForNothing) {
  const Json bodies[] = {{{"response_format", {{"type", "text"}}}},
                         {{"response_format", nullptr}},
                         {{"structured_outputs", nullptr}},
                         {{"structured_outputs", {{"json", nullptr}, {"json_object", false}}}},
                         {{"guided_json", nullptr}, {"guided_choice", nullptr}}};
  for (const Json& body : bodies) {
    const auto parsed = Completion(body);
    ASSERT_TRUE(parsed.ok()) << body << parsed.status().ToString();
    EXPECT_FALSE(parsed->prompts[0].sampling.grammar.has_value()) << body;
    EXPECT_EQ(parsed->prompts[0].grammar_masks, nullptr) << body;
  }
  const Json hints = {{"regex", "a"}, {"disable_any_whitespace", true}, {"disable_fallback", true}};
  EXPECT_TRUE(Completion({{"structured_outputs", hints}}).ok()) << "they change nothing here";
}

TEST_F(StructuredFieldsTest, TwoSourcesAreRefused) {
  const std::string says = " already says what to follow";
  ExpectRefused({{"response_format", {{"type", "json_object"}}}, {"guided_regex", "a"}},
                "guided_regex", "response_format" + says);
  ExpectRefused({{"guided_regex", "a"}, {"guided_choice", {"a"}}}, "guided_choice",
                "guided_regex" + says);
  ExpectRefused({{"structured_outputs", {{"regex", "a"}, {"json_object", true}}}},
                "structured_outputs.json_object", "structured_outputs.regex" + says);
  ExpectRefused({{"structured_outputs", {{"regex", "a"}}}, {"guided_regex", "a"}}, "guided_regex",
                "structured_outputs.regex" + says);
}

TEST_F(StructuredFieldsTest, WrongTypesAreRefusedByName) {
  const auto format = [&](const Json& value, const std::string& param) {
    ExpectRefused({{"response_format", value}}, param, "");
  };
  format("json_object", "response_format");
  format({{"type", "xml"}}, "response_format.type");
  format({{"type", nullptr}}, "response_format.type");
  format({{"type", "text"}, {"json_schema", {{"schema", true}}}}, "response_format.json_schema");
  format({{"type", "json_schema"}}, "response_format.json_schema");
  format({{"type", "json_schema"}, {"json_schema", {{"name", "n"}}}},
         "response_format.json_schema.schema");
  format({{"type", "json_schema"}, {"json_schema", {{"schema", 1}}}},
         "response_format.json_schema.schema");
  format({{"type", "json_schema"}, {"json_schema", {{"schema", Json::object()}, {"x", 1}}}},
         "response_format.json_schema.x");
  ExpectRefused({{"guided_json", 1}}, "guided_json", "a JSON Schema, as an object or a string");
  ExpectRefused({{"guided_regex", {"a"}}}, "guided_regex", "a string");
  ExpectRefused({{"guided_choice", "a"}}, "guided_choice", "an array of strings");
  ExpectRefused({{"guided_choice", {1}}}, "guided_choice", "1 is not a string");
  ExpectRefused({{"guided_grammar", true}}, "guided_grammar", "a string");
  ExpectRefused({{"structured_outputs", "json"}}, "structured_outputs", "an object");
  ExpectRefused({{"structured_outputs", {{"json_object", 1}}}}, "structured_outputs.json_object",
                "");
}

TEST_F(StructuredFieldsTest, UnservedMembersAreRefusedByName) {
  for (const char* member : {"whitespace_pattern", "structural_tag", "frobnicate"}) {
    ExpectRefused({{"structured_outputs", {{"regex", "a"}, {member, "x"}}}},
                  std::string("structured_outputs.") + member, "");
  }
  ExpectRefused({{"structured_outputs", {{"json", true}, {"disable_additional_properties", true}}}},
                "structured_outputs.disable_additional_properties", "is not served");
  for (const char* member : {"disable_fallback", "disable_any_whitespace"}) {
    ExpectRefused({{"structured_outputs", {{"regex", "a"}, {member, "x"}}}},
                  std::string("structured_outputs.") + member, "");
  }
  ExpectRefused({{"guided_whitespace_pattern", " "}}, "guided_whitespace_pattern", "");
  ExpectRefused({{"guided_decoding_backend", "x"}}, "guided_decoding_backend", "");
}

TEST_F(StructuredFieldsTest, RefusesSourcesThatDoNotCompile) {
  const Json odd = {{"type", "object"}, {"properties", {{"a", {{"contains", 2}}}}}};
  ExpectRefused(Format(odd), "response_format", "contains");
  ExpectRefused({{"guided_json", odd}}, "guided_json", "contains");
  ExpectRefused({{"guided_json", "{"}}, "guided_json", "");
  ExpectRefused({{"structured_outputs", {{"regex", "(a"}}}}, "structured_outputs.regex", "");
  ExpectRefused({{"guided_regex", "(?=a)"}}, "guided_regex", "");
  ExpectRefused({{"guided_choice", Json::array()}}, "guided_choice", "no choice is given");
  ExpectRefused({{"guided_grammar", "root ::= root \"a\" | \"b\""}}, "guided_grammar", "root");
}

TEST_F(StructuredFieldsTest, SourcesHaveLimits) {
  const auto choices = [](int count) {
    Json list = Json::array();
    for (int i = 0; i < count; ++i) list.push_back("c" + std::to_string(i));
    return Json{{"guided_choice", list}};
  };
  EXPECT_TRUE(Completion(choices(kMaxGrammarChoices)).ok());
  ExpectRefused(choices(kMaxGrammarChoices + 1), "guided_choice", "at most 1024");
  const auto annotated = [](size_t bytes) {
    const Json empty = {{"type", "null"}, {"title", ""}};
    Json schema = empty;
    schema["title"] = std::string(bytes - empty.dump().size(), 't');
    return Json{{"guided_json", schema}};
  };
  EXPECT_TRUE(Completion(annotated(kMaxGrammarBytes)).ok());
  ExpectRefused(annotated(kMaxGrammarBytes + 1), "guided_json", "at most 262144");
}

TEST_F(StructuredFieldsTest, OutputsEndWithAnEndToken) {
  ExpectRefused({{"guided_regex", "a"}, {"ignore_eos", true}}, "ignore_eos",
                "an end of sequence ends a structured output");
  EXPECT_TRUE(Completion({{"ignore_eos", true}}).ok());
  SetEndTokens({});
  ExpectRefused({{"guided_regex", "a"}}, "guided_regex", "no end-of-sequence token");
}

TEST_F(StructuredFieldsTest, ChoicesShareTheCompiledMasks) {
  const auto parsed =
      Completion({{"prompt", {"a", "b"}}, {"n", 3}, {"seed", 1}, {"guided_regex", "a+"}});
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  const auto& masks = parsed->prompts.at(0).grammar_masks;
  EXPECT_EQ(parsed->prompts.at(1).grammar_masks, masks);
  for (int choice = 0; choice < 3; ++choice) {
    EXPECT_EQ(ChoiceOf(parsed->prompts[0], choice).grammar_masks, masks);
  }
  EXPECT_EQ(Chat({{"guided_regex", "a+"}})->prompts.at(0).grammar_masks, masks) << "from the cache";
}

// Markers of calls or of reasoning within its strings do not split a structured output.
TEST_F(StructuredFieldsTest, OutputsOfChatsAreContentAlone) {
  model_.chat_template = ChatTemplate::FromText("{{ messages[0].content }}<think>\n");
  const Json tool = {{"type", "function"}, {"function", {{"name", "f"}}}};
  const AnswerReading plain = Chat({{"tools", {tool}}})->reading;
  EXPECT_TRUE(plain.opens_reasoning);
  EXPECT_EQ(plain.format.tools, ToolFormat::kHermes);
  const AnswerReading reading = Chat({{"tools", {tool}}, {"guided_regex", "a+"}})->reading;
  EXPECT_FALSE(reading.opens_reasoning);
  EXPECT_EQ(reading.format.reasoning, ReasoningFormat::kNone);
  EXPECT_EQ(reading.format.tools, ToolFormat::kNone);
}

// No grammar writes the special tokens of harmony's headers.
TEST_F(StructuredFieldsTest, HarmonyPromptsNameTheirContent) {
  model_.chat_template = ChatTemplate::FromText(
      "{{ messages[0].content }}{% if add_generation_prompt %}<|start|>assistant{% endif %}");
  const auto prompt = [&](const Json& fields) {
    const auto parsed = Chat(fields);
    EXPECT_TRUE(parsed.ok()) << parsed.status().ToString();
    return parsed.ok() ? tokenizer_->Decode(parsed->prompts[0].prompt, /*skip_special=*/false) : "";
  };
  const Json constrained = {{"guided_regex", "a+"}};
  EXPECT_EQ(prompt(constrained), "a<|start|>assistant") << "of another format";
  model_.answer_format = {.tools = ToolFormat::kHarmony, .reasoning = ReasoningFormat::kHarmony};
  EXPECT_EQ(prompt(constrained), "a<|start|>assistant<|channel|>final<|message|>");
  EXPECT_FALSE(Chat(constrained)->reading.format.is_harmony()) << "all of it is content";
  EXPECT_EQ(prompt(Json::object()), "a<|start|>assistant");
  EXPECT_EQ(prompt({{"guided_regex", "a+"}, {"add_generation_prompt", false}}), "a");
}

// There are no grammars to compile with.
TEST_F(StructuredFieldsTest, AreCompiledLast) {
  model_.grammars = nullptr;
  const std::pair<Json, const char*> kFaults[] = {
      {{{"n", 0}}, "n"},
      {{{"max_tokens", 0}}, "max_tokens"},
      {{{"max_tokens", 1000}}, "max_tokens"},
      {{{"min_tokens", 1000}}, "min_tokens"},
      {{{"stop", {1}}}, "stop"},
      {{{"stop_token_ids", {4096}}}, "stop_token_ids"},
      {{{"stream", 1}}, "stream"},
      {{{"stream_options", Json::object()}}, "stream_options"},
      {{{"prompt_logprobs", 21}}, "prompt_logprobs"},
      {{{"speculation", {{"mode", "on"}}}}, "speculation.mode"}};
  for (const auto& [fault, param] : kFaults) {
    Json fields = {{"guided_regex", "a+"}};
    fields.update(fault);
    ExpectRefused(fields, param, "");
  }
  EXPECT_FALSE(Completion({{"guided_regex", "a+"}, {"prompt", Json::array()}}).ok());
  EXPECT_FALSE(Completion({{"guided_regex", "a+"}, {"best_of", 1000}}).ok());
  EXPECT_FALSE(Chat({{"guided_regex", "a+"}, {"messages", Json::array()}}).ok());
  const Json tool = {{"type", "function"}, {"function", {{"name", "f"}}}};
  EXPECT_FALSE(Chat({{"tools", {tool}}, {"tool_choice", "required"}, {"max_tokens", 1000}}).ok());
}

TEST_F(StructuredFieldsTest, CallsAndOutputsExcludeEachOther) {
  const Json tool = {{"type", "function"}, {"function", {{"name", "f"}}}};
  const Json named = {{"type", "function"}, {"function", {{"name", "f"}}}};
  for (const Json& choice : {Json("required"), named}) {
    const auto both = Chat({{"tools", {tool}},
                            {"tool_choice", choice},
                            {"response_format", {{"type", "json_object"}}}});
    EXPECT_EQ(both.status().code(), Code::kInvalidArgument);
    EXPECT_EQ(Json::parse(ErrorJson(both.status()))["error"]["param"], "tool_choice");
    const auto text =
        Chat({{"tools", {tool}}, {"tool_choice", choice}, {"response_format", {{"type", "text"}}}});
    EXPECT_TRUE(text.ok()) << text.status().ToString();
  }
}

}  // namespace
}  // namespace outrider
