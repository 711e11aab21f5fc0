#include "verifier/http/api_request.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "common/base/printable.h"
#include "common/json/json.h"
#include "common/text/template_value.h"
#include "verifier/engine/logprobs.h"
#include "verifier/http/request_fields.h"
#include "verifier/http/request_values.h"

namespace outrider {
namespace {

// OpenAI's default for completions, and vLLM's; a chat may fill the context.
constexpr int kCompletionTokens = 16;

Result<StopRule> ParseStop(const JsonValue& json) {
  OUTRIDER_TRY(CheckFields(FieldsOf::kStopRule, json, false));
  StopRule stop;
  std::string kind(StopRuleName(stop.kind));
  OUTRIDER_TRY(json["kind"].Read(&kind));
  OUTRIDER_TRY(json["threshold"].Read(&stop.threshold));
  const Result<StopRule::Kind> parsed = ParseStopRule(kind);
  if (!parsed.ok()) return parsed.status().Annotate("speculation.stop.kind");
  stop.kind = *parsed;
  return stop;
}

// Ours alone: an unknown member is a mistake here, not another server's extension.
Result<SpeculationOptions> ParseSpeculation(const JsonValue& json, const RequestLimits& limits) {
  OUTRIDER_TRY(CheckFields(FieldsOf::kSpeculation, json, false));
  SpeculationOptions options;
  std::string mode = "auto", rule;
  OUTRIDER_TRY(json["mode"].Read(&mode));
  OUTRIDER_TRY(json["rule"].Read(&rule));
  OUTRIDER_TRY(json["draft_length"].Read(&options.draft_length));
  OUTRIDER_TRY(json["paths"].Read(&options.paths));
  OUTRIDER_TRY(ReadInts(json["tree"], limits.max_draft_length, &options.tree));
  if (mode != "auto" && mode != "off") {
    return InvalidArgument("speculation.mode: must be auto or off");
  }
  options.enabled = mode == "auto";
  if (!rule.empty()) {
    Result<Rule> parsed = ParseRule(rule);
    if (!parsed.ok()) return parsed.status().Annotate("speculation.rule");
    options.rule = *parsed;
  }
  if (const JsonValue stop = json["stop"]; !stop.is_null()) {
    OUTRIDER_ASSIGN(options.stop, ParseStop(stop));
  }
  return options;
}

Status ReadSampling(const JsonValue& body, SamplingParams* out) {
  OUTRIDER_TRY(body["temperature"].Read(&out->temperature));
  OUTRIDER_TRY(body["top_p"].Read(&out->top_p));
  OUTRIDER_TRY(body["top_k"].Read(&out->top_k));
  if (out->top_k == -1) out->top_k = 0;  // vLLM's way to switch it off
  OUTRIDER_TRY(body["min_p"].Read(&out->min_p));
  OUTRIDER_TRY(body["repetition_penalty"].Read(&out->repetition_penalty));
  OUTRIDER_TRY(body["presence_penalty"].Read(&out->presence_penalty));
  OUTRIDER_TRY(body["frequency_penalty"].Read(&out->frequency_penalty));
  return ReadBias(body["logit_bias"], kMaxLogitBias, &out->logit_bias);
}

// Which tokens may be sampled.
Status ReadMasks(const JsonValue& body, const ApiModel& model, SamplingParams* out) {
  const JsonValue allowed = body["allowed_token_ids"];
  OUTRIDER_TRY(ReadInts(allowed, kMaxAllowedTokens, &out->allowed_tokens));
  if (!allowed.is_null() && out->allowed_tokens.empty()) {
    return InvalidArgument("allowed_token_ids: an empty array leaves nothing to sample");
  }
  std::vector<std::string> words;
  OUTRIDER_TRY(ReadStrings(body["bad_words"], model.limits.max_bad_words, &words));
  OUTRIDER_ASSIGN(out->bad_words, BadWordTokens(*model.tokenizer, words, model.limits));
  return Status();
}

// Where the text ends, and what of it is shown.
Status ReadStops(const JsonValue& body, const ApiModel& model, GenerationRequest* out) {
  const RequestLimits& limits = model.limits;
  OUTRIDER_TRY(ReadStrings(body["stop"], limits.max_stop_strings, &out->stop_strings));
  for (const std::string& stop : out->stop_strings) {
    OUTRIDER_TRY(
        CheckAtMost("stop", std::ssize(stop), limits.max_stop_string_bytes, "bytes in one"));
  }
  OUTRIDER_ASSIGN(out->stop_strings_have_special,
                  AnyHoldsSpecialToken(*model.tokenizer, out->stop_strings));
  OUTRIDER_TRY(ReadInts(body["stop_token_ids"], limits.max_stop_tokens, &out->stop_tokens));
  OUTRIDER_TRY(body["ignore_eos"].Read(&out->ignore_eos));
  OUTRIDER_TRY(body["skip_special_tokens"].Read(&out->skip_special));
  return body["include_stop_str_in_output"].Read(&out->include_stop);
}

Status ReadStreamOptions(const JsonValue& options, const ApiModel& model, ApiRequest* api) {
  OUTRIDER_TRY(options.MustBeObject());
  if (!api->stream) return InvalidArgument("stream_options: only with stream");
  OUTRIDER_TRY(CheckFields(FieldsOf::kStreamOptions, options, model.ignore_unknown));
  OUTRIDER_TRY(options["include_usage"].Read(&api->include_usage));
  return options["continuous_usage_stats"].Read(&api->continuous_usage);
}

// All that completions and chats share. `request`: becomes what each prompt is asked with.
Status ReadCommon(const JsonValue& body, const ApiModel& model, ApiRequest* api,
                  GenerationRequest* request) {
  std::string name = model.name;
  OUTRIDER_TRY(body["model"].Read(&name));
  if (name != model.name) {
    return NotFound("model: \"" + Printable(name, kMaxShownText) + "\" is not served here, \"" +
                    model.name + "\" is");
  }
  OUTRIDER_TRY(
      CheckFields(api->chat ? FieldsOf::kChat : FieldsOf::kCompletion, body, model.ignore_unknown));
  const RequestLimits& limits = model.limits;
  OUTRIDER_TRY(ReadSampling(body, &request->sampling));
  OUTRIDER_TRY(body["seed"].Read(&request->seed));
  OUTRIDER_TRY(ReadMasks(body, model, &request->sampling));
  OUTRIDER_TRY(ReadStops(body, model, request));
  OUTRIDER_TRY(body["max_tokens"].Read(&request->max_tokens));
  OUTRIDER_TRY(body["max_completion_tokens"].Read(&request->max_tokens));
  OUTRIDER_TRY(body["min_tokens"].Read(&request->min_tokens));
  OUTRIDER_TRY(body["n"].Read(&api->choices));
  OUTRIDER_TRY(body["stream"].Read(&api->stream));
  if (api->choices < 1 || api->choices > kMaxChoices) {
    return InvalidArgument("n is " + std::to_string(api->choices) + ", must be from 1 to " +
                           std::to_string(kMaxChoices));
  }
  api->kept = api->choices;
  if (const JsonValue options = body["stream_options"]; !options.is_null()) {
    OUTRIDER_TRY(ReadStreamOptions(options, model, api));
  }
  if (const JsonValue options = body["speculation"]; !options.is_null()) {
    OUTRIDER_ASSIGN(request->speculation, ParseSpeculation(options, limits));
  }
  return Status();
}

Result<std::vector<TokenId>> PromptOf(const JsonValue& value, const PromptTextOptions& text,
                                      const ApiModel& model) {
  if (value.is_string()) return EncodePrompt(*model.tokenizer, value.text(), text, model.limits);
  OUTRIDER_TRY(CheckPromptTokens(value.size(), model.limits));
  std::vector<TokenId> ids;
  ids.reserve(value.size());
  for (size_t i = 0; i < value.size(); ++i) {
    const Result<int> id = value[i].Int();
    if (!id.ok()) {
      return InvalidArgument(
          "must be a string, an array of token ids, or an array of these, all of one kind; " +
          value[i].Shown() + " is no token id");
    }
    ids.push_back(*id);
  }
  return ids;
}

// A string, token ids, or an array of these.
Result<std::vector<std::vector<TokenId>>> PromptsOf(const JsonValue& value,
                                                    const PromptTextOptions& text,
                                                    const ApiModel& model) {
  std::vector<std::vector<TokenId>> prompts;
  if (!value[0].is_string() && !value[0].is_array()) {
    if (!value.is_string() && !value.is_array()) {
      return InvalidArgument("must be a string or an array, not " + value.Shown());
    }
    OUTRIDER_ASSIGN(prompts.emplace_back(), PromptOf(value, text, model));
    return prompts;
  }
  if (value.size() > static_cast<size_t>(kMaxChoices)) {
    return InvalidArgument(std::to_string(value.size()) + " prompts, at most " +
                           std::to_string(kMaxChoices) + " at once");
  }
  for (size_t i = 0; i < value.size(); ++i) {
    if (!(value[0].is_string() ? value[i].is_string() : value[i].is_array())) {
      return InvalidArgument("strings or arrays of token ids, not both");
    }
    OUTRIDER_ASSIGN(prompts.emplace_back(), PromptOf(value[i], text, model));
  }
  return prompts;
}

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

// As vLLM: special tokens are found in a prompt's text unless the request says otherwise.
Result<PromptTextOptions> PromptTextOf(const JsonValue& body) {
  PromptTextOptions options{.add_special_tokens = true, .parse_special = true};
  OUTRIDER_TRY(body["add_special_tokens"].Read(&options.add_special_tokens));
  OUTRIDER_TRY(body["parse_special"].Read(&options.parse_special));
  return options;
}

// Of a chat: whether alternatives are told, and how many.
Status ReadChatLogprobs(const JsonValue& body, GenerationRequest* request) {
  bool logprobs = false;
  int top = 0;
  OUTRIDER_TRY(body["logprobs"].Read(&logprobs));
  OUTRIDER_TRY(body["top_logprobs"].Read(&top));
  if (top < 0 || top > kMaxTopLogprobs) {
    return InvalidArgument("top_logprobs is " + std::to_string(top) + ", must be from 0 to " +
                           std::to_string(kMaxTopLogprobs));
  }
  if (top > 0 && !logprobs) return InvalidArgument("top_logprobs: needs logprobs: true");
  if (logprobs) request->logprobs = top;
  return Status();
}

// More choices than are kept: their log probabilities decide.
Status ReadBestOf(const JsonValue& body, ApiRequest* api, GenerationRequest* request) {
  OUTRIDER_TRY(body["best_of"].Read(&api->choices));
  if (api->choices < api->kept || api->choices > kMaxChoices) {
    return InvalidArgument("best_of is " + std::to_string(api->choices) +
                           ", must be from n, which is " + std::to_string(api->kept) + ", to " +
                           std::to_string(kMaxChoices));
  }
  if (api->choices == api->kept) return Status();
  if (api->stream) {
    return InvalidArgument(
        "best_of: above n it is not streamed, for the best choices are known at the "
        "end");
  }
  if (!request->logprobs.has_value()) request->logprobs = 0;
  return Status();
}

Status CheckAnswer(const ApiRequest& api, const RequestLimits& limits) {
  int64_t logprobs = 0;
  for (const GenerationRequest& prompt : api.prompts) {
    if (!prompt.logprobs.has_value()) continue;
    logprobs += int64_t{api.choices} * MaxNewTokens(prompt, limits) * (1 + *prompt.logprobs);
  }
  if (api.stream || !api.logprobs || logprobs <= kMaxAnswerLogprobs) return Status();
  const bool alternatives = api.chat && api.prompts.front().logprobs > 0;
  return InvalidArgument((alternatives ? "top_logprobs: up to " : "logprobs: up to ") +
                         std::to_string(logprobs) + " log probabilities, at most " +
                         std::to_string(kMaxAnswerLogprobs) +
                         " in an answer that is no stream; lower max_tokens, or stream");
}

}  // namespace

Result<ApiRequest> ParseCompletion(std::string_view body, const ApiModel& model) {
  OUTRIDER_ASSIGN(const JsonValue json, ParseBody(body));
  ApiRequest api;
  GenerationRequest request = NewRequest(model.limits);
  request.max_tokens = kCompletionTokens;
  OUTRIDER_TRY(ReadCommon(json, model, &api, &request));
  OUTRIDER_TRY(json["logprobs"].Read(&request.logprobs));
  api.logprobs = request.logprobs.has_value();
  OUTRIDER_TRY(ReadBestOf(json, &api, &request));
  OUTRIDER_TRY(ValidateOptions(request, model.limits));  // before it is copied for each prompt
  if (json["prompt"].is_null()) return InvalidArgument("prompt: is missing");
  OUTRIDER_ASSIGN(const PromptTextOptions text, PromptTextOf(json));
  auto prompts = PromptsOf(json["prompt"], text, model);
  if (!prompts.ok()) return prompts.status().Annotate("prompt");
  if (static_cast<int>(prompts->size()) * api.choices > kMaxChoices) {
    return InvalidArgument((api.choices > api.kept ? "best_of: " : "n: ") +
                           std::to_string(kMaxChoices) + " choices at most, over all prompts");
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
  OUTRIDER_ASSIGN(const JsonValue json, ParseBody(body));
  ApiRequest api{.chat = true};
  GenerationRequest request = NewRequest(model.limits);
  OUTRIDER_TRY(ReadCommon(json, model, &api, &request));
  OUTRIDER_TRY(ReadChatLogprobs(json, &request));
  api.logprobs = request.logprobs.has_value();
  OUTRIDER_ASSIGN(const std::vector<ChatMessage> messages, MessagesOf(json["messages"], model));
  OUTRIDER_ASSIGN(const ChatOptions options, ChatOptionsOf(json, model));
  auto prompt = model.chat_template.Encode(*model.tokenizer, messages, options);
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
