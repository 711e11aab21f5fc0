// How plans are chosen: one interface for every policy. A Policy is what sessions of one model pair
// and one client key share; a PolicySession is one generation's part of it.
//
// Thread: one (the engine's); no locks. Time comes in as numbers.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>

#include "verifier/control/arm.h"

namespace outrider {

inline constexpr double kUnknownSeconds = std::numeric_limits<double>::quiet_NaN();

// What is known of a proposer for this session before the round; NaN: not known.
struct StreamEstimate {
  double round_trip = kUnknownSeconds;   // seconds between verifier and drafter and back
  double draft_depth = kUnknownSeconds;  // seconds to draft one depth
  // Seconds for each token that a drafter has not followed, as it was not asked for drafts; NaN: 0.
  double catch_up_token = kUnknownSeconds;
  double early = 0;  // share of its drafts that no round waits for, [0, 1]
};

struct Context {
  // Arms that the request, the drafters present and the load allow now. `adaptive` takes plain
  // decoding as allowed always; if nothing is allowed, every policy decodes plainly.
  ArmMask allowed = ~ArmMask{0};
  double step_sessions = 1;  // load: how many sessions share a verifier's step, on average, >= 1
  double step_context = 0;   // tokens of KV that such a step reads
  int remaining = 0;         // most tokens that the request may still emit; 0: not known
  std::span<const StreamEstimate> streams = {};  // [<= proposers], by ArmSet::Facts::proposer
};

// A chosen plan. Give it back with its outcome.
struct Choice {
  int arm = 0;
  uint64_t ticket = 0;     // of the session, from 1
  double probability = 1;  // with which a randomised policy took it
  // Expected of the round and of a plain one in its place; 0 where a policy predicts nothing.
  double seconds = 0;
  double plain_seconds = 0;
  // The round's by the cost model, where all sessions of a step do the same, and what the others
  // have part in that.
  double modelled_seconds = 0;
  double others_seconds = 0;
  double tokens = 0;      // expected; 0 likewise
  double best_speed = 0;  // tokens a second, expected of the fastest arm; 0 likewise
  bool explores = false;  // taken to learn, not as the best known
};

// What became of a round.
struct Outcome {
  int accepted = 0;  // draft tokens that stand
  // Depths that were there to verify: fewer than planned when a deadline or a stop rule cut the
  // draft. -1: as planned.
  int drafted = -1;
  int emitted = 0;                   // tokens that the session gained, at most accepted + 1
  double seconds = kUnknownSeconds;  // from the plan's dispatch to its verdict
  bool truncated = false;            // ended by EOS, a stop string or max_tokens: does not teach
  bool aborted = false;              // no verdict at all: does not teach
};

class PolicySession {
 public:
  virtual ~PolicySession() = default;
  // The pull counts as pending until its Observe.
  virtual Choice Choose(const Context& context) = 0;
  // REQUIRES: once for each choice, in any order.
  virtual void Observe(const Choice& choice, const Outcome& outcome) = 0;
};

class Policy {
 public:
  virtual ~Policy() = default;
  // REQUIRES: the policy outlives its sessions.
  virtual std::unique_ptr<PolicySession> Open() = 0;
};

// The arms that may be chosen: plain decoding if that were none.
ArmMask AllowedArms(const ArmSet& arms, const Context& context);
// Whether a round may be learned from: complete, and with counts that can be.
bool Teaches(const ArmSet& arms, const Choice& choice, const Outcome& outcome);
// A time that can be learned from.
bool IsSeconds(double seconds);

}  // namespace outrider
