#include "verifier/http/chat_fields.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "common/text/template_value.h"
#include "verifier/http/request_fields.h"

namespace outrider {
namespace {

// A string, or the text parts of which OpenAI's clients make it; null is an empty string.
Status ReadContent(const JsonValue& value, const ApiModel& model, ChatMessage* message) {
  if (value.is_null() || value.is_string()) {
    message->parts = {value.text()};
    return Status();
  }
  if (!value.is_array()) return value.Wrong("a string or an array of text parts");
  message->is_array = true;
  for (size_t i = 0; i < value.size(); ++i) {
    const JsonValue text = value[i]["text"];
    const JsonValue type = value[i]["type"];
    if (!text.is_string() || (!type.absent() && !type.Is("text"))) {
      return value[i].Error("only parts of type text are served");
    }
    OUTRIDER_TRY(CheckFields(FieldsOf::kPart, value[i], model.ignore_unknown));
    message->parts.push_back(text.text());
  }
  return Status();
}

Result<ChatMessage> MessageOf(const JsonValue& value, const ApiModel& model) {
  OUTRIDER_TRY(CheckFields(FieldsOf::kMessage, value, model.ignore_unknown));
  constexpr const char* kRoles[] = {"system", "developer", "user", "assistant"};
  const JsonValue role = value["role"];
  const auto known = std::find_if(std::begin(kRoles), std::end(kRoles),
                                  [&](const char* name) { return role.Is(name); });
  if (known == std::end(kRoles)) return role.Wrong("system, developer, user or assistant");
  ChatMessage message{.role = *known};
  OUTRIDER_TRY(ReadContent(value["content"], model, &message));
  OUTRIDER_TRY(value["name"].Read(&message.name));
  return message;
}

}  // namespace

Result<std::vector<ChatMessage>> MessagesOf(const JsonValue& value, const ApiModel& model) {
  if (!value.is_array() || value.size() == 0) {
    return InvalidArgument("messages: must be an array of messages, one at least");
  }
  std::vector<ChatMessage> messages;
  for (size_t i = 0; i < value.size(); ++i) {
    OUTRIDER_ASSIGN(messages.emplace_back(), MessageOf(value[i], model));
  }
  return messages;
}

Result<ChatOptions> ChatOptionsOf(const JsonValue& body, const ApiModel& model) {
  ChatOptions options{.max_bytes = model.limits.max_prompt_bytes};
  OUTRIDER_TRY(body["add_generation_prompt"].Read(&options.add_generation_prompt));
  OUTRIDER_TRY(body["continue_final_message"].Read(&options.continue_final_message));
  if (options.continue_final_message && options.add_generation_prompt) {
    return InvalidArgument(
        "continue_final_message: needs add_generation_prompt: false, for the last message is "
        "either "
        "continued or answered");
  }
  const JsonValue variables = body["chat_template_kwargs"];
  if (variables.is_null()) return options;
  OUTRIDER_TRY(variables.MustBeObject());
  OUTRIDER_TRY(
      variables.ForEachMember([&](const std::string& name, const JsonValue& member) -> Status {
        if (ChatTemplate::IsReserved(name)) {
          return member.Error("is set by the server; use the request's own field, or leave it out");
        }
        OUTRIDER_ASSIGN(jinja::Value value, TemplateValueOf(member));
        options.variables.emplace_back(name, std::move(value));
        return Status();
      }));
  return options;
}

}  // namespace outrider
