#include "verifier/http/answer_schemas.h"

#include <nlohmann/json.hpp>

namespace outrider {
namespace {

constexpr char kSchemas[] = R"({
  "Error": {"type": "object", "required": ["error"], "properties": {
    "error": {"type": "object", "required": ["message", "type", "param", "code"], "properties": {
      "message": {"type": "string"},
      "type": {"type": "string"},
      "param": {"type": ["string", "null"]},
      "code": {"type": ["string", "null"]}}}}},
  "Ready": {"type": "object", "required": ["status"], "properties": {
    "status": {"const": "ready"}}},
  "Version": {"type": "object", "required": ["version"], "properties": {
    "version": {"type": "string"}}},
  "OpenApi": {"type": "object", "required": ["openapi", "info", "paths", "components"]},
  "Model": {"type": "object", "required": ["id", "object", "created", "owned_by", "max_model_len"],
    "properties": {
      "id": {"type": "string"},
      "object": {"const": "model"},
      "created": {"type": "integer"},
      "owned_by": {"type": "string"},
      "max_model_len": {"type": "integer", "minimum": 1}}},
  "Models": {"type": "object", "required": ["object", "data"], "properties": {
    "object": {"const": "list"},
    "data": {"type": "array", "items": {"$ref": "#/components/schemas/Model"}}}},
  "Tokens": {"type": "object", "required": ["count", "max_model_len", "tokens", "token_strs"],
    "properties": {
      "count": {"type": "integer", "minimum": 0},
      "max_model_len": {"type": "integer", "minimum": 1},
      "tokens": {"type": "array", "items": {"type": "integer", "minimum": 0}},
      "token_strs": {"type": ["array", "null"], "items": {"type": "string"}}}},
  "Text": {"type": "object", "required": ["prompt"], "properties": {
    "prompt": {"type": "string"}}},
  "Completion": {"type": "object",
    "required": ["id", "object", "created", "model", "choices", "usage"], "properties": {
      "id": {"type": "string"},
      "object": {"const": "text_completion"},
      "created": {"type": "integer"},
      "model": {"type": "string"},
      "choices": {"type": "array", "minItems": 1, "items": {"type": "object",
        "required": ["index", "text", "logprobs", "finish_reason", "speculation"], "properties": {
          "index": {"type": "integer", "minimum": 0},
          "text": {"type": "string"},
          "logprobs": {"$ref": "#/components/schemas/CompletionLogprobs"},
          "finish_reason": {"enum": ["stop", "length"]},
          "speculation": {"$ref": "#/components/schemas/Speculation"},
          "prompt_logprobs": {"$ref": "#/components/schemas/PromptLogprobs"}}}},
      "usage": {"$ref": "#/components/schemas/Usage"},
      "metrics": {"$ref": "#/components/schemas/Metrics"}}},
  "ChatCompletion": {"type": "object",
    "required": ["id", "object", "created", "model", "choices", "usage"], "properties": {
      "id": {"type": "string"},
      "object": {"const": "chat.completion"},
      "created": {"type": "integer"},
      "model": {"type": "string"},
      "choices": {"type": "array", "minItems": 1, "items": {"type": "object",
        "required": ["index", "message", "logprobs", "finish_reason", "speculation"],
        "properties": {
          "index": {"type": "integer", "minimum": 0},
          "message": {"$ref": "#/components/schemas/AnswerMessage"},
          "logprobs": {"$ref": "#/components/schemas/ChatLogprobs"},
          "finish_reason": {"enum": ["stop", "length", "tool_calls"]},
          "speculation": {"$ref": "#/components/schemas/Speculation"}}}},
      "usage": {"$ref": "#/components/schemas/Usage"},
      "prompt_logprobs": {"$ref": "#/components/schemas/PromptLogprobs"},
      "metrics": {"$ref": "#/components/schemas/Metrics"}}},
  "AnswerMessage": {"type": "object", "required": ["role", "content", "refusal"], "properties": {
    "role": {"const": "assistant"},
    "content": {"type": ["string", "null"]},
    "refusal": {"type": "null"},
    "reasoning_content": {"type": "string"},
    "reasoning": {"type": "string"},
    "tool_calls": {"type": "array", "minItems": 1, "items": {"type": "object",
      "required": ["id", "type", "function"], "properties": {
        "id": {"type": "string"},
        "type": {"const": "function"},
        "function": {"type": "object", "required": ["name", "arguments"], "properties": {
          "name": {"type": "string"},
          "arguments": {"type": "string"}}}}}}}},
  "CompletionLogprobs": {"type": ["object", "null"],
    "required": ["tokens", "token_logprobs", "top_logprobs", "text_offset"], "properties": {
      "tokens": {"type": "array", "items": {"type": "string"}},
      "token_logprobs": {"type": "array", "items": {"type": ["number", "null"]}},
      "top_logprobs": {"type": "array", "items": {
        "type": ["object", "null"], "additionalProperties": {"type": "number"}}},
      "text_offset": {"type": "array", "items": {"type": "integer", "minimum": 0}}}},
  "ChatLogprobs": {"type": ["object", "null"], "required": ["content", "refusal"], "properties": {
    "content": {"type": "array", "items": {"type": "object",
      "required": ["token", "logprob", "bytes", "top_logprobs"], "properties": {
        "token": {"type": "string"},
        "logprob": {"type": "number"},
        "bytes": {"$ref": "#/components/schemas/Bytes"},
        "top_logprobs": {"type": "array", "items": {"type": "object",
          "required": ["token", "logprob", "bytes"], "properties": {
            "token": {"type": "string"},
            "logprob": {"type": "number"},
            "bytes": {"$ref": "#/components/schemas/Bytes"}}}}}}},
    "refusal": {"type": "null"}}},
  "Bytes": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 255}},
  "PromptLogprobs": {"type": "array", "items": {"type": ["object", "null"],
    "additionalProperties": {"type": "object", "required": ["logprob", "rank", "decoded_token"],
      "properties": {
        "logprob": {"type": "number"},
        "rank": {"type": "integer", "minimum": 1},
        "decoded_token": {"type": "string"}}}}},
  "Usage": {"type": "object", "required": ["prompt_tokens", "completion_tokens", "total_tokens",
      "prompt_tokens_details", "completion_tokens_details"], "properties": {
    "prompt_tokens": {"type": "integer", "minimum": 0},
    "completion_tokens": {"type": "integer", "minimum": 0},
    "total_tokens": {"type": "integer", "minimum": 0},
    "prompt_tokens_details": {"type": "object", "required": ["cached_tokens"], "properties": {
      "cached_tokens": {"type": "integer", "minimum": 0}}},
    "completion_tokens_details": {"type": "object",
      "required": ["accepted_prediction_tokens", "rejected_prediction_tokens"], "properties": {
        "accepted_prediction_tokens": {"type": "integer", "minimum": 0},
        "rejected_prediction_tokens": {"type": "integer", "minimum": 0}}}}},
  "Metrics": {"type": "object", "required": ["speculative_decoding"], "properties": {
    "speculative_decoding": {"type": "object", "required": ["mean_acceptance_length",
        "draft_acceptance_rate", "acceptance_histogram", "num_spec_steps",
        "num_accepted_draft_tokens", "num_draft_tokens", "num_spec_tokens"], "properties": {
      "mean_acceptance_length": {"type": "number", "minimum": 1},
      "draft_acceptance_rate": {"type": "number", "minimum": 0, "maximum": 1},
      "acceptance_histogram": {"type": "array", "items": {"type": "integer", "minimum": 0}},
      "num_spec_steps": {"type": "integer", "minimum": 1},
      "num_accepted_draft_tokens": {"type": "integer", "minimum": 0},
      "num_draft_tokens": {"type": "integer", "minimum": 1},
      "num_spec_tokens": {"type": "integer", "minimum": 0}}}}},
  "Speculation": {"type": "object", "required": ["rounds", "drafted_rounds", "drafted", "accepted",
      "accepted_per_position", "forced", "drafter", "arms", "arm_switches", "seed"],
    "properties": {
      "rounds": {"type": "integer", "minimum": 0},
      "drafted_rounds": {"type": "integer", "minimum": 0},
      "drafted": {"type": "integer", "minimum": 0},
      "accepted": {"type": "integer", "minimum": 0},
      "accepted_per_position": {"type": "array", "items": {"type": "integer", "minimum": 0}},
      "forced": {"type": "integer", "minimum": 0},
      "drafter": {"type": ["string", "null"]},
      "arms": {"type": "object", "additionalProperties": {"type": "integer", "minimum": 1}},
      "arm_switches": {"type": "integer", "minimum": 0},
      "seed": {"type": "integer", "minimum": 0}}}
})";

}  // namespace

Json AnswerSchemas() { return Json::parse(kSchemas); }

const char* AnswerSchemaOf(RouteKind kind) {
  switch (kind) {
    case RouteKind::kCompletions: return "Completion";
    case RouteKind::kChat: return "ChatCompletion";
    case RouteKind::kModels: return "Models";
    case RouteKind::kModel: return "Model";
    case RouteKind::kTokenize: return "Tokens";
    case RouteKind::kDetokenize: return "Text";
    case RouteKind::kServerVersion: return "Version";
    case RouteKind::kOpenApi: return "OpenApi";
    case RouteKind::kHealth: return "Ready";
    case RouteKind::kMetrics: break;  // text
  }
  return "";
}

}  // namespace outrider
