// Generates one text with a model pair without services in between: plain greedy decoding by the
// target, or speculation with all the work of both. The number of accepted draft tokens may be
// synthetic, as random weights agree on nothing.
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
  int draft = 0;  // tokens a round; 0: plain decoding, without a drafter
  // The chance of each draft token to stand (draft_coins.h). None: as the target's argmax has it.
  std::optional<double> acceptance;
};

struct PairFigures {
  double first_seconds = 0;   // prompts and each session's first round
  double seconds = 0;         // the rounds behind those
  int64_t tokens = 0;         // that came in `seconds`
  int64_t rounds = 0;         // of a session each, first ones included; so with the next two
  int64_t drafted = 0;        // draft tokens that the target has scored
  int64_t accepted = 0;       // of them
  int64_t bytes_to_host = 0;  // of both models
  std::vector<std::vector<TokenId>> texts;  // by session, without prompts
};

// What a model has to have room for in one forward pass, and in its cache.
int PairBatchTokens(const PairCase& c);
int PairKvTokens(const PairLoad& load, const PairCase& c);  // of a session

// Prompts are the same for every model and case. `drafter`: null for plain decoding. The models'
// errors, those of too small a cache for example; sequences are gone afterwards in any case.
Result<PairFigures> RunPair(Model* target, Model* drafter, const PairLoad& load, const PairCase& c);

}  // namespace outrider
