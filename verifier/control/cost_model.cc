#include "verifier/control/cost_model.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace outrider {
namespace {

constexpr double kStepForgetting = 0.99;   // a hundred steps: a few seconds
constexpr double kDraftForgetting = 0.97;  // drafts of one session or more
constexpr double kSlowestCorrection = 0.05;
constexpr double kMostCorrection = 3;
constexpr double kRoundTripGain = 0.1;
// Rows and contexts are scaled to features of about one.
constexpr double kRowUnit = 16;
constexpr double kContextUnit = 4096;

LinearFit::Features StepFeatures(double rows, double context) {
  return {1, rows / kRowUnit, context / kContextUnit};
}

LinearFit::Features DraftFeatures(int sequences, int depths) {
  return {1, static_cast<double>(depths), static_cast<double>(depths) * (sequences - 1)};
}

}  // namespace

CostModel::CostModel(int proposers)
    : step_(kStepForgetting, /*first=*/0, LinearFit::Estimates::kUsual) {
  // A drafter that works ahead has some drafts nearly ready.
  const LinearFit fit(kDraftForgetting, /*first=*/1, LinearFit::Estimates::kMean);
  drafts_.resize(static_cast<size_t>(proposers), {.seconds = {fit, fit}});
}

size_t CostModel::BucketOf(double rows) {
  const double counted = std::clamp(rows, 1.0, static_cast<double>(1 << (kBuckets - 1)));
  return static_cast<size_t>(std::bit_width(static_cast<unsigned>(counted)) - 1);
}

void CostModel::ObserveStep(double rows, double context, double seconds) {
  if (!IsSeconds(seconds) || !(rows >= 1) || !(context >= 0)) return;
  const LinearFit::Features features = StepFeatures(rows, context);
  step_.Observe(features, seconds);
  Correction& c = corrections_[BucketOf(rows)];
  const double ratio = seconds / std::max(step_.Predict(features), 1e-3 * seconds);
  c.observations += 1;
  c.ratio += std::max(1 / c.observations, kSlowestCorrection) *
             (std::clamp(ratio, 1 / kMostCorrection, kMostCorrection) - c.ratio);
}

void CostModel::ObserveDraft(const ArmSet::Facts& arm, int depths, double seconds) {
  if (arm.proposer < 0 || static_cast<size_t>(arm.proposer) >= drafts_.size()) return;
  if (arm.sequences < 1 || depths < 1) return;
  drafts_[static_cast<size_t>(arm.proposer)].seconds[arm.has_fixed_length].Observe(
      DraftFeatures(arm.sequences, depths), seconds);
}

void CostModel::ObserveRoundTrip(int proposer, double seconds) {
  if (proposer < 0 || static_cast<size_t>(proposer) >= drafts_.size() || !IsSeconds(seconds)) {
    return;
  }
  double& mean = drafts_[static_cast<size_t>(proposer)].round_trip;
  if (std::isnan(mean)) mean = seconds;
  // One lost packet does not change the network's time.
  mean += kRoundTripGain * (std::min(seconds, kMostCorrection * mean) - mean);
}

double CostModel::StepSeconds(double rows, double context) const {
  return step_.Predict(StepFeatures(rows, context)) * corrections_[BucketOf(rows)].ratio;
}

double CostModel::RoundSeconds(const ArmSet::Facts& arm, const Context& context) const {
  const double sessions = context.step_sessions >= 1 ? context.step_sessions : 1;
  const Wait wait = WaitOf(arm, context);
  return StepSeconds(sessions * arm.rows, context.step_context) + wait.seconds - wait.early;
}

double CostModel::EarlySeconds(const ArmSet::Facts& arm, const Context& context) const {
  return WaitOf(arm, context).early;
}

CostModel::Wait CostModel::WaitOf(const ArmSet::Facts& arm, const Context& context) const {
  if (arm.sequences == 0) return {};
  const double sessions = context.step_sessions >= 1 ? context.step_sessions : 1;
  const auto at = static_cast<size_t>(arm.proposer);
  const Draft& draft = drafts_[at];
  const StreamEstimate stream =
      at < context.streams.size() ? context.streams[at] : StreamEstimate{};
  const auto plain = [&] { return StepSeconds(sessions, context.step_context); };
  double round_trip = stream.round_trip;
  if (!(round_trip >= 0)) round_trip = draft.round_trip >= 0 ? draft.round_trip : 2 * plain();
  double drafting;
  const LinearFit& own = draft.seconds[arm.has_fixed_length];
  const LinearFit& other = draft.seconds[!arm.has_fixed_length];
  if (const LinearFit& fit = own.observations() > 0 ? own : other; fit.observations() > 0) {
    drafting = fit.Predict(DraftFeatures(arm.sequences, arm.length));
  } else {
    drafting = arm.length * (stream.draft_depth >= 0 ? stream.draft_depth : plain());
  }
  const double wait = round_trip + drafting;
  const bool early = arm.has_fixed_length && stream.early > 0;
  return {.seconds = wait, .early = early ? stream.early * wait : 0};
}

double CostModel::OthersSeconds(const ArmSet::Facts& arm, const Context& context) const {
  const double others = std::max(context.step_sessions - 1, 0.0);
  return StepSeconds((others + 1) * arm.rows, context.step_context) -
         StepSeconds(others + arm.rows, context.step_context);
}

}  // namespace outrider
