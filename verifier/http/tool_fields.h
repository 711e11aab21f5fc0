// The fields of a chat's body about tools: what the model may call, and whether it must.
//
// Thread: any. Time: linear in the body.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/json/json.h"
#include "common/text/chat_template.h"
#include "verifier/chat/tool_grammar.h"
#include "verifier/http/api_request.h"

namespace outrider {

inline constexpr int kMaxTools = 128;               // OpenAI's limit
inline constexpr size_t kMaxToolNameBytes = 64;     // likewise
inline constexpr size_t kMaxToolBytes = 256 << 10;  // of all tools, as JSON
inline constexpr size_t kMaxMessageCalls = 128;     // of one assistant's message
inline constexpr size_t kMaxToolCallIdBytes = 256;
// The most values in the arguments of a request's messages, over all of them.
inline constexpr size_t kMaxArgumentValues = 1 << 16;

struct ToolChoice {
  enum class Kind { kNone, kAuto, kRequired, kNamed };
  Kind kind = Kind::kNone;
  std::string name;      // of kNamed
  bool parallel = true;  // an answer may hold more than one call

  bool constrains() const { return kind == Kind::kRequired || kind == Kind::kNamed; }
};

struct ToolFields {
  ToolChoice choice;
  // The tools for the chat template, in order. None if the choice is none, so that the model does
  // not know of them.
  jinja::Value for_template;
  // The tools that may be called: only the named one, if there is one; empty under kNone.
  std::vector<ToolDescription> callable;
};

// Reads `tools`, `tool_choice` and `parallel_tool_calls`.
Result<ToolFields> ToolFieldsOf(const JsonValue& body, const ApiModel& model);

// If calls are required or tools are strict, constrains the answer to a grammar of calls, from its
// first byte on, that `api`'s format can parse. kInvalidArgument: calls are required and the answer
// must follow another grammar, or tools are strict under kAuto and the model's calls have no marker
// that a grammar could recognise.
Status ConstrainToCalls(const ToolFields& fields, const ApiModel& model, ApiRequest* api,
                        GenerationRequest* request);

// `tool_calls` of an assistant's message. Their values are subtracted from `values_left`, of
// kMaxArgumentValues.
Result<std::vector<ChatToolCall>> ToolCallsOf(const JsonValue& calls, const ApiModel& model,
                                              size_t* values_left);

// The id of a call: `tool_call_id` of a tool's message, `id` of a call.
Status ReadToolCallId(const JsonValue& id, std::string* out);

}  // namespace outrider
