// The interface of policies, which choose plans. A Policy is the state shared by sessions of one
// model pair and one client key; a PolicySession is that of one generation.
//
// Thread: one (the engine's); no locks. Callers pass times as numbers.
#pragma once

#include <limits>
#include <memory>
#include <span>

#include "verifier/control/arm.h"

namespace outrider {

inline constexpr double kUnknownSeconds = std::numeric_limits<double>::quiet_NaN();
// Whether `seconds` is a valid time.
bool IsSeconds(double seconds);

// What is known before a round about a proposer for this session; NaN: unknown.
struct StreamEstimate {
  double round_trip = kUnknownSeconds;   // seconds from the verifier to the drafter and back
  double draft_depth = kUnknownSeconds;  // seconds to draft one depth
  // Seconds per token that the drafter has to catch up on after rounds without a draft; NaN: 0.
  double catch_up_token = kUnknownSeconds;
  // Share of its drafts that rounds do not wait for, [0, 1], if the plan repeats the last one.
  double early = 0;
  int longest = kMaxArmLength;  // depths that it can draft now: longer arms draft that many
};

struct Context {
  // Arms that the request, the attached drafters and the load allow now. `adaptive` always allows
  // plain decoding; if nothing is allowed, every policy decodes plainly.
  ArmMask allowed = ~ArmMask{0};
  double step_sessions = 1;  // load: how many sessions share a verifier's step, on average, >= 1
  double step_context = 0;   // tokens of KV that such a step reads
  int remaining = 0;         // most tokens that the request may still emit; 0: unknown
  std::span<const StreamEstimate> streams = {};  // [<= proposers], by ArmSet::Facts::proposer
};

// A chosen plan.
struct Choice {
  int arm = 0;
  double probability = 1;  // that a randomised policy had for it
  int length = 0;  // depths that it drafts, at most the arm's; 0 if the policy does not predict
  // Expected for the round, and for a plain one instead; 0 if the policy does not predict.
  double seconds = 0;
  double plain_seconds = 0;
  // Seconds of the round by the cost model if all sessions of a step do the same, and the part of
  // the other sessions in them.
  double modelled_seconds = 0;
  double others_seconds = 0;
  bool catches_up = false;  // `seconds` leaves out that the drafter catches up first
  double tokens = 0;        // expected; 0 likewise
  double best_speed = 0;    // tokens per second, expected of the fastest arm; 0 likewise
};

// The outcome of a round.
struct Outcome {
  int accepted = 0;  // draft tokens
  // Depths that were scored: fewer than planned if a deadline or a stop rule cut the draft. -1: as
  // planned.
  int drafted = -1;
  int emitted = 0;                   // tokens that the session gained, at most accepted + 1
  double seconds = kUnknownSeconds;  // from the plan's dispatch to its verdict
  bool truncated = false;            // not comparable with other rounds; not learned from
  bool aborted = false;              // without a verdict; not learned from
};

class PolicySession {
 public:
  virtual ~PolicySession() = default;
  // The choice counts as pending until its Observe.
  virtual Choice Choose(const Context& context) = 0;
  // REQUIRES: once for each choice.
  virtual void Observe(const Choice& choice, const Outcome& outcome) = 0;
  // A plain round without Choose gained a token.
  virtual void ObserveRepeated() {}
};

class Policy {
 public:
  virtual ~Policy() = default;
  // REQUIRES: the policy outlives its sessions.
  virtual std::unique_ptr<PolicySession> Open() = 0;
};

// The arms that may be chosen; plain decoding if there would be none.
ArmMask AllowedArms(const ArmSet& arms, const Context& context);
// Whether the policy may learn from a round: it is complete, and its counts are valid.
bool Teaches(const ArmSet& arms, const Choice& choice, const Outcome& outcome);

}  // namespace outrider
