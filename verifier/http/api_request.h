// The bodies of OpenAI's completions and chat completions as generations for the engine. Fields
// that are not known are ignored, as clients of that API send many; types are checked here, values
// by the same Validate that gRPC's requests pass.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/text/chat_template.h"
#include "common/text/tokenizer.h"
#include "verifier/engine/request.h"

namespace outrider {

// Prompts of a request times its choices for each, at most: OpenAI's limit of `n`.
inline constexpr int kMaxChoices = 128;

// What requests are read against; fixed for a server's life.
struct ApiModel {
  std::string name;  // the only one that `model` may name
  const Tokenizer* tokenizer = nullptr;
  ChatTemplate chat_template;
  RequestLimits limits;
};

struct ApiRequest {
  bool chat = false;
  // Valid; a chat has one. Without client and deadline, which the caller adds.
  std::vector<GenerationRequest> prompts;
  int choices = 1;  // of each prompt
  bool stream = false;
  bool include_usage = false;  // in a stream: a last event with the usage
};

// kInvalidArgument or kFailedPrecondition "<field>: ..." (or "<field> is ..."), kNotFound for
// another model.
Result<ApiRequest> ParseCompletion(std::string_view body, const ApiModel& model);
Result<ApiRequest> ParseChat(std::string_view body, const ApiModel& model);

// What a prompt's choice is generated from: the first as the request says, the others with seeds
// derived from its seed.
GenerationRequest ChoiceOf(const GenerationRequest& prompt, int choice);

}  // namespace outrider
