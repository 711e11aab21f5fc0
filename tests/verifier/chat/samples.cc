#include "tests/verifier/chat/chat_testing.h"

namespace outrider::testing {
namespace {

constexpr ToolFormat kHermes = ToolFormat::kHermes, kLlama3 = ToolFormat::kLlama3Json,
                     kMistral = ToolFormat::kMistral, kPythonic = ToolFormat::kPythonic,
                     kDeepSeek = ToolFormat::kDeepSeekV3, kHarmony = ToolFormat::kHarmony,
                     kNone = ToolFormat::kNone;

void AddHermes(std::vector<Sample>& samples) {
  const auto add = [&](const char* text, const char* shown) {
    samples.push_back({Reading(kHermes), text, shown});
  };
  add("plain text", "plain text");
  add("  spaced \n", "  spaced \n");
  add("", "");
  add("<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>", R"(f{"a": 1})");
  add("Let me see.\n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n", "Let me see.|f{}");
  add("<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>\n<tool_call>\n"
      "{\"name\": \"g\", \"arguments\": {\"b\": [1, {\"c\": null}]}}\n</tool_call> Done.",
      R"(f{}|g{"b": [1, {"c": null}]}| Done.)");
  // Strings that contain the end of a call, or the beginning of one.
  add(R"(<tool_call>{"name": "f", "arguments": {"a": "}</tool_call><tool_call>{"}}</tool_call>x)",
      R"(f{"a": "}</tool_call><tool_call>{"}|x)");
  add(R"(<tool_call>{"name": "f", "arguments": {"a": "\"}\\"}}</tool_call>)", R"(f{"a": "\"}\\"})");
  add(R"(<tool_call>{"name": "\u0066", "arguments": {"a": "\u00e9\ud83d\ude00é😀"}}</tool_call>)",
      R"(f{"a": "\u00e9\ud83d\ude00é😀"})");
  // Members in another order, additional ones, arguments as text, none at all.
  add(R"(<tool_call>{"arguments": {"a": {"name": "g"}}, "id": 7, "name": "f"}</tool_call>)",
      R"(f{"a": {"name": "g"}})");
  add(R"(<tool_call>{"type": "function", "name": "f", "parameters": {}, "x": [{}]}</tool_call>)",
      "f{}");
  add(R"(<tool_call>{"name": "f", "arguments": "{\"a\": \"\\n\"}"}</tool_call>)",
      R"(f{"a": "\n"})");
  add(R"(<tool_call>{"name": "f", "arguments": null}</tool_call>)", "f{}");
  add(R"(<tool_call>{"name": "f"}</tool_call>)", "f{}");
  add(R"(<tool_call>{"name": "f", "arguments": ""}</tool_call>)", "f{}");
  // A tool that the request does not have: the markers make it a call.
  add(R"(<tool_call>{"name": "other.tool", "arguments": {}}</tool_call>)", "other.tool{}");
  // Missing ends.
  add(R"(<tool_call>{"name": "f", "arguments": {"a": 1}</tool_call>)", R"(f{"a": 1})");
  add(R"(<tool_call>{"name": "f", "arguments": {}} and text)", "f{}| and text");
  add("<tool_call>{\"name\": \"f\", \"arguments\": {}}\n<tool_call>{\"name\": \"g\"}", "f{}|g{}");
  add(R"(<tool_call>{"name": "f", "arguments": {}}</tool_x)", "f{}|</tool_x");
  // Not calls.
  for (const char* text :
       {"a < b << c <tool_ca <tool_cal", "<tool_call>not JSON</tool_call>", "<tool_call>",
        "<tool_call>\n{\"name\": \"f\"", "<tool_call>{\"name\": \"f\", \"argum",
        "<tool_call>{\"name\": 7, \"arguments\": {}}</tool_call>", "<tool_call>{}</tool_call>",
        "<tool_call>{\"name\": \"\", \"arguments\": {}}</tool_call>",
        "<tool_call>{\"arguments\": {\"a\": 1}}</tool_call>",
        "<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>",
        "<tool_call>{\"name\": \"f\", \"arguments\": 12}</tool_call>",
        "<tool_call>{\"name\": \"f\", \"arguments\": \"\\x\"}</tool_call>",
        "{\"name\": \"f\", \"arguments\": {}}", "</tool_call> alone \n "}) {
    add(text, text);
  }
  add("<tool_call>x<tool_call><tool_call>{\"name\": \"f\"}</tool_call>",
      "<tool_call>x<tool_call>|f{}");
  // Truncated within the arguments.
  add(R"(<tool_call>{"name": "f", "arguments": {"a": "b)", R"(f{"a": "b)");
  add(R"(<tool_call>{"name": "f", "arguments": {)", "f{");
}

void AddLlama3(std::vector<Sample>& samples) {
  const auto add = [&](const char* text, const char* shown) {
    samples.push_back({Reading(kLlama3), text, shown});
  };
  add(R"({"name": "f", "parameters": {"a": "{\"b\": ;}"}})", R"(f{"a": "{\"b\": ;}"})");
  add("\n {\"name\": \"f\", \"parameters\": {}}\n", "f{}");
  add(R"({"name": "f", "parameters": {"a": 1}}; {"name": "g", "parameters": {}})",
      R"(f{"a": 1}|g{})");
  add("{\"name\": \"f\", \"arguments\": {}}\n{\"name\": \"g\", \"parameters\": {}} end",
      "f{}|g{}| end");
  add(R"(<|python_tag|>{"name": "f", "parameters": {}})", "f{}");
  add(R"(Sure. <|python_tag|> {"type": "function", "name": "f", "parameters": {}})", "Sure.|f{}");
  add(R"({"name": "f", "parameters": {}}; x)", "f{}|; x");
  add(R"({"name": "f", "parameters": {"a": 1)", R"(f{"a": 1)");
  for (const char* text : {R"({"name": "unknown", "parameters": {}})", R"({"name": "f"})",
                           R"({"name": "f", "age": 3})", R"(Text {"name": "f", "parameters": {}})",
                           "{", "{}", R"({"a": [1, 2]} text)", "<|python_tag|>print(1)",
                           "<|python_t", R"({"name": "f", "para)"}) {
    add(text, text);
  }
}

void AddMistral(std::vector<Sample>& samples) {
  const auto add = [&](const char* text, const char* shown) {
    samples.push_back({Reading(kMistral), text, shown});
  };
  add(R"([TOOL_CALLS][{"name": "f", "arguments": {"a": "]"}}])", R"(f{"a": "]"})");
  add(R"([TOOL_CALLS] [{"name": "f", "arguments": {}}, {"name": "g", "arguments": {"a": [[]]}}] )",
      R"(f{}|g{"a": [[]]})");
  add(R"(Text[TOOL_CALLS][{"arguments": {}, "name": "f", "id": "123456789"}]more)",
      "Text|f{}|more");
  add(R"([TOOL_CALLS]f{"a": "[TOOL_CALLS]"}[TOOL_CALLS]g{})", R"(f{"a": "[TOOL_CALLS]"}|g{})");
  add(R"([TOOL_CALLS]f[ARGS]{"a": {}}[TOOL_CALLS]get_weather[CALL_ID]x1[ARGS] {})",
      R"(f{"a": {}}|get_weather{})");
  add(R"([TOOL_CALLS][{"name": "f", "arguments": {}})", "f{}");
  add(R"([TOOL_CALLS][{"name": "f", "arguments": {"a")", R"(f{"a")");
  for (const char* text : {"[TOOL_CALLS]", "[TOOL_CALLS][]", "[TOOL_CALLS] text.", "[TOOL_CALLS]f",
                           "[TOOL_CALLS]f[ARG", "[TOOL_CALLS]f[ARGS]x", "[TOOL_CALLS]{}",
                           "[1] see [TOOL_", "[TOOL_CALLS]f g"}) {
    add(text, text);
  }
}

void AddDeepSeek(std::vector<Sample>& samples) {
  const auto add = [&](const char* text, const char* shown) {
    samples.push_back({Reading(kDeepSeek), text, shown});
  };
  add("Let me.\n\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n"
      "{\"a\": \"```<｜tool▁call▁end｜>\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
      "Let me.|f{\"a\": \"```<｜tool▁call▁end｜>\"}");
  add("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{}\n```"
      "<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{\"é\": "
      "[{}]}\n```"
      "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
      "f{}|g{\"é\": [{}]}");
  add("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": 1}<｜tool▁call▁end｜>"
      "<｜tool▁call▁begin｜>g<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜> text",
      "f{\"a\": 1}|g{}| text");
  add("<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n{\"a\": 1}", "f{\"a\": 1}");
  add("<｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁begin｜>g<｜tool▁sep｜>{", "f{}|g{");
  add("<｜tool▁call▁begin｜>f<｜tool▁sep｜>{} <｜x", "f{}| <｜x");
  for (const char* text :
       {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁begin｜>text",
        "<｜tool▁calls▁begin｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\nx",
        "<｜tool▁call▁begin｜><｜tool▁sep｜>{}", "a <｜tool▁cal",
        "<｜tool▁call▁begin｜>f<｜tool▁call", "<｜User｜> é"}) {
    add(text, text);
  }
}

void AddPythonic(std::vector<Sample>& samples) {
  const auto add = [&](const char* text, const char* shown) {
    samples.push_back({Reading(kPythonic), text, shown});
  };
  add("[f(a=1, b='x')]", R"(f{"a": 1, "b": "x"})");
  add(" [ f( ) , get_weather(city=\"Z)]\\\"[f(\", days=[1, (2, 3)], o={'k': None,},)]\n",
      R"(f{}|get_weather{"city": "Z)]\"[f(", "days": [1, [2, 3]], "o": {"k": null}})");
  add("[f(a='\\u00e9é', b=True)] done", R"(f{"a": "éé", "b": true}| done)");
  add("[f(a=1), g(b=", R"(f{"a": 1}|, g(b=)");
  add("[f(a=1)", R"(f{"a": 1})");
  for (const char* text : {"[1] says", "[f]", "[]", "[unknown(a=1)]", "[f(1)]", "[f(a=b)]",
                           "f(a=1)", "[f(a=1]", "[f(a='x", "Text [f(a=1)]", "[f(a=1, a=2)]", "["}) {
    add(text, text);
  }
}

void AddReasoning(std::vector<Sample>& samples) {
  const auto add = [&](AnswerReading reading, const char* text, const char* shown) {
    samples.push_back({std::move(reading), text, shown});
  };
  const AnswerReading qwen = Reading(kNone, ReasoningFormat::kQwen3);
  add(qwen, "<think>\nWhy < not?\n\n</think>\n\nAnswer.\n", "thought: Why < not?|Answer.\n");
  add(qwen, "\n<think></think>x", "x");
  add(qwen, "<think>cut off </thi", "thought: cut off </thi");
  add(qwen, "<think>cut off\n", "thought: cut off");
  add(qwen, "<thin", "<thin");
  add(qwen, " no thought <think>a</think>", " no thought <think>a</think>");
  AnswerReading open = qwen;
  open.opens_reasoning = true;
  add(open, "So </ </think>\n\nyes </think>", "thought: So </|yes </think>");
  add(open, "\n<think>\nagain</think>b", "thought: again|b");
  add(open, "</think>b", "b");
  add(open, "<thing", "thought: <thing");
  add(Reading(kNone, ReasoningFormat::kDeepSeekR1), "é\n</think>\n é", "thought: é|é");
  add(Reading(kNone, ReasoningFormat::kMistral), "[THINK]a[/THIN[/THINK]b", "thought: a[/THIN|b");
  AnswerReading both = Reading(kHermes, ReasoningFormat::kQwen3);
  add(both,
      "<think>\nI call <tool_call>{\"name\": \"g\"}</tool_call>\n</think>\n\n<tool_call>\n"
      "{\"name\": \"f\", \"arguments\": {\"a\": \"<think>\"}}\n</tool_call>",
      "thought: I call <tool_call>{\"name\": \"g\"}</tool_call>|f{\"a\": \"<think>\"}");
  add(both, "<think>a</think>\n<tool_call>", "thought: a|<tool_call>");
  both.include_reasoning = false;
  both.max_calls = 1;
  add(both, "<think>a</think>b<tool_call>{\"name\": \"f\"}</tool_call><tool_call>{\"name\": \"g\"}",
      "b|f{}");
}

// The model's end tokens, <|return|> and <|call|>, are only in a text that goes on after them.
void AddHarmony(std::vector<Sample>& samples) {
  const AnswerReading both = Reading(kHarmony, ReasoningFormat::kHarmony);
  const auto add = [&](const std::string& text, const char* shown) {
    samples.push_back({both, text, shown});
  };
  const std::string analysis = "<|channel|>analysis<|message|>", end = "<|end|><|start|>assistant",
                    final_answer = "<|channel|>final<|message|>",
                    comment = "<|channel|>commentary<|message|>",
                    json = "<|constrain|>json<|message|>";
  add(analysis + "Why < not?\n" + end + final_answer + " Hi é. \n",
      "thought: Why < not?\n| Hi é. \n");
  add(final_answer + "Hi<|return|>", "Hi");
  add(analysis + "a" + end + analysis + "b" + end + final_answer + "c" + end + analysis + "d" +
          end + comment + "e",
      "thought: a\nb|c|thought: \nd|\ne");
  // Calls, with the recipient in either part of the header, and text that looks like a marker.
  add(analysis + "a" + end + "<|channel|>commentary to=functions.f " + json +
          "{\"a\": \"<|end|>}\"}<|call|>",
      "thought: a|f{\"a\": \"<|end|>}\"}");
  add(" to=functions.f<|channel|>commentary json<|message|>{\"a\": {}}", "f{\"a\": {}}");
  add("<|start|>assistant to=functions.g <|channel|>commentary" + json + "\n {}\n<|call|>", "g{}");
  add("to=functions.other.tool" + json + "{}", "other.tool{}");
  add(analysis + "a" + end + "<|channel|>analysis to=functions.f code<|message|>{}",
      "thought: a|f{}");
  add(comment + "Let me look." + end + "<|channel|>commentary to=functions.f<|message|>{}<|call|>" +
          "<|start|>assistant<|channel|>commentary to=functions.g<|message|>{}<|end|>" +
          "<|start|>assistant" + final_answer + "Done.",
      "Let me look.|f{}|g{}|\nDone.");
  add(" to=functions.f<|message|>{} and<|end|>more", "f{}| and\nmore");
  // No calls: built-in tools, no name, no object.
  add("<|channel|>analysis to=python code<|message|>print('to=')<|call|>", "print('to=')");
  add("<|channel|>commentary to=browser.search" + json + "{\"q\": 1}", "{\"q\": 1}");
  add("<|channel|>commentary to=functions." + json + "{}", "{}");
  add("<|channel|>commentary to=functions.f(x)<|message|>{}", "{}");
  add("<|channel|>commentary to=functions.f<|message|> say <|call|>", " say ");
  // Other channels, or none; markers that are missing or have no place.
  add("<|channel|>musing<|message|>x<|end|>\n<|channel|><|message|>y<|end|><|message|>z",
      "x\ny\nz");
  add(analysis + "a" + final_answer + "b<|message|>c<|constrain|>d", "thought: a|bcd");
  add("<|start|>assistant<|start|>assistant" + final_answer + "a<|end|> <|x|><|end|>\n",
      "a\n <|x|>");
  add("x" + end + final_answer + "y", "x\ny");
  add("to=x<|end|>y", "to=x\ny");
  // Truncated.
  add(analysis + "cut off <|en", "thought: cut off <|en");
  for (const std::string& cut :
       {std::string("<|channel|>fin"), std::string("<|start|>assistant to=functions.f"),
        "<|channel|>commentary to=functions.f " + json, analysis,
        std::string("<|channel|>final<|mess")}) {
    add(cut, "");
  }
  add(" to=functions.f<|message|>{\"a\": [", "f{\"a\": [");
  for (const char* text : {"plain text", "  spaced \n", "", "\n ", "to be", "to=functions.f (é)",
                           "a <|en", "<|x|> é", "<<|", "t"}) {
    add(text, text);
  }
}

void AddHarmonyOptions(std::vector<Sample>& samples) {
  const std::string text =
      "<|channel|>analysis<|message|>a<|end|><|start|>assistant "
      "to=functions.f<|channel|>commentary "
      "json<|message|>{}<|call|><|start|>assistant to=functions.g<|message|>{}";
  const auto add = [&](AnswerReading reading, const char* shown) {
    samples.push_back({std::move(reading), text, shown});
  };
  add(Reading(kNone, ReasoningFormat::kHarmony), "thought: a|{}\n{}");
  add(Reading(kHarmony), "a|f{}|g{}");
  AnswerReading reading = Reading(kHarmony, ReasoningFormat::kHarmony);
  reading.include_reasoning = false;
  reading.max_calls = 1;
  add(reading, "f{}");
  reading.include_reasoning = true;
  reading.must_call = true;
  samples.push_back({reading, "no<|channel|>final<|message|>no <|x", ""});
  reading.must_call = false;
  reading.opens_reasoning = true;
  samples.push_back(
      {reading, "a<|end|><|start|>assistant<|channel|>final<|message|>b", "thought: a|b"});
}

}  // namespace

std::vector<Sample> Samples() {
  std::vector<Sample> samples;
  AddHermes(samples);
  AddLlama3(samples);
  AddMistral(samples);
  AddDeepSeek(samples);
  AddPythonic(samples);
  AddReasoning(samples);
  AddHarmony(samples);
  AddHarmonyOptions(samples);
  return samples;
}

}  // namespace outrider::testing
