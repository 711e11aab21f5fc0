#include "verifier/http/tool_fields.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "common/text/template_value.h"
#include "verifier/http/request_fields.h"
#include "verifier/http/request_values.h"

namespace outrider {
namespace {

bool IsNameByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-';
}

Result<std::string> ToolNameOf(const JsonValue& value) {
  OUTRIDER_ASSIGN(std::string name, value.String());
  if (name.empty() || name.size() > kMaxToolNameBytes ||
      !std::all_of(name.begin(), name.end(), IsNameByte)) {
    return value.Wrong("1 to " + std::to_string(kMaxToolNameBytes) +
                       " letters, digits, underscores and dashes");
  }
  return name;
}

Status CheckIsFunction(const JsonValue& type) {
  if (type.Is("function")) return Status();
  return type.Wrong("\"function\", the only kind that is served");
}

Result<ToolDescription> ToolOf(const JsonValue& tool, const ApiModel& model) {
  OUTRIDER_TRY(CheckFields(FieldsOf::kTool, tool, model.ignore_unknown));
  OUTRIDER_TRY(CheckIsFunction(tool["type"]));
  const JsonValue function = tool["function"];
  OUTRIDER_TRY(CheckFields(FieldsOf::kToolFunction, function, model.ignore_unknown));
  ToolDescription described;
  OUTRIDER_ASSIGN(described.name, ToolNameOf(function["name"]));
  std::string description;
  OUTRIDER_TRY(function["description"].Read(&description));
  OUTRIDER_TRY(function["strict"].Read(&described.strict));
  const JsonValue parameters = function["parameters"];
  if (parameters.is_null()) return described;
  OUTRIDER_TRY(parameters.MustBeObject());
  described.parameters = parameters.Dump();
  return described;
}

Result<std::vector<ToolDescription>> ToolsOf(const JsonValue& tools, const ApiModel& model) {
  std::vector<ToolDescription> described;
  if (tools.is_null()) return described;
  OUTRIDER_TRY(tools.MustBeArray());
  OUTRIDER_TRY(CheckAtMost("tools", static_cast<int64_t>(tools.size()), kMaxTools, "tools"));
  size_t bytes = 0;
  for (size_t i = 0; i < tools.size(); ++i) {
    bytes += tools[i].Dump().size();
    OUTRIDER_TRY(CheckAtMost("tools", static_cast<int64_t>(bytes), kMaxToolBytes, "bytes"));
    OUTRIDER_ASSIGN(ToolDescription tool, ToolOf(tools[i], model));
    const bool is_twice =
        std::any_of(described.begin(), described.end(),
                    [&](const ToolDescription& other) { return other.name == tool.name; });
    if (is_twice) return tools[i]["function"]["name"].Error("another tool has this name");
    described.push_back(std::move(tool));
  }
  return described;
}

Result<ToolChoice> ToolChoiceOf(const JsonValue& choice, const ApiModel& model, bool has_tools) {
  using Kind = ToolChoice::Kind;
  if (choice.is_null()) return ToolChoice{.kind = has_tools ? Kind::kAuto : Kind::kNone};
  if (choice.Is("none")) return ToolChoice{.kind = Kind::kNone};
  if (choice.Is("auto")) return ToolChoice{.kind = has_tools ? Kind::kAuto : Kind::kNone};
  if (choice.is_string() && !choice.Is("required")) {
    return choice.Wrong("none, auto, required or a function");
  }
  if (!has_tools) return choice.Error("needs tools");
  if (choice.Is("required")) return ToolChoice{.kind = Kind::kRequired};
  OUTRIDER_TRY(CheckFields(FieldsOf::kToolChoice, choice, model.ignore_unknown));
  OUTRIDER_TRY(CheckIsFunction(choice["type"]));
  OUTRIDER_TRY(
      CheckFields(FieldsOf::kToolChoiceFunction, choice["function"], model.ignore_unknown));
  OUTRIDER_ASSIGN(std::string name, ToolNameOf(choice["function"]["name"]));
  return ToolChoice{.kind = Kind::kNamed, .name = std::move(name)};
}

// Whether a grammar can tell calls from the text around them, which `strict` under kAuto needs.
Status CheckFreeText(const ToolDescription& tool, const AnswerFormat& format,
                     const ApiModel& model) {
  const std::vector<std::string_view> markers = MarkersOf(format);
  const bool has_special =
      std::any_of(markers.begin(), markers.end(), [&](std::string_view marker) {
        const std::optional<TokenId> id = model.tokenizer->TokenToId(marker);
        return id.has_value() && model.tokenizer->IsSpecial(*id);
      });
  if (CanFollowFreeText(format.tools) && !has_special) return Status();
  return InvalidArgument("tools: " + tool.name +
                         " is strict, which needs tool_choice required or a function here: the "
                         "calls of this model (" +
                         std::string(NameOf(format.tools)) +
                         ") have no marker of ordinary tokens by which a grammar could tell them "
                         "from text; leave strict out, or set tool_choice");
}

std::string FlagValues() {
  std::string values;
  for (const std::string& name : ToolFormatNames()) {
    if (name != "none") values += (values.empty() ? "" : ", ") + name;
  }
  return values;
}

}  // namespace

Result<ToolFields> ToolFieldsOf(const JsonValue& body, const ApiModel& model) {
  ToolFields fields;
  const JsonValue tools = body["tools"], choice = body["tool_choice"];
  OUTRIDER_ASSIGN(fields.callable, ToolsOf(tools, model));
  OUTRIDER_ASSIGN(fields.choice, ToolChoiceOf(choice, model, !fields.callable.empty()));
  OUTRIDER_TRY(body["parallel_tool_calls"].Read(&fields.choice.parallel));
  if (fields.choice.kind == ToolChoice::Kind::kNone) {
    fields.callable.clear();
    return fields;
  }
  if (model.answer_format.tools == ToolFormat::kNone) {
    return InvalidArgument(
        "tools: this model's format of tool calls is unknown; start the verifier with "
        "--tool-parser and one of " +
        FlagValues());
  }
  if (fields.choice.kind == ToolChoice::Kind::kNamed) {
    const auto is_other = [&](const ToolDescription& tool) {
      return tool.name != fields.choice.name;
    };
    std::erase_if(fields.callable, is_other);
    if (fields.callable.empty()) return choice["function"]["name"].Error("is none of the tools");
  }
  OUTRIDER_ASSIGN(fields.for_template, TemplateValueOf(tools));
  return fields;
}

Status ConstrainToCalls(const ToolFields& fields, const ApiModel& model, ApiRequest* api,
                        GenerationRequest* request) {
  const AnswerReading& reading = api->reading;
  const ToolChoice& choice = fields.choice;
  const bool has_other = request->sampling.grammar.has_value();
  if (choice.constrains() && has_other) {
    return InvalidArgument(
        "tool_choice: the answer cannot be a call and follow another structured "
        "output; leave one of them out");
  }
  if (!choice.constrains()) {
    const auto strict = std::find_if(fields.callable.begin(), fields.callable.end(),
                                     [](const ToolDescription& tool) { return tool.strict; });
    // No call is parsed from an answer that follows another grammar.
    if (strict == fields.callable.end() || has_other) return Status();
    OUTRIDER_TRY(CheckFreeText(*strict, reading.format, model));
  }
  auto grammar = ToolGrammar(fields.callable,
                             {.format = reading.format.tools,
                              .several = choice.kind != ToolChoice::Kind::kNamed && choice.parallel,
                              .free_text = !choice.constrains(),
                              .reasoning = reading.format.reasoning,
                              .opens_reasoning = reading.opens_reasoning});
  if (!grammar.ok()) return grammar.status().Annotate("tools");
  request->sampling.grammar = std::move(grammar).value();
  api->grammar_field = "tools";
  return Status();
}

Result<std::vector<ChatToolCall>> ToolCallsOf(const JsonValue& calls, const ApiModel& model,
                                              size_t* values_left) {
  std::vector<ChatToolCall> out;
  if (calls.is_null()) return out;
  OUTRIDER_TRY(calls.MustBeArray());
  if (calls.size() > kMaxMessageCalls) {  // finding a path takes the whole document
    return CheckAtMost(calls.path(), static_cast<int64_t>(calls.size()), kMaxMessageCalls, "calls");
  }
  for (size_t i = 0; i < calls.size(); ++i) {
    const JsonValue call = calls[i], function = call["function"];
    OUTRIDER_TRY(CheckFields(FieldsOf::kToolCall, call, model.ignore_unknown));
    if (!call["type"].is_null()) OUTRIDER_TRY(CheckIsFunction(call["type"]));
    OUTRIDER_TRY(CheckFields(FieldsOf::kToolCallFunction, function, model.ignore_unknown));
    ChatToolCall& read = out.emplace_back();
    OUTRIDER_TRY(ReadToolCallId(call["id"], &read.id));
    OUTRIDER_ASSIGN(read.name, function["name"].String());
    OUTRIDER_TRY(function["arguments"].Read(&read.arguments));
    if (read.arguments.empty()) read.arguments = "{}";
    const Result<JsonValue> json =
        ParseJsonObject(read.arguments, "the text",
                        {.depth = kMaxBodyDepth, .values = kMaxArgumentValues, .exact_text = true});
    if (!json.ok()) return json.status().Annotate(function["arguments"].path());
    Result<jinja::Value> object = TemplateValueOf(*json);
    if (!object.ok()) return object.status().Annotate(function["arguments"].path());
    read.arguments_object = std::move(object).value();
    const size_t weight = read.arguments_object.extent().weight;
    if (weight > *values_left) {
      return InvalidArgument(function["arguments"].path() + ": the arguments of all calls hold " +
                             "more than " + std::to_string(kMaxArgumentValues) +
                             " values, where 64 bytes count as one, too");
    }
    *values_left -= weight;
  }
  return out;
}

Status ReadToolCallId(const JsonValue& id, std::string* out) {
  OUTRIDER_TRY(id.Read(out));
  if (out->size() <= kMaxToolCallIdBytes) return Status();
  return CheckAtMost(id.path(), static_cast<int64_t>(out->size()), kMaxToolCallIdBytes, "bytes");
}

}  // namespace outrider
