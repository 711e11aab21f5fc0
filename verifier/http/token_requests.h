// The bodies of /tokenize and /detokenize, and their answers, in vLLM's format.
//
// Thread: any. Time proportional to the body, so they run on the text workers.
#pragma once

#include <string>
#include <string_view>

#include "common/base/status.h"
#include "verifier/http/api_request.h"

namespace outrider {

// The answer's JSON: a prompt's tokens, as in /v1/completions, or a chat's, as in
// /v1/chat/completions. Errors are those of ParseCompletion.
Result<std::string> Tokenize(std::string_view body, const ApiModel& model);

// The text of token ids, including special tokens. kInvalidArgument for ids that do not exist and
// for more than Tokenizer::kMaxTextBytes.
Result<std::string> Detokenize(std::string_view body, const ApiModel& model);

}  // namespace outrider
