// Measures what a round costs: verifier steps by rows and context, drafts by depths and sequences,
// round trips. It also predicts plans that were not taken lately.
//
//   verify(rows, context) = (base + a rows + b context) * correction(rows)
//   draft(depths, sequences) = depths * (d + e (sequences - 1)) + fixed,
//                              with a stop rule and without
//
// base, a, b and d, e, fixed are fitted online with forgetting (linear_fit.h). The correction is a
// running mean of measured over predicted, per power of two of rows, for steps that are not linear
// in their rows.
//
// Thread: one (the engine's). Bounded by the number of proposers. Invalid times (NaN, zero,
// negative) are ignored.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "verifier/control/arm.h"
#include "verifier/control/linear_fit.h"
#include "verifier/control/policy.h"

namespace outrider {

class CostModel {
 public:
  explicit CostModel(int proposers);

  // Every step of the verifier, including prompt chunks: only these tell the cost of rows before
  // the first draft. `rows` of all its sessions; `context` tokens of KV that it read.
  void ObserveStep(double rows, double context, double seconds);
  // A draft of `arm` with `depths` depths, without the round trip.
  void ObserveDraft(const ArmSet::Facts& arm, int depths, double seconds);
  void ObserveRoundTrip(int proposer, double seconds);

  double StepSeconds(double rows, double context) const;
  // Seconds of a round of `arm` if all sessions of a step do the same, as the mean over drafts that
  // are waited for and those that are early. Drafts and round trips that were never measured are
  // taken from the context's estimates, or else assumed slow: a depth like a plain step, a round
  // trip like two.
  double RoundSeconds(const ArmSet::Facts& arm, const Context& context) const;
  // The seconds of waiting that early drafts save of that, on average: a plan that does not repeat
  // the last one takes so much longer.
  double EarlySeconds(const ArmSet::Facts& arm, const Context& context) const;
  // The part of RoundSeconds that the rows of other sessions' drafts take. A round measured while
  // nobody else drafts does not contain it.
  double OthersSeconds(const ArmSet::Facts& arm, const Context& context) const;

 private:
  struct Draft {
    // Drafts under a stop rule, and those of fixed length, of which a drafter makes some ahead.
    std::array<LinearFit, 2> seconds;  // [has_fixed_length]
    double round_trip = kUnknownSeconds;
  };
  static constexpr int kBuckets = 16;  // powers of two of rows
  struct Correction {
    double ratio = 1;
    double observations = 4;  // starts as if 4 steps had been as predicted
  };
  static size_t BucketOf(double rows);
  // A round's wait for its draft.
  struct Wait {
    double seconds = 0;  // if the draft is not early
    double early = 0;    // of these, what early drafts save on average
  };
  Wait WaitOf(const ArmSet::Facts& arm, const Context& context) const;

  LinearFit step_;
  std::array<Correction, kBuckets> corrections_;
  std::vector<Draft> drafts_;  // [proposers]
};

}  // namespace outrider
