#include "verifier/http/api_request.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <span>
#include <utility>

#include "common/base/mix_bits.h"
#include "common/json/json.h"
#include "verifier/engine/logprobs.h"
#include "verifier/http/chat_fields.h"
#include "verifier/http/generation_fields.h"
#include "verifier/http/request_values.h"
#include "verifier/http/tool_fields.h"

namespace outrider {
namespace {

// OpenAI's default for completions, and vLLM's; a chat may fill the context.
constexpr int kCompletionTokens = 16;

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
          value[i].Shown() + " is not a token id");
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

// For a chat: whether log probabilities are reported, and how many alternatives.
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

// All choices enter the queue at once, so a queue that is shorter can never take the request.
Status CheckChoices(const ApiRequest& api, size_t prompts, const RequestLimits& limits) {
  const size_t choices = prompts * static_cast<size_t>(api.choices);
  const std::string field = api.choices == 1         ? "prompt: "
                            : api.choices > api.kept ? "best_of: "
                                                     : "n: ";
  if (std::cmp_greater(choices, kMaxChoices)) {
    return InvalidArgument(field + std::to_string(kMaxChoices) +
                           " choices at most, over all prompts");
  }
  if (choices == 1 || std::cmp_less_equal(choices, limits.max_waiting)) return Status();
  return InvalidArgument(field + std::to_string(choices) + " choices over all prompts, but only " +
                         std::to_string(limits.max_waiting) +
                         " may wait here (--max-waiting, --max-waiting-per-client); ask for fewer");
}

// Log probabilities of the prompt, over all choices.
int64_t PromptLogprobs(const GenerationRequest& prompt, int64_t choices) {
  if (!prompt.prompt_logprobs.has_value()) return 0;
  return choices * std::ssize(prompt.prompt) * (1 + *prompt.prompt_logprobs);
}

// A chat without max_tokens could have the whole context of log probabilities, more than an answer
// holds: it has as many tokens as an answer has room for, if those are many.
void BoundAnswer(const RequestLimits& limits, ApiRequest* api) {
  constexpr int64_t kMany = 4096;
  if (api->stream || !api->logprobs.has_value()) return;
  for (GenerationRequest& prompt : api->prompts) {
    if (prompt.max_tokens.has_value()) continue;
    const int64_t room = (kMaxAnswerLogprobs - PromptLogprobs(prompt, api->choices)) /
                         (int64_t{api->choices} * (1 + *api->logprobs));
    if (room < std::max<int64_t>(kMany, prompt.min_tokens)) continue;
    prompt.max_tokens = static_cast<int>(std::min<int64_t>(room, MaxNewTokens(prompt, limits)));
  }
}

// For an answer that is not a stream; a stream also has those of prompts at once.
Status CheckAnswer(const ApiRequest& api, const RequestLimits& limits) {
  int64_t logprobs = 0, prompt_logprobs = 0;
  const int64_t choices = api.choices;
  for (const GenerationRequest& prompt : api.prompts) {
    if (api.logprobs.has_value()) {
      logprobs += choices * MaxNewTokens(prompt, limits) * (1 + *api.logprobs);
    }
    prompt_logprobs += PromptLogprobs(prompt, choices);
  }
  if (prompt_logprobs > kMaxAnswerLogprobs) {
    return InvalidArgument((api.prompt_logprobs.has_value() ? "prompt_logprobs: " : "echo: ") +
                           std::to_string(prompt_logprobs) +
                           " log probabilities of prompts, at most " +
                           std::to_string(kMaxAnswerLogprobs) + " in an answer; ask for fewer");
  }
  if (api.stream || logprobs + prompt_logprobs <= kMaxAnswerLogprobs) return Status();
  const bool alternatives = api.chat && api.logprobs > 0;
  return InvalidArgument((alternatives ? "top_logprobs: up to " : "logprobs: up to ") +
                         std::to_string(logprobs + prompt_logprobs) +
                         " log probabilities, at most " + std::to_string(kMaxAnswerLogprobs) +
                         " in an answer that is not a stream; lower max_tokens, or stream");
}

// Repeats the prompt before the output, with its log probabilities if those of the output are
// requested. With max_tokens 0 the answer is the prompt alone, as in vLLM; one token is generated
// all the same.
Status ReadEcho(const JsonValue& body, ApiRequest* api, GenerationRequest* request, bool* echo) {
  OUTRIDER_TRY(body["echo"].Read(echo));
  if (!*echo) return Status();
  if (api->logprobs.has_value()) {
    request->prompt_logprobs = std::max(*api->logprobs, api->prompt_logprobs.value_or(0));
  }
  if (request->max_tokens == 0) {
    api->echo_only = true;
    request->max_tokens = 1;
  }
  return Status();
}

// A prompt's text as received, or that of its tokens. If log probabilities of its tokens are
// reported, it is what these spell, which differs only if the tokenizer rewrites texts.
PromptEcho EchoOf(const JsonValue& prompt, const PromptTextOptions& text, const ApiModel& model,
                  const ApiRequest& api, const GenerationRequest& request) {
  if (!prompt.is_string()) {
    return {.text = model.tokenizer->Decode(request.prompt, request.skip_special),
            .skip_special = request.skip_special};
  }
  PromptEcho echo;
  if (text.add_special_tokens) echo.prefix = model.tokenizer->prompt_prefix().size();
  const std::span<const TokenId> tokens = std::span(request.prompt).subspan(echo.prefix);
  echo.text = api.logprobs.has_value() ? model.tokenizer->Decode(tokens, /*skip_special=*/false)
                                       : std::string(prompt.text());
  return echo;
}

Status AddEchoes(const JsonValue& value, const PromptTextOptions& text, const ApiModel& model,
                 ApiRequest* api) {
  const bool is_one = !value[0].is_string() && !value[0].is_array();
  size_t bytes = 0;
  for (size_t i = 0; i < api->prompts.size(); ++i) {
    api->echoes.push_back(EchoOf(is_one ? value : value[i], text, model, *api, api->prompts[i]));
    bytes += api->echoes.back().text.size() * static_cast<size_t>(api->choices);
    if (bytes > kMaxEchoBytes) {
      return InvalidArgument("echo: more than " + std::to_string(kMaxEchoBytes) +
                             " bytes of prompts over all choices; ask for fewer");
    }
  }
  return Status();
}

// Whether the prompt ends within the answer's reasoning, by the template's end or by the message
// that the answer continues.
bool EndsInReasoning(ReasoningFormat format, const jinja::MarkedText& prompt, bool continues) {
  std::string_view tail;
  bool from_request = false;
  prompt.ForEachPart([&](std::string_view part, bool is_from_request) {
    tail = part;
    from_request = is_from_request;
  });
  return from_request == continues && OpensReasoning(format, tail);
}

// How a chat's answers are parsed, for which special tokens that mark their parts must be text. A
// structured output is all content, whatever its strings contain.
Status ReadAnswerFormat(const JsonValue& body, const ApiModel& model, const ToolFields& tools,
                        const jinja::MarkedText& prompt, bool continues, ApiRequest* api,
                        GenerationRequest* request) {
  AnswerReading& reading = api->reading;
  OUTRIDER_TRY(body["include_reasoning"].Read(&reading.include_reasoning));
  if (request->sampling.grammar.has_value() && !tools.choice.constrains()) return Status();
  const ReasoningFormat reasoning = model.answer_format.reasoning;
  if (reasoning != ReasoningFormat::kNone) {
    reading.format.reasoning = reasoning;
    reading.opens_reasoning = EndsInReasoning(reasoning, prompt, continues);
  }
  if (!tools.callable.empty()) {
    reading.format.tools = model.answer_format.tools;
    reading.must_call = tools.choice.constrains();
    if (!tools.choice.parallel) reading.max_calls = 1;
    for (const ToolDescription& tool : tools.callable) reading.tools.push_back(tool.name);
  }
  for (const std::string_view marker : MarkersOf(reading.format)) {
    const std::optional<TokenId> id = model.tokenizer->TokenToId(marker);
    if (id.has_value() && model.tokenizer->IsSpecial(*id)) request->shown_special.push_back(*id);
  }
  return Status();
}

// Harmony writes a message's header with special tokens, which no grammar allows. If the answer is
// a structured output, the prompt therefore ends with the header of its content.
Status BeginHarmonyContent(const ApiModel& model, const ChatOptions& options,
                           std::string_view rendered, GenerationRequest* request) {
  if (!model.answer_format.is_harmony() || !request->sampling.grammar.has_value()) return Status();
  if (!options.add_generation_prompt || !rendered.ends_with("<|start|>assistant")) return Status();
  OUTRIDER_ASSIGN(const std::vector<TokenId> header,
                  model.tokenizer->Encode("<|channel|>final<|message|>", /*parse_special=*/true));
  request->prompt.insert(request->prompt.end(), header.begin(), header.end());
  return Status();
}

// Compiles the grammar of all prompts, if any. It may take long, so it comes last: a request with
// any other fault does not pay for it.
Status CompileGrammars(const ApiModel& model, ApiRequest* api) {
  GenerationRequest& first = api->prompts.front();
  OUTRIDER_TRY(CompileGrammar(model.grammars, &first).Annotate(api->grammar_field));
  for (GenerationRequest& prompt : api->prompts) prompt.grammar_masks = first.grammar_masks;
  return Status();
}

}  // namespace

Result<ApiRequest> ParseCompletion(std::string_view body, const ApiModel& model) {
  OUTRIDER_ASSIGN(const JsonValue json, ParseBody(body));
  ApiRequest api;
  GenerationRequest request = NewRequest(model.limits);
  request.max_tokens = kCompletionTokens;
  OUTRIDER_TRY(ReadCommon(json, model, &api, &request));
  OUTRIDER_TRY(json["logprobs"].Read(&request.logprobs));
  api.logprobs = request.logprobs;
  OUTRIDER_TRY(ReadBestOf(json, &api, &request));
  bool echo = false;
  OUTRIDER_TRY(ReadEcho(json, &api, &request, &echo));
  OUTRIDER_TRY(ValidateOptions(request, model.limits));  // before it is copied for each prompt
  if (json["prompt"].is_null()) return InvalidArgument("prompt: is missing");
  OUTRIDER_ASSIGN(const PromptTextOptions text, PromptTextOf(json));
  auto prompts = PromptsOf(json["prompt"], text, model);
  if (!prompts.ok()) return prompts.status().Annotate("prompt");
  OUTRIDER_TRY(CheckChoices(api, prompts->size(), model.limits));
  for (std::vector<TokenId>& ids : *prompts) {
    api.prompts.push_back(request);
    api.prompts.back().prompt = std::move(ids);
    OUTRIDER_TRY(Validate(api.prompts.back(), model.limits));
  }
  OUTRIDER_TRY(CheckAnswer(api, model.limits));
  if (echo) OUTRIDER_TRY(AddEchoes(json["prompt"], text, model, &api));
  OUTRIDER_TRY(CompileGrammars(model, &api));
  return api;
}

Result<ApiRequest> ParseChat(std::string_view body, const ApiModel& model) {
  OUTRIDER_ASSIGN(const JsonValue json, ParseBody(body));
  ApiRequest api{.chat = true};
  GenerationRequest request = NewRequest(model.limits);
  OUTRIDER_TRY(ReadCommon(json, model, &api, &request));
  OUTRIDER_TRY(CheckChoices(api, 1, model.limits));
  OUTRIDER_TRY(ReadChatLogprobs(json, &request));
  api.logprobs = request.logprobs;
  OUTRIDER_ASSIGN(const std::vector<ChatMessage> messages, MessagesOf(json["messages"], model));
  OUTRIDER_ASSIGN(ChatOptions options, ChatOptionsOf(json, model));
  OUTRIDER_ASSIGN(const ToolFields tools, ToolFieldsOf(json, model));
  options.tools = tools.for_template;
  const auto text = model.chat_template.Render(messages, options);
  if (!text.ok()) return text.status().Annotate("messages");
  auto prompt = model.chat_template.EncodeRendered(*model.tokenizer, *text);
  if (!prompt.ok()) return prompt.status().Annotate("messages");
  request.prompt = std::move(prompt).value();
  OUTRIDER_TRY(BeginHarmonyContent(model, options, text->text(), &request));
  OUTRIDER_TRY(CheckPromptTokens(request.prompt.size(), model.limits).Annotate("messages"));
  OUTRIDER_TRY(
      ReadAnswerFormat(json, model, tools, *text, options.continue_final_message, &api, &request));
  OUTRIDER_TRY(ConstrainToCalls(tools, model, &api, &request));
  request.format_end_tokens = model.chat_template.EndTokens(*model.tokenizer);
  OUTRIDER_TRY(Validate(request, model.limits));
  api.prompts.push_back(std::move(request));
  BoundAnswer(model.limits, &api);
  OUTRIDER_TRY(CheckAnswer(api, model.limits));
  OUTRIDER_TRY(CompileGrammars(model, &api));
  return api;
}

GenerationRequest ChoiceOf(const GenerationRequest& prompt, int choice) {
  GenerationRequest request = prompt;
  if (choice > 0) request.prompt_logprobs.reset();  // the first choice reports them
  if (!request.seed.has_value() || choice == 0) return request;
  // Each choice has an output of its own of the generator that begins at the seed.
  request.seed = MixBits(*request.seed + kSplitMixStep * static_cast<uint64_t>(choice));
  return request;
}

}  // namespace outrider
