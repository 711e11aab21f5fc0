#include "verifier/http/generation_fields.h"

#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/printable.h"
#include "verifier/http/request_fields.h"
#include "verifier/http/request_values.h"
#include "verifier/http/structured_fields.h"

namespace outrider {
namespace {

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

// This object is our own, so an unknown member is a mistake and not another server's extension.
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
  if (out->top_k == -1) out->top_k = 0;  // how vLLM disables it
  OUTRIDER_TRY(body["min_p"].Read(&out->min_p));
  OUTRIDER_TRY(body["repetition_penalty"].Read(&out->repetition_penalty));
  OUTRIDER_TRY(body["presence_penalty"].Read(&out->presence_penalty));
  OUTRIDER_TRY(body["frequency_penalty"].Read(&out->frequency_penalty));
  return ReadBias(body["logit_bias"], kMaxLogitBias, &out->logit_bias);
}

// Which tokens may be sampled.
Status ReadMasks(const JsonValue& body, const ApiModel& model, SamplingParams* out) {
  const JsonValue allowed = body["allowed_token_ids"];
  std::vector<TokenId> tokens;
  OUTRIDER_TRY(ReadInts(allowed, kMaxAllowedTokens, &tokens));
  if (!allowed.is_null() && tokens.empty()) {
    return InvalidArgument("allowed_token_ids: an empty array leaves nothing to sample");
  }
  out->allowed_tokens = std::move(tokens);
  std::vector<std::string> words;
  OUTRIDER_TRY(ReadStrings(body["bad_words"], model.limits.max_bad_words, &words));
  OUTRIDER_ASSIGN(out->bad_words, BadWordTokens(*model.tokenizer, words, model.limits));
  return Status();
}

// Where the text ends, and which part of the end is shown.
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

}  // namespace

Status CheckModel(const JsonValue& body, const ApiModel& model) {
  std::string name = model.name;
  OUTRIDER_TRY(body["model"].Read(&name));
  if (name == model.name) return Status();
  return NotFound("model: \"" + Printable(name, kMaxShownText) + "\" is not served here, \"" +
                  model.name + "\" is");
}

Result<PromptTextOptions> PromptTextOf(const JsonValue& body) {
  PromptTextOptions options{.add_special_tokens = true, .parse_special = true};
  OUTRIDER_TRY(body["add_special_tokens"].Read(&options.add_special_tokens));
  OUTRIDER_TRY(body["parse_special"].Read(&options.parse_special));
  return options;
}

Status ReadCommon(const JsonValue& body, const ApiModel& model, ApiRequest* api,
                  GenerationRequest* request) {
  OUTRIDER_TRY(CheckModel(body, model));
  OUTRIDER_TRY(
      CheckFields(api->chat ? FieldsOf::kChat : FieldsOf::kCompletion, body, model.ignore_unknown));
  const RequestLimits& limits = model.limits;
  OUTRIDER_TRY(ReadSampling(body, &request->sampling));
  OUTRIDER_TRY(body["seed"].Read(&request->seed));
  OUTRIDER_TRY(ReadMasks(body, model, &request->sampling));
  OUTRIDER_ASSIGN(std::optional<StructuredOutput> output, StructuredOutputOf(body));
  if (output.has_value()) {
    OUTRIDER_TRY(Validate(output->source).Annotate(output->field));
    request->sampling.grammar = std::move(output->source);
    api->grammar_field = std::move(output->field);
  }
  OUTRIDER_TRY(ReadStops(body, model, request));
  OUTRIDER_TRY(body["max_tokens"].Read(&request->max_tokens));
  OUTRIDER_TRY(body["max_completion_tokens"].Read(&request->max_tokens));
  OUTRIDER_TRY(body["min_tokens"].Read(&request->min_tokens));
  OUTRIDER_TRY(body["prompt_logprobs"].Read(&request->prompt_logprobs));
  OUTRIDER_TRY(body["n"].Read(&api->choices));
  OUTRIDER_TRY(body["stream"].Read(&api->stream));
  if (api->choices < 1 || api->choices > kMaxChoices) {
    return InvalidArgument("n is " + std::to_string(api->choices) + ", must be from 1 to " +
                           std::to_string(kMaxChoices));
  }
  api->kept = api->choices;
  api->prompt_logprobs = request->prompt_logprobs;
  if (api->stream && api->prompt_logprobs.has_value()) {
    return InvalidArgument("prompt_logprobs: are not streamed; echo with logprobs is");
  }
  if (const JsonValue options = body["stream_options"]; !options.is_null()) {
    OUTRIDER_TRY(ReadStreamOptions(options, model, api));
  }
  if (const JsonValue options = body["speculation"]; !options.is_null()) {
    OUTRIDER_ASSIGN(request->speculation, ParseSpeculation(options, limits));
  }
  return Status();
}

}  // namespace outrider
