// Generates one text with a model pair without the services: plain greedy decoding by the target,
// or speculation with all the work of both. The number of accepted draft tokens may be synthetic,
// since random weights agree on nothing.
//
// Thread: the models' owner.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/model/model.h"

namespace outrider {

struct PairLoad {
  int prompt_tokens = 512;
  int tokens = 128;  // of each session's text
  uint64_t seed = 1;
};

struct PairCase {
  int sessions = 1;
  int draft = 0;  // tokens per round; 0: plain decoding, without a drafter
  // The acceptance probability of each draft token (draft_coins.h). None: decided by the target's
  // argmax.
  std::optional<double> acceptance;
};

struct PairFigures {
  double first_seconds = 0;   // prompts and each session's first round
  double seconds = 0;         // the rounds after those
  int64_t tokens = 0;         // generated in `seconds`
  int64_t rounds = 0;         // summed over sessions, including first rounds, like the next two
  int64_t drafted = 0;        // draft tokens that the target has scored
  int64_t accepted = 0;       // of these
  int64_t bytes_to_host = 0;  // of both models
  std::vector<std::vector<TokenId>> texts;  // by session, without prompts
};

// The capacity that a model needs in one forward pass, and in its cache.
int PairBatchTokens(const PairCase& c);
int PairKvTokens(const PairLoad& load, const PairCase& c);  // per session

// Prompts are the same for every model and case. `drafter`: null for plain decoding. Errors are the
// models', for example of too small a cache; sequences are released in any case.
Result<PairFigures> RunPair(Model* target, Model* drafter, const PairLoad& load, const PairCase& c);

}  // namespace outrider
