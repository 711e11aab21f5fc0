#include "verifier/chat/tool_grammar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/grammar/grammar_state.h"
#include "common/text/utf8.h"
#include "tests/verifier/chat/chat_testing.h"

namespace outrider {
namespace {

using grammar::Grammar;
using grammar::GrammarState;
using grammar::Stepper;
using ::testing::HasSubstr;
using testing::Read;
using testing::Reading;

constexpr char kWeather[] = R"({"type": "object", "properties": {
    "city": {"type": "string"}, "days": {"$ref": "#/$defs/Days"}, "unit": {"enum": ["C", "F"]}},
    "required": ["city"], "$defs": {"Days": {"type": "array", "items": {"type": "integer"}}}})";

const std::vector<ToolDescription> kTools = {{"f", ""}, {"get_weather", kWeather}};

std::shared_ptr<const Grammar> Compiled(const ToolGrammarOptions& options,
                                        const std::vector<ToolDescription>& tools = kTools) {
  const auto source = ToolGrammar(tools, options);
  EXPECT_TRUE(source.ok()) << source.status().ToString();
  auto compiled = Grammar::Compile(*source);
  EXPECT_TRUE(compiled.ok()) << compiled.status().ToString() << "\n" << source->text;
  return std::move(compiled).value();
}

bool Accepts(const std::shared_ptr<const Grammar>& grammar, std::string_view text) {
  Stepper stepper;
  GrammarState state(grammar);
  return state.Advance(text, stepper) && state.is_accepting();
}

struct FormatCase {
  ToolFormat format;
  std::string f, weather;  // a call of each
  std::string two;         // both
  std::vector<std::string> wrong;
};

std::vector<FormatCase> Cases() {
  return {
      {ToolFormat::kHermes,
       "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>",
       "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Z\", \"days\": [1]}}\n"
       "</tool_call>",
       "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n"
       "{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Z\"}}\n</tool_call>",
       {"<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>",
        "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>",
        "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"days\": [1]}}\n</tool_call>",
        "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}"}},
      {ToolFormat::kLlama3Json,
       "{\"name\": \"f\", \"parameters\": {}}",
       "{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Z\", \"unit\": \"C\"}}",
       "{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"f\", \"parameters\": {}}",
       {"{\"name\": \"get_weather\", \"parameters\": {\"city\": 1}}", "text"}},
      {ToolFormat::kMistral,
       "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}]",
       "[TOOL_CALLS][{\"name\": \"get_weather\", \"arguments\": {\"city\": \"]\"}}]",
       "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"f\", \"arguments\": {}}]",
       {"[TOOL_CALLS][]", "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}"}},
      {ToolFormat::kPythonic,
       "[f()]",
       "[get_weather(city=\"Z\", unit=\"F\")]",
       "[f(), get_weather(city=\"Z\", days=[1, 2])]",
       {"[get_weather()]", "[get_weather(days=[1])]", "[get_weather(city=\"Z\",)]", "[f(a=1)]",
        "[get_weather(unit=\"F\", city=\"Z\")]", "[get_weather(city=\"Z\", unit=\"K\")]"}},
      {ToolFormat::kDeepSeekV3,
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{}\n```"
       "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n"
       "{\"city\": \"é\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{}\n```"
       "<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{}\n```"
       "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       {"<｜tool▁calls▁begin｜><｜tool▁calls▁end｜>"}},
      {ToolFormat::kDeepSeekV31,
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜>"
       "<｜tool▁calls▁end｜>",
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{\"city\": \"Z\"}"
       "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜>"
       "<｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       {"<｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜>"}},
      {ToolFormat::kHarmony,
       " to=functions.f<|channel|>commentary json<|message|>{}",
       " to=functions.get_weather<|channel|>commentary json<|message|>{\"city\": \"<|end|>\"}",
       " to=functions.f<|channel|>commentary json<|message|>{}<|call|><|start|>assistant"
       " to=functions.f<|channel|>commentary json<|message|>{}",
       {" to=functions.g<|channel|>commentary json<|message|>{}", "<|channel|>final<|message|>text",
        " to=functions.get_weather<|channel|>commentary json<|message|>{\"days\": [1]}"}},
  };
}

TEST(ToolGrammar, ReadsValidCallsAndNoOthers) {
  for (const FormatCase& one : Cases()) {
    const auto single = Compiled({.format = one.format});
    const auto several = Compiled({.format = one.format, .several = true});
    for (const std::string& text : {one.f, one.weather}) {
      EXPECT_TRUE(Accepts(single, text)) << text;
      EXPECT_TRUE(Accepts(several, text)) << text;
    }
    EXPECT_FALSE(Accepts(single, one.two)) << one.two;
    EXPECT_TRUE(Accepts(several, one.two)) << one.two;
    for (const std::string& text : one.wrong) EXPECT_FALSE(Accepts(several, text)) << text;
    EXPECT_FALSE(Accepts(several, "")) << "a call is required";
  }
}

TEST(ToolGrammar, NamedToolExcludesOthers) {
  for (const FormatCase& one : Cases()) {
    const auto named = Compiled({.format = one.format}, {kTools[1]});
    EXPECT_TRUE(Accepts(named, one.weather)) << one.weather;
    EXPECT_FALSE(Accepts(named, one.f)) << one.f;
  }
}

// The parser accepts what the grammar generates.
TEST(ToolGrammar, WritesWhatTheParserReads) {
  for (const FormatCase& one : Cases()) {
    EXPECT_EQ(Read(Reading(one.format), {one.f}), "f{}");
    EXPECT_THAT(Read(Reading(one.format), {one.weather}), HasSubstr("get_weather{\"city\": "));
    EXPECT_THAT(Read(Reading(one.format), {one.two}), HasSubstr("}|"));
  }
}

// Neither markers nor the beginnings of calls become content, wherever max_tokens truncates them.
TEST(ToolGrammar, CallsCutAnywhereHaveNoContent) {
  for (const FormatCase& one : Cases()) {
    AnswerReading reading = Reading(one.format, ReasoningFormat::kQwen3);
    reading.must_call = true;
    for (const std::string& calls : {one.f, one.weather, one.two}) {
      const std::string text = "<think>\nWhy?\n</think>\n\n" + calls;
      for (size_t end = 0; end <= text.size(); ++end) {
        Utf8Stream decoder;  // as for a free text: a cut character becomes U+FFFD
        std::string cut;
        decoder.Push(std::string_view(text).substr(0, end), cut);
        decoder.Finish(cut);
        AnswerReader reader(reading);
        std::vector<AnswerEvent> events = reader.Push(cut);
        for (AnswerEvent& event : reader.Finish()) events.push_back(std::move(event));
        for (const AnswerEvent& event : events) {
          EXPECT_NE(event.kind, AnswerEvent::Kind::kContent) << text.substr(0, end);
        }
      }
    }
  }
}

TEST(ToolGrammar, ReasoningMayComeFirst) {
  const std::string call = "{\"name\": \"f\", \"parameters\": {}}";
  ToolGrammarOptions options{.format = ToolFormat::kLlama3Json,
                             .reasoning = ReasoningFormat::kQwen3};
  const auto closed = Compiled(options);
  EXPECT_TRUE(Accepts(closed, call));
  EXPECT_TRUE(Accepts(closed, "<think>\na < b </thi</ </think\n{} é</think>\n\n" + call));
  EXPECT_FALSE(Accepts(closed, "<think>a</think>b" + call));
  EXPECT_FALSE(Accepts(closed, "thought</think>" + call));
  EXPECT_FALSE(Accepts(closed, "<think>" + call));
  options.opens_reasoning = true;
  const auto open = Compiled(options);
  EXPECT_TRUE(Accepts(open, "\nSo.</think>" + call));
  EXPECT_FALSE(Accepts(open, call));
  options.reasoning = ReasoningFormat::kMistral;
  EXPECT_TRUE(Accepts(Compiled(options), "a[/THIN[/THINK]\n" + call));
}

// A grammar has no special tokens, without which a model does not end its analysis.
TEST(ToolGrammar, HarmonyCallsFollowNoReasoning) {
  const std::string call = " to=functions.f<|channel|>commentary json<|message|>{}";
  const std::string analysis = "<|channel|>analysis<|message|>", end = "<|end|><|start|>assistant";
  ToolGrammarOptions options{.format = ToolFormat::kHarmony,
                             .reasoning = ReasoningFormat::kHarmony};
  const auto closed = Compiled(options);
  EXPECT_TRUE(Accepts(closed, call));
  EXPECT_FALSE(Accepts(closed, analysis + "a" + end + call));
  options.opens_reasoning = true;
  const auto open = Compiled(options);
  EXPECT_TRUE(Accepts(open, end + call));
  EXPECT_FALSE(Accepts(open, "a" + end + call));
  AnswerReading reading = Reading(ToolFormat::kHarmony, ReasoningFormat::kHarmony);
  reading.opens_reasoning = true;
  EXPECT_EQ(Read(reading, {end + call}), "f{}");
}

// Text without the marker, and calls, of which those of the strict tool follow its schema.
TEST(ToolGrammar, FreeTextMayComeAroundCalls) {
  std::vector<ToolDescription> tools = kTools;
  tools[1].strict = true;
  tools.push_back({"loose", kWeather});
  const auto call = [](const std::string& name, const std::string& arguments) {
    return "<tool_call>\n{\"name\": \"" + name + "\", \"arguments\": " + arguments +
           "}\n</tool_call>";
  };
  const std::string valid = call("get_weather", R"({"city": "<tool_call>"})");
  const auto any = Compiled({.free_text = true}, tools);
  for (const std::string& text : {std::string(), std::string("a < b <tool_ <<tool_call é\n{}"),
                                  valid, "Let me see.\n" + valid, call("f", R"({"a": 1})"),
                                  call("loose", R"({"x": [1], "city": 2})")}) {
    EXPECT_TRUE(Accepts(any, text)) << text;
  }
  for (const std::string& text :
       {call("get_weather", "{}"), call("get_weather", R"({"city": 1})"), call("other", "{}"),
        std::string("<tool_call>"), "<tool_call> " + valid, call("loose", "1"),
        "<<tool_call>" + valid}) {
    EXPECT_FALSE(Accepts(any, text)) << text;
  }
  EXPECT_FALSE(Accepts(any, valid + " ")) << "one call ends the answer";
  const auto several = Compiled({.several = true, .free_text = true}, tools);
  EXPECT_TRUE(Accepts(several, valid + "\n" + call("f", "{}") + " Done. <tool_call"));
  EXPECT_FALSE(Accepts(several, valid + "\n" + call("get_weather", "{}")));
}

TEST(ToolGrammar, FreeTextFollowsReasoning) {
  std::vector<ToolDescription> tools = {kTools[1]};
  tools[0].strict = true;
  ToolGrammarOptions options{.free_text = true, .reasoning = ReasoningFormat::kQwen3};
  const std::string thought = "I may write <tool_call>{} here.", wrong = "<tool_call>{}";
  const auto closed = Compiled(options, tools);
  for (const std::string& text :
       {std::string("So."), "<think>" + thought, "\n<think>" + thought + "</think>\n\nSo.",
        thought.substr(0, 18)}) {
    EXPECT_TRUE(Accepts(closed, text)) << text;
  }
  EXPECT_FALSE(Accepts(closed, thought));
  EXPECT_FALSE(Accepts(closed, "<think>" + thought + "</think>" + wrong));
  options.opens_reasoning = true;
  const auto open = Compiled(options, tools);
  EXPECT_TRUE(Accepts(open, thought));
  EXPECT_TRUE(Accepts(open, thought + "</think>So."));
  EXPECT_FALSE(Accepts(open, thought + "</think>" + wrong));
}

// Any text has exactly one way to continue, so that its masks cost no more than a string's.
TEST(ToolGrammar, FreeTextIsUnambiguous) {
  std::vector<ToolDescription> tools = {kTools[1]};
  tools[0].strict = true;
  Stepper stepper;
  GrammarState state(Compiled({.several = true, .free_text = true}, tools));
  for (const char c : std::string("Well, a < b, <tool <tool_call and é: ")) {
    ASSERT_TRUE(state.Advance({&c, 1}, stepper));
    EXPECT_LE(state.items().size(), 1u);
  }
  EXPECT_EQ(state.most_returns(), 0u);
}

TEST(ToolGrammar, CompilesMaximalNumberOfTools) {
  std::vector<ToolDescription> tools;
  for (int i = 0; i < 128; ++i) tools.push_back({"tool-" + std::to_string(i), kWeather});
  for (const FormatCase& one : Cases()) Compiled({.format = one.format, .several = true}, tools);
}

TEST(ToolGrammar, ToolsOfSimilarNamesCompile) {
  const char* parameters = R"({"properties": {"a": {"type": "integer"}}})";
  std::vector<ToolDescription> tools;
  for (const char* name : {"f", "f-value-0", "f-next-1", "f-first-1", "value-0-f", "args-f"}) {
    tools.push_back({name, parameters});
  }
  const auto source = ToolGrammar(tools, {.format = ToolFormat::kPythonic});
  const auto grammar = Grammar::Compile(source.value());
  EXPECT_TRUE(grammar.ok()) << grammar.status().ToString();
}

TEST(ToolGrammar, KeywordsTakeTheirOwnSchemas) {
  const auto parameters = [](int properties, const std::string& more) {
    std::string schema = R"({"properties": {)";
    for (int i = 0; i < properties; ++i) {
      schema += (i == 0 ? "\"p" : ", \"p") + std::to_string(i) +
                R"(": {"type": "integer", "description": ")" + std::string(400, 'x') + "\"}";
    }
    return schema + "}" + more + "}";
  };
  const auto made = [&](int properties, const std::string& more) {
    return ToolGrammar(std::vector<ToolDescription>{{"f", parameters(properties, more)}},
                       {.format = ToolFormat::kPythonic});
  };
  const auto many = made(30, "");
  ASSERT_TRUE(many.ok());
  EXPECT_LT(many->bytes(), 20'000u);
  EXPECT_TRUE(Grammar::Compile(*many).ok());
  // References include their targets, each time.
  const std::string refers = R"(, "$defs": {"a": {"$ref": "#/$defs/b"}})";
  EXPECT_THAT(made(30, refers).status().message(), HasSubstr("f: its parameters are too large"));
  EXPECT_TRUE(made(4, refers).ok());
}

TEST(ToolGrammar, RefusesWhatItCannotWrite) {
  const auto refusal = [](const std::vector<ToolDescription>& tools, ToolFormat format) {
    return ToolGrammar(tools, {.format = format}).status().message();
  };
  EXPECT_THAT(refusal({}, ToolFormat::kHermes), HasSubstr("no tool"));
  EXPECT_THAT(refusal(kTools, ToolFormat::kNone), HasSubstr("unknown"));
  const auto pythonic = [&](const char* schema) {
    return refusal({{"f", schema}}, ToolFormat::kPythonic);
  };
  EXPECT_THAT(pythonic(R"({"$ref": "#/$defs/X"})"), HasSubstr("$ref"));
  EXPECT_THAT(pythonic(R"({"properties": {"a b": {}}})"), HasSubstr("a b"));
  EXPECT_THAT(pythonic(R"({"required": ["a"]})"), HasSubstr("require a"));
  EXPECT_THAT(pythonic("7"), HasSubstr("f"));
  // Errors of the library name the tool.
  const auto source =
      ToolGrammar(std::vector<ToolDescription>{{"f", R"({"not": {}})"}}, {}).value();
  EXPECT_THAT(Grammar::Compile(source).status().message(), HasSubstr("args-f"));
}

}  // namespace
}  // namespace outrider
