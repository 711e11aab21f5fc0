#include "verifier/http/request_fields.h"

#include <algorithm>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/spec/stop_rule.h"
#include "verifier/engine/logprobs.h"
#include "verifier/http/api_request.h"

namespace outrider {
namespace {

using Use = FieldUse;

struct Field {
  std::string_view name;
  Use use = Use::kServed;
  // A JSON array of the values without effect; null always is one.
  const char* neutral = "[]";
  const char* why = "";
  ServedField served = {};
};

constexpr Field Served(std::string_view name, std::string_view type, FieldRange range = {}) {
  return {.name = name, .served = {.name = name, .type = type, .range = range}};
}
constexpr Field Required(Field field) {
  field.served.is_required = true;
  return field;
}
constexpr Field Word(std::string_view name, std::string_view words) {
  return {.name = name, .served = {.name = name, .type = "string", .words = words}};
}
constexpr Field WithItems(std::string_view items, Field field) {
  field.served.items = items;
  return field;
}
constexpr Field WithMembers(FieldsOf members, Field field) {
  field.served.members = members;
  return field;
}

// Numbers are read into floats of 32 bits, integers into integers of 32 bits.
constexpr double kAnyFloat = std::numeric_limits<float>::max();
constexpr FieldRange kAnyInt = {std::numeric_limits<int>::min(), std::numeric_limits<int>::max()};
constexpr FieldRange AtLeast(int low) { return {static_cast<double>(low), kAnyInt.high}; }
constexpr FieldRange kProbability = {0, 1};
constexpr FieldRange kPenalty = {-2, 2};
constexpr FieldRange kChoices = {1, kMaxChoices};
constexpr FieldRange kAlternatives = {0, kMaxTopLogprobs};
// Any 64-bit integer, signed or unsigned.
constexpr FieldRange kSeed = {-0x1p63, 0x1.fffffffffffffp63};

constexpr Field kShared[] = {
    Served("model", "string"),
    Served("min_tokens", "integer", AtLeast(0)),
    Served("temperature", "number", {.low = 0, .high = kAnyFloat}),
    Served("top_p", "number", {.low = 0, .high = 1, .excludes_low = true}),
    Served("top_k", "integer", AtLeast(-1)),
    Served("min_p", "number", kProbability),
    Served("repetition_penalty", "number", {.low = 0, .high = kAnyFloat, .excludes_low = true}),
    Served("presence_penalty", "number", kPenalty),
    Served("frequency_penalty", "number", kPenalty),
    WithItems("number", Served("logit_bias", "object", {-100, 100})),
    Served("prompt_logprobs", "integer", kAlternatives),
    Served("seed", "integer", kSeed),
    WithItems("string", Served("stop", "string|array")),
    WithItems("integer", Served("stop_token_ids", "array", AtLeast(0))),
    Served("ignore_eos", "boolean"),
    WithItems("string", Served("bad_words", "string|array")),
    WithItems("integer", Served("allowed_token_ids", "array", AtLeast(0))),
    Served("skip_special_tokens", "boolean"),
    Served("include_stop_str_in_output", "boolean"),
    Served("response_format", "object"),
    Served("structured_outputs", "object"),
    Served("guided_json", "string|object"),
    Served("guided_regex", "string"),
    WithItems("string", Served("guided_choice", "array")),
    Served("guided_grammar", "string"),
    Served("n", "integer", kChoices),
    Served("stream", "boolean"),
    WithMembers(FieldsOf::kStreamOptions, Served("stream_options", "object")),
    WithMembers(FieldsOf::kSpeculation, Served("speculation", "object")),
    // OpenAI's fields for accounting, storage, placement, caching and predicted outputs.
    {"user", Use::kIgnored},
    {"metadata", Use::kIgnored},
    {"store", Use::kIgnored},
    {"service_tier", Use::kIgnored},
    {"safety_identifier", Use::kIgnored},
    {"prompt_cache_key", Use::kIgnored},
    {"prompt_cache_retention", Use::kIgnored},
    {"prediction", Use::kIgnored},  // a draft: it affects the speed, not the text
    {"request_id", Use::kIgnored},  // vLLM's; here it is a header
    {"spaces_between_special_tokens", Use::kIgnored},  // nothing is inserted between tokens
    {"suffix", Use::kRefused, R"([""])", ": text is continued, never filled in"},
    {"functions", Use::kRefused, "[[]]"},
    {"function_call", Use::kRefused, R"(["none", "auto"])"},
    {"modalities", Use::kNotServed, R"([["text"]])"},
    {"audio", Use::kNotServed},
    {"web_search_options", Use::kNotServed},
    {"reasoning_effort", Use::kNotServed},
    {"verbosity", Use::kNotServed, R"(["medium"])"},
    {"guided_decoding_backend", Use::kNotServed},
    {"guided_whitespace_pattern", Use::kNotServed},
    {"grammar", Use::kNotServed, R"([""])", ": structured_outputs takes it"},
    {"json_schema", Use::kNotServed, "[]", ": structured_outputs takes it"},
    {"use_beam_search", Use::kNotServed, "[false]"},
    {"length_penalty", Use::kNotServed, "[1]"},
    {"early_stopping", Use::kNotServed, "[false]"},
    {"truncate_prompt_tokens", Use::kNotServed},
    {"logits_processors", Use::kNotServed, "[[]]"},
    {"return_tokens_as_token_ids", Use::kNotServed, "[false]"},
    {"return_token_ids", Use::kNotServed, "[false]"},
    {"priority", Use::kNotServed, "[0]"},
    {"cache_salt", Use::kNotServed},
};
constexpr Field kCompletion[] = {
    Required(WithItems("integer|string|array", Served("prompt", "string|array", AtLeast(0)))),
    Served("max_tokens", "integer", AtLeast(0)),  // 0 with echo
    Served("max_completion_tokens", "integer", AtLeast(0)),
    Served("logprobs", "integer", kAlternatives),
    Served("best_of", "integer", kChoices),
    Served("echo", "boolean"),
    Served("add_special_tokens", "boolean"),
    Served("parse_special", "boolean"),
    {"tools", Use::kRefused, "[[]]", ": chats have tools"},
    {"tool_choice", Use::kRefused, R"(["none", "auto"])", ": chats have tools"},
    {"parallel_tool_calls", Use::kIgnored},  // there are no tools
    {"include_reasoning", Use::kNotServed, "[true]", ": chats have reasoning"},
};
constexpr Field kChat[] = {
    Required(WithMembers(FieldsOf::kMessage, Served("messages", "array"))),
    Served("max_tokens", "integer", AtLeast(1)),
    Served("max_completion_tokens", "integer", AtLeast(1)),
    Served("logprobs", "boolean"),
    Served("top_logprobs", "integer", kAlternatives),
    {"echo", Use::kRefused, "[false]", ": continue_final_message goes on with a message"},
    // Only the chat template adds special tokens.
    {"add_special_tokens", Use::kNotServed, "[false]"},
    Served("add_generation_prompt", "boolean"),
    Served("continue_final_message", "boolean"),
    Served("chat_template_kwargs", "object"),
    WithMembers(FieldsOf::kTool, Served("tools", "array")),
    WithMembers(FieldsOf::kToolChoice, Served("tool_choice", "string|object")),
    Served("parallel_tool_calls", "boolean"),
    Served("include_reasoning", "boolean"),
    {"chat_template", Use::kNotServed, "[]", ": the server's --chat-template chooses one"},
    {"documents", Use::kNotServed, "[[]]", ": chat_template_kwargs takes them"},
    {"mm_processor_kwargs", Use::kNotServed, "[{}]"},
};
constexpr Field kTokenize[] = {
    Served("model", "string"),
    Required(Served("prompt", "string")),
    Served("add_special_tokens", "boolean"),
    Served("parse_special", "boolean"),
    Served("return_token_strs", "boolean"),
};
constexpr Field kTokenizeChat[] = {
    Served("model", "string"),
    Required(WithMembers(FieldsOf::kMessage, Served("messages", "array"))),
    Served("add_generation_prompt", "boolean"),
    Served("continue_final_message", "boolean"),
    Served("chat_template_kwargs", "object"),
    Served("return_token_strs", "boolean"),
    {"add_special_tokens", Use::kNotServed, "[false]"},
    {"chat_template", Use::kNotServed, "[]", ": the server's --chat-template chooses one"},
    WithMembers(FieldsOf::kTool, Served("tools", "array")),
};
constexpr Field kDetokenize[] = {
    Served("model", "string"),
    Required(WithItems("integer", Served("tokens", "array", AtLeast(0))))};
constexpr Field kStreamOptions[] = {
    Served("include_usage", "boolean"),
    Served("continuous_usage_stats", "boolean"),
    {"include_obfuscation", Use::kIgnored},  // padding: --pad-responses is the server's
};
constexpr Field kMessage[] = {
    Required(Word("role", "system|developer|user|assistant|tool")),
    WithMembers(FieldsOf::kPart, Served("content", "string|array")),
    Served("name", "string"),
    WithMembers(FieldsOf::kToolCall, Served("tool_calls", "array")),
    Served("tool_call_id", "string"),
    Served("reasoning_content", "string"),
    Served("reasoning", "string"),
    {"type", Use::kIgnored},  // sent by lm-eval
    // In an assistant's message that the client sends back.
    {"refusal", Use::kNotServed, R"([""])"},
    {"annotations", Use::kNotServed, "[[]]"},
    {"function_call", Use::kNotServed},
    {"audio", Use::kNotServed},
};
constexpr Field kPart[] = {
    Word("type", "text"),
    Required(Served("text", "string")),
    {"cache_control", Use::kIgnored},  // Anthropic's, passed on by proxies
};
constexpr Field kSpeculation[] = {Word("mode", "auto|off"),
                                  Served("rule", "string"),
                                  Served("draft_length", "integer", AtLeast(0)),
                                  Served("paths", "integer", AtLeast(0)),
                                  WithItems("integer", Served("tree", "array", AtLeast(1))),
                                  WithMembers(FieldsOf::kStopRule, Served("stop", "object"))};

constexpr Field kStopRule[] = {
    Word("kind", "length|confidence|entropy|head"),
    Served("threshold", "number", {.low = 0, .high = kMaxEntropyThreshold})};

constexpr Field kTool[] = {
    Required(Word("type", "function")),
    Required(WithMembers(FieldsOf::kToolFunction, Served("function", "object")))};
constexpr Field kToolFunction[] = {
    Required(Served("name", "string")),
    Served("description", "string"),
    Served("parameters", "object"),
    Served("strict", "boolean"),
};
constexpr Field kToolChoice[] = {
    Required(Word("type", "function")),
    Required(WithMembers(FieldsOf::kToolChoiceFunction, Served("function", "object")))};
constexpr Field kToolChoiceFunction[] = {Required(Served("name", "string"))};
constexpr Field kToolCall[] = {
    Served("id", "string"),
    Word("type", "function"),
    Required(WithMembers(FieldsOf::kToolCallFunction, Served("function", "object"))),
    {"index", Use::kIgnored},  // of a streamed answer that the client sends back
};
constexpr Field kToolCallFunction[] = {Required(Served("name", "string")),
                                       Served("arguments", "string")};

struct FieldTable {
  const char* name;
  std::span<const Field> own;
  std::span<const Field> shared = {};
};

FieldTable TableOf(FieldsOf kind) {
  switch (kind) {
    case FieldsOf::kCompletion: return {"completions", kCompletion, kShared};
    case FieldsOf::kChat: return {"chat completions", kChat, kShared};
    case FieldsOf::kTokenize: return {"tokenize", kTokenize};
    case FieldsOf::kTokenizeChat: return {"tokenize", kTokenizeChat};
    case FieldsOf::kDetokenize: return {"detokenize", kDetokenize};
    case FieldsOf::kStreamOptions: return {"stream_options", kStreamOptions};
    case FieldsOf::kMessage: return {"messages", kMessage};
    case FieldsOf::kPart: return {"text parts", kPart};
    case FieldsOf::kSpeculation: return {"speculation", kSpeculation};
    case FieldsOf::kStopRule: return {"speculation.stop", kStopRule};
    case FieldsOf::kTool: return {"tools", kTool};
    case FieldsOf::kToolFunction: return {"functions of tools", kToolFunction};
    case FieldsOf::kToolChoice: return {"tool_choice", kToolChoice};
    case FieldsOf::kToolChoiceFunction: return {"tool_choice.function", kToolChoiceFunction};
    case FieldsOf::kToolCall: return {"tool_calls", kToolCall};
    case FieldsOf::kToolCallFunction: return {"functions of tool_calls", kToolCallFunction};
  }
  return {"", {}};
}

template <typename Visit>
void ForEachField(FieldsOf kind, Visit visit) {
  const FieldTable known = TableOf(kind);
  for (const std::span<const Field> fields : {known.own, known.shared}) {
    for (const Field& field : fields) visit(field);
  }
}

const Field* Find(std::span<const Field> fields, std::string_view name) {
  const auto found = std::find_if(fields.begin(), fields.end(),
                                  [&](const Field& field) { return field.name == name; });
  return found == fields.end() ? nullptr : &*found;
}

// Whether --http-ignore-unknown applies. A member of `speculation` that is not served is always an
// error: these fields are ours, so no other server's clients send them.
bool CanBeIgnored(FieldsOf kind) {
  return kind != FieldsOf::kSpeculation && kind != FieldsOf::kStopRule;
}

}  // namespace

std::vector<ServedField> ServedFields(FieldsOf kind) {
  std::vector<ServedField> served;
  ForEachField(kind, [&](const Field& field) {
    if (field.use == Use::kServed) served.push_back(field.served);
  });
  return served;
}

std::vector<std::string_view> FieldNames(FieldsOf kind, FieldUse use) {
  std::vector<std::string_view> names;
  ForEachField(kind, [&](const Field& field) {
    if (field.use == use) names.push_back(field.name);
  });
  return names;
}

Status CheckFields(FieldsOf kind, const JsonValue& object, bool ignore_unknown) {
  OUTRIDER_TRY(object.MustBeObject());
  const FieldTable known = TableOf(kind);
  return object.ForEachMember([&](const std::string& name, const JsonValue& value) {
    if (value.is_null()) return Status();
    const Field* field = Find(known.own, name);
    if (field == nullptr) field = Find(known.shared, name);
    if (field == nullptr) {
      if (ignore_unknown) return Status();
      return InvalidArgument(
          value.path() + " is not a field of " + known.name + " here; leave it out" +
          (CanBeIgnored(kind) ? ", or start the verifier with --http-ignore-unknown" : ""));
    }
    const bool refused =
        field->use == Use::kRefused || (field->use == Use::kNotServed && !ignore_unknown);
    if (!refused || value.IsOneOf(field->neutral)) return Status();
    return InvalidArgument(value.path() + " is " + value.Shown() + ", which is not served" +
                           field->why + "; leave it out");
  });
}

}  // namespace outrider
