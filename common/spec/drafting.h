// What a verifier and a drafter tell each other of a session's rounds, on both sides of the wire
// and without one: proto/outrider/v1/drafting.proto as plain structs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/types.h"
#include "common/spec/draft.h"
#include "common/spec/draft_tree.h"
#include "common/spec/sampling_params.h"
#include "common/spec/stop_rule.h"

namespace outrider {

// What a round is to draft, after the tokens known so far. A drafter may draft less deep.
struct DraftPlan {
  uint32_t round = 0;  // rises with every plan of a session; the draft names it
  DraftShape shape;    // of length 0: nothing; the session is kept
  StopRule stop = {};  // which paths end before their full length
};

// A session and its first plan. It replaces what a drafter holds under the same id.
struct SessionOpening {
  uint64_t session = 0;
  std::vector<TokenId> tokens;  // prompt and output so far
  int prompt_tokens = 0;        // of them, the prompt's
  SamplingParams sampling = {};
  uint64_t seed = 0;
  DraftKind kind = DraftKind::kSampled;
  DraftPlan plan = {};
  std::string traceparent = {};  // the request's W3C trace context; "": it has none
};

// A draft, or the next part of one. Without tokens: the drafter cannot serve the session and does
// not hold it.
struct DraftPart {
  uint64_t session = 0;
  uint32_t round = 0;  // of the plan that it answers
  DraftChunk chunk;
  double seconds = 0;  // from the plan's arrival at the drafter to this part, by its clock
};

// How the round of the last plan ended, and the next plan.
struct SessionVerdict {
  uint64_t session = 0;
  uint32_t round = 0;              // of the last plan
  int node = 0;                    // of its draft: the path to it was accepted
  std::vector<TokenId> next = {};  // the tokens that follow that path
  DraftPlan plan = {};
  // [<= nodes] of that draft, from node 1 on: its probability of being accepted after its parent,
  // min(1, p / q), times 255. For StopRule::Kind::kHead.
  std::string acceptance = {};
};

}  // namespace outrider
