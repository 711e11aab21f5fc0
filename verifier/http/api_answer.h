// One answer in OpenAI's shapes: the body of a whole one, or the events of a stream.
//
// Thread: the owner of the request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/text/tokenizer.h"
#include "verifier/engine/sink.h"
#include "verifier/http/answer_logprobs.h"
#include "verifier/http/api_request.h"
#include "verifier/http/chat_message.h"

namespace outrider {

class ApiAnswer {
 public:
  // `id` counts requests; `created`: Unix seconds. The tokenizer must outlive it.
  ApiAnswer(const ApiRequest& request, const ApiModel& model, uint64_t id, int64_t created);

  // What choice `index` gained, and how it ended. In a stream they give the JSON of the events to
  // send now, none where there is nothing to tell.
  std::vector<std::string> Add(int index, Chunk chunk);
  std::vector<std::string> Finish(int index, const Summary& summary);
  // Whether every choice has ended; then Body is the whole answer, and UsageEvent the last event of
  // a stream that asked for it.
  bool complete() const { return open_ == 0; }
  std::string Body();
  std::string UsageEvent() const;

 private:
  struct Choice {
    std::string text;                          // of a completion
    std::optional<ChatMessageWriter> message;  // of a chat
    std::vector<AnswerToken> logprobs;         // of the text that is not told yet
    int tokens = 0;                            // so far
    double logprob_sum = 0;                    // of the tokens, where they have log probabilities
    int64_t offset = 0;                        // characters of the logprobs' tokens so far
    bool begun = false;
    Summary summary;
  };

  struct Prompt {
    std::string echo;
    std::vector<TokenId> tokens;  // where log probabilities are told of them
    std::vector<TokenLogprobs> logprobs;
  };

  static bool HasCalls(const Choice& choice);
  // Indices of the choices in a whole answer: of each prompt's, those that are kept.
  std::vector<size_t> Kept() const;
  nlohmann::ordered_json Head(const char* object) const;
  nlohmann::ordered_json Usage() const;
  // `metrics.speculative_decoding` of all choices, as vLLM's answers have it and AIPerf reads it;
  // nothing where no step had a draft.
  void AddMetrics(nlohmann::ordered_json& body) const;
  // What the chunk brings, with the prompt before the first one where it is echoed.
  void Take(Choice& choice, const Prompt& prompt, bool first, Chunk& chunk);
  // Of a prompt whose log probabilities are asked for.
  static std::vector<AnswerToken> TokensOf(const Prompt& prompt);
  nlohmann::ordered_json PromptOf(size_t choice) const;
  // Of the choice's tokens, which it takes out.
  nlohmann::ordered_json TakeLogprobs(Choice& choice) const;
  std::string Event(nlohmann::ordered_json choice) const;
  // The events of what a chat's choice says since the last ones, with its tokens' log
  // probabilities.
  void AddDeltas(int index, std::vector<std::string>& events);

  const bool chat_;
  const bool stream_;
  const bool include_usage_;
  const bool continuous_usage_;
  const std::optional<int> logprobs_, prompt_logprobs_;
  const bool echo_, echo_only_, skip_special_;
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
