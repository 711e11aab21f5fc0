// The bodies of /tokenize and /detokenize, and what they are answered with: vLLM's shapes.
//
// Thread: any. Time in proportion to the body: for the text workers.
#pragma once

#include <string>
#include <string_view>

#include "common/base/status.h"
#include "verifier/http/api_request.h"

namespace outrider {

// A prompt's tokens, as /v1/completions makes them, or a chat's, as /v1/chat/completions does; the
// answer's JSON. Errors as ParseCompletion has them.
Result<std::string> Tokenize(std::string_view body, const ApiModel& model);

// The text of token ids, special tokens included. kInvalidArgument for ids that do not exist and
// for more than Tokenizer::kMaxTextBytes.
Result<std::string> Detokenize(std::string_view body, const ApiModel& model);

}  // namespace outrider
