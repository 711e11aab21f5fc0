#include "verifier/http/request_fields.h"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace outrider {
namespace {

enum class Use {
  kServed,
  kIgnored,    // it cannot change the text
  kRefused,    // OpenAI's and not served; passes with a value that asks for nothing
  kNotServed,  // the same of vLLM's and others', and passes with --http-ignore-unknown
};

struct Field {
  std::string_view name;
  Use use = Use::kServed;
  // A JSON array of the values that ask for nothing; null always does.
  const char* neutral = "[]";
  const char* why = "";
  // Of a served one, JSON's types, with | between several; null is one of every field's.
  const char* type = "";
};

constexpr Field Served(std::string_view name, const char* type) {
  return {.name = name, .type = type};
}

constexpr Field kShared[] = {
    Served("model", "string"),
    Served("max_tokens", "integer"),
    Served("max_completion_tokens", "integer"),
    Served("min_tokens", "integer"),
    Served("temperature", "number"),
    Served("top_p", "number"),
    Served("top_k", "integer"),
    Served("min_p", "number"),
    Served("repetition_penalty", "number"),
    Served("presence_penalty", "number"),
    Served("frequency_penalty", "number"),
    Served("logit_bias", "object"),
    Served("logprobs", "integer|boolean"),
    Served("prompt_logprobs", "integer"),
    Served("seed", "integer"),
    Served("stop", "string|array"),
    Served("stop_token_ids", "array"),
    Served("ignore_eos", "boolean"),
    Served("bad_words", "string|array"),
    Served("allowed_token_ids", "array"),
    Served("skip_special_tokens", "boolean"),
    Served("include_stop_str_in_output", "boolean"),
    Served("response_format", "object"),
    Served("structured_outputs", "object"),
    Served("guided_json", "string|object"),
    Served("guided_regex", "string"),
    Served("guided_choice", "array"),
    Served("guided_grammar", "string"),
    Served("n", "integer"),
    Served("stream", "boolean"),
    Served("stream_options", "object"),
    Served("speculation", "object"),
    // OpenAI's: who asks, what is kept of it, where it runs and what may be cached or guessed.
    {"user", Use::kIgnored},
    {"metadata", Use::kIgnored},
    {"store", Use::kIgnored},
    {"service_tier", Use::kIgnored},
    {"safety_identifier", Use::kIgnored},
    {"prompt_cache_key", Use::kIgnored},
    {"prompt_cache_retention", Use::kIgnored},
    {"prediction", Use::kIgnored},  // a draft: it makes a text faster, not another one
    {"request_id", Use::kIgnored},  // vLLM's; here a header
    {"spaces_between_special_tokens", Use::kIgnored},  // nothing is put between tokens
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
    Served("prompt", "string|array"),
    Served("best_of", "integer"),
    Served("echo", "boolean"),
    Served("add_special_tokens", "boolean"),
    Served("parse_special", "boolean"),
    {"tools", Use::kRefused, "[[]]", ": chats have tools"},
    {"tool_choice", Use::kRefused, R"(["none", "auto"])", ": chats have tools"},
    {"parallel_tool_calls", Use::kIgnored},  // there are no tools
    {"include_reasoning", Use::kNotServed, "[true]", ": chats have reasoning"},
};
constexpr Field kChat[] = {
    Served("messages", "array"),
    Served("top_logprobs", "integer"),
    {"echo", Use::kRefused, "[false]", ": continue_final_message goes on with a message"},
    // What a chat template writes is all there is of special tokens.
    {"add_special_tokens", Use::kNotServed, "[false]"},
    Served("add_generation_prompt", "boolean"),
    Served("continue_final_message", "boolean"),
    Served("chat_template_kwargs", "object"),
    Served("tools", "array"),
    Served("tool_choice", "string|object"),
    Served("parallel_tool_calls", "boolean"),
    Served("include_reasoning", "boolean"),
    {"chat_template", Use::kNotServed, "[]", ": the server's --chat-template chooses one"},
    {"documents", Use::kNotServed, "[[]]", ": chat_template_kwargs takes them"},
    {"mm_processor_kwargs", Use::kNotServed, "[{}]"},
};
constexpr Field kTokenize[] = {
    Served("model", "string"),
    Served("prompt", "string"),
    Served("add_special_tokens", "boolean"),
    Served("parse_special", "boolean"),
    Served("return_token_strs", "boolean"),
};
constexpr Field kTokenizeChat[] = {
    Served("model", "string"),
    Served("messages", "array"),
    Served("add_generation_prompt", "boolean"),
    Served("continue_final_message", "boolean"),
    Served("chat_template_kwargs", "object"),
    Served("return_token_strs", "boolean"),
    {"add_special_tokens", Use::kNotServed, "[false]"},
    {"chat_template", Use::kNotServed, "[]", ": the server's --chat-template chooses one"},
    Served("tools", "array"),
};
constexpr Field kDetokenize[] = {Served("model", "string"), Served("tokens", "array")};
constexpr Field kStreamOptions[] = {
    Served("include_usage", "boolean"),
    Served("continuous_usage_stats", "boolean"),
    {"include_obfuscation", Use::kIgnored},  // padding: --pad-responses is the server's
};
constexpr Field kMessage[] = {
    Served("role", "string"),
    Served("content", "string|array"),
    Served("name", "string"),
    Served("tool_calls", "array"),
    Served("tool_call_id", "string"),
    Served("reasoning_content", "string"),
    Served("reasoning", "string"),
    {"type", Use::kIgnored},  // lm-eval's
    // Of an assistant's message that comes back as it was sent.
    {"refusal", Use::kNotServed, R"([""])"},
    {"annotations", Use::kNotServed, "[[]]"},
    {"function_call", Use::kNotServed},
    {"audio", Use::kNotServed},
};
constexpr Field kPart[] = {
    Served("type", "string"),
    Served("text", "string"),
    {"cache_control", Use::kIgnored},  // Anthropic's, which proxies pass on
};
constexpr Field kSpeculation[] = {
    Served("mode", "string"),   Served("rule", "string"), Served("draft_length", "integer"),
    Served("paths", "integer"), Served("tree", "array"),  Served("stop", "string|array")};

constexpr Field kStopRule[] = {Served("kind", "string"), Served("threshold", "number")};

constexpr Field kTool[] = {Served("type", "string"), Served("function", "object")};
constexpr Field kToolFunction[] = {
    Served("name", "string"),
    Served("description", "string"),
    Served("parameters", "object"),
    Served("strict", "boolean"),
};
constexpr Field kToolChoice[] = {Served("type", "string"), Served("function", "object")};
constexpr Field kToolChoiceFunction[] = {Served("name", "string")};
constexpr Field kToolCall[] = {
    Served("id", "string"),
    Served("type", "string"),
    Served("function", "object"),
    {"index", Use::kIgnored},  // of a streamed answer that comes back
};
constexpr Field kToolCallFunction[] = {Served("name", "string"), Served("arguments", "string")};

struct Kind {
  const char* name;
  std::span<const Field> own;
  std::span<const Field> shared = {};
};

Kind KindOf(FieldsOf kind) {
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

const Field* Find(std::span<const Field> fields, std::string_view name) {
  const auto found = std::find_if(fields.begin(), fields.end(),
                                  [&](const Field& field) { return field.name == name; });
  return found == fields.end() ? nullptr : &*found;
}

}  // namespace

std::vector<ServedField> ServedFields(FieldsOf kind) {
  std::vector<ServedField> served;
  const Kind known = KindOf(kind);
  for (const std::span<const Field> fields : {known.own, known.shared}) {
    for (const Field& field : fields) {
      if (field.use == Use::kServed) served.push_back({field.name, field.type});
    }
  }
  return served;
}

Status CheckFields(FieldsOf kind, const JsonValue& object, bool ignore_unknown) {
  OUTRIDER_TRY(object.MustBeObject());
  const Kind known = KindOf(kind);
  return object.ForEachMember([&](const std::string& name, const JsonValue& value) {
    if (value.is_null()) return Status();
    const Field* field = Find(known.own, name);
    if (field == nullptr) field = Find(known.shared, name);
    if (field == nullptr) {
      if (ignore_unknown) return Status();
      return InvalidArgument(value.path() + " is not a field of " + known.name +
                             " here; leave it out, or start the verifier with "
                             "--http-ignore-unknown");
    }
    const bool refused =
        field->use == Use::kRefused || (field->use == Use::kNotServed && !ignore_unknown);
    if (!refused || value.IsOneOf(field->neutral)) return Status();
    return InvalidArgument(value.path() + " is " + value.Shown() + ", which is not served" +
                           field->why + "; leave it out");
  });
}

}  // namespace outrider
