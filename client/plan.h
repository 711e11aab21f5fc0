// outrider plan: what a pair brings in each layout, from times that were measured. Arithmetic only;
// docs/scaling.md has the formulas, where they come from and how they compare with measured runs.
//
// Thread: any; no state.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace outrider {

struct PlanOptions {
  double draft_ms = 0;        // a drafter's pass for one session: one depth
  double draft_row_ms = 0;    // more for each further session in it
  double verify_ms = 0;       // a verifier's step of one row
  double verify_row_ms = 0;   // more for each further row
  double rtt_ms = 0;          // between drafter and verifier
  double acceptance = 0;      // chance that a draft token stands if those before it do, in [0, 1)
  int draft_length = 0;       // 0: for each layout the best up to kMaxPlanLength
  int sequences = 1;          // of a draft, independent
  int sessions = 32;          // of one verifier at once
  double client_rate = 20;    // tokens a second that a client must have
  double law_entries = 25;    // of a draft row on the wire, on average
  double verifier_price = 0;  // an hour
  double drafter_price = 0;   // an hour
  // Of verdicts that were worked ahead of, those that were guessed; unset: acceptance^(length + 1),
  // that all stands and the next token is the likeliest.
  std::optional<double> ahead_hits = {};
  std::optional<double> lookup_acceptance = {};  // of drafts from the text; unset: no such layout
};

inline constexpr int kMaxPlanLength = 16;

struct PlannedLayout {
  std::string name;  // plain, colocated, split, ahead, lookup
  int draft_length = 0;
  double tokens_per_round = 1;
  double one_request = 0;       // tokens a second of a request that is alone
  double full_batch = 0;        // tokens a second of all sessions together
  double clients = 0;           // that get client_rate, with as many drafters as it takes
  int drafters = 0;             // for each verifier: those that bring 95 % of what any number would
  double mbit_to_verifier = 0;  // at the full batch
  double mbit_to_drafters = 0;
  double per_million = 0;  // price of a million tokens at the full batch
};

// Round trips up to which splitting brings more than another layout, in ms; negative: never,
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
  // A saturated verifier that does not draft itself has time for so many times the clients:
  // 1 + g t_d / t_v, by the times of a full batch and split's length.
  double capacity_ratio = 1;
  std::vector<BreakEven> break_even;
};

// Of `length` draft tokens: Leviathan et al. 2023, eq. 1; of the best of several sequences, taken
// as independent, which real ones are not quite.
double ExpectedTokens(double acceptance, int length, int sequences);

// kInvalidArgument names the field that makes no sense.
Result<PlanReport> MakePlan(const PlanOptions& options);

}  // namespace outrider
