#include "verifier/http/api_request.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "verifier/http/json_fields.h"

namespace outrider {
namespace {

using Json = nlohmann::json;

// OpenAI's default for completions, and vLLM's; a chat may fill the context.
constexpr int kCompletionTokens = 16;

Result<StopRule> ParseStop(const Json& object) {
  JsonFields fields(object, "speculation.stop.");
  StopRule stop;
  std::string kind(StopRuleName(stop.kind));
  fields.Read("kind", &kind);
  fields.Read("threshold", &stop.threshold);
  OUTRIDER_TRY(fields.status());
  const Result<StopRule::Kind> parsed = ParseStopRule(kind);
  if (!parsed.ok()) return parsed.status().Annotate("speculation.stop.kind");
  stop.kind = *parsed;
  return stop;
}

// Ours alone: an unknown member is a mistake here, not another server's extension.
Result<SpeculationOptions> ParseSpeculation(const Json& object) {
  constexpr std::string_view kKnown[] = {"mode", "rule", "draft_length", "paths", "tree", "stop"};
  if (!object.is_object()) return InvalidArgument("speculation: must be an object");
  for (const auto& [key, value] : object.items()) {
    if (std::find(std::begin(kKnown), std::end(kKnown), key) == std::end(kKnown)) {
      return InvalidArgument(
          "speculation: has members mode, rule, draft_length, paths, tree and stop, no others");
    }
  }
  JsonFields fields(object, "speculation.");
  SpeculationOptions options;
  std::string mode = "auto", rule;
  fields.Read("mode", &mode);
  fields.Read("rule", &rule);
  fields.Read("draft_length", &options.draft_length);
  fields.Read("paths", &options.paths);
  fields.ReadInts("tree", &options.tree);
  OUTRIDER_TRY(fields.status());
  if (mode != "auto" && mode != "off") {
    return InvalidArgument("speculation.mode: must be auto or off");
  }
  options.enabled = mode == "auto";
  if (!rule.empty()) {
    Result<Rule> parsed = ParseRule(rule);
    if (!parsed.ok()) return parsed.status().Annotate("speculation.rule");
    options.rule = *parsed;
  }
  if (const Json* stop = fields.Find("stop")) {
    if (!stop->is_object()) return InvalidArgument("speculation.stop: must be an object");
    OUTRIDER_ASSIGN(options.stop, ParseStop(*stop));
  }
  return options;
}

// What would change the text if it were ignored, and is not served.
void RefuseUnserved(JsonFields& fields) {
  bool echo = false;
  fields.Read("echo", &echo);
  if (echo) fields.Refuse("echo", "is not served: the answer never repeats the prompt");
  const auto refuse_unless_empty = [&](const char* name, const char* why) {
    const Json* value = fields.Find(name);
    if (value != nullptr && !value->empty() && *value != "") fields.Refuse(name, why);
  };
  refuse_unless_empty("suffix", "is not served: text is continued, never filled in");
  refuse_unless_empty("tools", "are not served");
  refuse_unless_empty("functions", "are not served");
  const Json* format = fields.Find("response_format");
  if (format != nullptr &&
      !(format->is_object() && format->contains("type") && format->at("type") == "text")) {
    fields.Refuse("response_format", "only {\"type\": \"text\"} is served");
  }
}

void ReadSampling(JsonFields& fields, SamplingParams* out) {
  fields.Read("temperature", &out->temperature);
  fields.Read("top_p", &out->top_p);
  fields.Read("top_k", &out->top_k);
  if (out->top_k == -1) out->top_k = 0;  // vLLM's way to switch it off
  fields.Read("min_p", &out->min_p);
  fields.Read("repetition_penalty", &out->repetition_penalty);
  fields.Read("presence_penalty", &out->presence_penalty);
  fields.Read("frequency_penalty", &out->frequency_penalty);
  fields.ReadBias("logit_bias", &out->logit_bias);
}

// All that completions and chats share. `request`: becomes what each prompt is asked with.
Status ReadCommon(const Json& body, const ApiModel& model, JsonFields& fields, ApiRequest* api,
                  GenerationRequest* request) {
  std::string name = model.name;
  fields.Read("model", &name);
  OUTRIDER_TRY(fields.status());
  if (name != model.name) {
    return NotFound("model: \"" + name + "\" is not served here, \"" + model.name + "\" is");
  }
  ReadSampling(fields, &request->sampling);
  fields.Read("seed", &request->seed);
  fields.ReadStrings("stop", &request->stop_strings);
  fields.ReadInts("stop_token_ids", &request->stop_tokens);
  fields.Read("ignore_eos", &request->ignore_eos);
  fields.Read("max_tokens", &request->max_tokens);
  fields.Read("n", &api->choices);
  fields.Read("stream", &api->stream);
  std::string user;
  fields.Read("user", &user);
  RefuseUnserved(fields);
  OUTRIDER_TRY(fields.status());
  if (api->choices < 1 || api->choices > kMaxChoices) {
    return InvalidArgument("n: must be from 1 to " + std::to_string(kMaxChoices));
  }
  if (const Json* options = fields.Find("stream_options")) {
    if (!options->is_object()) return InvalidArgument("stream_options: must be an object");
    if (!api->stream) return InvalidArgument("stream_options: only with stream");
    JsonFields inner(*options, "stream_options.");
    inner.Read("include_usage", &api->include_usage);
    OUTRIDER_TRY(inner.status());
  }
  if (const auto found = body.find("speculation"); found != body.end() && !found->is_null()) {
    OUTRIDER_ASSIGN(request->speculation, ParseSpeculation(*found));
  }
  return Status();
}

Result<std::vector<TokenId>> PromptOf(const Json& value, const ApiModel& model) {
  if (value.is_string()) {
    return EncodePrompt(*model.tokenizer, value.get_ref<const std::string&>(), model.limits);
  }
  OUTRIDER_TRY(CheckPromptTokens(value.size(), model.limits));
  std::vector<TokenId> ids;
  for (const Json& item : value) {
    const std::optional<int> id = ToBoundedInt(item);
    if (!id.has_value()) {
      return InvalidArgument(
          "must be a string, an array of token ids, or an array of these, all of one kind");
    }
    ids.push_back(*id);
  }
  return ids;
}

// A string, token ids, or an array of these.
Result<std::vector<std::vector<TokenId>>> PromptsOf(const Json& value, const ApiModel& model) {
  const bool many =
      value.is_array() && !value.empty() && (value.front().is_string() || value.front().is_array());
  std::vector<std::vector<TokenId>> prompts;
  if (!many) {
    if (!value.is_string() && !value.is_array()) {
      return InvalidArgument("must be a string or an array");
    }
    OUTRIDER_ASSIGN(prompts.emplace_back(), PromptOf(value, model));
    return prompts;
  }
  if (value.size() > static_cast<size_t>(kMaxChoices)) {
    return InvalidArgument("at most " + std::to_string(kMaxChoices) + " prompts at once");
  }
  for (const Json& item : value) {
    if (item.type() != value.front().type()) {
      return InvalidArgument("strings or arrays of token ids, not both");
    }
    OUTRIDER_ASSIGN(prompts.emplace_back(), PromptOf(item, model));
  }
  return prompts;
}

// A string, or the text parts of which OpenAI's clients make it.
Result<std::string> ContentOf(const Json& message) {
  const auto found = message.find("content");
  if (found == message.end() || found->is_null()) return std::string();
  if (found->is_string()) return found->get<std::string>();
  std::string content;
  if (!found->is_array()) return InvalidArgument("content: must be a string or an array of parts");
  for (const Json& part : *found) {
    const auto text = part.is_object() ? part.find("text") : part.end();
    if (!part.is_object() || text == part.end() || !text->is_string()) {
      return InvalidArgument("content: only parts of type text are served");
    }
    content += text->get_ref<const std::string&>();
  }
  return content;
}

Result<ChatMessage> MessageOf(const Json& value) {
  if (!value.is_object()) return InvalidArgument("must be an object");
  const auto role = value.find("role");
  const std::string name = role != value.end() && role->is_string() ? role->get<std::string>() : "";
  ChatMessage message;
  if (name == "system" || name == "developer") {
    message.role = ChatMessage::Role::kSystem;
  } else if (name == "user") {
    message.role = ChatMessage::Role::kUser;
  } else if (name == "assistant") {
    message.role = ChatMessage::Role::kAssistant;
  } else {
    return InvalidArgument("role: must be system, developer, user or assistant");
  }
  OUTRIDER_ASSIGN(message.content, ContentOf(value));
  return message;
}

Result<std::vector<ChatMessage>> MessagesOf(const JsonFields& fields) {
  const Json* value = fields.Find("messages");
  if (value == nullptr || !value->is_array() || value->empty()) {
    return InvalidArgument("messages: must be an array of messages, one at least");
  }
  std::vector<ChatMessage> messages;
  for (size_t i = 0; i < value->size(); ++i) {
    Result<ChatMessage> message = MessageOf((*value)[i]);
    if (!message.ok()) return message.status().Annotate("messages[" + std::to_string(i) + "]");
    messages.push_back(std::move(message).value());
  }
  return messages;
}

}  // namespace

Result<ApiRequest> ParseCompletion(std::string_view body, const ApiModel& model) {
  OUTRIDER_ASSIGN(const Json json, ParseJsonObject(body));
  JsonFields fields(json);
  ApiRequest api;
  GenerationRequest request{.max_tokens = kCompletionTokens};
  OUTRIDER_TRY(ReadCommon(json, model, fields, &api, &request));
  fields.Read("logprobs", &request.logprobs);
  int best_of = api.choices;
  fields.Read("best_of", &best_of);
  if (best_of != api.choices) fields.Refuse("best_of", "is not served beyond n");
  OUTRIDER_TRY(fields.status());
  OUTRIDER_TRY(ValidateOptions(request, model.limits));  // before it is copied for each prompt
  const Json* prompt = fields.Find("prompt");
  if (prompt == nullptr) return InvalidArgument("prompt: is missing");
  auto prompts = PromptsOf(*prompt, model);
  if (!prompts.ok()) return prompts.status().Annotate("prompt");
  if (static_cast<int>(prompts->size()) * api.choices > kMaxChoices) {
    return InvalidArgument("n: " + std::to_string(kMaxChoices) +
                           " choices at most, over all prompts");
  }
  for (std::vector<TokenId>& ids : *prompts) {
    api.prompts.push_back(request);
    api.prompts.back().prompt = std::move(ids);
    OUTRIDER_TRY(Validate(api.prompts.back(), model.limits));
  }
  return api;
}

Result<ApiRequest> ParseChat(std::string_view body, const ApiModel& model) {
  OUTRIDER_ASSIGN(const Json json, ParseJsonObject(body));
  JsonFields fields(json);
  ApiRequest api{.chat = true};
  GenerationRequest request;
  OUTRIDER_TRY(ReadCommon(json, model, fields, &api, &request));
  fields.Read("max_completion_tokens", &request.max_tokens);
  bool logprobs = false;
  fields.Read("logprobs", &logprobs);
  std::optional<int> top;
  fields.Read("top_logprobs", &top);
  if (top.has_value() && !logprobs) fields.Refuse("top_logprobs", "needs logprobs: true");
  OUTRIDER_TRY(fields.status());
  if (logprobs) request.logprobs = top.value_or(0);
  OUTRIDER_ASSIGN(const std::vector<ChatMessage> messages, MessagesOf(fields));
  auto prompt =
      model.chat_template.Encode(*model.tokenizer, messages, model.limits.max_prompt_bytes);
  if (!prompt.ok()) return prompt.status().Annotate("messages");
  request.prompt = std::move(prompt).value();
  request.format_end_tokens = model.chat_template.EndTokens(*model.tokenizer);
  OUTRIDER_TRY(Validate(request, model.limits));
  api.prompts.push_back(std::move(request));
  return api;
}

GenerationRequest ChoiceOf(const GenerationRequest& prompt, int choice) {
  GenerationRequest request = prompt;
  if (!request.seed.has_value() || choice == 0) return request;
  // SplitMix64's finalizer (Steele, Lea, Flood 2014) over a step of its own for each choice.
  uint64_t z = *request.seed + 0x9e3779b97f4a7c15u * static_cast<uint64_t>(choice);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  request.seed = z ^ (z >> 31);
  return request;
}

}  // namespace outrider
