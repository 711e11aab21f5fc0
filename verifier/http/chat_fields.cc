#include "verifier/http/chat_fields.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "common/text/template_value.h"
#include "verifier/http/request_fields.h"
#include "verifier/http/tool_fields.h"

namespace outrider {
namespace {

// A string, or OpenAI's array of text parts; null is an empty string.
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

// Members that only an assistant's or a tool's message may have.
Status ReadToolParts(const JsonValue& value, const ApiModel& model, size_t* values_left,
                     ChatMessage* message) {
  const JsonValue calls = value["tool_calls"], id = value["tool_call_id"];
  const JsonValue old_reasoning = value["reasoning_content"];
  const JsonValue reasoning =
      value["reasoning"].is_null() ? old_reasoning : JsonValue(value["reasoning"]);
  // Answers have both, alike.
  if (!old_reasoning.is_null() && !reasoning.Is(old_reasoning.text())) {
    return old_reasoning.Error("differs from reasoning, which is its newer name: give one");
  }
  if (message->role == "assistant") {
    OUTRIDER_ASSIGN(message->tool_calls, ToolCallsOf(calls, model, values_left));
    OUTRIDER_TRY(reasoning.Read(&message->reasoning));
  } else if (!calls.is_null() && calls.size() > 0) {
    return calls.Error("only an assistant's message has calls");
  } else if (!reasoning.is_null() && !reasoning.Is("")) {
    return reasoning.Error("only an assistant's message has reasoning");
  }
  if (message->role == "tool") return ReadToolCallId(id, &message->tool_call_id);
  return id.is_null() ? Status() : id.Error("only a tool's message answers a call");
}

Result<ChatMessage> MessageOf(const JsonValue& value, const ApiModel& model, size_t* values_left) {
  OUTRIDER_TRY(CheckFields(FieldsOf::kMessage, value, model.ignore_unknown));
  constexpr const char* kRoles[] = {"system", "developer", "user", "assistant", "tool"};
  const JsonValue role = value["role"];
  const auto known = std::find_if(std::begin(kRoles), std::end(kRoles),
                                  [&](const char* name) { return role.Is(name); });
  if (known == std::end(kRoles)) return role.Wrong("system, developer, user, assistant or tool");
  ChatMessage message{.role = *known};
  OUTRIDER_TRY(ReadContent(value["content"], model, &message));
  message.has_content = !value["content"].is_null();
  OUTRIDER_TRY(value["name"].Read(&message.name));
  OUTRIDER_TRY(ReadToolParts(value, model, values_left, &message));
  return message;
}

}  // namespace

Result<std::vector<ChatMessage>> MessagesOf(const JsonValue& value, const ApiModel& model) {
  if (!value.is_array() || value.size() == 0) {
    return InvalidArgument("messages: must be an array of at least one message");
  }
  std::vector<ChatMessage> messages;
  size_t values_left = kMaxArgumentValues;
  for (size_t i = 0; i < value.size(); ++i) {
    OUTRIDER_ASSIGN(messages.emplace_back(), MessageOf(value[i], model, &values_left));
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
