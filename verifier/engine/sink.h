// Receives a generation's events. The rpc folder implements it over a stream, tests by recording.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "verifier/engine/logprobs.h"

namespace outrider {

// The tokens of one round.
struct Chunk {
  std::string text;  // whole characters only; may lag behind the ids
  std::vector<TokenId> tokens;
  int accepted = 0;  // how many of the first `tokens` are draft tokens
  int drafted = 0;
  int forced = 0;  // how many of the first `tokens` the grammar forced; then nothing was drafted
  // If requested: log probabilities of `tokens`; in the first chunk also of the prompt from its
  // second token on.
  std::vector<TokenLogprobs> logprobs;
  std::vector<TokenLogprobs> prompt_logprobs;
};

enum class FinishReason { kStop, kLength };

struct Summary {
  FinishReason reason = FinishReason::kStop;
  int prompt_tokens = 0;
  int cached_tokens = 0;  // prompt tokens found in the prefix cache
  int completion_tokens = 0;
  uint64_t seed = 0;
  int rounds = 0;
  int drafted_rounds = 0;
  int drafted_tokens = 0;
  int accepted_tokens = 0;
  int forced_tokens = 0;  // forced by the request's grammar
  std::vector<int> accepted_per_position;
  std::string drafter;  // the last one whose draft was scored; "" without one
  // If the controller chose: rounds by arm, without unused arms, and how often the arm changed.
  std::vector<std::pair<std::string, int>> arm_rounds;
  int arm_switches = 0;
  double queue_seconds = 0;
  double prefill_seconds = 0;
  double decode_seconds = 0;
};

// Calls come from the engine thread, also while a device computes a step's forward pass. They must
// neither block nor cancel a request at the engine. Either Finish or Fail ends it, exactly once.
class GenerationSink {
 public:
  virtual ~GenerationSink() = default;
  virtual void Send(Chunk chunk) = 0;
  virtual void Finish(const Summary& summary) = 0;
  virtual void Fail(const Status& status) = 0;
};

}  // namespace outrider
