#include "verifier/http/api_request.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "common/base/printable.h"
#include "verifier/engine/logprobs.h"
#include "verifier/http/json_fields.h"
#include "verifier/http/request_fields.h"

namespace outrider {
namespace {

using Json = nlohmann::json;

// OpenAI's default for completions, and vLLM's; a chat may fill the context.
constexpr int kCompletionTokens = 16;

Result<StopRule> ParseStop(const Json& object) {
  OUTRIDER_TRY(CheckFields(FieldsOf::kStopRule, object, "speculation.stop.", false));
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
Result<SpeculationOptions> ParseSpeculation(const Json& object, const RequestLimits& limits) {
  if (!object.is_object()) return InvalidArgument("speculation: must be an object");
  OUTRIDER_TRY(CheckFields(FieldsOf::kSpeculation, object, "speculation.", false));
  JsonFields fields(object, "speculation.");
  SpeculationOptions options;
  std::string mode = "auto", rule;
  fields.Read("mode", &mode);
  fields.Read("rule", &rule);
  fields.Read("draft_length", &options.draft_length);
  fields.Read("paths", &options.paths);
  fields.ReadInts("tree", limits.max_draft_length, &options.tree);
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

void ReadSampling(JsonFields& fields, SamplingParams* out) {
  fields.Read("temperature", &out->temperature);
  fields.Read("top_p", &out->top_p);
  fields.Read("top_k", &out->top_k);
  if (out->top_k == -1) out->top_k = 0;  // vLLM's way to switch it off
  fields.Read("min_p", &out->min_p);
  fields.Read("repetition_penalty", &out->repetition_penalty);
  fields.Read("presence_penalty", &out->presence_penalty);
  fields.Read("frequency_penalty", &out->frequency_penalty);
  fields.ReadBias("logit_bias", kMaxLogitBias, &out->logit_bias);
}

Status ReadStreamOptions(const Json& options, const ApiModel& model, ApiRequest* api) {
  if (!options.is_object()) return InvalidArgument("stream_options: must be an object");
  if (!api->stream) return InvalidArgument("stream_options: only with stream");
  OUTRIDER_TRY(
      CheckFields(FieldsOf::kStreamOptions, options, "stream_options.", model.ignore_unknown));
  JsonFields fields(options, "stream_options.");
  fields.Read("include_usage", &api->include_usage);
  fields.Read("continuous_usage_stats", &api->continuous_usage);
  return fields.status();
}

// All that completions and chats share. `request`: becomes what each prompt is asked with.
Status ReadCommon(const Json& body, const ApiModel& model, JsonFields& fields, ApiRequest* api,
                  GenerationRequest* request) {
  std::string name = model.name;
  fields.Read("model", &name);
  OUTRIDER_TRY(fields.status());
  if (name != model.name) {
    return NotFound("model: \"" + Printable(name, kMaxShown) + "\" is not served here, \"" +
                    model.name + "\" is");
  }
  OUTRIDER_TRY(CheckFields(api->chat ? FieldsOf::kChat : FieldsOf::kCompletion, body, "",
                           model.ignore_unknown));
  const RequestLimits& limits = model.limits;
  ReadSampling(fields, &request->sampling);
  fields.Read("seed", &request->seed);
  fields.ReadStrings("stop", limits.max_stop_strings, &request->stop_strings);
  fields.ReadInts("stop_token_ids", limits.max_stop_tokens, &request->stop_tokens);
  fields.Read("ignore_eos", &request->ignore_eos);
  fields.Read("max_tokens", &request->max_tokens);
  fields.Read("max_completion_tokens", &request->max_tokens);
  fields.Read("min_tokens", &request->min_tokens);
  fields.Read("n", &api->choices);
  fields.Read("stream", &api->stream);
  OUTRIDER_TRY(fields.status());
  if (api->choices < 1 || api->choices > kMaxChoices) {
    return InvalidArgument("n is " + std::to_string(api->choices) + ", must be from 1 to " +
                           std::to_string(kMaxChoices));
  }
  if (const Json* options = fields.Find("stream_options")) {
    OUTRIDER_TRY(ReadStreamOptions(*options, model, api));
  }
  if (const Json* options = fields.Find("speculation")) {
    OUTRIDER_ASSIGN(request->speculation, ParseSpeculation(*options, limits));
  }
  return Status();
}

Result<std::vector<TokenId>> PromptOf(const Json& value, const ApiModel& model) {
  if (value.is_string()) {
    return EncodePrompt(*model.tokenizer, value.get_ref<const std::string&>(), model.limits);
  }
  OUTRIDER_TRY(CheckPromptTokens(value.size(), model.limits));
  std::vector<TokenId> ids;
  ids.reserve(value.size());
  for (const Json& item : value) {
    const std::optional<int> id = ToInt(item);
    if (!id.has_value()) {
      return InvalidArgument(
          "must be a string, an array of token ids, or an array of these, all of one kind; " +
          Shown(item) + " is no token id");
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
      return InvalidArgument("must be a string or an array, not " + Shown(value));
    }
    OUTRIDER_ASSIGN(prompts.emplace_back(), PromptOf(value, model));
    return prompts;
  }
  if (value.size() > static_cast<size_t>(kMaxChoices)) {
    return InvalidArgument(std::to_string(value.size()) + " prompts, at most " +
                           std::to_string(kMaxChoices) + " at once");
  }
  for (const Json& item : value) {
    if (item.type() != value.front().type()) {
      return InvalidArgument("strings or arrays of token ids, not both");
    }
    OUTRIDER_ASSIGN(prompts.emplace_back(), PromptOf(item, model));
  }
  return prompts;
}

// A string, or the text parts of which OpenAI's clients make it. Errors name the member within the
// message.
Result<std::string> ContentOf(const Json& message, const ApiModel& model) {
  const auto found = message.find("content");
  if (found == message.end() || found->is_null()) return std::string();
  if (found->is_string()) return found->get<std::string>();
  std::string content;
  if (!found->is_array()) {
    return InvalidArgument("content is " + Shown(*found) +
                           ", must be a string or an array of text parts");
  }
  for (size_t i = 0; i < found->size(); ++i) {
    const std::string name = "content[" + std::to_string(i) + "]";
    const Json& part = (*found)[i];
    const auto text = part.is_object() ? part.find("text") : part.end();
    if (!part.is_object() || text == part.end() || !text->is_string()) {
      return InvalidArgument(name + ": only parts of type text are served");
    }
    OUTRIDER_TRY(CheckFields(FieldsOf::kPart, part, name + ".", model.ignore_unknown));
    content += text->get_ref<const std::string&>();
  }
  return content;
}

// Errors name the member within the message.
Result<ChatMessage> MessageOf(const Json& value, const ApiModel& model) {
  OUTRIDER_TRY(CheckFields(FieldsOf::kMessage, value, "", model.ignore_unknown));
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
    return InvalidArgument("role is " + (role == value.end() ? "missing" : Shown(*role)) +
                           ", must be system, developer, user or assistant");
  }
  OUTRIDER_ASSIGN(message.content, ContentOf(value, model));
  return message;
}

Result<std::vector<ChatMessage>> MessagesOf(const JsonFields& fields, const ApiModel& model) {
  const Json* value = fields.Find("messages");
  if (value == nullptr || !value->is_array() || value->empty()) {
    return InvalidArgument("messages: must be an array of messages, one at least");
  }
  std::vector<ChatMessage> messages;
  for (size_t i = 0; i < value->size(); ++i) {
    const Json& item = (*value)[i];
    const std::string name = "messages[" + std::to_string(i) + "]";
    if (!item.is_object()) return InvalidArgument(name + " is " + Shown(item) + ", no object");
    Result<ChatMessage> message = MessageOf(item, model);
    if (!message.ok()) return InvalidArgument(name + "." + message.status().message());
    messages.push_back(std::move(message).value());
  }
  return messages;
}

// Of a chat: whether alternatives are told, and how many.
Status ReadChatLogprobs(JsonFields& fields, GenerationRequest* request) {
  bool logprobs = false;
  int top = 0;
  fields.Read("logprobs", &logprobs);
  fields.Read("top_logprobs", &top);
  OUTRIDER_TRY(fields.status());
  if (top < 0 || top > kMaxTopLogprobs) {
    return InvalidArgument("top_logprobs is " + std::to_string(top) + ", must be from 0 to " +
                           std::to_string(kMaxTopLogprobs));
  }
  if (top > 0 && !logprobs) return InvalidArgument("top_logprobs: needs logprobs: true");
  if (logprobs) request->logprobs = top;
  return Status();
}

Status CheckAnswer(const ApiRequest& api, const RequestLimits& limits) {
  int64_t logprobs = 0;
  for (const GenerationRequest& prompt : api.prompts) {
    if (!prompt.logprobs.has_value()) continue;
    logprobs += int64_t{api.choices} * MaxNewTokens(prompt, limits) * (1 + *prompt.logprobs);
  }
  if (api.stream || logprobs <= kMaxAnswerLogprobs) return Status();
  return InvalidArgument("logprobs: up to " + std::to_string(logprobs) +
                         " log probabilities, at most " + std::to_string(kMaxAnswerLogprobs) +
                         " in an answer that is no stream; lower max_tokens, or stream");
}

}  // namespace

Result<ApiRequest> ParseCompletion(std::string_view body, const ApiModel& model) {
  OUTRIDER_ASSIGN(const Json json, ParseJsonObject(body));
  JsonFields fields(json);
  ApiRequest api;
  GenerationRequest request = NewRequest(model.limits);
  request.max_tokens = kCompletionTokens;
  OUTRIDER_TRY(ReadCommon(json, model, fields, &api, &request));
  fields.Read("logprobs", &request.logprobs);
  int best_of = api.choices;
  fields.Read("best_of", &best_of);
  OUTRIDER_TRY(fields.status());
  OUTRIDER_TRY(ValidateOptions(request, model.limits));  // before it is copied for each prompt
  if (best_of != api.choices) {
    return InvalidArgument("best_of is " + std::to_string(best_of) +
                           ", which is not served unless it is n; leave it out");
  }
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
  OUTRIDER_TRY(CheckAnswer(api, model.limits));
  return api;
}

Result<ApiRequest> ParseChat(std::string_view body, const ApiModel& model) {
  OUTRIDER_ASSIGN(const Json json, ParseJsonObject(body));
  JsonFields fields(json);
  ApiRequest api{.chat = true};
  GenerationRequest request = NewRequest(model.limits);
  OUTRIDER_TRY(ReadCommon(json, model, fields, &api, &request));
  OUTRIDER_TRY(ReadChatLogprobs(fields, &request));
  OUTRIDER_ASSIGN(const std::vector<ChatMessage> messages, MessagesOf(fields, model));
  auto prompt =
      model.chat_template.Encode(*model.tokenizer, messages, model.limits.max_prompt_bytes);
  if (!prompt.ok()) return prompt.status().Annotate("messages");
  request.prompt = std::move(prompt).value();
  request.format_end_tokens = model.chat_template.EndTokens(*model.tokenizer);
  OUTRIDER_TRY(Validate(request, model.limits));
  api.prompts.push_back(std::move(request));
  OUTRIDER_TRY(CheckAnswer(api, model.limits));
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
