// What a round costs, measured: the verifier's steps by rows and context, drafts by depths and
// sequences, round trips. It predicts plans that nobody has taken lately.
//
//   verify(rows, context) = (base + a rows + b context) * correction(rows)
//   draft(depths, sequences) = depths * (d + e (sequences - 1)) + fixed
//
// base, a, b and d, e, fixed are fitted online with forgetting (linear_fit.h); the correction is a
// running mean of measured over predicted per power of two of rows, for steps that are not linear
// in their rows.
//
// Thread: one (the engine's). Bounded by the number of proposers. Times that are none (NaN, zero,
// negative) are left out.
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

  // Every step of the verifier, prompts' chunks too: they are what tells rows apart before the
  // first draft. `rows` of all sessions in it, `context` tokens of KV that it read.
  void ObserveStep(double rows, double context, double seconds);
  // A draft of `depths` depths, without the round trip.
  void ObserveDraft(int proposer, int sequences, int depths, double seconds);
  void ObserveRoundTrip(int proposer, double seconds);

  double StepSeconds(double rows, double context) const;
  // A round of `arm` where all sessions of a step do the same, the mean over drafts that are waited
  // for and those that are there early. Drafts and round trips that were
  // never measured are taken from the context's estimates, and without those as slow: a depth like
  // a plain step, a round trip like two.
  double RoundSeconds(const ArmSet::Facts& arm, const Context& context) const;
  // Of these, what the rows of the other sessions' drafts take: they are not in a round that is
  // measured while nobody else drafts.
  double OthersSeconds(const ArmSet::Facts& arm, const Context& context) const;

 private:
  struct Draft {
    LinearFit seconds;
    double round_trip = kUnknownSeconds;
  };
  static constexpr int kBuckets = 16;  // powers of two of rows
  struct Correction {
    double ratio = 1;
    double observations = 4;  // as if so many had been as predicted
  };
  static size_t BucketOf(double rows);

  LinearFit step_;
  std::array<Correction, kBuckets> corrections_;
  std::vector<Draft> drafts_;  // [proposers]
};

}  // namespace outrider
