// The messages between a verifier and a drafter about a session's rounds, as plain structs
// (proto/outrider/v1/drafting.proto), used on both sides of the wire and without one.
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

// What to draft in a round, after the tokens known so far. A drafter may draft fewer depths.
struct DraftPlan {
  uint32_t round = 0;  // increases with every plan of a session; the draft names it
  DraftShape shape;    // length 0: no draft; the session is kept
  StopRule stop = {};  // which paths end before their full length
};

// Whether `plan` asks for the same as `last`, one round later.
inline bool RepeatsPlan(const DraftPlan& plan, const DraftPlan& last) {
  return plan.round == last.round + 1 && plan.shape == last.shape && plan.stop == last.stop;
}

// A possible end of a round: the path to `node` of its draft is accepted and `next` follows.
struct RoundEnd {
  int32_t node = DraftTree::kRoot;
  TokenId next = -1;
  friend bool operator==(const RoundEnd&, const RoundEnd&) = default;
};

// The most early drafts that a drafter may send for one round of a session.
inline constexpr int kMaxEarlyDrafts = 4;

// A session and its first plan. It replaces a session with the same id at the drafter.
struct SessionOpening {
  uint64_t session = 0;
  std::vector<TokenId> tokens;  // prompt and output so far
  int prompt_tokens = 0;        // length of the prompt within these
  SamplingParams sampling = {};
  uint64_t seed = 0;
  DraftKind kind = DraftKind::kSampled;
  DraftPlan plan = {};
  std::string traceparent = {};  // W3C trace context of the request; "": none
};

// A draft, or the next part of one. Without tokens: the drafter cannot serve the session and has
// dropped it.
struct DraftPart {
  uint64_t session = 0;
  uint32_t round = 0;  // of the plan that it answers
  DraftChunk chunk;
  double seconds = 0;  // from the plan's arrival at the drafter to this part, by its clock
  // If set, this is a whole draft, sent before the verdict on the previous round. It answers the
  // plan of `round` if that verdict is as stated here and the plan repeats the previous one
  // (RepeatsPlan); the drafter does not send it again then. Otherwise it is useless.
  std::optional<RoundEnd> early = {};
};

// The verdict on the last plan's round, and the next plan.
struct SessionVerdict {
  uint64_t session = 0;
  uint32_t round = 0;              // of the last plan
  int node = 0;                    // of its draft; the path to it was accepted
  std::vector<TokenId> next = {};  // the tokens that follow that path
  DraftPlan plan = {};
  // [<= nodes] of that draft, from node 1 on: the probability that the node is accepted after its
  // parent, min(1, p / q), times 255. For StopRule::Kind::kHead.
  std::string acceptance = {};
};

}  // namespace outrider
