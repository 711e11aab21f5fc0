// Converts the bodies of OpenAI's completions and chat completions to generations for the engine.
// request_fields.h checks which fields exist; types and sizes are checked here, before any work
// proportional to them, and values by the same Validate as gRPC's requests.
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

// The most prompts of a request times its choices for each: OpenAI's limit of `n`.
inline constexpr int kMaxChoices = 128;
// Log probabilities of an answer that is not a stream, some 70 bytes each: otherwise a request of
// 200 bytes could ask for gigabytes.
inline constexpr int64_t kMaxAnswerLogprobs = 1 << 18;
// Prompts that an answer repeats, over all choices.
inline constexpr size_t kMaxEchoBytes = 16 << 20;

// What requests are parsed against; constant for a server's lifetime.
struct ApiModel {
  std::string name;  // the only name that `model` may have
  const Tokenizer* tokenizer = nullptr;
  ChatTemplate chat_template;
  AnswerFormat answer_format = {};  // for chats
  RequestLimits limits;
  grammar::GrammarCache* grammars = nullptr;  // for structured output; outlives the server
  bool ignore_unknown = false;                // see CheckFields
};

// A prompt's text, with which its answers begin.
struct PromptEcho {
  std::string text;
  // Which of the prompt's tokens spell it: not the prefix that the tokenizer added, and not special
  // tokens if these are skipped.
  size_t prefix = 0;
  bool skip_special = false;
};

struct ApiRequest {
  bool chat = false;
  // Valid; a chat has one. The caller adds client and deadline.
  std::vector<GenerationRequest> prompts;
  int choices = 1;  // of each prompt
  int kept = 1;     // number in the answer: those with the highest mean log probability
  // The log probabilities in the answer: alternatives of an output token (with echo also of the
  // prompt's), and of a prompt's token if reported separately. The engine may have been asked for
  // more.
  std::optional<int> logprobs;
  std::optional<int> prompt_logprobs;
  // By prompt; empty without echo.
  std::vector<PromptEcho> echoes;
  std::string grammar_field;  // the field with the prompts' grammar; "" without one
  AnswerReading reading;      // for a chat
  bool echo_only = false;     // the one generated token is not part of the answer
  bool stream = false;
  bool include_usage = false;     // in a stream: a last event has the usage
  bool continuous_usage = false;  // in a stream: every event has the usage so far
};

// kInvalidArgument or kFailedPrecondition "<field>: ..." (or "<field> is ..."), kOutOfRange for
// what does not fit in the context, kNotFound for another model.
// Time and memory: linear in the body, see ParseBody.
Result<ApiRequest> ParseCompletion(std::string_view body, const ApiModel& model);
Result<ApiRequest> ParseChat(std::string_view body, const ApiModel& model);

// The request for one of a prompt's choices: the first is as requested, the others have seeds
// derived from its seed and no prompt log probabilities.
GenerationRequest ChoiceOf(const GenerationRequest& prompt, int choice);

}  // namespace outrider
