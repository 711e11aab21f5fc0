// outrider plan: estimates what each layout of a pair achieves, from measured times. Arithmetic
// only; docs/scaling.md has the formulas, their sources and a comparison with measured runs.
//
// Thread: any; no state.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace outrider {

struct PlanOptions {
  double draft_ms = 0;       // time of a drafter's pass for one session: one depth
  double draft_row_ms = 0;   // additional time per further session
  double verify_ms = 0;      // time of a verifier's step of one row
  double verify_row_ms = 0;  // additional time per further row
  double rtt_ms = 0;         // round trip between drafter and verifier
  // probability that a draft token is accepted if those before it are, in [0, 1)
  double acceptance = 0;
  int draft_length = 0;              // 0: the best one up to kMaxPlanLength for each layout
  int sequences = 1;                 // independent sequences per draft
  int sessions = 32;                 // on one verifier at once
  double client_rate = 20;           // tokens per second that a client needs
  double distribution_entries = 25;  // mean entries of a draft distribution on the wire
  double verifier_price = 0;         // per hour
  double drafter_price = 0;          // per hour
  // Share of verdicts that lookahead drafting guesses correctly; unset: acceptance^(length + 1),
  // the probability that all is accepted and the next token is the most likely one.
  std::optional<double> ahead_hits = {};
  // of drafts found in the text; unset: no such layout
  std::optional<double> lookup_acceptance = {};
};

inline constexpr int kMaxPlanLength = 16;
inline constexpr int kMaxPlanClients = 1 << 16;  // no more are counted

struct PlannedLayout {
  std::string name;  // plain, colocated, split, ahead, lookup
  int draft_length = 0;
  double tokens_per_round = 1;
  double one_request = 0;  // tokens per second of a single request
  double full_batch = 0;   // tokens per second of all sessions together
  // Clients that get client_rate, with as many drafters as needed; kMaxPlanClients: or more.
  double clients = 0;
  int drafters = 0;             // per verifier, for 95 % of what any number would achieve
  double mbit_to_verifier = 0;  // at the full batch
  double mbit_to_drafters = 0;
  double per_million = 0;  // price of a million tokens at the full batch
};

// The longest round trip, in ms, at which splitting is better than another layout; negative: never,
// infinite: always.
struct BreakEven {
  std::string layout;   // split or ahead
  std::string against;  // plain or colocated
  double one_request_ms = 0;
  double full_batch_ms = 0;
};

struct PlanReport {
  std::vector<PlannedLayout> layouts;
  std::string fastest;   // for one request
  std::string largest;   // at the full batch
  std::string cheapest;  // "" without prices
  // A saturated verifier that does not draft itself has time for this many times the clients: 1 + g
  // t_d / t_v, by the times of a full batch and split's length.
  double capacity_ratio = 1;
  std::vector<BreakEven> break_even;
};

// Expected tokens of a round with `length` draft tokens: Leviathan et al. 2023, eq. 1; with several
// sequences, of the best one, as if they were independent, which is not quite true.
double ExpectedTokens(double acceptance, int length, int sequences);

// kInvalidArgument names the invalid field.
Result<PlanReport> MakePlan(const PlanOptions& options);

}  // namespace outrider
