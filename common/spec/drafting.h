// What a verifier and a drafter tell each other of a session's rounds, on both sides of the wire
// and without one: proto/outrider/v1/drafting.proto as plain structs.
#pragma once

#include <cstdint>
#include <optional>
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

// Whether `plan` asks for what `last` asked for, one round later.
inline bool RepeatsPlan(const DraftPlan& plan, const DraftPlan& last) {
  return plan.round == last.round + 1 && plan.shape == last.shape && plan.stop == last.stop;
}

// How a round may end: the path to `node` of its draft is accepted and `next` follows.
struct RoundEnd {
  int32_t node = DraftTree::kRoot;
  TokenId next = -1;
  friend bool operator==(const RoundEnd&, const RoundEnd&) = default;
};

// Early drafts that a drafter may send for one round of a session.
inline constexpr int kMaxEarlyDrafts = 4;

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
  // Set: a whole draft, sent before the verdict on the round before `round`. It answers the plan of
  // `round` if that verdict turns out like this and the plan repeats the one before (RepeatsPlan);
  // the drafter sends it no second time then. Otherwise it is worth nothing.
  std::optional<RoundEnd> early = {};
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
