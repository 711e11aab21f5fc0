#include "verifier/control/plain_time.h"

namespace outrider {
namespace {

constexpr double kForgetting = 0.99;  // a hundred steps, as in the cost model
// Features are scaled to about one.
constexpr double kFeatureUnit = 16;

LinearFit::Features Rows(int scored, int prompt) {
  return {1, scored / kFeatureUnit, prompt / kFeatureUnit};
}

}  // namespace

PlainTime::PlainTime() : fit_(kForgetting, /*first=*/0, LinearFit::Estimates::kUsual) {}

void PlainTime::OnStep(const Step& step, double seconds) {
  fit_.Observe(Rows(step.scored, step.prompt), seconds);
  const double whole = fit_.Predict(Rows(step.scored, step.prompt));
  // Scales `seconds` to a step with so many rows of decoding alone.
  const auto scaled = [&](int rows) {
    return whole > 0 ? seconds * (fit_.Predict(Rows(rows, 0)) / whole) : seconds;
  };
  decode_part_ = seconds;
  if (step.prompt > 0) decode_part_ = step.scored > 0 ? scaled(step.scored) : 0;
  prompt_seconds_ += seconds - decode_part_;
  drafts_ = step.drafts;
  plain_step_ = step.drafts ? scaled(step.decoding) : decode_part_;
}

double PlainTime::Of(const Round& round) const {
  if (round.asked) return round.tokens * plain_step_ + round.prompt_seconds;
  return drafts_ ? round.seconds - decode_part_ + plain_step_ : round.seconds;
}

}  // namespace outrider
