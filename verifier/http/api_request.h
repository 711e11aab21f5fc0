// The bodies of OpenAI's completions and chat completions as generations for the engine. Which
// fields there are is checked by request_fields.h; types and sizes are checked here, before any
// work in proportion to them, and values by the same Validate that gRPC's requests pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/text/chat_template.h"
#include "common/text/tokenizer.h"
#include "verifier/chat/answer_reader.h"
#include "verifier/engine/request.h"

namespace outrider {

// Prompts of a request times its choices for each, at most: OpenAI's limit of `n`.
inline constexpr int kMaxChoices = 128;
// Log probabilities of an answer that is made as a whole, some 70 bytes each: a request of 200
// bytes could ask for gigabytes.
inline constexpr int64_t kMaxAnswerLogprobs = 1 << 18;
// Prompts that an answer repeats, over all choices.
inline constexpr size_t kMaxEchoBytes = 16 << 20;

// What requests are read against; fixed for a server's life.
struct ApiModel {
  std::string name;  // the only one that `model` may name
  const Tokenizer* tokenizer = nullptr;
  ChatTemplate chat_template;
  AnswerFormat answer_format = {};  // of chats
  RequestLimits limits;
  grammar::GrammarCache* grammars = nullptr;  // of structured output; outlives the server
  bool ignore_unknown = false;                // as CheckFields
};

// A prompt's text, which its answers begin with.
struct PromptEcho {
  std::string text;
  // Which of the prompt's tokens spell it: not the first ones, which the tokenizer put before a
  // text, and not special tokens where these are skipped.
  size_t prefix = 0;
  bool skip_special = false;
};

struct ApiRequest {
  bool chat = false;
  // Valid; a chat has one. Without client and deadline, which the caller adds.
  std::vector<GenerationRequest> prompts;
  int choices = 1;  // of each prompt
  int kept = 1;     // of these in the answer: the likeliest by their mean log probability
  // What the answer tells of log probabilities: alternatives of an output token (echo: of the
  // prompt's too), and of a prompt's where it tells these by themselves. The engine may have been
  // asked for more.
  std::optional<int> logprobs;
  std::optional<int> prompt_logprobs;
  // By prompt; empty: no echo.
  std::vector<PromptEcho> echoes;
  std::string grammar_field;  // that asks for the prompts' grammar; "" without one
  AnswerReading reading;      // of a chat
  bool echo_only = false;     // what is generated, one token, is no part of the answer
  bool stream = false;
  bool include_usage = false;     // in a stream: a last event with the usage
  bool continuous_usage = false;  // in a stream: every event with the usage so far
};

// kInvalidArgument or kFailedPrecondition "<field>: ..." (or "<field> is ..."), kOutOfRange for
// what the context has no room for, kNotFound for another model.
// Time and memory: linear in the body, see ParseBody.
Result<ApiRequest> ParseCompletion(std::string_view body, const ApiModel& model);
Result<ApiRequest> ParseChat(std::string_view body, const ApiModel& model);

// What a prompt's choice is generated from: the first as the request says, the others with seeds
// derived from its seed and without the prompt's log probabilities.
GenerationRequest ChoiceOf(const GenerationRequest& prompt, int choice);

}  // namespace outrider
