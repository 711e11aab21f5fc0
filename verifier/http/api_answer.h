// One answer in OpenAI's format: the body of a whole one, or the events of a stream. Potentially
// large parts, a body or an echoed prompt, are produced piece by piece.
//
// Thread: the owner of the request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/text/tokenizer.h"
#include "verifier/engine/sink.h"
#include "verifier/http/answer_logprobs.h"
#include "verifier/http/api_request.h"
#include "verifier/http/chat_message.h"
#include "verifier/http/json_pieces.h"
#include "verifier/http/text_offsets.h"

namespace outrider {

class ApiAnswer {
 public:
  // Returns the JSON of the next event at each call; "" after the last.
  using EventSource = std::function<std::string()>;

  // `id` counts requests; `created`: Unix seconds. The tokenizer must outlive it.
  ApiAnswer(const ApiRequest& request, const ApiModel& model, uint64_t id, int64_t created);

  // Adds tokens to choice `index`, and ends it. In a stream they return the JSON of the events to
  // send now, if any.
  std::vector<std::string> Add(int index, Chunk chunk);
  std::vector<std::string> Finish(int index, const Summary& summary);
  // In a stream, returns the events before the first that Add gives of a choice: the echoed prompt;
  // nullptr without an echo. This must outlive it.
  EventSource TakeEcho(int index);
  // Whether every choice has ended; then Body is the whole answer, and UsageEvent the last event of
  // a stream with usage.
  bool complete() const { return open_ == 0; }
  // This must outlive it.
  JsonPieces Body();
  std::string UsageEvent() const;

 private:
  struct Choice {
    std::string text;                          // of a completion
    std::optional<ChatMessageWriter> message;  // of a chat
    // Its tokens, if their log probabilities are reported; in a stream those not reported yet.
    std::vector<TokenId> ids;
    std::vector<TokenLogprobs> logprobs;
    std::optional<TextOffsets> offsets;  // of its tokens
    // By token, the characters of the text up to its end. Kept until content begins, if the
    // reasoning before it is dropped.
    std::vector<int64_t> ends;
    bool has_content = true;  // its tokens may be reported
    int tokens = 0;           // so far
    double logprob_sum = 0;   // over the tokens, if they have log probabilities
    bool begun = false;
    bool has_echo = false;  // still to be sent
    Summary summary;
  };

  struct Prompt {
    PromptEcho echo;
    std::vector<TokenId> tokens;  // if their log probabilities are reported
    std::vector<TokenLogprobs> logprobs;

    AnswerToken at(size_t i) const {
      return {tokens[i], i > 0 && i <= logprobs.size() ? &logprobs[i - 1] : nullptr};
    }
  };
  // The next part of an echo that is sent in parts.
  struct EchoPart;

  static const char* ReasonName(const Choice& choice);
  const Prompt& PromptOf(size_t choice) const { return prompts_[choice / generated_]; }
  // Indices of the choices in a whole answer: the kept ones of each prompt.
  std::vector<size_t> Kept() const;
  nlohmann::ordered_json Head(const char* object) const;
  nlohmann::ordered_json Usage() const;
  // Adds `metrics.speculative_decoding` of all choices, in vLLM's format, which AIPerf reads;
  // nothing if no step had a draft.
  void AddMetrics(nlohmann::ordered_json& body) const;
  void Append(Choice& choice, Chunk& chunk);
  // Drops the tokens of its reasoning, if the request does not want it.
  void LeaveOutReasoning(Choice& choice) const;
  bool IsText(TokenId id) const;
  bool IsEchoed(const Prompt& prompt, size_t token) const;
  TextOffsets OffsetsAfter(const Prompt& prompt) const;
  // Takes the log probabilities of the choice's tokens out of it.
  nlohmann::ordered_json TakeLogprobs(Choice& choice);
  std::string Event(nlohmann::ordered_json choice) const;
  std::string NextEcho(int index, EchoPart& part) const;
  // Appends the events of a chat's choice since the last ones, with its tokens' log probabilities.
  void AddDeltas(int index, std::vector<std::string>& events);

  void AddChoice(size_t index, size_t choice, JsonPieces& body);
  void AddLogprobs(size_t choice, JsonPieces& body);
  void AddPromptLogprobs(const Prompt& prompt, JsonPieces& body) const;

  const bool chat_;
  const bool stream_;
  const bool include_usage_;
  const bool continuous_usage_;
  const bool include_reasoning_;
  const std::optional<int> logprobs_, prompt_logprobs_;
  const bool echo_, echo_only_, skip_special_;
  const std::vector<TokenId> shown_special_;
  const size_t generated_, kept_;  // choices of a prompt
  const std::string id_;
  const int64_t created_;
  const std::string model_;
  const Tokenizer* tokenizer_;
  int prompt_tokens_ = 0;
  int open_;
  std::vector<Prompt> prompts_;
  std::vector<Choice> choices_;
};

}  // namespace outrider
