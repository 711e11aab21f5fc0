// Tools and reasoning through a verifier process, over a client's whole loop: question, call, the
// tool's result, final text. The model copies: the chat template contains the answer, and ends the
// prompt with the words before it. Drafts come from the text itself, so that a step produces many
// tokens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/copying_checkpoint.h"
#include "tests/support/http_client.h"
#include "tests/support/services.h"

namespace outrider {
namespace {

using testing::EventsOf;
using testing::Fetch;
using ::testing::HasSubstr;
using testing::HttpResponse;
using testing::SmallPair;
using testing::StartVerifier;
using testing::TempDir;
using testing::VerifierProcess;

// `call` and `final` are the model's answers, before and after a tool has answered.
constexpr char kTemplate[] =
    "{#- calls are written as <tool_call>, thoughts as <think> .. </think> -#}"
    "{%- set ask = 'When someone asks, the model says this:\n' -%}"
    "{%- set told = 'Once the tool has answered it tells them that:\n' -%}"
    "{{- ask + call + ' (END) ' + told + final + ' (END) ' -}}"
    "{%- for tool in tools or [] %}{{ tool.function.name }} {% endfor -%}"
    "{%- for m in messages -%}"
    "{%- if m.tool_calls %}{% for c in m.tool_calls %}"
    "{{ c.id ~ ' called ' ~ c.function.arguments.items() | list | length }} {% endfor %}{% endif "
    "-%}"
    "{%- if m.role == 'tool' %}{{ m.tool_call_id }} gave {{ m.content }} {% endif -%}"
    "{%- endfor -%}"
    "{{- told if messages[-1].role == 'tool' else ask -}}";

constexpr char kCall[] =
    "<think>\nI should look at the sky first.\n</think>\n\nLet me look.\n<tool_call>\n"
    "{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\", \"note\": \"not a "
    "</tool_call> yet\"}}\n</tool_call>\n<tool_call>\n{\"name\": \"clock\", \"arguments\": {}}\n"
    "</tool_call>";
constexpr char kFinal[] = "It rains there all day, so take a coat.";

nlohmann::ordered_json Tool(const char* name) {
  return {{"type", "function"},
          {"function", {{"name", name}, {"parameters", {{"type", "object"}}}}}};
}

class Tools : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    dir_ = std::make_unique<TempDir>();
    const Status made = MakeCopyingCheckpoint(*dir_ / "copying", SmallPair("target"), {});
    ASSERT_TRUE(made.ok()) << made.ToString();
    std::ofstream(*dir_ / "template.jinja") << kTemplate;
  }
  static void TearDownTestSuite() { dir_.reset(); }

  void Start(std::vector<std::string> flags = {}) {
    flags.insert(flags.end(), {"--http", "127.0.0.1:0", "--chat-template", *dir_ / "template.jinja",
                               "--policy", "fixed:suffix-strong-8,lookup-strong-8,lookup-8"});
    verifier_ = StartVerifier(*dir_ / "copying", *dir_ / "verifier.log", flags);
    ASSERT_NE(verifier_.port, 0);
  }

  static nlohmann::ordered_json Question(bool stream) {
    return {{"messages", {{{"role", "user"}, {"content", "How is the weather?"}}}},
            {"tools", {Tool("get_weather"), Tool("clock")}},
            {"chat_template_kwargs", {{"call", kCall}, {"final", kFinal}}},
            {"temperature", 0},
            {"max_tokens", 200},
            {"stop", " (END)"},
            {"stream", stream}};
  }
  HttpResponse Post(const nlohmann::ordered_json& body) {
    return Fetch(verifier_.http_port, "POST", "/v1/chat/completions", body.dump());
  }
  // The single choice, as assembled by a client.
  nlohmann::ordered_json Ask(const nlohmann::ordered_json& body) {
    const HttpResponse response = Post(body);
    EXPECT_EQ(response.code, 200) << response.body;
    if (response.code != 200) return nlohmann::ordered_json::object();
    if (!body["stream"].get<bool>())
      return nlohmann::ordered_json::parse(response.body)["choices"][0];
    nlohmann::ordered_json message = {{"role", "assistant"}}, choice;
    for (const std::string& event : EventsOf(response.body)) {
      if (event == "[DONE]") break;
      choice = nlohmann::ordered_json::parse(event)["choices"][0];
      for (const auto& [key, value] : choice["delta"].items()) {
        if (key == "tool_calls") {
          Add(value, message[key]);
        } else if (key != "role") {
          message[key] = message.value(key, "") + value.get<std::string>();
        }
      }
    }
    choice["message"] = message;
    return choice;
  }
  static void Add(const nlohmann::ordered_json& deltas, nlohmann::ordered_json& calls) {
    if (calls.is_null()) calls = nlohmann::ordered_json::array();
    for (nlohmann::ordered_json delta : deltas) {
      const size_t index = delta["index"];
      delta.erase("index");
      if (index == calls.size()) {
        calls.push_back(delta);
        continue;
      }
      auto& arguments = calls[index]["function"]["arguments"].get_ref<std::string&>();
      arguments += delta["function"]["arguments"].get<std::string>();
    }
  }

  static inline std::unique_ptr<TempDir> dir_;
  VerifierProcess verifier_;
};

TEST_F(Tools, ClientsLoopEndsWithText) {
  Start();
  for (const bool stream : {false, true}) {
    nlohmann::ordered_json body = Question(stream);
    const nlohmann::ordered_json asked = Ask(body);
    EXPECT_EQ(asked["finish_reason"], "tool_calls");
    const nlohmann::ordered_json& message = asked["message"];
    EXPECT_EQ(message["content"], "Let me look.");
    EXPECT_EQ(message["reasoning_content"], "I should look at the sky first.");
    ASSERT_EQ(message["tool_calls"].size(), 2u) << message;
    EXPECT_EQ(message["tool_calls"][0]["function"]["name"], "get_weather");
    EXPECT_EQ(message["tool_calls"][0]["function"]["arguments"],
              R"({"city": "Oslo", "note": "not a </tool_call> yet"})");
    EXPECT_EQ(message["tool_calls"][1]["function"]["arguments"], "{}");
    EXPECT_GT(asked["speculation"]["accepted"], 20) << "steps of many tokens";

    body["messages"].push_back(message);
    for (const nlohmann::ordered_json& call : message["tool_calls"]) {
      body["messages"].push_back(
          {{"role", "tool"}, {"tool_call_id", call["id"]}, {"content", "rain"}});
    }
    const nlohmann::ordered_json answered = Ask(body);
    EXPECT_EQ(answered["finish_reason"], "stop");
    EXPECT_EQ(answered["message"]["content"], kFinal);
    EXPECT_FALSE(answered["message"].contains("tool_calls"));
  }
}

TEST_F(Tools, RequestsChooseWhatIsRead) {
  Start();
  nlohmann::ordered_json body = Question(false);
  body["parallel_tool_calls"] = false;
  body["include_reasoning"] = false;
  nlohmann::ordered_json message = Ask(body)["message"];
  EXPECT_EQ(message["tool_calls"].size(), 1u);
  EXPECT_FALSE(message.contains("reasoning_content"));
  // Without tools, text that looks like a call is content.
  body["tool_choice"] = "none";
  const nlohmann::ordered_json plain = Ask(body);
  EXPECT_EQ(plain["finish_reason"], "stop");
  EXPECT_THAT(plain["message"]["content"].get<std::string>(), HasSubstr("<tool_call>"));
  // With a named tool the call follows, with the arguments of its schema.
  body["tools"][1]["function"]["strict"] = true;
  body["tools"][1]["function"]["parameters"] = nlohmann::ordered_json::parse(
      R"({"properties": {"zone": {"enum": ["UTC"]}}, "required": ["zone"]})");
  body["tool_choice"] =
      nlohmann::ordered_json::parse(R"({"type": "function", "function": {"name": "clock"}})");
  body["stop"] = nullptr;
  const nlohmann::ordered_json named = Ask(body);
  EXPECT_EQ(named["finish_reason"], "tool_calls");
  ASSERT_EQ(named["message"]["tool_calls"].size(), 1u) << named;
  EXPECT_EQ(named["message"]["tool_calls"][0]["function"]["name"], "clock");
  EXPECT_EQ(nlohmann::ordered_json::parse(
                named["message"]["tool_calls"][0]["function"]["arguments"].get<std::string>()),
            nlohmann::ordered_json({{"zone", "UTC"}}));
  body["response_format"] = {{"type", "json_object"}};
  const HttpResponse refused = Post(body);
  EXPECT_EQ(refused.code, 400);
  EXPECT_EQ(nlohmann::ordered_json::parse(refused.body)["error"]["param"], "tool_choice")
      << refused.body;
}

TEST_F(Tools, FlagsChooseTheFormats) {
  Start({"--tool-parser", "none", "--reasoning-parser", "none"});
  nlohmann::ordered_json body = Question(false);
  EXPECT_EQ(Post(body).code, 400);
  body.erase("tools");
  const nlohmann::ordered_json plain = Ask(body);
  EXPECT_THAT(plain["message"]["content"].get<std::string>(), HasSubstr("<think>"));
}

}  // namespace
}  // namespace outrider
