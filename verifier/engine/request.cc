#include "verifier/engine/request.h"

#include <algorithm>

namespace outrider {
namespace {

Status CheckToken(TokenId token, int vocab_size, const std::string& field) {
  if (token >= 0 && token < vocab_size) return Status();
  return InvalidArgument(field + ": token id " + std::to_string(token) +
                         " is not in the vocabulary of " + std::to_string(vocab_size));
}

Status CheckLength(const GenerationRequest& request, const RequestLimits& limits) {
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  if (prompt == 0) return InvalidArgument("prompt: is empty");
  if (prompt >= limits.max_context) {
    return InvalidArgument("prompt: " + std::to_string(prompt) +
                           " tokens leave no room in the context of " +
                           std::to_string(limits.max_context));
  }
  if (request.max_tokens.has_value()) {
    if (*request.max_tokens < 1) return InvalidArgument("stop.max_tokens: must be 1 or more");
    if (prompt + *request.max_tokens > limits.max_context) {
      return InvalidArgument("stop.max_tokens: " + std::to_string(*request.max_tokens) +
                             " behind a prompt of " + std::to_string(prompt) +
                             " tokens is too long for the context of " +
                             std::to_string(limits.max_context));
    }
  }
  const int64_t needed = prompt + MaxNewTokens(request, limits);
  if (needed > limits.kv_tokens) {
    return InvalidArgument("stop.max_tokens: prompt and output need " + std::to_string(needed) +
                           " tokens of KV cache, this server holds " +
                           std::to_string(limits.kv_tokens) +
                           "; ask for fewer or start it with a larger --kv-tokens");
  }
  return Status();
}

}  // namespace

Status Validate(const GenerationRequest& request, const RequestLimits& limits) {
  OUTRIDER_TRY(CheckLength(request, limits));
  for (const TokenId token : request.prompt) {
    OUTRIDER_TRY(CheckToken(token, limits.vocab_size, "prompt"));
  }
  OUTRIDER_TRY(Validate(request.sampling, limits.vocab_size));
  for (const TokenId token : request.stop_tokens) {
    OUTRIDER_TRY(CheckToken(token, limits.vocab_size, "stop.stop_token_ids"));
  }
  if (static_cast<int>(request.stop_strings.size()) > limits.max_stop_strings) {
    return InvalidArgument("stop.stop_strings: " + std::to_string(request.stop_strings.size()) +
                           ", at most " + std::to_string(limits.max_stop_strings));
  }
  for (const std::string& stop : request.stop_strings) {
    if (stop.empty()) return InvalidArgument("stop.stop_strings: an empty string");
    if (static_cast<int>(stop.size()) > limits.max_stop_string_bytes) {
      return InvalidArgument("stop.stop_strings: a string of " + std::to_string(stop.size()) +
                             " bytes, at most " + std::to_string(limits.max_stop_string_bytes));
    }
  }
  if (request.speculation.draft_length < 0 ||
      request.speculation.draft_length > limits.max_draft_length) {
    return InvalidArgument(
        "speculation.draft_length: " + std::to_string(request.speculation.draft_length) +
        ", at most " + std::to_string(limits.max_draft_length));
  }
  return Status();
}

int MaxNewTokens(const GenerationRequest& request, const RequestLimits& limits) {
  const int room = limits.max_context - static_cast<int>(request.prompt.size());
  return std::min(room, request.max_tokens.value_or(room));
}

}  // namespace outrider
