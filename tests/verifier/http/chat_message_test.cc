// Chat answers with reasoning and calls: the message of a whole answer, and what a client assembles
// from a stream's deltas.
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/tiny_tokenizer.h"
#include "verifier/http/api_answer.h"
#include "verifier/http/json_text.h"

namespace outrider {
namespace {

constexpr char kText[] =
    "<think>\nLook é.\n</think>\n\nLet me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": "
    "{\"a\": \"</tool_call>\"}}\n</tool_call>\n<tool_call>\n{\"name\": \"g\"}\n</tool_call>";

class ChatAnswers : public ::testing::Test {
 protected:
  ChatAnswers() : tokenizer_(Tokenizer::FromJson(testing::TinyTokenizerJson(26)).value()) {
    model_.name = "m";
    model_.tokenizer = tokenizer_.get();
  }

  ApiAnswer MakeAnswer(bool stream, bool logprobs = false, int choices = 1) const {
    ApiRequest request{.chat = true, .choices = choices, .kept = choices};
    request.stream = stream;
    request.reading = {
        .format = {.tools = ToolFormat::kHermes, .reasoning = ReasoningFormat::kQwen3},
        .tools = {"f", "g"},
        .must_call = must_call_};
    request.prompts.push_back({.prompt = {0}});
    if (logprobs) request.logprobs = 0;
    return ApiAnswer(request, model_, 7, 1000);
  }

  // The choice of a whole answer.
  Json WholeChoice(const std::string& text, FinishReason reason = FinishReason::kStop) const {
    ApiAnswer answer = MakeAnswer(/*stream=*/false);
    answer.Add(0, {.text = text});
    answer.Finish(0, {.reason = reason});
    return Json::parse(answer.Body().All())["choices"][0];
  }
  // The same, assembled from a stream as openai's client does.
  Json Streamed(const std::vector<std::string>& pieces) const {
    ApiAnswer answer = MakeAnswer(/*stream=*/true);
    Json message = {{"role", nullptr}, {"content", ""}, {"reasoning_content", ""}};
    Json calls = Json::array(), choice;
    const auto add = [&](const std::vector<std::string>& events) {
      for (const std::string& event : events) {
        choice = Json::parse(event)["choices"][0];
        for (const auto& [key, value] : choice["delta"].items()) {
          if (key == "role") message[key] = value;
          if (key == "content" || key == "reasoning_content") {
            message[key] = message[key].get<std::string>() + value.get<std::string>();
          }
          if (key != "tool_calls") continue;
          EXPECT_EQ(value.size(), 1u);
          const size_t index = value[0]["index"];
          if (index == calls.size()) {
            EXPECT_EQ(value[0]["function"]["arguments"], "");
            calls.push_back(value[0]);
            calls.back().erase("index");
            continue;
          }
          ASSERT_EQ(index + 1, calls.size()) << "calls come one after the other";
          auto& arguments = calls[index]["function"]["arguments"].get_ref<std::string&>();
          arguments += value[0]["function"]["arguments"].get<std::string>();
          EXPECT_FALSE(value[0].contains("id") || value[0]["function"].contains("name"));
        }
      }
    };
    for (const std::string& piece : pieces) add(answer.Add(0, {.text = piece, .tokens = {1}}));
    add(answer.Finish(0, {}));
    if (!calls.empty()) message["tool_calls"] = calls;
    return {{"message", message}, {"finish_reason", choice["finish_reason"]}};
  }

  std::unique_ptr<Tokenizer> tokenizer_;
  ApiModel model_;
  bool must_call_ = false;
};

TEST_F(ChatAnswers, WholeAnswerHasReasoningAndCalls) {
  const Json choice = WholeChoice(kText);
  const Json& message = choice["message"];
  EXPECT_EQ(message["content"], "Let me see.");
  EXPECT_EQ(message["reasoning_content"], "Look é.");
  EXPECT_EQ(message["reasoning"], "Look é.");
  ASSERT_EQ(message["tool_calls"].size(), 2u);
  EXPECT_EQ(message["tool_calls"][0]["type"], "function");
  EXPECT_EQ(message["tool_calls"][0]["function"],
            Json({{"name", "f"}, {"arguments", R"({"a": "</tool_call>"})"}}));
  EXPECT_EQ(message["tool_calls"][1]["function"], Json({{"name", "g"}, {"arguments", "{}"}}));
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
}

TEST_F(ChatAnswers, ContentIsNullBesideCalls) {
  EXPECT_TRUE(
      WholeChoice("<tool_call>{\"name\": \"f\"}</tool_call>")["message"]["content"].is_null());
  EXPECT_TRUE(WholeChoice("<think>a")["message"]["content"].is_null());
  EXPECT_EQ(WholeChoice("")["message"]["content"], "");
  const Json plain = WholeChoice("Hi");
  EXPECT_EQ(plain["message"],
            Json({{"role", "assistant"}, {"content", "Hi"}, {"refusal", nullptr}}));
  EXPECT_EQ(plain["finish_reason"], "stop");
}

TEST_F(ChatAnswers, CutAnswerEndsByLength) {
  const Json choice =
      WholeChoice("<tool_call>{\"name\": \"f\", \"arguments\": {\"a", FinishReason::kLength);
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_EQ(choice["message"]["tool_calls"][0]["function"]["arguments"], "{\"a");
}

// A stop string ended it, so that a client must not run the call.
TEST_F(ChatAnswers, StopWithinCallEndsByLength) {
  const std::string whole = "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": [\"}\"]}}";
  const size_t begin = whole.find("{\"a"), end = whole.rfind("}}") + 1;
  for (size_t size = 0; size <= whole.size(); ++size) {
    const std::string text = whole.substr(0, size);
    const bool is_within = size > begin && size < end;
    const char* reason = size <= begin ? "stop" : is_within ? "length" : "tool_calls";
    EXPECT_EQ(WholeChoice(text)["finish_reason"], reason) << text;
    EXPECT_EQ(Streamed({text})["finish_reason"], reason) << text;
  }
  const std::string second = whole + "</tool_call><tool_call>{\"name\": \"g\", \"arguments\": {";
  EXPECT_EQ(WholeChoice(second)["finish_reason"], "length");
  EXPECT_EQ(WholeChoice(second + "}")["finish_reason"], "tool_calls");
  EXPECT_EQ(WholeChoice(whole + "</tool_call><tool")["finish_reason"], "tool_calls");
}

TEST_F(ChatAnswers, MissingRequiredCallEndsByLength) {
  must_call_ = true;
  for (const char* text : {"", "<think>Why", "<tool", "<tool_call>{\"name\": \"f\""}) {
    const Json choice = WholeChoice(text);
    EXPECT_EQ(choice["finish_reason"], "length") << text;
    EXPECT_FALSE(choice["message"].contains("tool_calls")) << text;
    EXPECT_EQ(Streamed({text})["finish_reason"], "length") << text;
  }
  EXPECT_EQ(WholeChoice("<tool_call>{\"name\": \"f\"}")["finish_reason"], "tool_calls");
}

// However many tokens a step produces.
TEST_F(ChatAnswers, StreamIsSameForAnyChunks) {
  const std::string text = kText;
  const Json whole = WholeChoice(text);
  const Json once = Streamed({text});
  for (const char* member : {"content", "reasoning_content", "tool_calls"}) {
    EXPECT_EQ(once["message"][member], whole["message"][member]) << "ids too";
  }
  EXPECT_EQ(once["finish_reason"], "tool_calls");
  std::vector<std::string> characters;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool goes_on = (static_cast<unsigned char>(text[i]) & 0xC0) == 0x80;
    if (!goes_on) characters.emplace_back();
    characters.back() += text[i];
  }
  EXPECT_EQ(Streamed(characters), once);
  for (size_t a = 0; a < characters.size(); ++a) {
    std::string begin, end;
    for (size_t i = 0; i < characters.size(); ++i) (i < a ? begin : end) += characters[i];
    ASSERT_EQ(Streamed({begin, end}), once) << "cut at " << a;
  }
}

TEST_F(ChatAnswers, SendsHeldBackTextAtEnd) {
  for (const char* text : {"Hi \n", "Hi <tool_call>{\"name\": \"f", "<thi"}) {
    EXPECT_EQ(Streamed({text})["message"]["content"], text);
    EXPECT_EQ(WholeChoice(text)["message"]["content"], text);
  }
}

TEST_F(ChatAnswers, IdsOfCallsDiffer) {
  ApiAnswer answer = MakeAnswer(/*stream=*/false, /*logprobs=*/false, /*choices=*/2);
  for (const int choice : {0, 1}) {
    answer.Add(choice, {.text = kText});
    answer.Finish(choice, {});
  }
  const Json body = Json::parse(answer.Body().All());
  std::vector<std::string> ids;
  for (const Json& choice : body["choices"]) {
    for (const Json& call : choice["message"]["tool_calls"]) ids.push_back(call["id"]);
  }
  ASSERT_EQ(ids.size(), 4u);
  for (size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(ids[i].size(), 9u) << "as Mistral's templates ask for";
    EXPECT_EQ(ids[i].find_first_not_of("0123456789abcdefghijklmnopqrstuvwxyz"
                                       "ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
              std::string::npos);
    for (size_t j = 0; j < i; ++j) EXPECT_NE(ids[i], ids[j]);
  }
}

TEST_F(ChatAnswers, SendsEachTokensLogprobOnce) {
  ApiAnswer answer = MakeAnswer(/*stream=*/true, /*logprobs=*/true);
  size_t told = 0;
  const auto count = [&](const std::vector<std::string>& events) {
    for (const std::string& event : events) {
      const Json logprobs = Json::parse(event)["choices"][0]["logprobs"];
      if (!logprobs.is_null()) told += logprobs["content"].size();
    }
  };
  for (const char* piece : {"<tool_", "call>", "{\"name\": \"f\"}</tool_call>\n<tool_call>"}) {
    Chunk chunk{.text = piece, .tokens = {0, 1}};
    chunk.logprobs = {{.logprob = -1}, {.logprob = -2}};
    count(answer.Add(0, std::move(chunk)));
  }
  count(answer.Finish(0, {}));
  EXPECT_EQ(told, 6u);
}

// An end of the text is a token without text, and without reasoning part of the content.
TEST_F(ChatAnswers, TokensWithoutTextKeepLogprobs) {
  const auto tokenizer = Tokenizer::FromJson(testing::AsciiTokenizerJson()).value();
  model_.tokenizer = tokenizer.get();
  ApiRequest request{.chat = true};
  request.reading.include_reasoning = false;
  request.prompts.push_back({.prompt = {0}});
  request.logprobs = 0;
  ApiAnswer answer(request, model_, 7, 1000);
  Chunk chunk{.text = "", .tokens = {0}};
  chunk.logprobs = {{.logprob = -1}};
  answer.Add(0, std::move(chunk));
  answer.Finish(0, {});
  const Json logprobs = Json::parse(answer.Body().All())["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["content"].size(), 1u);
}

// Log probabilities of omitted reasoning are omitted, however the text is split.
TEST_F(ChatAnswers, OmittedReasoningHasNoLogprobs) {
  const auto tokenizer = Tokenizer::FromJson(testing::AsciiTokenizerJson()).value();
  model_.tokenizer = tokenizer.get();
  const auto told = [&](const std::string& text, bool stream, size_t chunk, bool include) {
    ApiRequest request{.chat = true};
    request.stream = stream;
    request.reading = {.format = {.reasoning = ReasoningFormat::kQwen3},
                       .include_reasoning = include};
    request.prompts.push_back({.prompt = {0}});
    request.logprobs = 0;
    ApiAnswer answer(request, model_, 7, 1000);
    std::string tokens;
    const auto add = [&](const Json& logprobs) {
      if (logprobs.is_null()) return;
      for (const Json& entry : logprobs["content"]) tokens += entry["token"].get<std::string>();
    };
    const auto add_events = [&](const std::vector<std::string>& events) {
      for (const std::string& event : events) add(Json::parse(event)["choices"][0]["logprobs"]);
    };
    for (size_t pos = 0; pos < text.size(); pos += chunk) {
      const std::string part = text.substr(pos, chunk);
      Chunk next{.text = part, .tokens = tokenizer->Encode(part, false).value()};
      next.logprobs.assign(next.tokens.size(), {.logprob = -1});
      add_events(answer.Add(0, std::move(next)));
    }
    add_events(answer.Finish(0, {}));
    if (!stream) add(Json::parse(answer.Body().All())["choices"][0]["logprobs"]);
    return tokens;
  };
  const std::string thought = "<think>\nsecret</think>\n\n", content = "Hi <b>";
  for (const bool stream : {false, true}) {
    for (size_t chunk = 1; chunk < 40; ++chunk) {
      EXPECT_EQ(told(thought + content, stream, chunk, false), content) << chunk;
      EXPECT_EQ(told(thought + content, stream, chunk, true), thought + content) << chunk;
      EXPECT_EQ(told(content, stream, chunk, false), content) << chunk;
      EXPECT_EQ(told("<thi", stream, chunk, false), "<thi") << "no reasoning after all";
      EXPECT_EQ(told("<think>never ends", stream, chunk, false), "") << chunk;
    }
  }
}

}  // namespace
}  // namespace outrider
