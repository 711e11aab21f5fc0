// Chats: their messages, and the fields for the chat template.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/verifier/http/api_request_fixture.h"

namespace outrider {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST_F(ApiRequestTest, RendersChatsAndRefusesOddMessages) {
  const auto chat = [&](const std::string& messages) {
    return ParseChat(R"({"messages": )" + messages + "}", model_);
  };
  for (const char* good :
       {R"([{"role": "system", "content": "a"}, {"role": "user", "content": "b"},
            {"role": "assistant", "content": null}, {"role": "user", "content": "c"}])",
        R"([{"role": "developer", "content": [{"type": "text", "text": "a"}]}])"}) {
    EXPECT_TRUE(chat(good).ok()) << chat(good).status().ToString();
  }
  for (const char* bad :
       {"null", "[]", "{}", "[1]", R"([{"content": "a"}])", R"([{"role": 1, "content": "a"}])",
        R"([{"role": "robot", "content": "a"}])", R"([{"role": "user", "content": 1}])",
        R"([{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}])",
        R"([{"role": "user", "content": [{"type": "image_url", "text": "a"}]}])",
        R"([{"role": "user", "content": [{"type": 5, "text": "a"}]}])",
        R"([{"role": "user", "content": ["a"]}])"}) {
    const auto parsed = chat(bad);
    ASSERT_FALSE(parsed.ok()) << bad;
    EXPECT_THAT(parsed.status().message(), HasSubstr("messages")) << bad;
  }
}

// Chats with a template that writes its input, and letters only.
class ChatTemplateFields : public ApiRequestTest {
 protected:
  std::string PromptOf(const std::string& body) {
    const auto parsed = ParseChat("{" + body + "}", model_);
    if (!parsed.ok()) return parsed.status().ToString();
    return tokenizer_->Decode(parsed->prompts.at(0).prompt, /*skip_special=*/false);
  }
  void UseTemplate(const std::string& jinja) {
    model_.chat_template = ChatTemplate::FromText(jinja);
  }

  const std::string user_ = R"("messages": [{"role": "user", "content": "abc"}])";
};

TEST_F(ChatTemplateFields, KwargsBecomeVariables) {
  UseTemplate(
      "{% for name, value in extra.items() %}{{ name }}{{ value }}{% endfor %}"
      "{{ 'on' if thinks else 'off' }}{{ depth + 1 }}");
  EXPECT_EQ(PromptOf(user_ + R"(, "chat_template_kwargs":
                {"thinks": true, "depth": 2, "extra": {"z": "y", "b": null, "a": [1.5, false]}})"),
            "zybNonea[1.5, False]on3");
  EXPECT_THAT(PromptOf(user_), HasSubstr("messages: line 1: 'extra' is undefined"));
  for (const char* name : {"messages", "tools", "bos_token", "eos_token", "add_generation_prompt",
                           "continue_final_message"}) {
    EXPECT_THAT(PromptOf(user_ + R"(, "chat_template_kwargs": {")" + name + R"(": "x"})"),
                HasSubstr("chat_template_kwargs." + std::string(name) + ": is set by the server"));
  }
  EXPECT_THAT(PromptOf(user_ + R"(, "chat_template_kwargs": [1])"),
              HasSubstr("chat_template_kwargs is an array, must be an object"));
}

TEST_F(ChatTemplateFields, NamesAndPartsAreShown) {
  const std::string body =
      R"("messages": [{"role": "user", "name": "bo", "content":
           [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}])";
  UseTemplate("{% for m in messages %}{{ m.name ~ m.content }}{% endfor %}");
  EXPECT_EQ(PromptOf(body), "boa\nb");
  UseTemplate(
      "{% for m in messages %}{% for p in m['content'] %}<{{ p.type ~ p.text }}>{% endfor %}{% "
      "endfor %}");
  EXPECT_EQ(PromptOf(body), "<texta><textb>");
  UseTemplate(
      "{% macro show(content) %}{% for p in content %}<{{ p.text }}>{% endfor %}{% endmacro %}"
      "{{ show(messages[0].content) }}");
  EXPECT_EQ(PromptOf(body), "<a><b>");
}

TEST_F(ChatTemplateFields, ContinuesLastMessage) {
  const std::string body =
      R"("messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "so "}])";
  EXPECT_EQ(PromptOf(body), "user: a\nassistant: so \nassistant:");
  EXPECT_EQ(PromptOf(body + R"(, "add_generation_prompt": false)"), "user: a\nassistant: so \n");
  EXPECT_EQ(PromptOf(body + R"(, "add_generation_prompt": false, "continue_final_message": true)"),
            "user: a\nassistant: so ");
  EXPECT_THAT(PromptOf(body + R"(, "continue_final_message": true)"),
              HasSubstr("continue_final_message: needs add_generation_prompt: false"));
  UseTemplate("{{ messages[0].content }}");
  EXPECT_THAT(
      PromptOf(body + R"(, "add_generation_prompt": false, "continue_final_message": true)"),
      HasSubstr("does not show the last message"));
}

TEST_F(ChatTemplateFields, TemplatesThatFailRefuseTheChat) {
  UseTemplate(
      "{% if messages | length > 1 %}\n{{ raise_exception('one message at most') }}{% endif %}");
  EXPECT_EQ(PromptOf(R"("messages": [{"role": "user"}, {"role": "user"}])"),
            "INVALID_ARGUMENT: messages: line 2: the chat template refuses: one message at most");
  UseTemplate("a\n{% new %}");
  EXPECT_EQ(Chat("").status().code(), Code::kFailedPrecondition);
  EXPECT_THAT(Chat("").status().message(), AllOf(HasSubstr("line 2: '{% new %}' is not supported"),
                                                 HasSubstr("--chat-template")));
  model_.chat_template = ChatTemplate();
  EXPECT_EQ(Chat("").status().code(), Code::kFailedPrecondition);
  EXPECT_THAT(Chat("").status().message(),
              AllOf(HasSubstr("has no chat template"), HasSubstr("--chat-template")));
}

}  // namespace
}  // namespace outrider
