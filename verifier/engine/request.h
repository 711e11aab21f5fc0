// One generation as a client asks for it, in plain words: what remains of the wire once it is
// checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/types.h"
#include "common/spec/draft.h"
#include "common/spec/sampling_params.h"

namespace outrider {

struct SpeculationOptions {
  bool enabled = true;
  Rule rule = Rule::kBlock;
  int draft_length = 0;  // 0: the engine's choice
};

struct GenerationRequest {
  std::vector<TokenId> prompt;
  SamplingParams sampling;
  std::optional<int> max_tokens;
  std::vector<std::string> stop_strings;
  std::vector<TokenId> stop_tokens;
  bool ignore_eos = false;
  std::optional<uint64_t> seed;
  SpeculationOptions speculation;
  std::optional<Time> deadline;
};

// What the served model can take.
struct RequestLimits {
  int vocab_size = 0;        // ids below this exist
  int max_context = 0;       // prompt and output together
  int kv_tokens = 0;         // what the whole KV cache holds
  int max_draft_length = 0;  // longest draft that a client may ask for
  int max_stop_strings = 16;
  int max_stop_string_bytes = 1024;
};

// kInvalidArgument with the field named; a request that passes can be served by an idle engine.
Status Validate(const GenerationRequest& request, const RequestLimits& limits);

// The tokens that a valid request may produce at most.
int MaxNewTokens(const GenerationRequest& request, const RequestLimits& limits);

}  // namespace outrider
